"""Versions within bounds (HET: Miao et al. 2022, PVLDB 15(2)); with bound 0 a read sees every write."""

from __future__ import annotations

import numpy as np

from any2vec.plan.lookahead.window import allowed_updates
from any2vec.tables.freshness.policy import Freshness


class Versions(Freshness):
    """Owners are always asked, and say by versions which rows are too old."""

    def stale(self, slot_N: np.ndarray) -> np.ndarray:
        return np.ones(len(slot_N), bool)

    def must_push(self, slot_N: np.ndarray, updates_N: np.ndarray, version_N: np.ndarray) -> np.ndarray:
        return updates_N > allowed_updates(version_N, self.push_bound)
