"""Data tiering: rows that are known to be used most stay, all others pass by."""

from __future__ import annotations

import numpy as np

from any2vec.tables.residency.policy import ResidencyPolicy


class Static(ResidencyPolicy):
    """Nobody comes in and nobody gives way; `Residency` has the rows from the start."""

    def admit(self, id_N: np.ndarray, next_N: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
        return np.empty(0, np.int64), self.give_way(0)

    def victims(self, number: int) -> np.ndarray:
        return np.empty(0, np.int64)
