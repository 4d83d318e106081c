"""What a row server serves: one block of one table (abstract).

Legend: K rows of a request, M ids of a pooled request, P bags, D dim.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from any2vec.cluster.message import Part
from any2vec.errors import InputError


class ServedBlock(ABC):
    """Rows that one host owns. `slot` is the place of a row within the block. Called by several threads at once."""

    version_B: np.ndarray
    """int64: how often each row has changed"""

    @property
    @abstractmethod
    def num_rows(self) -> int: ...

    @property
    @abstractmethod
    def dim(self) -> int:
        """Numbers of a row that travels."""

    @property
    def updates(self) -> int:
        """How many updates the rows have taken: each push, in step all of a round, counts once for each of its rows."""
        return int(self.version_B.sum())

    @abstractmethod
    def read(self, slot_K: np.ndarray) -> np.ndarray:
        """float32 (K, D), a copy."""

    def pool(self, slot_M: np.ndarray, count_P: np.ndarray) -> np.ndarray:
        """float32 (P, D): bag p is the sum of the next count_P[p] (> 0) rows of slot_M."""
        raise InputError(f"A {type(self).__name__} has no bags.")

    def push(self, trainer: int, clock: int, slot_K: np.ndarray, value_KD: np.ndarray, is_delta: bool) -> None:
        """Take changes of rows, or values. slot_K int64, ascending, none twice."""
        raise InputError(f"A {type(self).__name__} is moved by its own operations, not by pushes.")

    def call(self, operation: int, trainer: int, parts: Sequence[Part]) -> list[Part]:
        """An operation of the block's own: what `RowClient.call` sends, and what it gets back."""
        raise InputError(f"Operation {operation} was asked of a block that has none.")

    def apply(self, clock: int) -> None:
        """In step: let the pushes of a round take effect."""
        return

    def _check_push(self, slot_K: np.ndarray, value_KD: np.ndarray) -> None:
        self._check(slot_K)
        if value_KD.shape != (len(slot_K), self.dim):
            raise InputError(f"A push of {len(slot_K)} rows has shape {value_KD.shape}, not {(len(slot_K), self.dim)}.")
        if value_KD.dtype != np.float32:
            raise InputError(f"A push has numbers of type {value_KD.dtype}, not float32.")
        if (np.diff(slot_K) <= 0).any():
            raise InputError("The rows of a push must be ascending, and none may come twice.")

    def _check(self, slots: np.ndarray) -> None:
        if slots.size and (slots.min() < 0 or slots.max() >= self.num_rows):
            raise InputError(f"Rows {slots.min()} to {slots.max()} were asked of a block of {self.num_rows} rows.")

    def _check_bags(self, slot_M: np.ndarray, count_P: np.ndarray) -> None:
        self._check(slot_M)
        if count_P.sum() != slot_M.size or (count_P < 1).any():
            raise InputError(f"Bags of {count_P.sum()} ids in all, each of 1 or more, got {slot_M.size} ids.")
