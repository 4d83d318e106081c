"""Least frequently used (HET: Miao et al. 2022, PVLDB 15(2)). Ours: uses are counted by batch."""

from __future__ import annotations

import numpy as np

from any2vec.kernels.cache.residency import choose_victims
from any2vec.tables.residency.policy import ResidencyPolicy


class LeastFrequentlyUsed(ResidencyPolicy):
    """Rows used in the fewest batches since they came in give way, of these the ones used longest ago."""

    def __init__(self, owner_K: np.ndarray, held_K: np.ndarray) -> None:
        super().__init__(owner_K, held_K)
        self.now = 0
        """number of the batch"""
        self.count_K = np.zeros(self.capacity, np.int64)
        """batches that used the row since it came in"""
        self.stamp_K = np.zeros(self.capacity, np.int64)

    def begin(self, id_U: np.ndarray) -> None:
        self.now += 1

    def use(self, slot_N: np.ndarray, next_N: np.ndarray) -> None:
        self.count_K[slot_N] += 1
        self.stamp_K[slot_N] = self.now

    def leave(self, slot_N: np.ndarray, id_N: np.ndarray) -> None:
        self.count_K[slot_N] = 0

    def victims(self, number: int) -> np.ndarray:
        victim_N = np.empty(min(number, self.capacity), np.int64)
        kept_K = ~self.movable()
        found = choose_victims(self.owner_K, self.count_K, self.stamp_K, kept_K, self.now, True, victim_N)
        return victim_N[:found]
