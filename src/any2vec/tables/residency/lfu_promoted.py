"""LFU whose frequent rows move to a permanent part, as in HET's released cache (Miao et al. 2022, PVLDB 15(2))."""

from __future__ import annotations

import numpy as np

from any2vec.tables.residency.lfu import LeastFrequentlyUsed

PROMOTE_AFTER = 10
"""uses after which a row stays for good"""
PERMANENT = 0.9
"""of the slots at most hold rows that stay for good, so that new ones can still come in"""


class Promoted(LeastFrequentlyUsed):
    """A row used PROMOTE_AFTER times stays for good, while not more than PERMANENT of the slots do so."""

    def __init__(self, owner_K: np.ndarray, held_K: np.ndarray) -> None:
        super().__init__(owner_K, held_K)
        self.permanent_K = np.zeros(self.capacity, bool)

    def use(self, slot_N: np.ndarray, next_N: np.ndarray) -> None:
        super().use(slot_N, next_N)
        often = slot_N[(self.count_K[slot_N] >= PROMOTE_AFTER) & ~self.permanent_K[slot_N]]
        if len(often):
            room = int(PERMANENT * self.capacity) - int(self.permanent_K.sum())
            self.permanent_K[often[:room]] = True

    def leave(self, slot_N: np.ndarray, id_N: np.ndarray) -> None:
        super().leave(slot_N, id_N)
        self.permanent_K[slot_N] = False

    def movable(self) -> np.ndarray:
        return super().movable() & ~self.permanent_K
