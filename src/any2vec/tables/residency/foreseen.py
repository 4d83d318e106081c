"""What policies share that know when each row is used next (`plan.lookahead.foresight`)."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

import numpy as np

from any2vec.plan.lookahead.foresight import NEVER
from any2vec.tables.residency.policy import ResidencyPolicy


class ForeseenUses(ResidencyPolicy, ABC):
    """Keeps the step of the next use of each slot, NEVER where the look-ahead has not found one yet."""

    needs_next_uses: ClassVar[bool] = True

    def __init__(self, owner_K: np.ndarray, held_K: np.ndarray) -> None:
        super().__init__(owner_K, held_K)
        self.next_K = np.full(self.capacity, NEVER, np.int64)

    def use(self, slot_N: np.ndarray, next_N: np.ndarray) -> None:
        self.next_K[slot_N] = next_N

    def expect(self, slot_N: np.ndarray, step: int) -> None:
        self.next_K[slot_N] = np.minimum(self.next_K[slot_N], step)

    def victims(self, number: int) -> np.ndarray:
        """Those used last, or not as far as is known; of equal ones the lowest."""
        slots = np.flatnonzero(self.movable())
        return slots[np.argsort(-self.next_K[slots], kind="stable")[:number]]
