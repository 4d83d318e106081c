"""Rows of which several sites know a common part, and each of them more: changes that it has not told yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from any2vec.sync.base.members import to_float32

Change = tuple[np.ndarray, np.ndarray]
"""slots of a block, int64 ascending, and the changes of these rows"""


class SiteRows:
    """One table's rows at the owner of a block: what all sites know, and what this site has not told, or just told."""

    def __init__(self, rows_BD: np.ndarray, bound: float) -> None:
        """rows_BD is copied; bound: of their table."""
        self.base = rows_BD.copy()
        self.bound = bound
        self.unsent = np.zeros_like(rows_BD)
        self.flights: deque[Change] = deque()
        """what this site has told that does not count yet, the oldest first"""

    def rows(self, slots: np.ndarray) -> np.ndarray:
        """The site's rows."""
        rows = self.base[slots].astype(np.float64) + self.unsent[slots]
        for reported, change in self.flights:
            _, here, there = np.intersect1d(slots, reported, assume_unique=True, return_indices=True)
            rows[here] += change[there]
        return to_float32(rows, self.bound)

    def significant(self, threshold: float, by_element: bool) -> Change:
        """What is to be told: changes that are large beside the site's own rows, or numbers with `by_element`."""
        slots = np.flatnonzero(self.unsent.any(axis=1))
        change, rows = self.unsent[slots], self.rows(slots)
        if by_element:
            picked = np.where(np.abs(change) > threshold * np.abs(rows), change, np.float32(0))
        else:
            size = np.linalg.norm(change.astype(np.float64), axis=1)
            is_sent = size > threshold * np.linalg.norm(rows.astype(np.float64), axis=1)
            picked = change * is_sent[:, None]
        reported = picked.any(axis=1)
        return slots[reported], picked[reported]

    def everything(self) -> Change:
        """All that does not count yet at all sites."""
        total = self.unsent.copy()
        for slots, change in self.flights:
            total[slots] += change
        slots = np.flatnonzero(total.any(axis=1))
        return slots, total[slots]


def add_changes(base: np.ndarray, changes: Sequence[Change], bound: float) -> np.ndarray:
    """Add changes of several sites to the base, in their order, in float64; the slots that any of them has."""
    slots = np.unique(np.concatenate([change[0] for change in changes]))
    total = base[slots].astype(np.float64)
    for reported, change in changes:
        total[np.searchsorted(slots, reported)] += change
    base[slots] = to_float32(total, bound)
    return slots
