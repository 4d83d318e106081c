"""Rows in this process's memory: the plainest store."""

from __future__ import annotations

import numpy as np

from any2vec.errors import InputError


class MemoryTable:
    """float32 (V, D) in RAM, all of it always resident; addresses are fixed, so Hogwild threads share it."""

    def __init__(self, rows: np.ndarray) -> None:
        """rows: float32 (V, D), C order; kept, not copied."""
        if rows.dtype != np.float32 or rows.ndim != 2 or not rows.flags.c_contiguous:
            raise InputError(f"A table needs C-ordered float32 (V, D), got {rows.dtype} {rows.shape}.")
        self.rows = rows
        self.num_rows, self.dim = rows.shape

    def pin(self, ids: np.ndarray | None = None) -> tuple[np.ndarray, None]:
        """All rows, in place; ids need no translation."""
        return self.rows, None

    def unpin(self, ids: np.ndarray | None = None, *, dirty: bool = True) -> None:
        """Nothing to write back."""
