"""The rows that a server owns: one block of a table, a version for each row, and what arrives to change them.

Legend: B rows of the block, K rows of a request, M ids of a pooled request, P bags, D dim.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Protocol

import numpy as np

from any2vec.errors import InputError
from any2vec.kernels.common.scalar import BOUND
from any2vec.tables.server.served_block import ServedBlock


class Merger(Protocol):
    """Merges what several trainers made of the same rows, one after the other in rank order."""

    rows: np.ndarray
    """float32 (B, D), the values that all agree on"""

    def merge(self, slot_K: np.ndarray, now_KD: np.ndarray, is_delta: bool) -> None:
        """Take one trainer's values or changes."""

    def finish(self, is_delta: bool) -> np.ndarray:
        """Put what was merged into the rows; the slots that changed."""


class Added:
    """Rows to which changes are added as they come: asynchronous SGD."""

    def __init__(self, rows_BD: np.ndarray) -> None:
        """rows_BD float32, copied."""
        self.rows = rows_BD.copy()

    def merge(self, slot_K: np.ndarray, now_KD: np.ndarray, is_delta: bool) -> None:
        """slot_K int64, none twice."""
        if not is_delta:
            raise InputError("A row server that does not wait takes changes of rows, not values; send now - start.")
        self.rows[slot_K] = np.clip(self.rows[slot_K] + now_KD, -BOUND, BOUND)

    def finish(self, is_delta: bool) -> np.ndarray:
        return np.empty(0, np.int64)


class RowBlock(ServedBlock):
    """One block of a table under one lock. `slot` is the place of a row within the block.

    Args:
        merger: holds the rows and changes them.
        in_step: pushes of a round wait until `apply`, which takes them in rank order.
    """

    def __init__(self, merger: Merger, in_step: bool = False) -> None:
        self._merger = merger
        self._in_step = in_step
        self.version_B = np.zeros(len(merger.rows), np.int64)
        self._lock = threading.Lock()
        self._held: defaultdict[int, dict[int, tuple[np.ndarray, np.ndarray, bool]]] = defaultdict(dict)
        """round -> trainer -> its push"""

    @property
    def num_rows(self) -> int:
        return len(self._merger.rows)

    @property
    def dim(self) -> int:
        return int(self._merger.rows.shape[1])

    @property
    def memory(self) -> dict[str, int]:
        """Bytes that the rows take: values, state, versions."""
        return {"values": self._merger.rows.nbytes, "state": 0, "versions": self.version_B.nbytes}

    def read(self, slot_K: np.ndarray) -> np.ndarray:
        self._check(slot_K)
        with self._lock:
            return self._merger.rows[slot_K]

    def pool(self, slot_M: np.ndarray, count_P: np.ndarray) -> np.ndarray:
        """float32 (P, D): bag p is the sum, taken in float64, of the next count_P[p] (> 0) rows of slot_M."""
        self._check_bags(slot_M, count_P)
        if not slot_M.size:
            return np.empty((0, self.dim), np.float32)
        offset_P = np.cumsum(count_P) - count_P
        with self._lock:
            row_MD = self._merger.rows[slot_M]
        return np.add.reduceat(row_MD.astype(np.float64), offset_P, axis=0).astype(np.float32)

    def push(self, trainer: int, clock: int, slot_K: np.ndarray, value_KD: np.ndarray, is_delta: bool) -> None:
        """Change rows; in step, when the round is applied. slot_K int64, ascending.

        Raises:
            InputError: a slot is not of this block or comes twice, shapes do not fit, or values come unasked.
        """
        self._check_push(slot_K, value_KD)
        with self._lock:
            if self._in_step:
                held = self._held[clock]
                if trainer in held or any(other[2] != is_delta for other in held.values()):
                    raise InputError(
                        f"Rank {trainer}: in step all push once in round {clock}, all values or all changes."
                    )
                held[trainer] = slot_K, value_KD, is_delta
            else:
                self._merger.merge(slot_K, value_KD, is_delta)
                self.version_B[slot_K] += 1

    def apply(self, clock: int) -> None:
        """Let the held pushes of a round take effect, in rank order."""
        with self._lock:
            held = self._held.pop(clock, {})
            for _, (slot_K, value_KD, is_delta) in sorted(held.items()):
                self._merger.merge(slot_K, value_KD, is_delta)
            if held:
                changed = self._merger.finish(any(is_delta for _, _, is_delta in held.values()))
                self.version_B[changed] += 1

    def copy(self) -> np.ndarray:
        """The rows of this moment, float32 (B, D)."""
        with self._lock:
            return self._merger.rows.copy()
