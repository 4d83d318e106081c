"""Numbers as text, many rows at a time: floats to their shortest exact decimals, and lines back to float32 rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from any2vec.data.io.files import read_blocks
from any2vec.errors import FormatError

BLOCK_BYTES = 1 << 22
LONGEST_LINE = 1 << 26
MOST_COLUMNS = 1 << 20


def format_rows(block: np.ndarray, separator: str) -> list[str]:
    """A float32 block (B, D) of some megabytes as B strings that read back to the same bits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pa.array(np.ascontiguousarray(block).ravel()).cast(pa.string())
    starts = pa.array(np.arange(0, block.size + 1, block.shape[1], dtype=np.int32))
    return pc.binary_join(pa.ListArray.from_arrays(starts, numbers), separator).to_pylist()


def read_lines(path: Path) -> Iterator[list[bytes]]:
    """The lines of a file (plain or packed), without their ends, in lists of some megabytes. Memory O(block)."""
    left = b""
    for block in read_blocks(path, block_bytes=BLOCK_BYTES):
        lines = (left + block).split(b"\n")
        left = lines.pop()
        if len(left) > LONGEST_LINE:
            raise FormatError(f"{path.name}: a line is longer than {LONGEST_LINE:,} bytes; not a text file of vectors.")
        if lines:
            yield lines
    if left:
        yield [left]


class GrowingMatrix:
    """float32 rows of `dim` numbers, appended in blocks; grows in place, so that the rows are held once."""

    def __init__(self, dim: int) -> None:
        self.dim, self.rows = dim, 0
        self._matrix = np.empty((0, dim), np.float32)

    def append(self, block: np.ndarray) -> None:
        stop = self.rows + len(block)
        if stop > len(self._matrix):
            self._matrix.resize((stop + stop // 4, self.dim), refcheck=False)
        self._matrix[self.rows : stop] = block
        self.rows = stop

    def finish(self) -> np.ndarray:
        self._matrix.resize((self.rows, self.dim), refcheck=False)
        return self._matrix


def parse_numbers(numbers: list[bytes], dim: int, where: str, first_line: int) -> np.ndarray:
    """float32 (len / dim, dim) from decimal strings; FormatError names the line of the first that is none."""
    try:
        with np.errstate(over="ignore"):  # beyond float32: infinity, which the check of the contents reports
            return np.array(numbers, dtype=np.float32).reshape(-1, dim)
    except (ValueError, UnicodeError):
        for position, number in enumerate(numbers):
            try:
                float(number)
            except (ValueError, UnicodeError):
                line = first_line + position // dim
                raise FormatError(f"{where}, line {line:,}: {number[:40]!r} is not a number.") from None
        raise
