"""What a freshness policy is asked of cached rows. Legend: K slots, N some of them."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np


class Freshness(ABC):
    """Knows slots, updates and batches, never a value.

    Args:
        pull_bound, push_bound: as `--cache NAME:BOUND` has them, of reads and of changes.
        capacity: K.
    """

    pull_bound: int
    """updates that an owner may have had beyond the version that is known, without sending the row"""

    def __init__(self, pull_bound: int, push_bound: int, capacity: int) -> None:
        self.pull_bound, self.push_bound = pull_bound, push_bound

    @abstractmethod
    def stale(self, slot_N: np.ndarray) -> np.ndarray:
        """bool (N,): whether a batch that reads these rows must ask their owners, who may know better."""

    def asked(self, slot_N: np.ndarray) -> None:
        """Owners are asked about these rows, for a batch that begins."""
        return

    @abstractmethod
    def must_push(self, slot_N: np.ndarray, updates_N: np.ndarray, version_N: np.ndarray) -> np.ndarray:
        """bool (N,): whether changes go with the next message.

        updates_N: batches whose changes the owner has not been sent; version_N: the owner's count of updates.
        """
