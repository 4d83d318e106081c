"""Files past the page cache: whole pages between a file and memory that begins at a page.

What does not fit into memory is read and written all the time; in the page cache it would only push out what is
needed. Where a file system knows no way past the cache, what was read is let go of at once.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

import numpy as np

from any2vec.data.io.storage import fsync_path, storage_errors
from any2vec.errors import FormatError

PAGE = 4096
"""bytes; reads and writes begin and end at whole pages"""
PIECE = 8 << 20
"""bytes of one call of the system"""


def padded(size: int) -> int:
    """Bytes of the whole pages that `size` bytes fill."""
    return -(-size // PAGE) * PAGE


def aligned_rows(rows: int, columns: int) -> np.ndarray:
    """Zeros, float32 (rows, columns), whose memory begins at a page and ends with one; in huge pages where it can be,
    for rows are visited at random."""
    return aligned_array(rows * columns, np.float32).reshape(rows, columns)


def aligned_array(size: int, dtype: type[np.generic]) -> np.ndarray:
    """Zeros (size,), whose memory begins at a page and ends with one."""
    num_bytes = max(PAGE, padded(size * np.dtype(dtype).itemsize))
    memory = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError, AttributeError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype)[:size]


def read_pages(path: Path, array: np.ndarray, start: int = 0) -> int:
    """Fill a C-contiguous part of an aligned array, up to the end of its last page, from byte `start` of a file.

    Returns:
        bytes read.

    Raises:
        FormatError: the file ends before.
        OSError: it cannot be read.
    """
    wanted = _bytes_of(array)
    descriptor, is_direct = _opened(path, os.O_RDONLY)
    try:
        at = 0
        while at < len(wanted):
            count = os.preadv(descriptor, [wanted[at : at + PIECE]], start + at)
            if not count:
                raise FormatError(f"{path} is cut: it has {start + at:,} bytes, not {start + len(wanted):,}.")
            at += count
        if not is_direct:
            forget(descriptor)
        return at
    finally:
        os.close(descriptor)


def write_pages(path: Path, array: np.ndarray) -> int:
    """Write a new file of a C-contiguous part of an aligned array, up to the end of its last page; it is on the disk
    for good once it is synced.

    Returns:
        bytes written.

    Raises:
        OSError: the disk is full, or the file cannot be written.
    """
    given = _bytes_of(array)
    descriptor, _ = _opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        at = 0
        while at < len(given):
            at += os.pwritev(descriptor, [given[at : at + PIECE]], at)
        return at
    finally:
        os.close(descriptor)


def synced(path: Path) -> None:
    """Bring a file to the disk, and out of the page cache."""
    fsync_path(path)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        forget(descriptor)
    finally:
        os.close(descriptor)


def forget(descriptor: int) -> None:
    """Let go of what the page cache has of a file."""
    with suppress(OSError, AttributeError):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def _bytes_of(array: np.ndarray) -> memoryview:
    """The array's memory, and what is left of its last page."""
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    first = _address(array) - _address(whole) if array.size else 0
    return whole.data.cast("B")[first : first + padded(array.nbytes)]


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _opened(path: Path, flags: int) -> tuple[int, bool]:
    """A descriptor, and whether it goes past the page cache, as it does where the file system knows how."""
    direct = getattr(os, "O_DIRECT", 0)
    try:
        return os.open(path, flags | direct, 0o666), bool(direct)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.open(path, flags, 0o666), False


BUDGET_BYTES = 1 << 29


class Spill:
    """A budget of memory, and a temporary folder for what is beyond it, gone when the `with` statement ends."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES, folder: Path | None = None) -> None:
        """folder: where the temporary one is made; by default the system's place for temporary files."""
        self.budget_bytes = budget_bytes
        self.num_files = 0
        self._above = folder
        self._folder: Path | None = None
        self._kept_bytes = 0
        self._stack = ExitStack()

    def __enter__(self) -> Spill:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def keep(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """The arrays: as they are while they fit into the budget with those kept before, else from files.

        Raises:
            StorageError: the disk is full, or the folder cannot be written.
        """
        num_bytes = sum(array.nbytes for array in arrays)
        if self._kept_bytes + num_bytes > self.budget_bytes:
            return self.store(*arrays)
        self._kept_bytes += num_bytes
        return arrays

    def store(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """The arrays, from files. Raises StorageError as `keep` does."""
        if self._folder is None:
            with storage_errors(self._above or tempfile.gettempdir()):
                made = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="any2vec.", dir=self._above))
            self._folder = Path(made)
        return tuple(self._mapped(self._folder, array) for array in arrays)

    def _mapped(self, folder: Path, array: np.ndarray) -> np.ndarray:
        path = folder / f"{self.num_files}.npy"
        self.num_files += 1
        with storage_errors(path):
            np.save(path, array)
        return array if array.size == 0 else np.asarray(np.load(path, mmap_mode="r"))
