"""Rows of a .npy file of this house, read past the page cache: pages in order, adjacent ones as one, several reads in
flight.

Legend: K rows asked for, D columns, P pages.
"""

from __future__ import annotations

import errno
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from any2vec.data.io.array_file import HEADER_BYTES
from any2vec.data.io.direct import PAGE, aligned_array, forget
from any2vec.data.io.storage import storage_errors
from any2vec.errors import FormatError

IN_FLIGHT = 16
_BUFFER = 1 << 20
"""bytes of a reader's buffer, about"""


class Reads(NamedTuple):
    """What reading rows, or lists of neighbors, some of which are in memory, has come to."""

    missed: int = 0
    """rows, or lists, not in memory"""
    bytes_read: int = 0
    """from the file, whole pages"""

    def plus(self, missed: int, bytes_read: int) -> Reads:
        return Reads(self.missed + missed, self.bytes_read + bytes_read)


class RowFile:
    """Rows of one width; the file may be removed while this is open. Any number of threads may read.

    Raises:
        StorageError: the file cannot be opened.
    """

    def __init__(self, path: Path, dtype: np.dtype, num_rows: int, columns: int) -> None:
        self.path, self.dtype, self.num_rows, self.columns = path, dtype, num_rows, columns
        self.row_bytes = columns * dtype.itemsize
        with storage_errors(path):
            self._descriptor, self._is_direct = _opened(path)
        self._pool = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="any2vec-rows")
        self._own = threading.local()
        self._end = weakref.finalize(self, _close, self._descriptor, self._pool)

    def close(self) -> None:
        """Nothing is read any more."""
        self._end()

    def read(self, id_K: np.ndarray, row_KD: np.ndarray) -> int:
        """Fill rows, of the file's type, with those of ids, int64, ascending; how many bytes were read.

        Raises:
            FormatError: the file is cut. StorageError: it cannot be read.
        """
        piece = max(1, _BUFFER // (self.row_bytes + 2 * PAGE))
        parts = [slice(first, first + piece) for first in range(0, len(id_K), piece)]
        with storage_errors(self.path):
            if len(parts) < 2:
                return sum(self._read(id_K[part], row_KD[part]) for part in parts)
            reads = [self._pool.submit(self._read, id_K[part], row_KD[part]) for part in parts]
            return sum(read.result() for read in reads)

    def _read(self, id_K: np.ndarray, row_KD: np.ndarray) -> int:
        start_K = HEADER_BYTES + id_K * self.row_bytes
        page_K, stop_K = start_K // PAGE, (start_K + self.row_bytes - 1) // PAGE + 1
        begins_K = np.concatenate([[True], page_K[1:] > stop_K[:-1]])  # where a read begins
        first_R, last_R = page_K[begins_K], stop_K[np.append(np.flatnonzero(begins_K)[1:] - 1, len(id_K) - 1)]
        at_R = np.concatenate([np.zeros(1, np.int64), np.cumsum(last_R - first_R)])
        buffer = self._buffer(int(at_R[-1]))
        reads = first_R * PAGE, last_R * PAGE, at_R[:-1] * PAGE
        total = self._filled(buffer, *reads, end=int(start_K[-1]) + self.row_bytes)
        if not self._is_direct:
            forget(self._descriptor)
        read_K = np.cumsum(begins_K) - 1
        offset_K = (start_K - (first_R - at_R[:-1])[read_K] * PAGE) // self.dtype.itemsize
        windows = np.lib.stride_tricks.sliding_window_view(buffer.view(self.dtype), self.columns)
        row_KD[:] = windows[offset_K]
        return total

    def _filled(self, buffer: np.ndarray, start_R: np.ndarray, stop_R: np.ndarray, at_R: np.ndarray, end: int) -> int:
        """Bytes read: [start, stop) of the file to a place of the buffer each; what is behind `end` may be missing."""
        from any2vec.kernels.rows.read_pages import read_pages

        total = int(read_pages(self._descriptor, start_R, stop_R, at_R, end, buffer.ctypes.data))
        if total >= 0:
            return total
        total = 0  # once more, for what the system says
        for start, stop, at in zip(start_R.tolist(), stop_R.tolist(), at_R.tolist(), strict=True):
            done = 0
            while done < min(stop, end) - start:
                count = os.preadv(self._descriptor, [buffer.data[at + done : at + stop - start]], start + done)
                if not count:
                    raise FormatError(f"{self.path} is cut: it ends before byte {min(stop, end):,}.")
                done += count
            total += done
        return total

    def _buffer(self, pages: int) -> np.ndarray:
        """uint8, from a page on; a thread has one, which grows."""
        known: np.ndarray | None = getattr(self._own, "buffer", None)
        if known is None or len(known) < pages * PAGE:
            self._own.buffer = known = aligned_array(pages * PAGE, np.uint8)
        return known


def _opened(path: Path) -> tuple[int, bool]:
    """A descriptor, and whether it goes past the page cache, as it does where the file system knows how."""
    direct = getattr(os, "O_DIRECT", 0)
    try:
        return os.open(path, os.O_RDONLY | direct), bool(direct)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.open(path, os.O_RDONLY), False


def _close(descriptor: int, pool: ThreadPoolExecutor) -> None:
    pool.shutdown(wait=True, cancel_futures=True)
    os.close(descriptor)
