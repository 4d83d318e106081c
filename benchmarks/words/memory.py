"""Rows about memory: peaks of anonymous resident memory (mapped files apart), any2vec beside gensim at the same job."""

from __future__ import annotations

import statistics
from pathlib import Path

from benchmarks.bench import Bench, Done
from benchmarks.table import Measure, NotMeasuredError, Reading, Row, RowError
from benchmarks.words.text import MODEL, RATE, warm_up

NUM_WORDS = 1_000_000
USES = 5
"""every word occurs this often at least, so that min_count 5 keeps them all"""
DIM = 200


def memory(bench: Bench) -> list[Reading]:
    """Text to vectors on disk, one epoch, two threads: peak over peak; and growth over growth on real text."""
    if not Path("/proc/self/status").exists():
        raise NotMeasuredError("this system has no /proc to sample memory from")
    warm_up(bench, "skipgram")
    planted = planted_text(bench)
    settings = ("--dim", DIM, "--window", 5, "--num-negatives", 5, "--min-count", USES, *RATE, "--epochs", 1)
    bench.forget_input()
    ours, theirs = _both(bench, planted, settings)
    if ours.result["rows"] != theirs.result["rows"]:
        raise RowError(f"the sides keep {ours.result['rows']} and {theirs.result['rows']} words")
    planted_reading = _reading(
        [ours.peak_anon_bytes], [theirs.peak_anon_bytes], f"{ours.result['rows']:,} words, dim {DIM}"
    )
    bare = bench.ours("any2vec_bare.py").result["bare_anon_bytes"]
    our_growth, their_growth = [], []
    for _ in range(1 if bench.quick else 3):
        bench.forget_input()
        ours, theirs = _both(bench, bench.words(), (*MODEL, *RATE, "--epochs", 1))
        our_growth.append(ours.peak_anon_bytes - bare)
        their_growth.append(theirs.peak_anon_bytes - theirs.result["bare_anon_bytes"])
    bench.runs["growth_bytes"] = {"any2vec": our_growth, "gensim": their_growth}
    bench.runs["bare_bytes"] = {"any2vec": bare, "gensim": theirs.result["bare_anon_bytes"]}
    return [planted_reading, _reading(our_growth, their_growth, "over the bare imports")]


def write_planted(path: Path, num_words: int, uses: int, seed: int = 1) -> None:
    """A text of `num_words` words, each used `uses` times, and a fifth more tokens by Zipf's law; 20 words a line."""
    import numpy as np

    random = np.random.default_rng(seed)
    rows = np.repeat(np.arange(num_words, dtype=np.int32), uses)
    common = (num_words ** random.random(rows.size // 5)).astype(np.int32) - 1  # log-uniform: 1 / rank
    rows = random.permutation(np.concatenate([rows, common]))
    with path.open("w") as text:
        for line in np.array_split(rows, max(1, rows.size // 20)):
            text.write(" ".join(f"word{row}" for row in line) + "\n")


def planted_text(bench: Bench) -> Path:
    """The planted text, made once."""
    num_words = 1_000 if bench.tiny else 20_000 if bench.quick else NUM_WORDS
    return bench.made(f"planted-{num_words}.txt", lambda path: write_planted(path, num_words, USES))


def _both(bench: Bench, text: Path, settings: tuple[object, ...]) -> tuple[Done, Done]:
    out, vectors = bench.scratch("any2vec-memory"), bench.scratch("gensim-memory.bin")
    ours = bench.any2vec("train", "skipgram", text, "--out", out, *settings, "--threads", 2, "--overwrite", watch=True)
    theirs = bench.peer(
        "gensim", "gensim_words.py", "--text", text, *settings, "--threads", 2, "--out", vectors, watch=True
    )
    bench.runs.setdefault("peak_bytes", []).append({"any2vec": ours.peak_anon_bytes, "gensim": theirs.peak_anon_bytes})
    return ours, theirs


def _reading(ours: list[int], theirs: list[int], what: str) -> Reading:
    ratio = statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))
    sides = f"{statistics.median(ours) / 2**20:,.0f} / gensim {statistics.median(theirs) / 2**20:,.0f} MiB"
    return Reading(value=ratio, text=f"{ratio:.3g}×; {sides} {what}")


ROWS = (
    Row(
        name="memory",
        measures=(
            Measure(
                name="peak resident memory (mapped files apart) over gensim's, planted text, 1 M words, dim 200",
                relation="<=",
                target=1.25,
                unit="x",
            ),
            Measure(
                name="the same on text-enwiki2015, as growth over the bare imports",
                relation="<=",
                target=1.25,
                unit="x",
            ),
        ),
        run=memory,
        minutes=6,
    ),
)
