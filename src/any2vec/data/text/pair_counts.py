"""Co-occurrence counts of a corpus in bounded memory: sorted runs, merged as they grow, and in files beyond a budget.

Legend: T types of the corpus, V vocabulary, N pairs, 2 the two parts of the corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from any2vec.data.io.direct import Spill
from any2vec.data.options import PairOptions
from any2vec.data.text.corpus import Corpus
from any2vec.data.vocab.vocabulary import keep_probabilities
from any2vec.errors import DataError

BUFFER_KEYS = 1 << 22
BLOCK_PAIRS = 1 << 22
"""pairs of one block of rows, unless a single row has more"""
_PAIR_BYTES = 24

Stage = Callable[[str, int, int | None], None]
"""called with (what is done, how far, of how much)"""


class Run(NamedTuple):
    """Pairs, ascending and distinct, and how often each came."""

    pair_N: np.ndarray
    """uint64 (N,): row * V + other row"""
    weight_N2: np.ndarray
    """int64 (N, 2): W times the expected count, by part of the corpus"""


class PairBlock(NamedTuple):
    """All pairs of the rows [start, stop)."""

    start: int
    stop: int
    row_N: np.ndarray
    """int64 (N,), ascending"""
    other_N: np.ndarray
    """int64 (N,), ascending within a row"""
    weight_N2: np.ndarray
    """int64 (N, 2)"""


class PairCounts:
    """How often each two words of a vocabulary stand near each other.

    Memory: O(budget of `spill` + block); a merge takes its own result beside what it merges.
    """

    def __init__(
        self, num_rows: int, window: int, spill: Spill, *, buffer_keys: int = BUFFER_KEYS,
        block_pairs: int = BLOCK_PAIRS,
    ) -> None:  # fmt: skip
        self.num_rows = num_rows
        self.window = window
        self.spill = spill
        """where runs go that are beyond the budget; to be left open as long as these counts are read"""
        self.sum_V2 = np.zeros((num_rows, 2), np.int64)
        """W times the pairs of each row, by part: the marginals"""
        self._block = block_pairs
        self._key_B = np.empty(max(buffer_keys, 4 * window), np.uint64)
        self._runs: list[Run] = []
        self._stored: list[Run] = []

    # ---- counting

    def add(
        self, tokens: np.ndarray, row_T: np.ndarray, keep_V: np.ndarray, key: np.uint64, offset: int = 0,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:  # fmt: skip
        """Count whole sentences: tokens int32 (P,), see `gather_pairs` for the rest.

        on_progress: called with the number of positions that are done.
        """
        from any2vec.kernels.text.pair_counts import gather_pairs

        near_W, where_W = np.full(self.window, -1, np.int32), np.zeros(self.window, np.int64)
        position = 0
        while position < len(tokens):
            position, size = gather_pairs(
                tokens, position, len(tokens), offset, row_T, keep_V, key, near_W, where_W, self._key_B
            )
            self._take(self._key_B[:size])
            if on_progress is not None:
                on_progress(position)

    def _take(self, key_B: np.ndarray) -> None:
        from any2vec.kernels.text.pair_counts import sum_sorted

        key_B.sort()
        pair_N, weight_N2 = np.empty(len(key_B), np.uint64), np.empty((len(key_B), 2), np.int64)
        size = sum_sorted(key_B, pair_N, weight_N2)
        if size == 0:
            return
        run = Run(pair_N[:size].copy(), weight_N2[:size].copy())
        row_N = (run.pair_N // np.uint64(self.num_rows)).astype(np.int64)
        sums = [np.bincount(row_N, run.weight_N2[:, part], self.num_rows) for part in range(2)]
        self.add_run(run, np.stack(sums, 1).astype(np.int64))  # sums of whole numbers below 2**53: exact

    def add_run(self, run: Run, sum_V2: np.ndarray) -> None:
        """Add pairs that are counted already, and the marginals int64 (V, 2) that they are a part of."""
        self.sum_V2 += sum_V2
        self._runs.append(run)
        while len(self._runs) > 1 and 2 * len(self._runs[-1].pair_N) >= len(self._runs[-2].pair_N):
            self._runs.append(merged(self._runs.pop(), self._runs.pop()))
        if sum(len(run.pair_N) for run in self._runs) * _PAIR_BYTES > self.spill.budget_bytes:
            pair_N, weight_N2 = self.spill.store(*_all(self._runs))
            self._stored.append(Run(pair_N, weight_N2))
            self._runs = []

    # ---- reading

    def blocks(self) -> Iterator[PairBlock]:
        """All pairs, ascending, by blocks of whole rows that cover 0..V without a gap."""
        self._runs = [_all(self._runs)] if self._runs else []
        runs = [*self._stored, *self._runs]
        start, place_R = 0, [0] * len(runs)
        while start < self.num_rows:
            stop, end_R = self._cut(runs, start, place_R)
            ends = zip(runs, place_R, end_R, strict=True)
            whole = _all([Run(run.pair_N[first:last], run.weight_N2[first:last]) for run, first, last in ends])
            row_N, other_N = np.divmod(whole.pair_N, np.uint64(self.num_rows))
            yield PairBlock(start, stop, row_N.astype(np.int64), other_N.astype(np.int64), whole.weight_N2)
            start, place_R = stop, end_R

    def _cut(self, runs: list[Run], start: int, place_R: list[int]) -> tuple[int, list[int]]:
        """Where a block that begins with row `start` ends, and the places in the runs there."""

        def ends(stop: int) -> list[int]:
            return [int(np.searchsorted(run.pair_N, np.uint64(stop * self.num_rows))) for run in runs]

        low, high = start + 1, self.num_rows
        while low < high:
            middle = (low + high + 1) // 2
            if sum(ends(middle)) - sum(place_R) <= self._block:
                low = middle
            else:
                high = middle - 1
        return low, ends(low)


def merged(first: Run, second: Run) -> Run:
    """Both runs as one."""
    from any2vec.kernels.text.pair_counts import merge_sorted

    most = len(first.pair_N) + len(second.pair_N)
    pair_N, weight_N2 = np.empty(most, np.uint64), np.empty((most, 2), np.int64)
    size = merge_sorted(*first, *second, pair_N, weight_N2)
    return Run(pair_N[:size], weight_N2[:size])


def _all(runs: list[Run]) -> Run:
    """All of them as one, the shortest first."""
    left = sorted(runs, key=lambda run: len(run.pair_N))
    if not left:
        return Run(np.empty(0, np.uint64), np.empty((0, 2), np.int64))
    while len(left) > 1:
        left.append(merged(left.pop(0), left.pop(0)))
        left.sort(key=lambda run: len(run.pair_N))
    return left[0]


def count_corpus(
    counts: PairCounts, corpus: Corpus, row_T: np.ndarray, count_V: np.ndarray, options: PairOptions,
    stage: Stage | None = None,
) -> None:  # fmt: skip
    """Count the pairs of a corpus into `counts`, those that training with `options` would meet.

    row_T: int32 (T,), the row of each type of the corpus or -1; count_V: int64 (V,), how often each row occurs.
    The draws of subsampling are the trainer's, those of epochs 0 .. passes - 1 of its seed; windows are not drawn
    but weighed by the chance that they reach so far, so that a count is W times the expected one.

    Raises:
        DataError: no two words stand near each other.
        StorageError: files beyond the budget cannot be written.
    """
    from any2vec.kernels.common.rng import PURPOSE_TOKEN, stream_key

    tokens = np.asarray(corpus.tokens).view()
    tokens.flags.writeable = False
    keep = keep_probabilities(count_V, options.subsample)
    keep_V = np.minimum(keep * 2.0**32, 2.0**32).astype(np.uint64)
    total = len(tokens) * options.passes
    for epoch in range(options.passes):

        def on_progress(done: int, epoch: int = epoch) -> None:
            if stage is not None:
                stage("counting pairs", epoch * len(tokens) + done, total)

        counts.add(tokens, row_T, keep_V, stream_key(options.seed, PURPOSE_TOKEN, epoch), on_progress=on_progress)
    if not counts.sum_V2.any():
        raise DataError("No two words of the vocabulary stand near each other in the corpus; give more text.")
