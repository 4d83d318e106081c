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
from any2vec.data.io.files import check_no_objects, display, whole_lines, without_comments
from any2vec.data.notes import columns_notes
from any2vec.data.options import (
    DELIMITERS,
    ProgressCall,
    TripleOptions,
    chosen_columns,
    columns_there,
    usual_columns,
)
from any2vec.errors import DataError, InputError

COMMENT = "#"
RELATIONS = {"relation", "predicate", "rel", "r", "p", "edge_type", "relation_id"}
HEADS = {"head", "subject", "src", "source", "h", "s", "from", "entity1", "head_id"}
TAILS = {"tail", "object", "dst", "target", "t", "o", "to", "entity2", "tail_id"}
_WITH_QUOTES = ",;"
"""delimiters of text whose fields may stand in double quotes"""
_SHOWN = 60
_PIECE = 1 << 24
"""bytes of text that are read at a time"""
_SPACE = r"\s+"
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
    notes: Sequence[str] = ()
    """on how they were read, for the user"""


def read_triple_text(
    name: str, options: TripleOptions, progress: ProgressCall | None, is_of_training: bool = False,
    is_by_header: bool = True,
) -> Iterator[TripleColumns]:  # fmt: skip
    """The columns of a file, plain or gz, zst, xz, a piece of its lines at a time. Memory O(piece).

    Args:
        is_by_header: a header says which column is which; else it is left out.
        is_of_training: options are those of other data, whose delimiter and columns hold where the first line has them.

    Raises:
        DataError: the file is missing, empty, cut, binary, or a line is no triple: which one; a column is missing.
        InputError: columns are to be named by a header, and there is none.
    """
    read: Callable[[_Piece], TripleColumns] | None = None
    found = comments = 0
    marks = COMMENT if options.comment is None else options.comment
    for piece in _pieces(name, marks, progress):
        comments += piece.comments
        if read is None:
            if not (said := first_lines(np.frombuffer(piece.text, np.uint8), "")):
                continue
            read, places, has_header, notes = _reader(said, options, name, is_of_training, is_by_header)
        columns = read(piece)
        if has_header and not piece.rows:
            columns = columns._replace(columns=[column.slice(1) for column in columns.columns])
        check_full(columns.columns, name, piece.rows or int(has_header), [1 + place for place in places])
        piece.read += len(columns.columns[0]) + has_header * (not piece.rows)
        found += len(columns.columns[0])
        yield columns._replace(comments=comments, notes=notes)
        comments = 0
    if not found:
        of = " of entities" if read is _statements else ""
        raise DataError(f"{display(name)} holds no triples{of}; give at least one.")


def _reader(
    said: list[bytes], options: TripleOptions, name: str, is_of_training: bool, is_by_header: bool
) -> tuple[Callable[[_Piece], TripleColumns], list[int], bool, list[str]]:
    """What reads pieces of a text that begins with these lines, the places of its columns, whether it has a header, and
    notes."""
    check_no_objects(said[0], name)
    first = said[0].decode("utf-8", "replace").strip("\r")
    if first.lstrip()[:1] == "<" or first.lstrip()[:2] == "_:":
        if options.use_columns is not None and not is_of_training:
            raise InputError(
                f"use_columns names columns by the header, and {display(name)} is N-Triples; leave it out."
            )
        return _statements, [0, 1, 2], False, []
    mark = DELIMITERS.get(options.delimiter or "", options.delimiter)
    if mark is None or (is_of_training and mark not in first):
        mark = _index_mark(first, options) or guess_delimiter(said[:1])
    fields, *others = (_fields(line.decode("utf-8", "replace").strip("\r"), mark) for line in said)
    if len(fields) < 2:
        raise DataError(
            f"{display(name)} has one column in its first line ({_shown(first)}); a triple has three: head, relation "
            "and tail, split by tab, comma, semicolon or space."
        )
    names = _names(fields)
    asked = _asked(names, options, display(name), is_of_training)
    named = asked or _named_places(names)
    has_header = bool(asked) or (_is_header(fields, others, named) if options.header is None else options.header)
    is_named = bool(named) and has_header and is_by_header
    if is_named and (twice := next((names[place] for place in named if names.count(names[place]) > 1), None)):
        raise DataError(f"{display(name)} has two columns named {twice!r} in its header; rename one.")
    has_index = has_header and not names[0] and len(names) > 3  # of pandas
    places = named if is_named else [*range(len(fields))][has_index:][:3]
    said_names = names if has_header and is_by_header else [str(place + 1) for place in range(len(names))]
    notes = triple_notes(said_names, [said_names[place] for place in places], options.use_columns)
    if mark == " ":
        num_columns = len(fields if is_named else places)
        return partial(_spaced, num_columns=num_columns, places=places), places, has_header, notes
    return partial(_separated, mark=mark, num_columns=len(fields), places=places), places, has_header, notes


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


def _index_mark(first: str, options: TripleOptions) -> str:
    """The delimiter that a table of pandas begins with, whose index has no name (`,head,relation,tail`); else ""."""
    names = _names(first.split(first[:1])) if first[:1] in ("\t", *_WITH_QUOTES) else []
    return first[:1] if named_columns(names) or (names and columns_there(options.use_columns, names)) else ""


def _asked(names: list[str], options: TripleOptions, where: str, is_of_training: bool) -> list[int]:
    """Places of the columns that options name; none where they name none, or those of training are not all there."""
    asked = options.use_columns
    if is_of_training:
        asked = columns_there(asked, names) if options.header is not False else None
    elif asked is not None and options.header is False:
        raise InputError(f"use_columns names columns by the header, and {where} is read without; leave one out.")
    elif asked is not None and asked.count(",") < 2:
        raise InputError(f"use_columns of text is head,relation,tail, got {asked!r} for {where}; name all three.")
    return [names.index(one) for one in chosen_columns(asked, names, where)]


def named_columns(names: list[str]) -> list[str]:
    """The columns of heads, relations and tails, or of heads and tails alone, by their usual names; else none."""
    usual = usual_columns(names, HEADS, RELATIONS, TAILS)
    is_named = all(usual) or (usual[0] and usual[2] and len(list(filter(None, names))) == 2)
    return list(filter(None, usual)) if is_named else []


def triple_notes(names: list[str], chosen: list[str], use_columns: str | None) -> list[str]:
    """As `columns_notes`, of heads, relations and tails, or of heads and tails alone."""
    words = {"head": HEADS, "relation": RELATIONS, "tail": TAILS}
    if len(chosen) == 2:
        del words["relation"]
    return columns_notes(names, chosen, words, use_columns)


def _named_places(names: list[str]) -> list[int]:
    """Places of the columns that a line names; of the relation, too, where it has another name among the first three.

    None where it does not name the ends.
    """
    if named := named_columns(names):
        return [names.index(one) for one in named]
    head, tail = usual_columns(names[:3], HEADS, TAILS)
    if len(names) < 3 or not (head and tail):
        return []
    if head == names[0] and usual_columns(names[2:3], TAILS)[0]:
        return [0, 1, 2]
    return [names.index(head), 3 - names.index(head) - names.index(tail), names.index(tail)]


def _is_header(fields: list[str], others: list[list[str]], places: list[int]) -> bool:
    """Whether the first line, which may name the columns at these places, does. others: fields of lines behind it."""
    if not places or (places[0] != 0 and not named_columns(_names(fields))):
        return False
    rows = [[fields[place].strip() for place in places] for fields in others if len(fields) > max(places)]
    head, *between, tail = (fields[place].strip() for place in places)
    comes_again = any({head, tail} & {row[0], row[-1]} for row in rows)  # then they are names of entities
    relations = [name for name in between if name.lower() in RELATIONS]
    return not comes_again and not any(row[1] in relations for row in rows)


def _names(fields: list[str]) -> list[str]:
    return [field.strip().strip('"') for field in fields]


def _separated(piece: _Piece, mark: str, num_columns: int, places: list[int]) -> TripleColumns:
    """Columns of TSV, CSV and their kin."""
    from any2vec.data.io.arrow import FieldCountError, arrow_errors, check_utf8, pa, pc, split_lines

    check_utf8(piece.text, piece.name)
    quotes = mark in _WITH_QUOTES
    try:
        with arrow_errors(f"{display(piece.name)} cannot be read from line {piece.lines + 1:,} on"):
            columns = split_lines(piece.text, mark, num_columns, places, pa.large_string(), quotes=quotes)
    except FieldCountError as wrong:
        number = piece.lines + wrong.line(piece.text) + 1
        raise DataError(
            f"{display(piece.name)}: line {number} has {wrong.num_fields} columns, not {num_columns}: "
            f"{_shown(wrong.text)}."
        ) from wrong
    if quotes:  # such text often has a space behind the mark
        columns = [pc.utf8_trim(column, characters=" ") for column in columns]
    return TripleColumns(columns, ignored_columns=num_columns - len(places))


def _spaced(piece: _Piece, num_columns: int, places: list[int]) -> TripleColumns:
    """Columns split by any run of spaces and tabs."""
    fields = (rf"(?P<at_{place}>\S+)" if place in places else r"\S+" for place in range(num_columns))
    wanted = f"{ {2: 'two', 3: 'three'}.get(num_columns, num_columns) } columns"
    columns = _matched(piece, rf"^\s*{_SPACE.join(fields)}\s*$", wanted)
    columns = [columns[sorted(places).index(place)] for place in places]
    return TripleColumns(columns, ignored_columns=num_columns - len(places))


def _statements(piece: _Piece) -> TripleColumns:
    """N-Triples: terms without their angle brackets; literals are no entities."""
    from any2vec.data.io.arrow import pc

    columns = _matched(piece, _STATEMENT, "a statement of N-Triples: <head> <relation> <tail> .")
    is_entity = pc.invert(pc.starts_with(columns[2], '"'))
    literals = len(columns[0]) - (pc.sum(is_entity).as_py() or 0)
    columns = [pc.utf8_trim(column.filter(is_entity), characters="<>") for column in columns]
    return TripleColumns(columns, literals=literals)


def _matched(piece: _Piece, pattern: str, wanted: str) -> list[Any]:
    """The groups of a pattern, in its order, of every line that says something."""
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
