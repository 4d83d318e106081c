"""A column of CSV, TSV and JSON Lines, plain or packed, as what an encoder of text reads."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from any2vec.checks import parse_json
from any2vec.data.io.files import display, read_blocks, whole_lines
from any2vec.data.text.columns import decode_text, lines_of
from any2vec.data.text.sequences import Sentences
from any2vec.errors import DataError

_BLOCK_BYTES = 1 << 24
"""of CSV that are split at a time, and what a row may have at most"""


class RecordColumn:
    """The named column of a file; `kind` is text (of CSV and TSV always), words or ids (of JSON Lines with lists).

    Raises:
        DataError: no column is named, the file lacks it, is empty or damaged, or a line is no record.
    """

    def __init__(self, name: str, form: str, column: str | None) -> None:
        self.name = display(name)
        self._file, self._column = name, column
        self.kind, self._sentences = "text", None
        if form == "jsonl":
            self._check(list(next(self._records(), (0, {}))[1]), "JSON Lines")
            self._sentences = Sentences(value for value in self._values() if value is not None)
            self._sentences.name, self.kind = self.name, self._sentences.kind
        else:
            self._delimiter = "\t" if form == "tsv" else self._guess()
            with self._errors():
                self._check(self._open(None).schema.names, form.upper())

    def blocks(self) -> Iterator[Any]:
        """As `columns.Column.blocks`."""
        if self._sentences is not None:
            yield from self._sentences.blocks()
            return
        with self._errors():
            for batch in self._open(self._column):
                yield lines_of(batch.column(0), self.name)

    def values(self, bad_bytes: str) -> Iterator[Any]:
        """Record by record a string or a list; of a missing one an empty string. Blank lines are no records.

        Raises:
            DataError: the file is damaged, or by `bad_bytes`, as of `TextOptions`.
        """
        if self._sentences is not None:
            yield from (value if value is not None else "" for value in self._values())
            return
        with self._errors():
            for batch in self._open(self._column):
                yield from (decode_text(value, bad_bytes, self.name) for value in batch.column(0).to_pylist())

    def _check(self, names: list[str], form: str) -> None:
        listed = ", ".join(names) or "none"
        if self._column is None:
            raise DataError(
                f"{self.name} is {form}: name the column that holds the text (--column, TextOptions(column=...)); its "
                f"columns are: {listed}. To have its lines read as they are, give it another suffix, such as .txt."
            )
        if self._column not in names:
            raise DataError(f"{self.name} has no column {self._column!r}; its columns are: {listed}.")
        if names.count(self._column) > 1:
            raise DataError(f"{self.name} has {names.count(self._column)} columns named {self._column!r}; rename one.")

    # ---- CSV and TSV

    def _errors(self) -> Any:
        from any2vec.data.io.arrow import arrow_errors

        return arrow_errors(f"{self.name} cannot be read", advice="give each row as many columns as the first.")

    def _guess(self) -> str:
        first = next(whole_lines(self.name, read_blocks(self._file)), b"").split(b"\n", 1)[0]
        return ";" if b";" in first and b"," not in first else ","

    def _open(self, column: str | None) -> Any:
        """Batches of one column as bytes; None: of all, for their names."""
        from any2vec.data.io.arrow import csv, pa

        chosen = {} if column is None else {"include_columns": [column], "column_types": {column: pa.large_binary()}}
        quote: Any = False if self._delimiter == "\t" else '"'
        return csv().open_csv(
            io.BufferedReader(_Unpacked(read_blocks(self._file))),
            csv().ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            csv().ParseOptions(delimiter=self._delimiter, quote_char=quote, newlines_in_values=quote is not False),
            csv().ConvertOptions(**chosen),
        )

    # ---- JSON Lines

    def _records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(line, record)"""
        number = 0
        for piece in whole_lines(self.name, read_blocks(self._file)):
            for line in piece.split(b"\n"):
                number += 1
                if line.strip():
                    try:
                        record = parse_json(line)
                    except ValueError:
                        record = None
                    if not isinstance(record, dict):
                        self._wrong(number, "is no JSON object", line)
                    yield number, record
            number -= piece.endswith(b"\n")

    def _values(self) -> Iterable[Any]:
        for number, record in self._records():
            value = record.get(str(self._column))
            if not isinstance(value, str | list | None):
                self._wrong(number, f"has {type(value).__name__} in {self._column!r}, where text or a list belongs")
            yield value

    def _wrong(self, number: int, what: str, line: bytes = b"") -> NoReturn:
        shown = f": {line[:60].decode('utf-8', 'replace')!r}" if line else ""
        raise DataError(f"{self.name}, line {number:,} {what}{shown}.")


class _Unpacked(io.RawIOBase):
    """Blocks of bytes as a file."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._left = blocks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._left = self._left or next(self._blocks, b"")
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size
