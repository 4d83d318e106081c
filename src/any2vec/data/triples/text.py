"""Triples as text, TSV, CSV, or N-Triples, become three columns of strings.

Lines may end in CR LF. Blank lines are skipped, and lines of comments, wherever they stand.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from any2vec.data.graph.edge_list import first_lines, guess_delimiter, text_blocks
from any2vec.data.io.files import display, whole_lines, without_comments
from any2vec.data.options import DELIMITERS, ProgressCall, TripleOptions
from any2vec.errors import DataError

COMMENT = "#"
RELATIONS = {"relation", "predicate", "rel", "r", "p", "edge_type", "relation_id"}
HEADS = {"head", "subject", "src", "source", "h", "s", "from", "entity1", "head_id"}
TAILS = {"tail", "object", "dst", "target", "t", "o", "to", "entity2", "tail_id"}
_WITH_QUOTES = ",;"
"""delimiters of text whose fields may stand in double quotes"""
_SHOWN = 60
_PIECE = 1 << 24
"""bytes of text that are read at a time"""
_TERM = r"<[^>]*>|_:[^\s<>]+"
_LITERAL = r'"(?:[^"\\]|\\.)*"(?:@[A-Za-z0-9-]+|\^\^<[^>]*>)?'
_STATEMENT = rf"^\s*(?P<head>{_TERM})\s+(?P<relation><[^>]*>)\s+(?P<tail>{_TERM}|{_LITERAL})\s*\.\s*(?:#.*)?$"


class TripleColumns(NamedTuple):
    """Arrow arrays of large strings, of one length, without nulls or empty strings."""

    columns: list[Any]
    """head, relation, tail; head and tail where the file has two columns"""
    ignored_columns: int = 0
    literals: int = 0
    """statements of N-Triples whose object is no entity, left out"""
    comments: int = 0
    """lines of comments, left out"""
    are_integers: tuple[bool, bool] = (False, False)
    """whether entities, and relations, were integers in the source"""


def read_triple_text(
    name: str, options: TripleOptions, progress: ProgressCall | None, is_of_training: bool = False,
    is_by_header: bool = True,
) -> Iterator[TripleColumns]:  # fmt: skip
    """The columns of a file, plain or gz, zst, xz, a piece of its lines at a time. Memory O(piece).

    Args:
        is_by_header: a header says which column is which; else it is left out.
        is_of_training: options are those of other data, whose delimiter holds where the first line has it.

    Raises:
        DataError: the file is missing, empty, cut, binary, or a line is no triple: which one.
    """
    read: Callable[[_Piece], TripleColumns] | None = None
    found = comments = 0
    marks = COMMENT if options.comment is None else options.comment
    for piece in _pieces(name, marks, progress):
        comments += piece.comments
        if read is None:
            if not (said := first_lines(np.frombuffer(piece.text, np.uint8), "")):
                continue
            read, header = _reader(said, options, name, is_of_training)
            has_header, order = bool(header), _order(header if is_by_header else [])
        columns = read(piece)
        if has_header and not piece.rows:
            columns = columns._replace(columns=[column.slice(1) for column in columns.columns])
        check_full(columns.columns, name, piece.rows or int(has_header))
        piece.read += len(columns.columns[0]) + has_header * (not piece.rows)
        found += len(columns.columns[0])
        if len(columns.columns) == 3:
            columns = columns._replace(columns=[columns.columns[place] for place in order])
        yield columns._replace(comments=comments)
        comments = 0
    if not found:
        of = " of entities" if read is _statements else ""
        raise DataError(f"{display(name)} holds no triples{of}; give at least one.")


def _reader(
    said: list[bytes], options: TripleOptions, name: str, is_of_training: bool
) -> tuple[Callable[[_Piece], TripleColumns], list[str]]:
    """What reads pieces of a text that begins with these lines, and the fields of its header, none without one."""
    first = said[0].decode("utf-8", "replace").strip("\r")
    if first.lstrip()[:1] == "<" or first.lstrip()[:2] == "_:":
        return _statements, []
    mark = DELIMITERS.get(options.delimiter or "", options.delimiter)
    if mark is None or (is_of_training and mark not in first):
        mark = guess_delimiter(said[:1])
    fields, *others = (_fields(line.decode("utf-8", "replace").strip("\r"), mark) for line in said)
    if len(fields) < 2:
        raise DataError(
            f"{display(name)} has one column in its first line ({_shown(first)}); a triple has three: head, relation "
            "and tail, split by tab, comma, semicolon or space."
        )
    has_header = _is_header(fields, others) if options.header is None else options.header
    header = fields if has_header else []
    if mark == " ":
        return partial(_spaced, are_edges=len(fields) == 2), header
    return partial(_separated, mark=mark, num_columns=len(fields)), header


def _fields(line: str, mark: str) -> list[str]:
    if mark == " ":
        return line.split()
    try:
        return next(csv.reader([line], delimiter=mark)) if mark in _WITH_QUOTES and line else line.split(mark)
    except csv.Error:  # a carriage return, or a field beyond its limit
        return line.split(mark)


@dataclass
class _Piece:
    """Whole lines of a file."""

    text: bytes
    """those of comments are blank"""
    name: str
    lines: int
    """before it"""
    rows: int
    """before it, a header among them"""
    comments: int
    read: int = 0
    """rows of its own"""


def _pieces(name: str, marks: str, progress: ProgressCall | None) -> Iterator[_Piece]:
    lines = rows = 0
    for whole in whole_lines(display(name), text_blocks(name, progress, _PIECE)):
        text, comments = without_comments(whole, marks)
        piece = _Piece(text, name, lines, rows, comments)
        yield piece
        lines, rows = lines + text.count(b"\n"), rows + piece.read


def _is_header(fields: list[str], others: list[list[str]]) -> bool:
    """Whether the first line names columns. others: fields of lines behind it."""
    named = _named(fields)
    if named[0] not in HEADS or not (named[min(2, len(named) - 1)] in TAILS or named[1] in TAILS):
        return False
    order = _order(fields) if len(named) > 2 else [0, 1]
    rows = [[fields[place].strip() for place in order] for fields in others if len(fields) > max(order)]
    head, *between, tail = (fields[place].strip() for place in order)
    comes_again = any({head, tail} & {row[0], row[-1]} for row in rows)  # then they are names of entities
    relations = [name for name in between if name.lower() in RELATIONS]
    return not comes_again and not any(row[1] in relations for row in rows)


def _named(fields: list[str]) -> list[str]:
    return [field.strip().strip('"').lower() for field in fields]


def _order(header: list[str]) -> list[int]:
    """Places of head, relation and tail among three columns: by the header, else in this order."""
    named = _named(header[:3])
    if len(named) < 3 or (named[0] in HEADS and named[2] in TAILS):
        return [0, 1, 2]
    head, tail = (next((place for place in range(3) if named[place] in words), None) for words in (HEADS, TAILS))
    return [0, 1, 2] if head is None or tail is None else [head, 3 - head - tail, tail]


def _separated(piece: _Piece, mark: str, num_columns: int) -> TripleColumns:
    """Columns of TSV, CSV and their kin."""
    from any2vec.data.io.arrow import FieldCountError, arrow_errors, check_utf8, pa, pc, split_lines

    check_utf8(piece.text, piece.name)
    chosen, quotes = list(range(min(3, num_columns))), mark in _WITH_QUOTES
    try:
        with arrow_errors(f"{display(piece.name)} cannot be read from line {piece.lines + 1:,} on"):
            columns = split_lines(piece.text, mark, num_columns, chosen, pa.large_string(), quotes=quotes)
    except FieldCountError as wrong:
        number = piece.lines + wrong.line(piece.text) + 1
        raise DataError(
            f"{display(piece.name)}: line {number} has {wrong.num_fields} columns, not {num_columns}: "
            f"{_shown(wrong.text)}."
        ) from wrong
    if quotes:  # such text often has a space behind the mark
        columns = [pc.utf8_trim(column, characters=" ") for column in columns]
    return TripleColumns(columns, ignored_columns=max(0, num_columns - 3))


def _spaced(piece: _Piece, are_edges: bool) -> TripleColumns:
    """Columns split by any run of spaces and tabs."""
    relation, wanted = ("", "two columns") if are_edges else (r"\s+(?P<relation>\S+)", "three columns")
    return TripleColumns(_matched(piece, rf"^\s*(?P<head>\S+){relation}\s+(?P<tail>\S+)\s*$", wanted))


def _statements(piece: _Piece) -> TripleColumns:
    """N-Triples: terms without their angle brackets; literals are no entities."""
    from any2vec.data.io.arrow import pc

    columns = _matched(piece, _STATEMENT, "a statement of N-Triples: <head> <relation> <tail> .")
    is_entity = pc.invert(pc.starts_with(columns[2], '"'))
    literals = len(columns[0]) - (pc.sum(is_entity).as_py() or 0)
    columns = [pc.utf8_trim(column.filter(is_entity), characters="<>") for column in columns]
    return TripleColumns(columns, literals=literals)


def _matched(piece: _Piece, pattern: str, wanted: str) -> list[Any]:
    """The groups of a pattern, head, relation and tail or two of them, of every line that says something."""
    from any2vec.data.io.arrow import check_utf8, pa, packed, pc

    check_utf8(piece.text, piece.name)
    text, name = np.frombuffer(piece.text, np.uint8), display(piece.name)
    ends = np.flatnonzero(text == 10) + 1
    offsets = np.concatenate([[0], ends, [len(text)] if not len(ends) or ends[-1] != len(text) else []]).astype(
        np.int64
    )
    lines = pc.utf8_trim_whitespace(packed(offsets, text))
    says = pc.greater(pc.utf8_length(lines), 0)
    found = pc.extract_regex(lines.filter(says), pattern)
    if found.null_count:
        place = int(np.flatnonzero(says.to_numpy(zero_copy_only=False))[np.argmax(found.is_null().to_numpy(False))])
        number = piece.lines + place + 1
        raise DataError(f"{name}: line {number} is not {wanted}: {_shown(lines[place].as_py())}.")
    return [column.cast(pa.large_string()) for column in found.flatten()]


def check_full(columns: list[Any], name: str, before: int, labels: Sequence[Any] = (1, 2, 3)) -> None:
    """Raise DataError for an empty name; before: rows of the file before these, labels: what columns are called."""
    from any2vec.data.io.arrow import pc

    for label, column in zip(labels, columns, strict=False):
        is_empty = pc.equal(pc.utf8_length(column), 0).to_numpy(zero_copy_only=False)
        if is_empty.any():
            place = before + int(np.argmax(is_empty)) + 1
            raise DataError(f"{display(name)}: row {place} has nothing in column {label}; a triple has three names.")


def _shown(line: str) -> str:
    line = line.rstrip("\r\n")
    return repr(line if len(line) <= _SHOWN else line[:_SHOWN] + "…")
