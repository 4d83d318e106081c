"""What a row server serves: the contract of one block of one table.

Legend: K rows of a request, M ids of a pooled request, P bags, D dim.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from any2vec.cluster.message import Part


class ServedBlock(Protocol):
    """Rows that one host owns. `slot` is the place of a row within the block. Called by several threads at once."""

    @property
    def num_rows(self) -> int: ...

    @property
    def dim(self) -> int:
        """Numbers of a row that travels."""

    def read(self, slot_K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(float32 (K, D), their versions int64 (K,)), copies."""

    def pool(self, slot_M: np.ndarray, count_P: np.ndarray) -> np.ndarray:
        """float32 (P, D): bag p is the sum of the next count_P[p] (> 0) rows of slot_M."""

    def push(self, trainer: int, clock: int, slot_K: np.ndarray, value_KD: np.ndarray, is_delta: bool) -> None:
        """Take changes of rows, or values."""

    def call(self, operation: int, trainer: int, parts: Sequence[Part]) -> list[Part]:
        """An operation of the block's own: what `RowClient.call` sends, and what it gets back."""

    def apply(self, clock: int) -> None:
        """In step: let the pushes of a round take effect."""

    def copy(self) -> np.ndarray:
        """The rows of this moment, float32 (B, D)."""
