"""Age: a row is read for so many batches before its owner is asked again (as in DistGNN-MB)."""

from __future__ import annotations

import numpy as np

from any2vec.tables.freshness.policy import Freshness


class Age(Freshness):
    """No message is about a row that is young; an old one is fetched again if anybody has changed it."""

    def __init__(self, pull_bound: int, push_bound: int, capacity: int) -> None:
        super().__init__(0, push_bound, capacity)
        self._bound = pull_bound
        self._now = 0
        """number of the batch"""
        self._asked_K = np.zeros(capacity, np.int64)

    def stale(self, slot_N: np.ndarray) -> np.ndarray:
        return self._now - self._asked_K[slot_N] >= self._bound

    def asked(self, slot_N: np.ndarray) -> None:
        self._now += 1
        self._asked_K[slot_N] = self._now

    def must_push(self, slot_N: np.ndarray, updates_N: np.ndarray, version_N: np.ndarray) -> np.ndarray:
        return self.stale(slot_N) & (updates_N > 0)
