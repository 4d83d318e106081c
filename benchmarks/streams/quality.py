"""The row about how good a stream's vectors are: beside one epoch of the batch trainer, each at its best rate."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row
from benchmarks.tuning import best_inside
from benchmarks.words.halves import JUDGE, TUNE, halves
from benchmarks.words.text import MODEL, SEEDS, scores

SIDES = ("stream", "batch")
GRID = (0.025, 0.05, 0.1, 0.2)
DEFAULTS = {"stream": 0.15, "batch": 0.025}


def quality(bench: Bench) -> list[Reading]:
    """Means of the five scores, seed by seed: the stream over the batch trainer with one epoch."""
    return [_beside(bench, {side: _rate(bench, side) for side in SIDES}), _beside(bench, DEFAULTS)]


def _beside(bench: Bench, rates: Mapping[str, float]) -> Reading:
    text, seeds = _text(bench, JUDGE), SEEDS[:1] if bench.quick else SEEDS
    found = {side: [_scored(bench, side, text, rates[side], seed, JUDGE) for seed in seeds] for side in SIDES}
    bench.runs["scores at " + ", ".join(f"{rates[side]:g}" for side in SIDES)] = found
    means = {side: [statistics.fmean(one.values()) for one in runs] for side, runs in found.items()}
    ratios = [ours / other for ours, other in zip(means["stream"], means["batch"], strict=True)]
    shown = " / ".join(f"{side} {statistics.fmean(means[side]):.2f} at rate {rates[side]:g}" for side in SIDES)
    return Reading.of_seeds(ratios, f"{statistics.fmean(ratios):.3f}×; {shown}")


def _rate(bench: Bench, side: str) -> float:
    """That which scores best on the halves that tune, after the half of the text that does."""
    if bench.quick:
        return GRID[1]
    text = _text(bench, TUNE)

    def score(rate: float) -> float:
        if rate > 1:  # there is none, on either side
            return -math.inf
        return statistics.fmean(_scored(bench, side, text, rate, SEEDS[0], TUNE).values())

    best, by_rate = best_inside(GRID, score)
    bench.runs[f"{side} by learning rate"] = by_rate
    return best


def _text(bench: Bench, half: str) -> Path:
    """One half tunes and the other judges, of like sizes: the longer a text, the lower is its best rate."""

    def write(path: Path) -> None:
        data = bench.words().read_bytes()
        cut = data.rindex(b"\n", 0, len(data) // 2) + 1
        path.write_bytes(data[:cut] if half == TUNE else data[cut:])

    return bench.made(f"enwiki2015.{'quick-' if bench.quick else ''}half-to-{half}.txt", write)


def _scored(bench: Bench, side: str, text: Path, rate: float, seed: int, half: str) -> dict[str, float]:
    """The five scores in points."""
    from any2vec.embeddings import Embeddings

    out = bench.scratch(f"quality-{side}")
    kind: tuple[Any, ...] = ("stream", "skipgram", text, "--memory", "1GB")
    if side == "batch":
        kind = ("train", "skipgram", text, "--epochs", 1)
    bench.any2vec(*kind, "--out", out, *MODEL, "--learning-rate", rate, "--seed", seed, "--threads", 2, "--overwrite")
    return scores(bench, Embeddings.load(out), halves(bench) / half)


ROWS = (
    Row(
        name="streaming-vs-batch",
        measures=(
            Measure(
                name="mean of the five word scores over batch skip-gram with one epoch, each at its best learning "
                "rate, the second half of text-enwiki2015, 3 seeds",
                relation=">=", target=0.97, unit="x", is_accuracy=True,
            ),
            Measure(name="the same, both at their default rates", relation=""),
        ),
        run=quality, minutes=10,
        settings="the text's first half, other halves of the word sets",
    ),
)  # fmt: skip
