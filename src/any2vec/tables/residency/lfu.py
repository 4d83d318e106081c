"""Least frequently used (HET: Miao et al. 2022, PVLDB 15(2)). Ours: uses are counted by batch."""

from __future__ import annotations

import numpy as np

from any2vec.tables.residency.lru import LeastRecentlyUsed


class LeastFrequentlyUsed(LeastRecentlyUsed):
    """Rows used in the fewest batches since they came in give way, of these the ones used longest ago."""

    def __init__(self, owner_K: np.ndarray, held_K: np.ndarray) -> None:
        super().__init__(owner_K, held_K)
        self.count_K = np.zeros(self.capacity, np.int64)
        """batches that used the row since it came in"""

    def use(self, slot_N: np.ndarray, next_N: np.ndarray) -> None:
        super().use(slot_N, next_N)
        self.count_K[slot_N] += 1

    def leave(self, slot_N: np.ndarray, id_N: np.ndarray) -> None:
        self.count_K[slot_N] = 0

    def victims(self, number: int) -> np.ndarray:
        return self.oldest(number, self.count_K)
