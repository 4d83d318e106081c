"""How fast this machine trains: a run of about a second on a sample, with tables of bounded size."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import numpy as np

from any2vec.errors import DataError
from any2vec.models.words.config import SequenceModel
from any2vec.models.words.learner import SequenceLearner
from any2vec.models.words.source import TokenSource
from any2vec.plan.order.epochs import piece_positions
from any2vec.types import ProgressLine, Round, Span, Work

TABLE_BYTES = 1 << 28
"""both tables together: far beyond every cache, far below what a large run needs"""
WARM_SECONDS = 0.3
"""until the rows are touched and the cores are at their pace"""
PIECES = 4
"""pieces of a thread in one work: short, so that slow settings end in time too"""


def measure_pace(
    model: SequenceModel,
    source: TokenSource,
    counts: np.ndarray,
    keep: np.ndarray,
    block: int,
    *,
    threads: int,
    seed: int = 1,
    seconds: float = 1.0,
) -> float:
    """Train on `source` again and again for `seconds` and throw the result away.

    Returns in-vocabulary items, before subsampling, per second of wall time.

    counts, keep: int64 and float64 (V,), V at most `row_limit(model.dim)`; block as for the learner.
    Memory: TABLE_BYTES at most. Not deterministic: it is a measurement. DataError when `source` holds no item of the
    vocabulary.
    """
    rng = np.random.default_rng(seed)
    shape = (len(counts), model.dim)
    tables: dict[str, np.ndarray] = {
        "input": (rng.random(shape, dtype=np.float32) - 0.5) / model.dim,
        "output": np.full(shape, 1e-3, np.float32),
    }
    piece = piece_positions(source.unit, model.cost)
    learner = SequenceLearner(model, counts, keep, source, tables, block=block, piece=piece, threads=threads, seed=seed)
    try:
        learner.compile()
        return _run(learner, source, seconds)
    finally:
        learner.close()


def row_limit(dim: int) -> int:
    """How many rows of `dim` numbers the two tables of a measurement may have."""
    return max(1000, TABLE_BYTES // (8 * dim))


def fold(tokens: np.ndarray, num_rows: int) -> np.ndarray:
    """int32 tokens with the ids at and above `num_rows` mapped into its upper half, as rare as they were; -1 stays."""
    half = num_rows // 2
    return np.where(tokens < num_rows, tokens, half + tokens % (num_rows - half)).astype(np.int32)


def _run(learner: SequenceLearner, source: TokenSource, seconds: float) -> float:
    """Items per second between the end of warming and the end; at least one piece of work is measured."""
    began = time.perf_counter()
    start, items, seen = None, 0, 0
    for work in _works(source.num_positions, learner.piece * learner.threads * PIECES):
        stats = learner.run(work)
        now, seen = time.perf_counter(), seen + stats.items
        if work.epoch > 0 and not seen:
            raise DataError("The sample of the input holds no item of the vocabulary, so the pace cannot be measured.")
        if start is not None:
            items += stats.items
            if now - start >= seconds and items:
                return items / (now - start)
        elif now - began >= min(WARM_SECONDS, seconds / 3):
            start = now
    raise AssertionError("an endless schedule has ended")


def _works(num_positions: int, size: int) -> Iterator[Work[Span]]:
    """Pieces of work over the source, again and again."""
    line = ProgressLine(0, num_positions, 0.0, 0.0)
    for epoch in itertools.count():
        for start in range(0, num_positions, size):
            stop = min(start + size, num_positions)
            yield Work(Span(start, stop, line), epoch, Round(epoch), 0.0)
