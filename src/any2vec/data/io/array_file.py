"""A .npy file that grows by rows while it is written and is memory-mapped by its shape alone."""

from __future__ import annotations

from io import FileIO
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

HEADER_BYTES = 128
"""of every array file, whatever its length, so that it can be written first and need not be parsed"""


class ArrayFile:
    """A .npy file that grows by rows; its length is put into the header at the end."""

    def __init__(self, path: Path, dtype: type, row: tuple[int, ...] = ()) -> None:
        self.path, self.dtype, self.row = path, np.dtype(dtype), row
        self.length = 0
        self.file = FileIO(path, "w+")
        self._write_header()

    def append(self, rows: np.ndarray) -> None:
        """rows: (any, *row), cast to the file's type."""
        rows = np.ascontiguousarray(rows, self.dtype)
        self.length += len(rows)
        self._write(rows.reshape(-1).view(np.uint8).data)

    def read(self, first: int, rows: np.ndarray) -> bool:
        """Fill `rows`, of the file's type, with those at `first` and after; False where the file has become shorter."""
        self._seek(first)
        return self.file.readinto(rows.data.cast("B")) == rows.nbytes

    def replace(self, first: int, rows: np.ndarray) -> None:
        """Put `rows`, of the file's type, in place of those at `first` and after."""
        self._seek(first)
        self._write(rows.data.cast("B"))

    def close(self) -> None:
        """Complete the header; closing again does nothing."""
        if not self.file.closed:
            self.file.seek(0)
            self._write_header()
            self.file.close()

    def _seek(self, row: int) -> None:
        self.file.seek(HEADER_BYTES + row * self.dtype.itemsize * prod(self.row))

    def _write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while len(view):
            view = view[self.file.write(view) :]

    def _write_header(self) -> None:
        shape = (self.length, *self.row)
        text = f"{{'descr': '{self.dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
        size = (HEADER_BYTES - 10).to_bytes(2, "little")
        self._write(b"\x93NUMPY\x01\x00" + size + text.ljust(HEADER_BYTES - 11).encode() + b"\n")


def map_array(path: Path, dtype: type, shape: tuple[int, ...], mode: Any = "r") -> np.ndarray:
    """The array of an `ArrayFile`, memory-mapped. ValueError: the file has not this size."""
    size = HEADER_BYTES + np.dtype(dtype).itemsize * prod(shape)
    if path.stat().st_size != size:
        raise ValueError(f"{path.name} has {path.stat().st_size:,} bytes, expected {size:,}")
    if prod(shape) == 0:
        return np.zeros(shape, dtype)
    return np.asarray(np.memmap(path, dtype, mode, HEADER_BYTES, shape))


def grown(array: np.ndarray, size: int) -> np.ndarray:
    """A longer copy of a one-dimensional array, 0 at the end."""
    larger = np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger
