"""Rows that are written in order and read at random: in memory, or in a file without a name.

Legend: K rows, D columns.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import Any

import numpy as np

from any2vec.data.io.storage import storage_errors


class GrowingRows(ExitStack):
    """float32 (K, D), row after row; a context, which closes the file.

    Args:
        in_memory: else they go to a file where temporary files go (`TMPDIR`), which has no name and so is gone with the
            array, or the process, however that ends.

    Raises:
        StorageError: the disk is full, or cannot be written.
    """

    def __init__(self, num_rows: int, num_columns: int, in_memory: bool) -> None:
        super().__init__()
        self._shape, self._filled = (num_rows, num_columns), 0
        self._row_KD = np.empty(self._shape if in_memory else (0, num_columns), np.float32)
        self._file: Any = None
        if not in_memory:
            with storage_errors(tempfile.gettempdir()):
                self._file = self.enter_context(tempfile.TemporaryFile(buffering=0))  # noqa: SIM115 - it is entered

    def append(self, rows: np.ndarray) -> None:
        """float32 (any, D)."""
        if self._file is None:
            self._row_KD[self._filled : self._filled + len(rows)] = rows
            self._filled += len(rows)
            return
        view = np.ascontiguousarray(rows).data.cast("B")
        with storage_errors(tempfile.gettempdir()):
            while len(view):
                view = view[self._file.write(view) :]

    def finish(self) -> np.ndarray:
        """All rows; those in a file are mapped."""
        if self._file is None:
            return self._row_KD
        with storage_errors(tempfile.gettempdir()):
            return np.asarray(np.memmap(self._file, np.float32, "c", 0, self._shape))
