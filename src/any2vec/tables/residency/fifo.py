"""First in, first out: what BGL keeps of node features (Liu et al. 2023, NSDI, section 3.2)."""

from __future__ import annotations

import numpy as np

from any2vec.tables.residency.policy import ResidencyPolicy


class FirstInFirstOut(ResidencyPolicy):
    """Rows that came in first give way, however often they are used; of one batch in the order of its ids."""

    def __init__(self, owner_K: np.ndarray, held_K: np.ndarray) -> None:
        super().__init__(owner_K, held_K)
        self._turn_K = np.zeros(self.capacity, np.int64)
        self._turns = 0

    def enter(self, slot_N: np.ndarray, id_N: np.ndarray, next_N: np.ndarray) -> None:
        self._turn_K[slot_N] = self._turns + np.arange(len(slot_N))
        self._turns += len(slot_N)

    def victims(self, number: int) -> np.ndarray:
        slots = np.flatnonzero(self.movable())
        if number < len(slots):
            slots = slots[np.argpartition(self._turn_K[slots], number)[:number]]
        return slots[np.argsort(self._turn_K[slots])]
