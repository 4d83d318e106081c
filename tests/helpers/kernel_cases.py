"""The training kernels behind one call, and the small problems that every one of them is tried on.

To add a kernel: append a `Case` to `CASES`. It then inherits the conformance tests of `test_kernels_conformance.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from any2vec.kernels.common.alias import build_alias
from any2vec.kernels.common.rng import PURPOSE_NEGATIVE, PURPOSE_TOKEN, stream_key
from any2vec.kernels.skipgram import cbow, classic, hierarchical, skipgram
from any2vec.kernels.skipgram.places import Places
from any2vec.kernels.skipgram.trace import trace_block, trace_classic, trace_hierarchical
from any2vec.kernels.text.huffman import huffman_codes
from naive.skipgram import cbow as naive_cbow
from naive.skipgram import hierarchical as naive_hierarchical
from naive.skipgram import skipgram as naive_skipgram

KEEP_ALL = 1 << 32


@dataclass
class Problem:
    """Everything that a kernel reads and writes; V rows, D dim."""

    tokens: np.ndarray
    counts: np.ndarray
    input_rows: np.ndarray
    output_rows: np.ndarray
    start: int = 0
    stop: int = 0
    offset: int = 0
    keep: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint64))
    seed: int = 1
    epoch: int = 0
    window: int = 3
    num_negatives: int = 4
    lr_from: float = 0.05
    lr_to: float = 0.05
    loss_every: int = 1
    places: Places | None = None
    """where rows lie in the tables; None: each at its own number"""

    def __post_init__(self) -> None:
        self.stop = self.stop or len(self.tokens)
        if self.keep.size == 0:
            self.keep = np.full(len(self.counts), KEEP_ALL, np.uint64)

    def copy(self, **changes: Any) -> Problem:
        """The same problem over fresh copies of the tables."""
        return replace(
            self, **{"input_rows": self.input_rows.copy(), "output_rows": self.output_rows.copy(), **changes}
        )

    def as_float64(self) -> Problem:
        return self.copy(input_rows=self.input_rows.astype(np.float64), output_rows=self.output_rows.astype(np.float64))


def random_problem(
    seed: int, *, num_tokens: int = 120, num_rows: int = 12, dim: int = 9, scale: float = 0.5, **options: Any
) -> Problem:
    """A stream with sentence ends and out-of-vocabulary tokens, over random tables."""
    random = np.random.default_rng(seed)
    tokens = random.integers(-1, num_rows + 2, num_tokens).astype(np.int32)
    counts = np.maximum(np.bincount(tokens[(tokens >= 0) & (tokens < num_rows)], minlength=num_rows), 1)
    return Problem(
        tokens=tokens,
        counts=counts.astype(np.int64),
        input_rows=random.normal(0, scale, (num_rows, dim)).astype(np.float32),
        output_rows=random.normal(0, scale, (num_rows, dim)).astype(np.float32),
        seed=seed,
        **options,
    )


Result = tuple[int, float, int]


@dataclass(frozen=True)
class Case:
    """One kernel: `run` trains on a problem in place; `twin`, where there is one, does the same in float64."""

    name: str
    run: Callable[[Problem], Result]
    twin: Callable[[Problem], Result] | None = None
    trace: Callable[[Problem, np.ndarray, np.ndarray], None] | None = None
    """puts 1 into uint8 (V,), of input and output rows, where `run` reads or writes a row"""
    granularity: int = 1
    """the stream may be cut at multiples of this many global positions without changing a bit"""


def _head(p: Problem) -> tuple[Any, ...]:
    return (p.tokens, p.start, p.stop, p.offset, p.keep, stream_key(p.seed, PURPOSE_TOKEN, p.epoch))


def _rates(p: Problem) -> tuple[float, float]:
    """(rate at global position 0, change per position) of the line from lr_from at start to lr_to at stop."""
    step = (p.lr_to - p.lr_from) / max(1, p.stop - p.start)
    return p.lr_from - step * (p.offset + p.start), step


def _placed(p: Problem) -> tuple[Places, ...]:
    return () if p.places is None else (p.places,)


def _noise(p: Problem) -> tuple[Any, ...]:
    return stream_key(p.seed, PURPOSE_NEGATIVE, p.epoch), *build_alias(p.counts.astype(np.float64) ** 0.75)


def classic_rows(is_cbow: bool) -> Callable[[Problem, np.ndarray, np.ndarray], None]:
    return lambda p, *marks: trace_classic(*_head(p), *_noise(p), p.window, p.num_negatives, is_cbow, *marks)


def block_rows(block: int, num_shared: int, most: int) -> Callable[[Problem, np.ndarray, np.ndarray], None]:
    return lambda p, *marks: trace_block(*_head(p), *_noise(p), p.window, block, most, num_shared, *marks)


def path_rows(p: Problem, *marks: np.ndarray) -> None:
    trace_hierarchical(*_head(p), *huffman_codes(p.counts)[:2], p.window, *marks)


def negative(function: Callable[..., Result], *extra: Any) -> Callable[[Problem], Result]:
    """Call a kernel (or twin) of negative sampling; `extra` arguments come last."""

    def run(p: Problem) -> Result:
        tail = (p.window, p.num_negatives, *_rates(p), p.loss_every, *extra, *_placed(p))
        return function(*_head(p), *_noise(p), p.input_rows, p.output_rows, *tail)

    return run


def softmax(function: Callable[..., Result]) -> Callable[[Problem], Result]:
    """Call a kernel (or twin) of hierarchical softmax."""

    def run(p: Problem) -> Result:
        tail = (p.window, *_rates(p), p.loss_every, *_placed(p))
        return function(*_head(p), *huffman_codes(p.counts), p.input_rows, p.output_rows, *tail)

    return run


CASES = [
    Case(
        "skipgram-classic",
        negative(classic.train_skipgram_classic),
        negative(naive_skipgram.train_skipgram_classic),
        classic_rows(False),
    ),
    Case(
        "cbow-classic",
        negative(classic.train_cbow_classic),
        negative(naive_cbow.train_cbow_classic),
        classic_rows(True),
    ),
    Case(
        "skipgram-hierarchical",
        softmax(hierarchical.train_skipgram_hierarchical),
        softmax(naive_hierarchical.train_skipgram_hierarchical),
        path_rows,
    ),
    Case(
        "cbow-hierarchical",
        softmax(hierarchical.train_cbow_hierarchical),
        softmax(naive_hierarchical.train_cbow_hierarchical),
        path_rows,
    ),
    Case(
        "skipgram-block",
        negative(skipgram.train_skipgram_block, 16, 12),
        negative(naive_skipgram.train_skipgram_block, 16, 12),
        block_rows(16, 12, skipgram.MAX_CENTERS),
        granularity=16,
    ),
    Case(
        "cbow-block",
        negative(cbow.train_cbow_block, 16, 12),
        negative(naive_cbow.train_cbow_block, 16, 12),
        block_rows(16, 12, cbow.MAX_CENTERS),
        granularity=16,
    ),
]
