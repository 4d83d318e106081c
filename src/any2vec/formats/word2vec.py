"""The formats of word2vec and GloVe: a text of one row a line, and word2vec's binary."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from math import isfinite
from pathlib import Path

import numpy as np

from any2vec.data.io.files import read_blocks, whole_lines
from any2vec.errors import FormatError, InputError
from any2vec.formats.table import Table, row_blocks

BLOCK_BYTES = 1 << 22
LONGEST_LINE = 1 << 26
MOST_COLUMNS = 1 << 20


def format_rows(block: np.ndarray, separator: str) -> list[str]:
    """A float32 block (B, D) of some megabytes as B strings that read back to the same bits."""
    from any2vec.data.io.arrow import pa, pc

    numbers = pa.array(np.ascontiguousarray(block).ravel()).cast(pa.string())
    starts = pa.array(np.arange(0, block.size + 1, block.shape[1], dtype=np.int32))
    return pc.binary_join(pa.ListArray.from_arrays(starts, numbers), separator).to_pylist()


def read_lines(path: Path) -> Iterator[list[bytes]]:
    """The lines of a file (plain or packed), without their ends, in lists of some megabytes. Memory O(block)."""
    for piece in whole_lines(
        path.name, read_blocks(path, block_bytes=BLOCK_BYTES), most=LONGEST_LINE, error=FormatError
    ):
        yield piece.removesuffix(b"\n").split(b"\n")


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


_BLANK = re.compile(r"[ \t\n\r\x0b\x0c]|^\Z")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_HEADER = re.compile(rb"\s*(\d{1,18})\s+(\d{1,9})\s*")


def check_keys(keys: list[str], format: str, most: int | None = None) -> None:
    """InputError for a key with a blank, or an empty one: the word2vec formats end a key at the first blank.

    most: bytes that a key may have.
    """
    for key in keys:
        if _BLANK.search(key):
            raise InputError(
                f"key {key!r} is empty or holds a blank, which format {format!r} cannot hold; "
                "use 'folder', 'safetensors' or 'parquet', or rename the key."
            )
        if most is not None and len(key) > most // 4 and len(key.encode()) > most:
            raise InputError(
                f"key {key[:40]!r}... has {len(key.encode()):,} bytes, and format {format!r} holds {most:,}; "
                "use 'folder', 'safetensors' or 'parquet', or rename the key."
            )


def parse_header(line: bytes, where: str) -> tuple[int, int]:
    """(rows, dim) of the first line. FormatError when it is not two legal numbers."""
    match = _HEADER.fullmatch(line)
    if match is None:
        raise FormatError(f"{where}, line 1: expected `rows dim`, got {line[:40]!r}; for headerless text use 'glove'.")
    rows, dim = int(match[1]), int(match[2])
    if rows < 1 or not 1 <= dim <= MOST_COLUMNS:
        raise FormatError(f"{where}, line 1: {rows:,} rows of {dim:,} numbers is not a legal size.")
    return rows, dim


FASTTEXT_MAGIC = (793712314).to_bytes(4, "little")


def _fields(line: bytes, dim: int) -> list[bytes]:
    """A key and its `dim` numbers, where the line holds as many: the key of GloVe may hold blanks."""
    parts = line.rsplit(b" ", dim)
    return parts if len(parts) == dim + 1 and b"" not in parts else line.split()


def _are_numbers(fields: list[bytes]) -> bool:
    try:
        return all(isfinite(float(field)) for field in fields)
    except ValueError:
        return False


def _is_plain(text: bytes) -> bool:
    """Whether bytes are UTF-8 without control characters, up to their last whole line."""
    try:
        text[: text.rfind(b"\n") + 1 or None].decode()
    except UnicodeDecodeError:
        return False
    return not _CONTROL.search(text)


def sniff(path: Path) -> str:
    """Whether a file is "word2vec", "word2vec-binary", "fasttext" or "glove", by its first megabyte.

    It is text if its first row is a key and numbers (keys may hold control characters), or if all of it is UTF-8
    without control characters. FormatError for others.
    """
    head = next(read_blocks(path)).removeprefix(BOM_UTF8)  # which readers of text leave out, too
    if head.startswith(FASTTEXT_MAGIC):
        return "fasttext"
    line, _, body = head.partition(b"\n")
    if header := _HEADER.fullmatch(line):
        dim, fields = int(header[2]), _fields(body.lstrip().partition(b"\n")[0].rstrip(), int(header[2]))
        is_row = len(fields) == dim + 1 and _are_numbers(fields[1:])
        return "word2vec" if is_row or _is_plain(body) else "word2vec-binary"
    fields = line.split()
    if len(fields) > 1 and (_are_numbers(fields[1:]) or (_is_plain(head) and _are_numbers(fields[-1:]))):
        return "glove"
    raise FormatError(
        f"{path.name}: neither word2vec text or binary, GloVe text, nor another known format; if it is, give it "
        "by --format (in Python format=)."
    )


def _read_rows(batches: Iterable[list[bytes]], dim: int, where: str, first_line: int, limit: int | None) -> Table:
    """Rows `key number …` of `dim` numbers each; more than `limit` rows are an error."""
    keys: list[str] = []
    matrix = GrowingMatrix(dim)
    line_number = first_line
    for lines in batches:
        numbers: list[bytes] = []
        start = line_number
        for line in lines:
            line = line.rstrip()
            if line:
                parts = _fields(line, dim)
                if len(parts) != dim + 1:
                    raise FormatError(
                        f"{where}, line {line_number:,}: expected a key and {dim:,} numbers, got {len(parts):,} fields."
                    )
                try:
                    keys.append(parts[0].decode())
                except UnicodeDecodeError:
                    raise FormatError(
                        f"{where}, line {line_number:,}: key {parts[0]!r} is not UTF-8; write the file as UTF-8 "
                        "(iconv), or leave out words that were cut within a letter, as word2vec.c cuts long ones."
                    ) from None
                numbers += parts[1:]
            line_number += 1
        if numbers:
            matrix.append(parse_numbers(numbers, dim, where, start))
        if limit is not None and matrix.rows > limit:
            raise FormatError(f"{where}: more rows than the {limit:,} of its first line; the file is damaged.")
    return Table(keys, matrix.finish())


def read_word2vec(path: Path, mmap: bool) -> Table:
    """word2vec text, plain or packed. FormatError names the line that is wrong. Memory O(block) beside the rows."""
    batches = read_lines(path)
    first = next(batches)
    rows, dim = parse_header(first[0], path.name)
    table = _read_rows(chain([first[1:]], batches), dim, path.name, 2, rows)
    if len(table.keys) != rows:
        raise FormatError(f"{path.name}: {len(table.keys):,} rows where its first line says {rows:,}; it is cut short.")
    return table


def read_glove(path: Path, mmap: bool) -> Table:
    """GloVe text: rows of as many numbers as the first has fields, less one. A later key may hold blanks."""
    batches = read_lines(path)
    first = next(batches)
    dim = len(first[0].split()) - 1
    if not 1 <= dim <= MOST_COLUMNS:
        raise FormatError(f"{path.name}, line 1: expected a key and numbers, got {first[0][:40]!r}.")
    return _read_rows(chain([first], batches), dim, path.name, 1, None)


def _lines(table: Table, format: str) -> Iterator[bytes]:
    keys = iter(table.keys)
    for block in row_blocks(table.vectors, 1 << 21):
        names = list(islice(keys, block.stop - block.start))
        check_keys(names, format)
        rows = format_rows(table.vectors[block], " ")
        yield b"".join(f"{key} {row}\n".encode() for key, row in zip(names, rows, strict=True))


def write_word2vec(path: Path, table: Table, dtype: str) -> None:
    """Write word2vec text; numbers read back to the same bits. InputError for a key with a blank."""
    with path.open("wb") as file:
        file.write("{} {}\n".format(*table.vectors.shape).encode())
        file.writelines(_lines(table, "word2vec"))


def write_glove(path: Path, table: Table, dtype: str) -> None:
    """Write GloVe text (no first line of sizes). InputError for a key with a blank, or a first one with a mark."""
    if (first := table.keys[0]).startswith("\ufeff"):
        raise InputError(
            f"key {first!r} begins with a byte-order mark, which readers drop at the start of a 'glove' file; "
            "use 'folder', 'safetensors' or 'parquet', or rename the key."
        )
    with path.open("wb") as file:
        file.writelines(_lines(table, "glove"))


LONGEST_KEY = (1 << 16) - 1
"""bytes of a key in a binary"""
_BLOCK_ROWS = 4096


class TakenBytes:
    """A stream of blocks, taken a few bytes at a time."""

    def __init__(self, blocks: Iterator[bytes], where: str) -> None:
        self._blocks, self._where = blocks, where
        self._data, self._at = b"", 0

    def _more(self) -> bool:
        block = next(self._blocks, b"")
        self._data, self._at = self._data[self._at :] + block, 0
        return bool(block)

    def until(self, end: bytes) -> bytes:
        """What stands before the next `end`, which is skipped too: a key, perhaps behind the newline of a row."""
        while (stop := self._data.find(end, self._at)) < 0 or stop - self._at > LONGEST_KEY + 1:
            if stop >= 0 or len(self._data) - self._at > LONGEST_KEY + 1 or not self._more():
                raise FormatError(f"{self._where}: cut short, or no such file (a key does not end).")
        found, self._at = self._data[self._at : stop], stop + len(end)
        return found

    def take(self, size: int) -> bytes:
        while len(self._data) - self._at < size:
            if not self._more():
                raise FormatError(f"{self._where}: cut short.")
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
    stream = TakenBytes(read_blocks(path, block_bytes=1 << 22), path.name)
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
                raise FormatError(
                    f"{path.name}, row {row:,}: key {key[:40]!r} is not UTF-8: the file is damaged, or "
                    "word2vec.c cut a long word within a letter; write the vectors again without it."
                ) from None
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
            check_keys(names, "word2vec-binary", LONGEST_KEY)
            rows = np.ascontiguousarray(table.vectors[block], dtype="<f4")
            file.writelines(key.encode() + b" " + row.tobytes() + b"\n" for key, row in zip(names, rows, strict=True))
