"""The row store's contract. A learner sees rows only between `pin` and `unpin`."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class RowStore(Protocol):
    """A table of float32 rows; the array that `pin` gives keeps its address until `unpin`."""

    num_rows: int
    dim: int

    def pin(self, ids: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray | None]:
        """(rows, slots): id i stands in rows[slots[i]], or in rows[i] where slots is None. ids None pins all."""

    def unpin(self, ids: np.ndarray | None = None, *, dirty: bool = True) -> None:
        """Give the rows back; dirty says that they were written."""
