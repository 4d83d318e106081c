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
from any2vec.data.text.pairs.sorted_runs import Run, SortedRuns, merge_all
from any2vec.data.vocab.vocabulary import keep_probabilities
from any2vec.errors import DataError

BUFFER_KEYS = 1 << 22
BLOCK_PAIRS = 1 << 22
"""pairs of one block of rows, unless a single row has more"""

Stage = Callable[[str, int, int | None], None]
"""called with (what is done, how far, of how much)"""


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
        self._runs = SortedRuns(spill, 2)

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
        sums = [np.bincount(row_N, run.weight_NC[:, part], self.num_rows) for part in range(2)]
        self.add_run(run, np.stack(sums, 1).astype(np.int64))  # sums of whole numbers below 2**53: exact

    def add_run(self, run: Run, sum_V2: np.ndarray) -> None:
        """Add pairs that are counted already, and the marginals int64 (V, 2) that they are a part of."""
        self.sum_V2 += sum_V2
        self._runs.add(run)

    # ---- reading

    def blocks(self) -> Iterator[PairBlock]:
        """All pairs, ascending, by blocks of whole rows that cover 0..V without a gap."""
        runs = self._runs.all()
        start, place_R = 0, [0] * len(runs)
        while start < self.num_rows:
            stop, end_R = self._cut(runs, start, place_R)
            ends = zip(runs, place_R, end_R, strict=True)
            whole = merge_all([Run(run.pair_N[first:last], run.weight_NC[first:last]) for run, first, last in ends])
            row_N, other_N = np.divmod(whole.pair_N, np.uint64(self.num_rows))
            yield PairBlock(start, stop, row_N.astype(np.int64), other_N.astype(np.int64), whole.weight_NC)
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
