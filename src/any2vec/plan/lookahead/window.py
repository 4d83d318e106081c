"""When each row is used next: tables over a window of steps that slides along a stream of batches.

Whoever knows the batches that come can say which rows a step is the last to use (Bagpipe's time to live, Belady's
choice, the changesets of Ginex). A use is one row in one step; uses are numbered in their order, over all steps.
Memory is O(uses of the window), whatever the table's size.

Legend: G distinct rows of a step, K uses of a call, H places of the map.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from any2vec.errors import InputError
from any2vec.kernels.cache.residency import EMPTY, drop_slots, find_slots, put_slots

NONE = -1
"""no further use in the window; no note"""
_SMALLEST = 1 << 10


class Uses(NamedTuple):
    """A step that leaves the window."""

    step: int
    row_G: np.ndarray
    """int64 (G,): its rows, ascending"""
    next_G: np.ndarray
    """int64 (G,): number of the next use of each, NONE where the window has none"""
    note_G: np.ndarray
    """int64 (G,): what `put` noted for these uses, else NONE"""
    label_G: np.ndarray
    """int64 (G,): the payload given to `admit`, else NONE"""


class UseWindow:
    """The steps from the oldest that has not left to the newest that has come. Not thread-safe."""

    def __init__(self) -> None:
        self._key_H = np.full(_SMALLEST, EMPTY, np.int64)
        self._last_H = np.empty(_SMALLEST, np.int64)
        """row -> number of its last use in the window"""
        self._next_A = np.empty(_SMALLEST, np.int64)
        self._note_A = np.empty(_SMALLEST, np.int64)
        self._label_A = np.empty(_SMALLEST, np.int64)
        """use number n stands at n modulo the size, a power of two"""
        self._row: deque[np.ndarray] = deque()
        self._first: deque[int] = deque([0])
        """number of the first use of each step of the window, and of the step behind it"""
        self.oldest = 0
        """the step that leaves next"""
        self.num_rows = 0
        """distinct rows of the window"""

    @property
    def newest(self) -> int:
        """The step that came last; oldest - 1 where the window is empty."""
        return self.oldest + len(self._row) - 1

    def admit(self, row_G: np.ndarray, label_G: np.ndarray | None = None) -> None:
        """The next step comes. row_G int64 ascending, each 0 or more, none twice; label_G int64 (G,): kept beside.

        Raises:
            InputError: rows are not like that.
        """
        check_rows(row_G)
        number_G = self._make_room(len(row_G))
        before_G = np.empty(len(row_G), np.int64)
        find_slots(self._key_H, self._last_H, row_G, before_G)
        self.num_rows += put_slots(self._key_H, self._last_H, row_G, number_G)
        self._next_A[number_G & self._mask] = NONE
        self._note_A[number_G & self._mask] = NONE
        self._label_A[number_G & self._mask] = NONE if label_G is None else label_G
        is_again = before_G != EMPTY
        self._next_A[before_G[is_again] & self._mask] = number_G[is_again]
        self._row.append(row_G)
        self._first.append(self._first[-1] + len(row_G))

    def leave(self) -> Uses:
        """The oldest step leaves. IndexError where there is none."""
        place_G = np.arange(self._first[0], self._first[1]) & self._mask
        known = (ring[place_G] for ring in (self._next_A, self._note_A, self._label_A))
        uses = Uses(self.oldest, self._row.popleft(), *known)
        self._first.popleft()
        self.oldest += 1
        self.num_rows -= drop_slots(self._key_H, self._last_H, uses.row_G[uses.next_G == NONE])
        return uses

    def steps(self, number_K: np.ndarray) -> np.ndarray:
        """int64 (K,): the step of each use of the window, by its number; NONE where that is NONE."""
        step_K = np.searchsorted(np.array(self._first), number_K, side="right") - 1 + self.oldest
        return np.where(number_K == NONE, NONE, step_K)

    def labels(self, number_K: np.ndarray) -> np.ndarray:
        """int64 (K,): the payloads given to `admit` for uses of the window; anything where the number is NONE."""
        return self._label_A[number_K & self._mask]

    def put(self, number_K: np.ndarray, note_K: np.ndarray) -> None:
        """Note something for uses of the window, by their numbers: where their rows stand, say."""
        self._note_A[number_K & self._mask] = note_K

    def peek(self, step: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(rows, numbers, notes) of a step of the window, each int64 (G,)."""
        first, stop = self._first[step - self.oldest], self._first[step - self.oldest + 1]
        number_G = np.arange(first, stop)
        return self._row[step - self.oldest], number_G, self._note_A[number_G & self._mask]

    @property
    def _mask(self) -> int:
        return len(self._next_A) - 1

    def _make_room(self, count: int) -> np.ndarray:
        """Numbers for so many uses, int64; the ring and the map grow where they would be too full."""
        number_G = np.arange(self._first[-1], self._first[-1] + count)
        size = len(self._next_A)
        while size < self._first[-1] - self._first[0] + count:
            size *= 2
        if size > len(self._next_A):
            kept_K = np.arange(self._first[0], self._first[-1])
            old = kept_K & self._mask
            for name in ("_next_A", "_note_A", "_label_A"):
                grown = np.empty(size, np.int64)
                grown[kept_K & (size - 1)] = getattr(self, name)[old]
                setattr(self, name, grown)
        size = len(self._key_H)
        while size < 2 * (self.num_rows + count):
            size *= 2
        if size > len(self._key_H):
            is_there = self._key_H != EMPTY
            key, last = self._key_H[is_there], self._last_H[is_there]
            self._key_H, self._last_H = np.full(size, EMPTY, np.int64), np.empty(size, np.int64)
            put_slots(self._key_H, self._last_H, key, last)
        return number_G


def check_rows(row_G: np.ndarray) -> None:
    """Raise InputError unless rows are int64, ascending, 0 or more, none twice."""
    if row_G.dtype != np.int64 or (row_G.size and (row_G[0] < 0 or (np.diff(row_G) <= 0).any())):
        raise InputError(
            f"The rows of a step are ascending whole numbers (int64) from 0 on, none twice; got {row_G.dtype} "
            f"{row_G[:8].tolist()}..."
        )
