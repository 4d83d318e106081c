"""Rows about words made of characters: the character model's speed, n-grams beside fastText."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.streams.pip import TEXT_BYTES
from benchmarks.table import Measure, Reading, Row, ratio_reading
from benchmarks.words.text import DIM, MIN_COUNT, MODEL, SIMILARITY

BATCH, QUICK_BATCH = 2048, 256
"""pairs of a step, of both sides"""
HIDDEN, BYTE_DIM = 128, 32
SHARED = 128
"""negatives that the pairs of a step share, as our model has them"""
RARE = "EN-RW-STANFORD.txt"
RATE = 0.05


@dataclass(frozen=True)
class Scored:
    """Vectors of one side of `ngram`."""

    words_per_s: float
    scores: dict[str, float]
    """in points, by set; RW with all of its pairs"""


def char_lstm(bench: Bench) -> list[Reading]:
    """The peer has as many negatives for all pairs of a step as our model has."""
    return _beside_every_occurrence(bench, SHARED)


def char_lstm_own_negatives(bench: Bench) -> list[Reading]:
    """The peer draws five negatives for each pair, and encodes each of them."""
    return _beside_every_occurrence(bench, 0)


def _beside_every_occurrence(bench: Bench, shared: int) -> list[Reading]:
    """Alternating: the steps of our model, then of one that encodes every occurrence of the same pairs."""
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    batch, pairs = QUICK_BATCH if bench.quick else BATCH, bench.scratch("char-pairs.npz")
    shape = ("--hidden", HIDDEN, "--byte-dim", BYTE_DIM, "--batch", batch, "--threads", 1)
    for _ in range(1 if bench.quick else 3):
        words = 5_000 if bench.quick else 100_000
        ours.append(
            bench.ours(
                "any2vec_char_lstm.py", "--text", bench.words(), "--pairs", pairs, "--words", words, *shape
            ).result
        )
        steps = 1 if bench.quick else 2 if not shared else 6
        flags = ("--pairs", pairs, "--steps", steps, "--shared-negatives", shared, *shape)
        theirs.append(bench.ours("torch_char_lstm.py", *flags).result)
    bench.runs["runs"] = {"any2vec": ours, "every occurrence": theirs}
    sides = [[one["pairs_per_s"] for one in side] for side in (ours, theirs)]
    spent = [statistics.median(one["cpu_seconds"] / one["pairs"] for one in side) for side in (ours, theirs)]
    return [
        ratio_reading(*sides, "pairs/s", peer="every occurrence"),
        Reading(
            value=spent[1] / spent[0],
            text=f"{spent[1] / spent[0]:.3g}×; {1e6 * spent[0]:.0f} / {1e6 * spent[1]:.0f} µs",
        ),
    ]


def ngram(bench: Bench) -> list[Reading]:
    """Beside gensim's FastText with the same options, on one thread each, a seed each in turn."""
    ours, theirs = [], []
    for seed in (1,) if bench.quick else (1, 2, 3):
        ours.append(_our_ngrams(bench, seed))
        theirs.append(_their_ngrams(bench, seed))
    bench.runs["runs"] = {"any2vec": [vars(one) for one in ours], "gensim": [vars(one) for one in theirs]}
    names = (*SIMILARITY, "RW")
    means = [statistics.fmean(one.scores[name] for one in side for name in names) for side in (ours, theirs)]
    detail = ", ".join(
        f"{name} " + " / ".join(f"{statistics.fmean(one.scores[name] for one in side):.1f}" for side in (ours, theirs))
        for name in names
    )
    return [
        ratio_reading([one.words_per_s for one in ours], [one.words_per_s for one in theirs], "words/s"),
        Reading(value=means[0], target=means[1] - 0.3, text=f"{means[0]:.2f} / gensim {means[1]:.2f} ({detail})"),
    ]


def first_text(bench: Bench) -> Path:
    """The first 24 MB of the corpus (4 M words), or what it is for a quick run."""

    def write(path: Path) -> None:
        with bench.words().open("rb") as source:
            path.write_bytes(source.read(TEXT_BYTES).rsplit(b"\n", 1)[0] + b"\n")

    return bench.words() if bench.quick else bench.made("enwiki2015.pip.txt", write)


def _epochs(bench: Bench) -> int:
    return 1 if bench.quick else 3


def _our_ngrams(bench: Bench, seed: int) -> Scored:
    out = bench.scratch("ngram")
    done = bench.any2vec(
        "train", "ngram", first_text(bench), "--out", out, *MODEL, "--learning-rate", RATE,
        "--epochs", _epochs(bench), "--threads", 1, "--seed", seed, "--overwrite",
    )  # fmt: skip
    return Scored(done.result["items_per_s"], _scores(bench, out))


def _their_ngrams(bench: Bench, seed: int) -> Scored:
    out = bench.scratch("gensim-ngram.bin")

    def write(path: Path) -> None:
        lines = bench.data(f"wordeval/{RARE}").read_text().splitlines()
        path.write_text("\n".join(word.lower() for line in lines for word in line.split("\t")[:2]))

    done = bench.peer(
        "gensim", "gensim_words.py", "--text", first_text(bench), "--model", "ngram", *MODEL, "--learning-rate", RATE,
        "--epochs", _epochs(bench), "--threads", 1, "--seed", seed, "--out", out,
        "--more", bench.made("rare.txt", write),
    )  # fmt: skip
    return Scored(done.result["items_per_s"], _scores(bench, out, format="word2vec-binary"))


def _scores(bench: Bench, path: Path, **options: Any) -> dict[str, float]:
    """Points by set; RW with the words that training has not seen."""
    from any2vec.embeddings import Embeddings
    from any2vec.evaluate.words.similarity import evaluate_similarity

    embeddings = Embeddings.load(path, **options)
    found = {
        name: evaluate_similarity(embeddings, bench.data(f"wordeval/{file}"), unseen=file == RARE).mean
        for name, file in (SIMILARITY | {"RW": RARE}).items()
    }
    return {name: 100 * (score or 0.0) for name, score in found.items()}


def _pairs_measures(negatives: str) -> Sequence[Measure]:
    shape = f"{BATCH:,} pairs a step, {HIDDEN} numbers of state"
    what = f"pairs/s over a model that encodes every occurrence, {negatives}, same pairs, one thread, {shape}"
    return (
        Measure(name=what, relation=">=", target=5, unit="x"),
        Measure(name="processor seconds a pair of that model over ours", relation=">=", target=5, unit="x"),
    )


ROWS = (
    Row(
        name="char-LSTM",
        measures=(*_pairs_measures(f"{SHARED} negatives shared by a step on both sides"),),
        run=char_lstm,
        minutes=3,
    ),
    Row(
        name="char-LSTM, own negatives",
        measures=(*_pairs_measures(f"5 of each pair's own there, {SHARED} shared by a step here"),),
        run=char_lstm_own_negatives,
        minutes=3,
    ),
    Row(
        name="ngram",
        measures=(
            Measure(
                name=f"words/s over gensim 4.4's FastText, 4 M words, dim {DIM}, least count {MIN_COUNT}, 1 thread",
                relation=">=",
                target=3,
                unit="x",
            ),
            Measure(
                name="mean of MEN, WS-353, SimLex, MTurk-771 and RW with unseen words, 3 epochs, 3 seeds each side",
                relation=">=",
                wording="≥ gensim − 0.3 points",
            ),
        ),
        run=ngram,
        minutes=14,
    ),
)
