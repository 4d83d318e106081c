"""The rows that a host owns: it merges what all hosts made of them, in rank order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from any2vec.kernels.merge import ADASUM, ADASUM_SYMMETRIC, MEAN, SUM, changed_rows, finish_rows, merge_rows
from any2vec.sync.crew import Crew

RULES = {"adasum": ADASUM, "adasum-symmetric": ADASUM_SYMMETRIC, "mean": MEAN, "sum": SUM}
"""name of a merge rule -> its number in the kernels; mean is over the hosts that changed the row"""


def bounds(num_rows: int, hosts: int) -> list[int]:
    """Host h owns the rows [bounds[h], bounds[h + 1]): contiguous blocks, static, as equal as can be."""
    return [num_rows * host // hosts for host in range(hosts + 1)]


def compile_merges(dim: int) -> None:
    """Compile the kernels that merge rows of `dim` numbers, or load them from the cache, by empty calls."""
    block, rows = Block(np.zeros((1, dim), np.float32), "sum"), np.zeros((1, dim), np.float32)
    for is_delta in (False, True):
        block.merge(np.zeros(1, np.int64), rows, is_delta)
        block.finish(is_delta)
    changed_rows(rows, rows, np.zeros(1, np.uint8))


class Block:
    """One host's block of one table: float32 (B, D), the values that all hosts agree on."""

    def __init__(self, rows_BD: np.ndarray, rule: str) -> None:
        """rows_BD is copied."""
        self.rows = rows_BD.copy()
        self._rule = RULES[rule]
        self._value = np.empty_like(self.rows)
        self._sum = np.empty(self.rows.shape, np.float64)
        self._count = np.zeros(len(self.rows), np.int32)

    def merge(self, slot_K: np.ndarray, now_KD: np.ndarray, is_delta: bool) -> None:
        """Take one host's values (or changes) of the rows slot_K, int64; host after host in rank order."""
        if len(slot_K):
            merge_rows(self._rule, slot_K, now_KD, is_delta, self.rows, self._value, self._sum, self._count)

    def merge_all(self, told: Sequence[tuple[np.ndarray, np.ndarray]], is_delta: bool, crew: Crew) -> np.ndarray:
        """Merge (slots ascending, values) of all hosts by rank, and agree; the slots that any host changed, ascending.

        Threads take stretches of the block: each row meets its hosts in the same order, whatever their number.
        """

        def merge(stretch: tuple[int, int]) -> None:
            start, stop = stretch
            for slots, values in told:
                low, high = np.searchsorted(slots, stretch)
                self.merge(slots[low:high], values[low:high], is_delta)
            part = (array[start:stop] for array in (self.rows, self._value, self._sum, self._count))
            finish_rows(self._rule, is_delta, *part)

        crew.each(merge, crew.parts(len(self.rows)))
        changed = np.flatnonzero(self._count)
        self._count[:] = 0
        return changed

    def finish(self, is_delta: bool) -> np.ndarray:
        """Agree on what was merged; the slots that any host changed, int64 ascending."""
        finish_rows(self._rule, is_delta, self.rows, self._value, self._sum, self._count)
        changed = np.flatnonzero(self._count)
        self._count[:] = 0
        return changed
