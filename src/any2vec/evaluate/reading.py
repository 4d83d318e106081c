"""What evaluation reads: lines with their numbers, their fields, rows in memory, and the row of a word in any case."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.io.files import is_table, read_blocks, whole_lines
from any2vec.embeddings import Embeddings
from any2vec.errors import DataError, InputError

_LONGEST_LINE = 1 << 24


def check_embeddings(value: Any) -> None:
    """Raise InputError for anything but Embeddings."""
    if not isinstance(value, Embeddings):
        fix = "give its .embeddings" if hasattr(value, "embeddings") else "Embeddings.load(path) opens stored ones"
        raise InputError(f"Embeddings are evaluated here, got {type(value).__name__}; {fix}.")


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, text) of each line that is not blank; plain or packed. DataError for what is no text."""
    number = 0
    name = Path(path).name
    for piece in whole_lines(name, read_blocks(path), most=_LONGEST_LINE):
        for line in piece.removesuffix(b"\n").split(b"\n"):
            number += 1
            if b"\0" in line:
                raise DataError(f"{name}, line {number:,}: it holds NUL bytes; not a text file.")
            try:
                text = line.decode().strip("\r")
            except UnicodeDecodeError:
                raise DataError(f"{name}, line {number:,}: not UTF-8; convert the file.") from None
            if text.strip():
                yield number, text


def mark_of(line: str) -> str | None:
    """What stands between the fields of a line: a tab, a comma, or (None) white space."""
    return next((mark for mark in "\t," if mark in line), None)


def fields_of(line: str, mark: str | None) -> list[str]:
    """The fields of a line, without white space around them. Quotes are those of CSV, where a tab or a comma parts the
    fields and each quote has its end."""
    if mark is None:
        return line.split()
    try:
        fields = next(csv.reader([line], delimiter=mark, skipinitialspace=True, strict=True))
    except csv.Error:
        fields = line.split(mark)
    return [field.strip() for field in fields]


def quoted(field: str) -> str:
    """A field as `fields_of` reads it back between tabs, though it begins with a quote."""
    return '"' + field.replace('"', '""') + '"' if field.startswith('"') else field


def rows_in_memory(source: Any, width: int, wanted: str) -> list[tuple[Any, ...]]:
    """The rows of a table's first `width` columns, or of an iterable of rows; bytes as text. An array's rows are rows.

    wanted: what they are, for DataError: a row is none of that width, or there is none.
    """
    if is_table(source):
        from any2vec.data.io.arrow import TableReader

        table = TableReader(source, None)
        batches = (batch.values() for batch in table.batches(table.names[:width], 8192))
        source = [row for columns in batches for row in zip(*(one.to_pylist() for one in columns), strict=True)]
    try:
        given = source.tolist() if hasattr(source, "tolist") else source
        rows = [None if isinstance(row, str | bytes) else tuple(row)[:width] for row in given]
    except TypeError:
        raise DataError(f"{wanted}; got {' '.join(repr(source).split()):.80}.") from None
    wrong = [place for place, row in enumerate(rows) if row is None or len(row) < width]
    if wrong or not rows:
        raise DataError(f"{wanted}; " + (f"row {wrong[0] + 1:,} has not as many." if wrong else "there are none."))
    return [tuple(one.decode() if isinstance(one, bytes) else one for one in row or ()) for row in rows]


def rows_of_words(embeddings: Embeddings, words: Iterable[str], lowercase: bool) -> np.ndarray:
    """The row of each word, int64, -1 where there is none: lower-cased first and then as given (or the other way)."""
    words = list(words)
    as_given = embeddings.rows(words)
    lowered = embeddings.rows(word.lower() for word in words)
    first, second = (lowered, as_given) if lowercase else (as_given, lowered)
    return np.where(first >= 0, first, second)
