"""Which share of a core's peak the skip-gram block kernel reaches for the arithmetic that it does.

Peak: multiply-adds per second of one core, the faster of a register-bound numba kernel and a large float32 matrix
product. Work: multiply-adds that the block algorithm asks for, counted on a stretch of the real text from the kernel's
parameters (dim as asked for, padding not counted). Alone: `python benchmarks/words/roofline.py [--words-per-s RATE]`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row
from benchmarks.words import text as words

LENGTH = 768
"""numbers in a row of the peak kernel: its eight rows stay in a first-level cache of 32 KiB"""


@dataclass(frozen=True)
class Work:
    """Multiply-adds of the block kernel per in-vocabulary word (before subsampling)."""

    negatives: float
    positives: float

    @property
    def total(self) -> float:
        return self.negatives + self.positives


def peak_multiply_adds(seconds: float = 0.3, repeats: int = 5) -> dict[str, float]:
    """float32 multiply-adds per second of one core, by the two ways to reach its peak."""
    return {"matrix product": _product_peak(seconds, repeats), "numba kernel": _numba_peak(seconds, repeats)}


def count_work(
    sentences: Sequence[Sequence[float]], *, window: int, dim: int, block: int, num_shared: int, seed: int = 1
) -> Work:
    """Multiply-adds per in-vocabulary word of the block algorithm.

    sentences: for each word of each sentence its probability to be kept; a negative number for a word out of the
    vocabulary (it takes a position, and vanishes). block: positions whose kept words share `num_shared` negatives.
    Negatives: three products (dots, changes of the contexts, changes of the negatives) of the block's distinct context
    places with the shared negatives. Positives: three passes over dim for each pair.
    """
    random = np.random.default_rng(seed)
    position, seen, pairs, meetings = 0, 0, 0, 0
    blocks: dict[int, tuple[int, int]] = {}
    first = 0
    for sentence in sentences:
        keep = np.asarray(sentence)
        seen += int((keep >= 0).sum())
        places = np.flatnonzero(random.random(keep.size) < keep)
        reach = 1 + random.integers(0, window, places.size)
        center = np.arange(places.size)
        left, right = np.maximum(0, center - reach), np.minimum(places.size, center + reach + 1)
        pairs += int((right - left - 1).sum())
        for at, low, high in zip((position + places) // block, first + left, first + right, strict=True):
            known = blocks.get(int(at), (low, high))
            blocks[int(at)] = (min(known[0], low), max(known[1], high))
        first += places.size
        position += keep.size + 1
    meetings = sum(int(high - low) * num_shared for low, high in blocks.values())
    return Work(negatives=3 * dim * meetings / seen, positives=3 * dim * pairs / seen)


def roofline(bench: Bench) -> list[Reading]:
    """Share of one core's peak: work per word x words/s of training on one thread over the peak."""
    return [share_of_peak(bench, words.one_thread_rate(bench))]


def share_of_peak(bench: Bench, words_per_s: float) -> Reading:
    sentences = _sample(bench)
    block, num_shared = _kernel_parameters(sentences)
    work = count_work(sentences, window=words.WINDOW, dim=words.DIM, block=block, num_shared=num_shared)
    peaks = peak_multiply_adds()
    way = max(peaks, key=lambda name: peaks[name])
    peak = peaks[way]
    share = work.total * words_per_s / peak
    bench.runs |= {
        "peak_multiply_adds_per_s": peaks, "words_per_s": words_per_s, "block": block,
        "num_shared": num_shared, "per_word": {"negatives": work.negatives, "positives": work.positives},
    }  # fmt: skip
    text = (
        f"{share:.0%} of {peak / 1e9:.1f} G multiply-adds/s ({way}); {work.total:,.0f} a word "
        f"({work.negatives:,.0f} negatives, {work.positives:,.0f} positives) × {words_per_s / 1e6:.2f} M words/s"
    )
    return Reading(value=share, text=text)


def _kernel_parameters(sentences: Sequence[Sequence[float]]) -> tuple[int, int]:
    """Positions of a block and its shared negatives, as the learner chooses them for this text."""
    from any2vec.models.words.config import SkipGram
    from any2vec.models.words.learner import block_positions, shared_negatives

    positions = sum(len(sentence) + 1 for sentence in sentences)
    kept = sum(max(0.0, keep) for sentence in sentences for keep in sentence)
    return block_positions(SkipGram(), kept / positions), shared_negatives(SkipGram(num_negatives=words.NUM_NEGATIVES))


def _sample(bench: Bench, lines: int = 20_000) -> list[list[float]]:
    """Probabilities to be kept of the words of the first lines of the text, as word2vec subsamples."""
    uses = words.counts(bench)
    total = uses.total()
    keep = {}
    for word, count in uses.items():
        share = count / total
        keep[word] = min(1.0, ((share / words.SUBSAMPLE) ** 0.5 + 1) * words.SUBSAMPLE / share)
    with bench.words().open("rb") as text:
        return [[keep.get(word, -1.0) for word in line.split()] for _, line in zip(range(lines), text, strict=False)]


def _numba_peak(seconds: float, repeats: int) -> float:
    from numba import njit

    @njit(fastmath=True, nogil=True)
    def tile(left, right, rounds):
        """Sum of all products of 4 x 4 rows, left and right float32 (4, LENGTH): 16 sums stay in registers."""
        total = np.float32(0)
        for _ in range(rounds):
            zero = np.float32(0)
            a0, a1, a2, a3, b0, b1, b2, b3 = zero, zero, zero, zero, zero, zero, zero, zero
            c0, c1, c2, c3, d0, d1, d2, d3 = zero, zero, zero, zero, zero, zero, zero, zero
            for q in range(LENGTH):
                a, b, c, d = left[0, q], left[1, q], left[2, q], left[3, q]
                w, x, y, z = right[0, q], right[1, q], right[2, q], right[3, q]
                a0, a1, a2, a3 = a0 + a * w, a1 + a * x, a2 + a * y, a3 + a * z
                b0, b1, b2, b3 = b0 + b * w, b1 + b * x, b2 + b * y, b3 + b * z
                c0, c1, c2, c3 = c0 + c * w, c1 + c * x, c2 + c * y, c3 + c * z
                d0, d1, d2, d3 = d0 + d * w, d1 + d * x, d2 + d * y, d3 + d * z
            total += (a0 - a1) * (a2 - a3) + (b0 - b1) * (b2 - b3) + (c0 - c1) * (c2 - c3) + (d0 - d1) * (d2 - d3)
            left[0, 0] = total  # each round depends on the last, so none is left out
        return total

    left, right = np.ones((4, LENGTH), np.float32), np.ones((4, LENGTH), np.float32)

    def work(rounds: int) -> float:
        tile(left, right, rounds)
        return 16.0 * LENGTH * rounds

    work(1)  # compiles
    return _fastest(work, seconds, repeats)


def _product_peak(seconds: float, repeats: int) -> float:
    from threadpoolctl import threadpool_limits

    size = 768
    left, right = np.ones((size, size), np.float32), np.ones((size, size), np.float32)
    out = np.empty((size, size), np.float32)

    def work(rounds: int) -> float:
        for _ in range(rounds):
            np.matmul(left, right, out=out)
        return float(size) ** 3 * rounds

    with threadpool_limits(1):
        return _fastest(work, seconds, repeats)


def _fastest(work: Callable[[int], float], seconds: float, repeats: int) -> float:
    """Best rate of `work(rounds)` (which returns what it did), with rounds grown until a repeat takes `seconds`."""
    rounds = 1
    while True:
        started = time.perf_counter()
        work(rounds)
        taken = time.perf_counter() - started
        if taken >= seconds / 2:
            break
        rounds *= 4
    rates = []
    for _ in range(repeats):
        started = time.perf_counter()
        done = work(rounds)
        rates.append(done / (time.perf_counter() - started))
    return max(rates)


ROWS = (
    Row(
        name="roofline",
        measures=(
            Measure(
                name="share of one core's peak that skip-gram reaches for its arithmetic, 1 thread",
                relation="",
                wording="reported",
            ),
        ),
        run=roofline,
        minutes=1,
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words-per-s", type=float, help="use this rate; without it a training run measures it")
    options = parser.parse_args()
    bench = Bench()
    readings = [share_of_peak(bench, options.words_per_s)] if options.words_per_s else roofline(bench)
    print(readings[0].text)


if __name__ == "__main__":
    main()
