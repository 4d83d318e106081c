"""The text formats of word2vec (a line `rows dim`, then `key number …` a line) and GloVe (without the first line)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

import numpy as np

from any2vec.data.io.files import read_blocks
from any2vec.errors import FormatError, InputError
from any2vec.formats.rows_of_text import MOST_COLUMNS, GrowingMatrix, format_rows, parse_numbers, read_lines
from any2vec.formats.table import Table, row_blocks

_BLANK = re.compile(r"[ \t\n\r\x0b\x0c]|^\Z")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_HEADER = re.compile(rb"\s*(\d{1,18})\s+(\d{1,9})\s*")


def check_keys(keys: list[str], format: str) -> None:
    """InputError for a key with a blank, or an empty one: the word2vec formats end a key at the first blank."""
    for key in keys:
        if _BLANK.search(key):
            raise InputError(
                f"key {key!r} is empty or holds a blank, which format {format!r} cannot hold; "
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


def sniff(path: Path) -> str:
    """Whether a file is "word2vec", "word2vec-binary" or "glove", by its first megabyte. FormatError for others."""
    head = next(read_blocks(path))
    line, _, body = head.partition(b"\n")
    has_header = _HEADER.fullmatch(line) is not None
    text = body if has_header else head
    try:
        text[: text.rfind(b"\n") + 1 or None].decode()
        is_text = not _CONTROL.search(text)
    except UnicodeDecodeError:
        is_text = False
    if has_header:
        return "word2vec" if is_text else "word2vec-binary"
    if is_text:
        try:
            if len(line.split()) > 1 and np.isfinite(float(line.split()[-1])):
                return "glove"
        except ValueError:
            pass
    raise FormatError(
        f"{path.name}: neither word2vec text or binary, GloVe text, nor another known format; if it is, pass format=."
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
                parts = line.rsplit(b" ", dim)
                if len(parts) != dim + 1 or b"" in parts:
                    parts = line.split()
                if len(parts) != dim + 1:
                    raise FormatError(
                        f"{where}, line {line_number:,}: expected a key and {dim:,} numbers, got {len(parts):,} fields."
                    )
                try:
                    keys.append(parts[0].decode())
                except UnicodeDecodeError:
                    raise FormatError(f"{where}, line {line_number:,}: key {parts[0]!r} is not UTF-8.") from None
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
    """Write GloVe text (no first line of sizes)."""
    with path.open("wb") as file:
        file.writelines(_lines(table, "glove"))
