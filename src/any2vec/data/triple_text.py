"""Triples as text, TSV, CSV, or N-Triples, become three columns of strings.

Lines may end in CR LF. Blank lines and lines that begin with # are skipped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from any2vec.data.edge_list import first_lines, guess_delimiter, read_text
from any2vec.data.edges import DELIMITERS, ProgressCall
from any2vec.data.files import display
from any2vec.errors import DataError

COMMENT = "#"
_HEADS = {"head", "subject", "src", "source", "h", "s", "from", "entity1", "head_id"}
_TAILS = {"tail", "object", "dst", "target", "t", "o", "to", "entity2", "tail_id"}
_SHOWN = 60
_BLOCK = 1 << 24
_TERM = r"<[^>]*>|_:[^\s<>]+"
_LITERAL = r'"(?:[^"\\]|\\.)*"(?:@[A-Za-z0-9-]+|\^\^<[^>]*>)?'
_STATEMENT = rf"^\s*(?P<head>{_TERM})\s+(?P<relation><[^>]*>)\s+(?P<tail>{_TERM}|{_LITERAL})\s*\.\s*(?:#.*)?$"


class TripleColumns(NamedTuple):
    """Arrow arrays of large strings, of one length, without nulls or empty strings."""

    columns: list[Any]
    """head, relation, tail; head and tail where the file has two columns"""
    ignored_columns: int
    literals: int
    """statements of N-Triples whose object is no entity, left out"""


def read_triple_text(
    name: str, delimiter: str | None, header: bool | None, progress: ProgressCall | None
) -> TripleColumns:
    """The columns of a file, plain or gz, zst, xz.

    Args:
        delimiter: one of DELIMITERS, or one character; None: guess.
        header: whether the first line names the columns; None: guess.

    Raises:
        DataError: the file is missing, empty, cut, binary, or a line is no triple: which one.
    """
    text = read_text(name, progress)
    said = first_lines(text, COMMENT)
    if not said:
        raise DataError(f"{display(name)} holds no triples; give at least one.")
    first = said[0].decode("utf-8", "replace").strip("\r")
    if first.lstrip()[:1] == "<" or first.lstrip()[:2] == "_:":
        return _statements(text, name)
    mark = guess_delimiter(said[:1]) if delimiter is None else DELIMITERS.get(delimiter, delimiter)
    fields = first.split() if mark == " " else first.split(mark)
    if len(fields) < 2:
        raise DataError(
            f"{display(name)} has one column in its first line ({_shown(first)}); a triple has three: head, relation "
            "and tail, split by tab, comma, semicolon or space."
        )
    has_header = _is_header(fields) if header is None else header
    columns = _spaced(text, name) if mark == " " else _separated(text, name, mark, len(fields))
    if has_header:
        columns = [column.slice(1) for column in columns]
    if not len(columns[0]):
        raise DataError(f"{display(name)} holds no triples; give at least one.")
    _check_full(columns, name, has_header)
    return TripleColumns(columns, max(0, len(fields) - 3), 0)


def _is_header(fields: list[str]) -> bool:
    named = [field.strip().strip('"').lower() for field in fields]
    return named[0] in _HEADS and (named[min(2, len(named) - 1)] in _TAILS or named[1] in _TAILS)


def _separated(text: np.ndarray, name: str, mark: str, num_columns: int) -> list[Any]:
    """Columns of TSV, CSV and their kin, as pyarrow reads them."""
    import pyarrow as pa
    from pyarrow import csv

    bad: list[str] = []

    def wrong(row: Any) -> str:
        if row.text.lstrip().startswith(COMMENT):
            return "skip"
        where = f"line {row.number}" if row.number is not None else "a line"
        bad.append(f"{where} has {row.actual_columns} columns, not {num_columns}: {_shown(row.text)}")
        return "error"

    names = [str(number) for number in range(num_columns)]
    kinds = dict.fromkeys(names, pa.large_string())
    quote = '"' if mark in ",;" else False
    try:
        table = csv.read_csv(
            pa.BufferReader(pa.py_buffer(text)),
            csv.ReadOptions(use_threads=False, block_size=_BLOCK, column_names=names),
            csv.ParseOptions(delimiter=mark, quote_char=quote, invalid_row_handler=wrong),
            csv.ConvertOptions(include_columns=names[:3], column_types=kinds, strings_can_be_null=False),
        )
    except pa.ArrowInvalid as error:
        reason = bad[0] if bad else str(error).split("\n")[0][:200]
        raise DataError(f"{display(name)}: {reason}.") from error
    return [table.column(column).combine_chunks() for column in table.column_names]


def _spaced(text: np.ndarray, name: str) -> list[Any]:
    """Columns split by any run of spaces and tabs."""
    return _matched(text, name, r"^\s*(?P<head>\S+)\s+(?P<relation>\S+)\s+(?P<tail>\S+)\s*$", "three columns")


def _statements(text: np.ndarray, name: str) -> TripleColumns:
    """N-Triples: terms without their angle brackets; literals are no entities."""
    import pyarrow.compute as pc

    columns = _matched(text, name, _STATEMENT, "a statement of N-Triples: <head> <relation> <tail> .")
    is_entity = pc.invert(pc.starts_with(columns[2], '"'))
    literals = len(columns[0]) - pc.sum(is_entity).as_py()
    columns = [pc.utf8_trim(column.filter(is_entity), characters="<>") for column in columns]
    if not len(columns[0]):
        raise DataError(f"{display(name)} holds no triples of entities; give at least one.")
    _check_full(columns, name, False)
    return TripleColumns(columns, 0, literals)


def _matched(text: np.ndarray, name: str, pattern: str, wanted: str) -> list[Any]:
    """The groups head, relation and tail of every line that says something."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = np.flatnonzero(text == 10) + 1
    offsets = np.concatenate([[0], ends, [len(text)] if not len(ends) or ends[-1] != len(text) else []]).astype(
        np.int64
    )
    lines = pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(text))
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid as error:
        raise DataError(f"{display(name)} is no UTF-8 text; convert it, or give another file.") from error
    lines = pc.utf8_trim_whitespace(lines)
    says = pc.and_(pc.greater(pc.utf8_length(lines), 0), pc.invert(pc.starts_with(lines, COMMENT)))
    found = pc.extract_regex(lines.filter(says), pattern)
    if found.null_count:
        place = int(np.flatnonzero(says.to_numpy(zero_copy_only=False))[np.argmax(found.is_null().to_numpy(False))])
        raise DataError(f"{display(name)}: line {place + 1} is not {wanted}: {_shown(lines[place].as_py())}.")
    return [found.field(number).cast(pa.large_string()) for number in range(3)]


def _check_full(columns: list[Any], name: str, has_header: bool) -> None:
    import pyarrow.compute as pc

    for number, column in enumerate(columns):
        is_empty = pc.equal(pc.utf8_length(column), 0).to_numpy(zero_copy_only=False)
        if is_empty.any():
            place = int(np.argmax(is_empty)) + 1 + has_header
            raise DataError(
                f"{display(name)}: row {place} has nothing in column {number + 1}; a triple has three names."
            )


def _shown(line: str) -> str:
    line = line.rstrip("\r\n")
    return repr(line if len(line) <= _SHOWN else line[:_SHOWN] + "…")
