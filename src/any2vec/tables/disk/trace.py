"""A trace: arrays of steps to come, kept until each step is carried out; beyond a budget of memory they lie on disk.

Ginex (Park et al. 2022, PVLDB 15(11), section 4) writes those of a superbatch to a file each. Ours: what fits stays in
memory, and files come and go while the window slides, so that the disk holds some steps more than the window.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from any2vec.data.io.storage import storage_errors
from any2vec.errors import FormatError

PIECE = 1 << 26
"""bytes behind which another file is begun; one is removed when its last record has been taken"""


class _Kept(NamedTuple):
    """A record: its arrays, or where they are."""

    arrays: list[np.ndarray]
    file: Any
    """None: they are in memory"""
    at: int
    forms: list[tuple[np.dtype, tuple[int, ...]]]


class Trace(ExitStack):
    """Records of arrays, first in, first out. Not thread-safe. A context: its end removes the files.

    Files stand where temporary files do (`TMPDIR`), without names, so that they are gone with the process.

    Args:
        budget_bytes: of arrays in memory.

    Raises:
        StorageError: the disk is full, or cannot be written.
    """

    def __init__(self, budget_bytes: int, piece: int = PIECE) -> None:
        super().__init__()
        self.budget_bytes, self._piece = budget_bytes, piece
        self.held_bytes = 0
        """of arrays in memory"""
        self.spilled_bytes = 0
        """written so far"""
        self._records: deque[_Kept] = deque()
        self._written = 0
        """bytes of the newest file"""
        self._file: Any = None
        self._left: dict[Any, int] = {}
        """file -> records that have not been taken"""

    def __len__(self) -> int:
        return len(self._records)

    @property
    def num_files(self) -> int:
        return len(self._left)

    def clear(self) -> None:
        """No record is left, and no file."""
        self.close()
        self._records.clear()
        self._left.clear()
        self._file, self.held_bytes = None, 0

    def put(self, arrays: Sequence[np.ndarray]) -> None:
        """The last record."""
        size = sum(array.nbytes for array in arrays)
        if self.held_bytes + size <= self.budget_bytes:
            self.held_bytes += size
            self._records.append(_Kept(list(arrays), None, 0, []))
            return
        forms = [(array.dtype, array.shape) for array in arrays]
        with storage_errors(tempfile.gettempdir()):
            if self._file is None or self._written >= self._piece:
                self._begin()
            self._records.append(_Kept([], self._file, self._written, forms))
            self._left[self._file] += 1
            for array in arrays:
                self._written += self._file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        self.spilled_bytes += size

    def get(self) -> list[np.ndarray]:
        """The first record; it is gone. IndexError where there is none."""
        kept = self._records.popleft()
        if kept.file is None:
            self.held_bytes -= sum(array.nbytes for array in kept.arrays)
            return kept.arrays
        with storage_errors(tempfile.gettempdir()):
            kept.file.flush()
            kept.file.seek(kept.at)
            found = [self._read(kept.file, *form) for form in kept.forms]
            kept.file.seek(0, 2)
            self._took(kept.file)
        return found

    def _begin(self) -> None:
        self._file, self._written = self.enter_context(tempfile.TemporaryFile()), 0  # noqa: SIM115 - it is entered
        self._left[self._file] = 0

    def _read(self, file: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        found = np.empty(shape, dtype)
        if file.readinto(found.reshape(-1).view(np.uint8).data) != found.nbytes:
            raise FormatError(f"A scratch file in {tempfile.gettempdir()} has become shorter; run again.")
        return found

    def _took(self, file: Any) -> None:
        """A record of a file has been read; a full file whose last one that was is removed."""
        self._left[file] -= 1
        if not self._left[file] and (file is not self._file or self._written >= self._piece):
            del self._left[file]
            file.close()
            if file is self._file:
                self._file = None
