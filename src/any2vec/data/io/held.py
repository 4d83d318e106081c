"""Arrays as they stand in files: mapped into memory, or read into it for whoever must outlive the file.

A page of a map that lies behind the end of a file, since that was written over by a shorter one, ends the process
(SIGBUS). Replaced by a rename the old file stays whole as long as it is mapped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.errors import FormatError
from any2vec.machine import available_bytes, memory_bytes

SHARE = 0.5
"""of the free memory that one array may take; a larger one stays mapped"""
_UNKNOWN = 4
"""part of the memory of a machine that counts as free where nobody knows how much is"""


class Held:
    """What is read while `in_memory` lasts: each part of a file once, whoever asks for it."""

    def __init__(self) -> None:
        self.mapped: set[Path] = set()
        """files that are too large, and are mapped"""
        self._arrays: dict[tuple[Any, ...], np.ndarray] = {}

    def read(self, path: Path, dtype: np.dtype, offset: int, shape: tuple[int, ...]) -> np.ndarray | None:
        """An array of a file, read-only; None: it is too large.

        Raises:
            FormatError: the file is shorter than it was a moment ago.
        """
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            part = (about.st_dev, about.st_ino, about.st_mtime_ns, about.st_size, offset, dtype, shape)
            if part not in self._arrays:
                count = int(np.prod(shape, dtype=np.int64))
                if count * dtype.itemsize > SHARE * (available_bytes() or memory_bytes() // _UNKNOWN):
                    self.mapped.add(path)
                    return None
                file.seek(offset)
                array = np.fromfile(file, dtype, count)
                if len(array) < count:
                    raise FormatError(f"{path.name} was cut short while it was read; it is damaged or being replaced.")
                array.flags.writeable = False
                self._arrays[part] = array.reshape(shape)
            return self._arrays[part]


_held: ContextVar[Held | None] = ContextVar("held", default=None)


@contextmanager
def in_memory() -> Iterator[Held]:
    """Read what else would be mapped, in this thread and by this block."""
    held = Held()
    before = _held.set(held)
    try:
        yield held
    finally:
        _held.reset(before)


def stored(path: Path, dtype: str | np.dtype, offset: int, shape: tuple[int, ...]) -> np.ndarray:
    """An array of a file, read-only, which is not empty: mapped, or read where `in_memory` says so."""
    held = _held.get()
    array = None if held is None else held.read(path, np.dtype(dtype), offset, shape)
    return np.memmap(path, dtype, "r", offset, shape).view(np.ndarray) if array is None else array


def kept(array: np.ndarray) -> np.ndarray:
    """An array that NumPy has mapped, untouched so far; read instead where `in_memory` says so."""
    if _held.get() is None or not isinstance(array, np.memmap) or array.filename is None:
        return array
    is_turned = not array.flags.c_contiguous  # by columns, as Fortran has them
    found = stored(Path(array.filename), array.dtype, array.offset, array.T.shape if is_turned else array.shape)
    return found.T if is_turned else found
