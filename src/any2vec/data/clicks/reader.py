"""Files of clicks as blocks of columns: TSV, CSV and JSON Lines (plain, gz, zst, xz), Parquet, Arrow and Feather.

A block is some MiB of text, or some ten thousand rows of a table: memory O(block), whatever the file's length.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from any2vec.checks import did_you_mean
from any2vec.data.clicks.schema import ClickSchema
from any2vec.data.io.files import (
    TABLES,
    check_no_objects,
    content_hash,
    display,
    expand_inputs,
    is_regular,
    is_table,
    prefetch,
    read_blocks,
    table_form,
    whole_lines,
)
from any2vec.data.options import DELIMITERS
from any2vec.data.text.encoding import Meter
from any2vec.errors import DataError

BLOCK_BYTES = 1 << 22
BLOCK_ROWS = 1 << 15


@dataclass(frozen=True)
class RawRows:
    """Some rows of one file, column by column, as they stand there."""

    name: str
    """the file, for messages"""
    columns: dict[str, Any]
    """pyarrow arrays of `num_rows` values; text as large_binary"""
    num_rows: int
    first: int
    """rows of the file before these; lines, where it is text"""
    text: bytes | None = None
    """the lines that the rows were read from"""

    def where(self, row: int) -> str:
        """File and line (of text) or row (of a table), counted from 1, of one of these rows."""
        if self.text is None:
            return f"{self.name}, row {self.first + row + 1:,}"
        return f"{self.name}, line {self.first + _line_of(self.text, row) + 1:,}"

    def packed(self) -> memoryview:
        """All values, as bytes to be hashed."""
        from any2vec.data.io.arrow import pa

        batch = pa.RecordBatch.from_pydict(self.columns)
        # Without its schema it has the same bytes for dates and for the integers behind them.
        dates = [f"{field.name}: {field.type}" for field in batch.schema if pa.types.is_temporal(field.type)]
        whole = memoryview(batch.serialize())
        return memoryview(b"".join(("\n".join(dates).encode(), whole))) if dates else whole


def read_rows(
    data: Any,
    schema: ClickSchema,
    *,
    needs_label: bool = True,
    meter: Meter | None = None,
    block_bytes: int = BLOCK_BYTES,
    block_rows: int = BLOCK_ROWS,
) -> Iterator[RawRows]:
    """The needed columns of files, one after the other, or of a table; the label too, unless it may be absent and is.

    data: what `expand_inputs` takes, or a table in memory (pandas, Polars, Arrow).
    meter: counts and hashes what is read. block_bytes: of unpacked text; block_rows: of a table.

    Raises:
        DataError: a file is missing, empty, damaged, lacks a column, a line has too few or many, or there are no rows.
    """
    meter = meter or Meter(None, None)
    sources = [data] if is_table(data) else expand_inputs(data)
    num_rows = done = 0
    for source in sources:
        form = None if is_table(source) else table_form(source)
        if form == "array":
            raise DataError(f"{source} is a NumPy file; clicks are read from TSV, CSV, JSON Lines, Parquet or Arrow.")
        if meter.digest is not None and form is not None:  # a stream among the files: each with its form and bounds
            meter.digest.update(f"\0{form}\0{'' if form == 'text' else content_hash(source)}\0".encode())
        if form == "text":
            rows = _TextFile(source, schema, needs_label).rows(meter, block_bytes)
        else:
            rows = _table_rows(source, form, schema, needs_label, block_rows)
        with closing(rows):  # type: ignore[type-var]
            for block in rows:
                if meter.digest is not None and form is None:
                    meter.read(block.packed())
                num_rows += block.num_rows
                yield block
                meter.report()
        if form in TABLES:
            meter.done = done + Path(source).stat().st_size
        done = meter.done
        meter.report()
    if num_rows == 0:
        raise DataError(f"{', '.join(map(display, sources[:3]))} holds no rows; give a file with at least one.")


def _table_rows(
    source: Any, form: str | None, schema: ClickSchema, needs_label: bool, block_rows: int
) -> Iterator[RawRows]:
    from any2vec.data.io.arrow import TableReader

    table = TableReader(source, form)
    wanted = _wanted(source, table.names, schema, needs_label)
    first = 0
    for columns in table.batches(wanted, block_rows):
        num_rows = len(columns[wanted[0]])
        yield RawRows(table.name, columns, num_rows, first)
        first += num_rows


def _wanted(source: Any, found: list[str], schema: ClickSchema, needs_label: bool) -> list[str]:
    """The columns to be read, each of which is there once."""
    wanted = [*schema.needed, *([schema.label] if needs_label or schema.label in found else [])]
    for column in wanted:
        if column not in found:
            raise DataError(
                f"{display(source)} has no column {column!r}; {did_you_mean(column, found)} "
                f"{_other_delimiter(found) or 'Name them as the schema does, or the other way round.'}"
            )
        if found.count(column) > 1:
            raise DataError(f"{display(source)} has two columns named {column!r}; rename one.")
    return wanted


def _other_delimiter(found: list[str]) -> str:
    """What to write in the schema where the only column of a file holds what looks like another delimiter."""
    names = [name for name in ("semicolon", "pipe", "tab") if DELIMITERS[name] in found[0]] if len(found) == 1 else []
    return f'Its columns seem to have another delimiter: write delimiter = "{names[0]}" in the schema.' if names else ""


# ---- text -----------------------------------------------------------------------------------------------------------


class _TextFile:
    """One file of delimited lines; its form is settled by its first line."""

    def __init__(self, name: str, schema: ClickSchema, needs_label: bool) -> None:
        self.name, self.schema, self.needs_label = name, schema, needs_label
        self.delimiter = ","
        self.num_columns = 0
        self.positions: dict[str, int] = {}

    def rows(self, meter: Meter, block_bytes: int) -> Iterator[RawRows]:
        blocks = read_blocks(self.name, block_bytes=block_bytes, on_read=meter.read)
        is_small = is_regular(self.name) and Path(self.name).stat().st_size < block_bytes
        lines = 0
        with closing(blocks if is_small else prefetch(blocks)) as blocks:  # type: ignore[type-var]
            for piece in whole_lines(display(self.name), blocks):
                if piece.strip(b"\r\n"):
                    _check_text(display(self.name), piece, lines)
                    skipped = 0 if self.positions else self._settle(piece)
                    text = piece[skipped:] if skipped else piece
                    lines += piece.count(b"\n", 0, skipped)
                    if text.strip(b"\r\n"):
                        yield self._parse(text, lines)
                    lines += text.count(b"\n")
                else:
                    lines += piece.count(b"\n")

    def _settle(self, piece: bytes) -> int:
        """Delimiter and columns by the first line that is not blank; returns the bytes of what is no data."""
        begin = len(piece) - len(piece.lstrip(b"\r\n"))
        end = piece.find(b"\n", begin) + 1 or len(piece)
        check_no_objects(piece[begin:end], self.name)
        line = piece[begin:end].decode("utf-8", "replace").rstrip("\r\n")
        named = self.schema.delimiter
        self.delimiter = DELIMITERS.get(named, named) if named else "\t" if "\t" in line else ","
        is_quoted = self.delimiter != "\t"
        cells = next(csv.reader([line], delimiter=self.delimiter)) if is_quoted else line.split("\t")
        self.num_columns = len(cells)
        names = [cell.strip() for cell in cells]
        is_header = self.schema.header
        if is_header is None:
            is_header = not self.schema.column_names or bool({*self.schema.needed, self.schema.label} & {*names})
        if not is_header:
            names = self._names(len(cells))
        wanted = _wanted(self.name, names, self.schema, self.needs_label)
        self.positions = {column: names.index(column) for column in wanted}
        return end if is_header else 0

    def _names(self, found: int) -> list[str]:
        """The schema's names of a file without a header; the label's column may be missing in rows to be scored."""
        names = list(self.schema.column_names)
        if found == len(names) - 1 and not self.needs_label:
            names.remove(self.schema.label)
        if found != len(names):
            columns = "column" if found == 1 else "columns"
            raise DataError(
                f"{display(self.name)} has {found} {columns} in its first line, but the schema names {len(names)}; "
                "name each column of the file in column_names, or check the delimiter."
            )
        return names

    def _parse(self, text: bytes, lines: int) -> RawRows:
        from any2vec.data.io.arrow import FieldCountError, arrow_errors, pa, split_lines

        name, chosen = display(self.name), list(self.positions.values())
        quotes = self.delimiter != "\t"
        try:
            with arrow_errors(f"{name} cannot be read from line {lines + 1:,} on"):
                found = split_lines(text, self.delimiter, self.num_columns, chosen, pa.large_binary(), quotes=quotes)
        except FieldCountError as wrong:
            where = RawRows(name, {}, 0, lines, text).where(wrong.row)
            raise DataError(
                f"{where}: {wrong.num_fields} columns, but the first line has {self.num_columns}; give every "
                "line the same (a value may hold no line end)."
            ) from wrong
        rows = RawRows(name, dict(zip(self.positions, found, strict=True)), len(found[0]), lines, text)
        if quotes and b'"' in text:
            self._check_quotes(rows, text)
        return rows

    def _check_quotes(self, rows: RawRows, text: bytes) -> None:
        """A quoted value with a line end would be cut where a block ends: refused everywhere."""
        is_each_a_row = rows.num_rows == text.count(b"\n") + (text[-1:] != b"\n")
        if not is_each_a_row and rows.num_rows != sum(1 for line in text.split(b"\n") if line.strip(b"\r")):
            raise DataError(f"{rows.name} holds a quoted value with a line end in it; write each row on one line.")
        if text.count(b'"') % 2:
            last = text.rstrip(b"\r\n").rpartition(b"\n")[2].decode("utf-8", "replace")
            try:
                next(csv.reader([last], delimiter=self.delimiter, strict=True))
            except csv.Error as error:
                if "end of data" in str(error):
                    where = rows.where(rows.num_rows - 1)
                    raise DataError(f"{where}: a quoted value does not end; close the quotes.") from None


def _check_text(name: str, piece: bytes, lines: int) -> None:
    """DataError where a piece, which has so many lines before it, is not UTF-8: its values would be no text."""
    try:
        piece.isascii() or piece.decode()
    except UnicodeDecodeError as error:
        line = lines + piece.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{name}, line {line:,}: the byte 0x{piece[error.start]:02x} is not UTF-8, {error.reason}; convert the "
            "file to UTF-8."
        ) from error


def _line_of(text: bytes, row: int) -> int:
    """The line, from 0, of a row: blank lines are no rows."""
    rows = -1
    for line, content in enumerate(text.split(b"\n")):
        rows += bool(content.strip(b"\r"))
        if rows == row:
            return line
    return 0
