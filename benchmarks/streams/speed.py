"""Rows about a stream on one machine: how fast it is beside the batch trainer, its memory, and kills."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row, number, ratio_reading
from benchmarks.words.text import MODEL, RATE, SEEDS, warm_up

STREAM_MODEL = (*MODEL, "--memory", "1GB", "--overwrite")
EARLY, LATE = 20_000_000, 200_000_000
"""words behind which the memory is looked at"""
KILLS = 20
LONGEST = 2.0
"""seconds that a run is left alone behind its first checkpoint, at most"""


def speed_one(bench: Bench) -> list[Reading]:
    return _speed(bench, 1)


def speed_two(bench: Bench) -> list[Reading]:
    return _speed(bench, 2)


def _speed(bench: Bench, threads: int) -> list[Reading]:
    """Words of the text a second while lines are read, encoded and trained, over those of training alone."""
    warm_up(bench, "skipgram")
    _stream(bench, 1, threads=1, words=100_000)
    sides: dict[str, list[float]] = {"stream": [], "batch": []}
    for seed in _seeds(bench):
        sides["stream"].append(_stream(bench, seed, threads)[1])
        sides["batch"].append(_batch(bench, seed, threads)[1])
    bench.runs["words_per_s"] = sides
    return [ratio_reading(sides["stream"], sides["batch"], "words/s", peer="batch")]


def memory(bench: Bench) -> list[Reading]:
    """Of one process, looked at each second."""
    early, late = (EARLY // 100, LATE // 100) if bench.quick else (EARLY, LATE)
    reported = bench.ours("any2vec_stream_memory.py", "--early", early, "--late", late).result
    bench.runs["memory"] = reported
    resident = [reported["resident_bytes"][when] / 1e6 for when in ("early", "late")]
    words = f"{reported['types_seen'] / reported['max_types']:.0f} times as many words as are counted"
    repeats = f"{reported['repeats']:,} lines came again, {reported['duplicates']:,} of them within the window"
    return [
        Reading(
            value=resident[1] / resident[0],
            text=f"{resident[1] / resident[0]:.3f}×; {resident[1]:.0f} / {resident[0]:.0f} MB, {words}; {repeats}; "
            f"{number(reported['words_per_s'])} words/s",
        ),
    ]


def kills(bench: Bench) -> list[Reading]:
    """`any2vec stream` killed with -9 at random moments and resumed; then the ids and vectors are looked at."""
    from any2vec.embeddings import Embeddings

    text, times = bench.words(), 2 if bench.quick else KILLS
    lines = len(text.read_bytes().splitlines())
    whole, killed = bench.scratch("stream-whole"), bench.scratch("stream-killed")
    bench.any2vec("stream", "skipgram", text, "--out", whole, *_kill_options(), "--overwrite")
    draw, done = random.Random(1), 0
    bench.any2vec("stream", "skipgram", text, "--out", killed, *_kill_options(), "--overwrite", "--steps", 1)
    for _ in range(times):
        done += _killed(bench, text, killed, lines / (40 * times), draw.uniform(0, LONGEST))
    bench.any2vec("stream", "skipgram", text, "--out", killed, *_kill_options(), "--resume")
    ids = [(folder / "trained.ids").read_text().splitlines() for folder in (whole, killed)]
    count = Counter(ids[1])
    wrong = sum(many - 1 for many in count.values()) + len(set(ids[0]) ^ set(count))
    ours, theirs = (Embeddings.load(folder) for folder in (killed, whole))
    alike = list(ours.keys) == list(theirs.keys) and np.array_equal(ours.vectors, theirs.vectors)
    bench.runs["kills"] = {"kills": done, "lines": len(ids[0]), "wrong": wrong, "alike": alike}
    return [
        Reading(value=wrong, text=f"{wrong} of {len(ids[0]):,} lines, {done} kills"),
        Reading(value=0.0 if alike else 1.0, text="the same bits" if alike else "other vectors"),
    ]


def _kill_options() -> tuple[object, ...]:
    return (
        "--dim", 50, "--threads", 1, "--linger", 0, "--log-ids", "--memory", "300MB",
        "--checkpoint-seconds", 0.2, "--snapshot-seconds", 1, "--quiet",
    )  # fmt: skip


def _killed(bench: Bench, text: Path, out: Path, rate: float, delay: float) -> bool:
    """Whether a run that goes on was killed, behind a checkpoint of its own, before it was over."""
    file = out / "checkpoint.safetensors"
    before = file.stat().st_mtime_ns
    command = [sys.executable, "-m", "any2vec", "stream", "skipgram", text, "--out", out, *_kill_options(), "--resume"]
    process = subprocess.Popen(
        [*map(str, command), "--rate", str(rate)], env=os.environ | {"ANY2VEC_CACHE": str(bench.cache)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while file.stat().st_mtime_ns == before and process.poll() is None:
        time.sleep(0.01)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def _stream(bench: Bench, seed: int, threads: int, words: int | None = None) -> tuple[Path, float]:
    """(folder, words of the text a second)."""
    out = bench.scratch(f"stream-{seed}")
    limit = () if words is None else ("--words", words)
    reported = bench.any2vec(
        "stream", "skipgram", bench.words(), "--out", out, *STREAM_MODEL, "--seed", seed,
        "--threads", threads, *limit,
    ).result  # fmt: skip
    return out, float(reported["words_per_s"])


def _batch(bench: Bench, seed: int, threads: int) -> tuple[Path, float]:
    """(folder, words of the text a second: those that are too rare for a vector, too)."""
    out = bench.scratch(f"batch-{seed}")
    reported: dict[str, Any] = bench.any2vec(
        "train", "skipgram", bench.words(), "--out", out, *MODEL, *RATE, "--epochs", 1, "--seed", seed,
        "--threads", threads, "--overwrite",
    ).result  # fmt: skip
    words = bench.once("words of the text", lambda: len(bench.words().read_bytes().split()))
    return out, words * reported["items_per_s"] / reported["items"]


def _seeds(bench: Bench) -> tuple[int, ...]:
    return SEEDS[:1] if bench.quick else SEEDS


ROWS = (
    *(
        Row(
            name=f"stream-speed, {name}",
            measures=(
                Measure(
                    name="words/s of a stream (read, encoded, trained) over training alone of a text encoded before, "
                    f"{training} on both sides, {cores}", relation=">=", target=0.7, unit="x",
                ),
            ),
            run=run, minutes=3,
        )
        for name, training, cores, run in (
            ("1 of 2 cores trains", "1 training thread", "the stream reads and encodes on a second core", speed_one),
            ("2 of 2 cores train", "2 training threads", "the stream reads and encodes on these, too", speed_two),
        )
    ),
    Row(
        name="stream-memory",
        measures=(
            Measure(
                name="resident memory after 200 M words over after 20 M, words that never stop, repeats beyond the "
                "window", relation="<=", target=1.05, unit="x",
            ),
        ),
        run=memory, minutes=5,
    ),
    Row(
        name="stream-kills",
        measures=(
            Measure(name="lines trained twice or never, 20 kills of one process with -9", relation="<=", target=0),
            Measure(
                name="vectors beside those of a run without kills, 1 thread", relation="<=", wording="the same bits"
            ),
        ),
        run=kills, minutes=4,
    ),
)  # fmt: skip
