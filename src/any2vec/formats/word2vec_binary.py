"""The binary format of word2vec: a line `rows dim`, then `key`, a blank, dim little-endian float32, maybe a newline."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from any2vec.data.io.files import read_blocks
from any2vec.errors import FormatError
from any2vec.formats.rows_of_text import GrowingMatrix
from any2vec.formats.table import Table, row_blocks
from any2vec.formats.word2vec_text import check_keys, parse_header

_LONGEST_KEY = 1 << 16
_BLOCK_ROWS = 4096


class _Bytes:
    """A stream of blocks, taken a few bytes at a time."""

    def __init__(self, blocks: Iterator[bytes], where: str) -> None:
        self._blocks, self._where = blocks, where
        self._data, self._at = b"", 0

    def _more(self) -> bool:
        block = next(self._blocks, b"")
        self._data, self._at = self._data[self._at :] + block, 0
        return bool(block)

    def until(self, end: bytes) -> bytes:
        """What stands before the next `end`, which is skipped too."""
        while (stop := self._data.find(end, self._at)) < 0 or stop - self._at > _LONGEST_KEY:
            if stop >= 0 or len(self._data) - self._at > _LONGEST_KEY or not self._more():
                raise FormatError(f"{self._where}: cut short, or not word2vec binary (a key does not end).")
        found, self._at = self._data[self._at : stop], stop + len(end)
        return found

    def take(self, size: int) -> bytes:
        while len(self._data) - self._at < size:
            if not self._more():
                raise FormatError(f"{self._where}: cut short within a row of numbers.")
        found, self._at = self._data[self._at : self._at + size], self._at + size
        return found

    def rest_is_blank(self) -> bool:
        while not self._data[self._at :].strip():
            self._at = len(self._data)
            if not self._more():
                return True
        return False


def read(path: Path, mmap: bool) -> Table:
    """word2vec binary, plain or packed, with or without the newline after each row. Memory O(block) beside the rows."""
    stream = _Bytes(read_blocks(path, block_bytes=1 << 22), path.name)
    rows, dim = parse_header(stream.until(b"\n"), path.name)
    keys: list[str] = []
    matrix = GrowingMatrix(dim)
    for start in range(0, rows, _BLOCK_ROWS):
        numbers = []
        for row in range(start, min(start + _BLOCK_ROWS, rows)):
            key = stream.until(b" ").lstrip(b"\n")
            try:
                keys.append(key.decode())
            except UnicodeDecodeError:
                raise FormatError(f"{path.name}, row {row:,}: key {key[:40]!r} is not UTF-8; damaged?") from None
            numbers.append(stream.take(4 * dim))
        matrix.append(np.frombuffer(b"".join(numbers), "<f4").reshape(-1, dim))
    if not stream.rest_is_blank():
        raise FormatError(
            f"{path.name}: bytes are left after the {rows:,} rows of its first line; the file is damaged."
        )
    return Table(keys, matrix.finish())


def write(path: Path, table: Table, dtype: str) -> None:
    """Write word2vec binary, a newline after each row as the original tool does. InputError for a key with a blank."""
    keys = iter(table.keys)
    with path.open("wb") as file:
        file.write("{} {}\n".format(*table.vectors.shape).encode())
        for block in row_blocks(table.vectors, 1 << 22):
            names = list(islice(keys, block.stop - block.start))
            check_keys(names, "word2vec-binary")
            rows = np.ascontiguousarray(table.vectors[block], dtype="<f4")
            file.writelines(key.encode() + b" " + row.tobytes() + b"\n" for key, row in zip(names, rows, strict=True))
