"""When a cached row is too old to be read, and when its changes must go to its owner.

Legend: K slots, N some of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import ClassVar

import numpy as np

SHARE = 0.3
"""of the updates that a young row has had: so many may be missing, if the bound allows them"""
LEAST = 20
"""updates that may be missing however young the row is, if the bound allows them"""


def allowed_updates(version_N: np.ndarray, bound: int) -> np.ndarray:
    """Updates that may be missing of rows that are spared while they are young: int64 (N,), never more than the bound.

    A row that has been changed a few times is still far from where it goes: changes that others made without it count
    for much. Exchanging such rows earlier costs few bytes, for few of a row's changes are its first ones (docs/log.md).
    Ours.

    version_N: int64, updates that each row has had (less than 0 counts as 0).
    """
    return np.minimum(bound, np.maximum(LEAST, (SHARE * version_N).astype(np.int64)))


class Freshness(ABC):
    """Knows slots, updates and batches, never a value.

    Args:
        pull_bound, push_bound: as `--cache NAME:BOUND` has them, of reads and of changes.
        capacity: K.
    """

    counts_occurrences: ClassVar[bool] = False
    """whether an update is one occurrence of a row in a batch, not what the batch changes in it"""
    spares_young: ClassVar[bool] = False
    """whether owners send a row before the pull bound while it is young (`allowed_updates`)"""
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

    def changed(self, slot_N: np.ndarray) -> None:
        """Of these rows, none twice, a batch that ends makes the first changes that their owners do not have."""
        return

    def aged(self) -> np.ndarray:
        """int64: slots whose changes may have become due though no batch has changed them any more; told once."""
        return np.empty(0, np.int64)

    @abstractmethod
    def must_push(self, slot_N: np.ndarray, updates_N: np.ndarray, version_N: np.ndarray) -> np.ndarray:
        """bool (N,): whether changes go with the next message.

        updates_N: updates that the owner has not been sent; version_N: the owner's count of updates.
        """


class Versions(Freshness):
    """Owners are always asked, and say by versions which rows are too old.

    Versions within bounds (HET: Miao et al. 2022, PVLDB 15(2)); with bound 0 a read sees every write.
    """

    def stale(self, slot_N: np.ndarray) -> np.ndarray:
        return np.ones(len(slot_N), bool)

    def must_push(self, slot_N: np.ndarray, updates_N: np.ndarray, version_N: np.ndarray) -> np.ndarray:
        return updates_N > self.push_bound


class OccurrenceVersions(Versions):
    """The same, where a row that stands in a batch n times has had n updates, as HET's released code counts them."""

    counts_occurrences = True


class YoungVersions(Versions):
    """The same with less than the bounds for rows that have had few updates. Ours."""

    spares_young = True

    def must_push(self, slot_N: np.ndarray, updates_N: np.ndarray, version_N: np.ndarray) -> np.ndarray:
        return updates_N > allowed_updates(version_N, self.push_bound)


class Age(Freshness):
    """No message is about a row that is young; an old one is fetched again if anybody has changed it.

    A row is read for so many batches before its owner is asked again (as in DistGNN-MB), and changes wait for so many
    before they go to the owner, whether batches use the row or not.
    """

    def __init__(self, pull_bound: int, push_bound: int, capacity: int) -> None:
        super().__init__(0, push_bound, capacity)
        self._bound = pull_bound
        self._now = 0
        """number of the batch"""
        self._asked_K = np.zeros(capacity, np.int64)
        self._changed_K = np.zeros(capacity, np.int64)
        """the batch of the first change that the owner has not"""
        self._dirty: deque[tuple[int, np.ndarray]] = deque()
        """(batch, slots that it changed first), oldest first; of rows that gave way since, too"""
        self._num_dirty = 0

    def stale(self, slot_N: np.ndarray) -> np.ndarray:
        return self._now - self._asked_K[slot_N] >= self._bound

    def asked(self, slot_N: np.ndarray) -> None:
        self._now += 1
        self._asked_K[slot_N] = self._now

    def changed(self, slot_N: np.ndarray) -> None:
        self._changed_K[slot_N] = self._now
        self._dirty.append((self._now, slot_N))
        self._num_dirty += len(slot_N)
        if self._num_dirty > 2 * len(self._changed_K):  # most are of rows that gave way since
            kept = [(batch, slots[self._changed_K[slots] == batch]) for batch, slots in self._dirty]
            self._dirty = deque((batch, slots) for batch, slots in kept if len(slots))
            self._num_dirty = sum(len(slots) for _, slots in self._dirty)

    def aged(self) -> np.ndarray:
        found = [np.empty(0, np.int64)]
        while self._dirty and self._now - self._dirty[0][0] >= self._bound:
            found.append(self._dirty.popleft()[1])
        slot_N = np.concatenate(found)
        self._num_dirty -= len(slot_N)
        return slot_N

    def must_push(self, slot_N: np.ndarray, updates_N: np.ndarray, version_N: np.ndarray) -> np.ndarray:
        return (self._now - self._changed_K[slot_N] >= self._bound) & (updates_N > 0)
