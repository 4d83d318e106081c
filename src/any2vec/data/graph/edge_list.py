"""Edge lists: bytes become two id columns and a weight column, a chunk of lines at a time."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.graph.given_edges import GivenEdges
from any2vec.data.io.files import BLOCK_BYTES, check_no_objects, display, is_regular, read_blocks
from any2vec.data.notes import columns_notes, first_line_notes
from any2vec.data.options import DELIMITERS, GraphOptions, ProgressCall, chosen_columns, usual_columns
from any2vec.data.vocab.found_texts import integer_rows, string_rows
from any2vec.errors import DataError, InputError

NO_EDGES = "{} holds no edges; give at least one line with two ids."
_CHUNK_LINES = 1 << 16
_SAMPLE_LINES = 64
_SAMPLE_BYTES = 1 << 18
_SHOWN_BYTES = 40
_POWERS = 10.0 ** np.arange(23)
_DECIMAL_COMMA = re.compile(rb"(?:[^,;]+;[^,;]+; *|-?\d+ +-?\d+ +)[-+]?\d+,\d+(?:[; ]|$)")
"""a line whose third column is a number with a decimal comma, behind two split by semicolons, or integers by spaces"""
WORDS_OF_SRC = {
    "src", "source", "from", "fromnodeid", "node1", "node_1", "id1", "id_1", "head", "head_id", "src_id", "source_id",
    "from_id",
}  # fmt: skip
WORDS_OF_DST = {
    "dst", "target", "to", "tonodeid", "node2", "node_2", "id2", "id_2", "tail", "tail_id", "destination", "dst_id",
    "target_id", "to_id",
}  # fmt: skip
WORDS_OF_WEIGHT = ({"weight"}, {"weights"}, {"w"})
"""names of columns, in small letters"""
_MOST_NAMES = 1000
"""columns of a header that are looked at"""
_MARK_UP = re.compile(
    rb'<(?:\?xml|graphml|gexf)\b|((?:(?:Creator|comment) +"[^"]*" *|Version +\S+ *)*graph +\[)', re.IGNORECASE
)
"""how GraphML and GEXF begin, or (group 1) GML"""
_LIKE_A_NUMBER = re.compile(rb"[-+.\d]")


def text_blocks(name: str, progress: ProgressCall | None, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The unpacked bytes of `name` in blocks.

    Raises:
        DataError: it cannot be read, is empty, or holds NUL bytes.
    """
    total = Path(name).stat().st_size if is_regular(name) else None
    done = size = 0

    def read(chunk: bytes) -> None:
        nonlocal done
        done += len(chunk)
        if progress is not None:
            progress(done, total)

    for block in read_blocks(name, on_read=read, block_bytes=block_bytes):
        if (place := block.find(b"\0")) >= 0:
            raise DataError(
                f"{display(name)} holds a NUL byte (byte {size + place}), so it is binary; give a list of edges or "
                "triples as text, or a table (Parquet, Arrow, Matrix Market) with its usual suffix."
            )
        yield block
        size += len(block)


def read_text(name: str, progress: ProgressCall | None) -> np.ndarray:
    """The unpacked bytes of `name`, uint8, without a byte-order mark.

    Raises:
        DataError: it cannot be read, is empty, or holds NUL bytes.
    """
    content = bytearray()
    for block in text_blocks(name, progress):
        content += block
    return np.frombuffer(content, np.uint8)[3 if content.startswith(codecs.BOM_UTF8) else 0 :]


@dataclass
class EdgeForm:
    """How the lines of one file are to be read."""

    delimiter: int
    is_comment: np.ndarray
    start: int
    """byte where the edges begin: behind a header"""
    num_columns: int
    has_weights: bool
    header: str = ""
    """the line that was taken as one"""
    places: tuple[int, ...] = (0, 1, 2)
    """columns of sources, targets and, if any, weights; from 0"""
    notes: Sequence[str] = ()
    """on how it is read, for the user"""


def read_edge_list(text: np.ndarray, name: str, options: GraphOptions) -> GivenEdges:
    """The edges of an edge list's bytes, uint8 (B,).

    Raises:
        DataError: a line is not an edge; the message has file and line.
    """
    form = guess_form(text, display(name), options)
    reader = EdgeReader(text, display(name), form)
    columns = reader.read(as_integers=True) or reader.read(as_integers=False)
    assert columns is not None
    src, dst, keys = columns
    weights = np.concatenate(reader.weights) if form.has_weights else None
    ignored = form.num_columns - (3 if form.has_weights else 2)
    return GivenEdges(src, dst, weights, keys, options.directed, display(name), ignored, form.header, form.notes)


class EdgeReader:
    """Reads the data lines of a text; `weights` holds float32 arrays, one behind the other, after a read.

    lines_before: of the file, where the text is a later part of it.
    """

    def __init__(self, text: np.ndarray, name: str, form: EdgeForm, lines_before: int = 0) -> None:
        self.text, self.name, self.form, self.lines_before = text, name, form, lines_before
        self.weights: list[np.ndarray] = []

    def read(self, as_integers: bool) -> tuple[np.ndarray, np.ndarray, Any] | None:
        """(src rows, dst rows, keys); None when ids were to be integers and one is not."""
        if as_integers:
            ids = self.integers()
            return None if ids is None else _split(*integer_rows(ids))
        parts = [self._strings(begins, ends, lines) for begins, ends, lines in self._chunks()]
        return _split(*string_rows(parts))

    def integers(self) -> np.ndarray | None:
        """src, dst, src, dst, ...: int64 (2 * num_edges,); None when one is no integer."""
        from any2vec.kernels.graph.edges import parse_integers

        parts = []
        for begins, ends, _ in self._chunks():
            values = np.empty(len(begins), np.int64)
            if parse_integers(self.text, begins, ends, values) >= 0:
                return None
            parts.append(values)
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _chunks(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """(begins, ends) int64 (2 * lines,) of the ids, and the lines' first bytes; collects the weights on the way."""
        from any2vec.kernels.graph.edges import find_fields

        self.weights = []
        has_edges = False
        form = self.form
        src_dst, width = list(form.places[:2]), 1 + max(2, *form.places)
        num_lines = 3 * _CHUNK_LINES // width
        begins, ends = np.empty((num_lines, width), np.int64), np.empty((num_lines, width), np.int64)
        counts, lines = np.empty(num_lines, np.int64), np.empty(num_lines, np.int64)
        at = form.start
        while at < len(self.text):
            found, at = find_fields(self.text, at, form.delimiter, form.is_comment, begins, ends, counts, lines)
            if found == 0:
                continue
            self._check_columns(counts[:found], lines)
            has_edges = True
            if form.has_weights:
                weight = form.places[2]
                self.weights.append(self._floats(begins[:found, weight], ends[:found, weight], lines))
            yield begins[:found, src_dst].ravel(), ends[:found, src_dst].ravel(), lines
        if not has_edges and not self.lines_before:
            raise DataError(NO_EDGES.format(self.name))

    def _where(self, byte: int) -> str:
        """File and line of a byte."""
        return f"{self.name}, line {1 + self.lines_before + int(np.count_nonzero(self.text[:byte] == 10))}"

    def _shown(self, begin: int, end: int) -> str:
        return repr(self.text[begin : min(end, begin + _SHOWN_BYTES)].tobytes().decode("utf-8", "replace"))

    def _check_columns(self, counts: np.ndarray, lines: np.ndarray) -> None:
        wrong = counts != self.form.num_columns
        if not wrong.any():
            return
        first = int(np.argmax(wrong))
        where, count = self._where(int(lines[first])), int(counts[first])
        if count == 1:
            raise DataError(
                f"{where}: one column where an edge needs two ids; put both on the line, or name the delimiter."
            )
        line = self.text[int(lines[first]) :][:_SAMPLE_BYTES].tobytes().partition(b"\n")[0].rstrip(b" \r")
        if self.form.delimiter and count == self.form.num_columns - 1 and line.endswith(bytes([self.form.delimiter])):
            what = "weight" if self.form.has_weights and self.form.places[2] == count else "last column"
            raise DataError(f"{where}: the {what} is empty; fill it in, or drop the edge.")
        raise DataError(
            f"{where}: {count} columns, but the first edge has {self.form.num_columns}; give every line the same."
        )

    def _strings(self, begins: np.ndarray, ends: np.ndarray, lines: np.ndarray) -> Any:
        from any2vec.data.io.arrow import pa, packed
        from any2vec.kernels.graph.edges import copy_fields

        lengths = ends - begins
        if (lengths <= 0).any():
            line = lines[int(np.argmax(lengths <= 0)) // 2]
            raise DataError(f"{self._where(int(line))}: an empty id; every edge needs two.")
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        arena = np.empty(int(offsets[-1]), np.uint8)
        copy_fields(self.text, begins, ends, offsets, arena)
        if (arena == 13).any():
            field = int(np.searchsorted(offsets, np.argmax(arena == 13), side="right")) - 1
            raise DataError(
                f"{self._where(int(lines[field // 2]))}: the id {self._shown(int(begins[field]), int(ends[field]))} "
                "has a carriage return in it; end lines by line feeds, which may follow them."
            )
        strings = packed(offsets, arena)
        try:
            strings.validate(full=True)
        except pa.ArrowInvalid:
            for field, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
                try:
                    self.text[begin:end].tobytes().decode("utf-8")
                except UnicodeDecodeError:
                    line = lines[field // 2]
                    raise DataError(
                        f"{self._where(int(line))}: the id {self._shown(begin, end)} is not UTF-8; convert the file to "
                        "UTF-8."
                    ) from None
            raise
        return strings

    def _floats(self, begins: np.ndarray, ends: np.ndarray, lines: np.ndarray) -> np.ndarray:
        from any2vec.kernels.graph.edges import PARSED, parse_floats

        values, status = np.empty(len(begins)), np.empty(len(begins), np.uint8)
        parse_floats(self.text, begins, ends, _POWERS, values, status)
        for field in np.flatnonzero(status != PARSED).tolist():
            values[field] = self._float(int(begins[field]), int(ends[field]), int(lines[field]))
        with np.errstate(over="ignore", under="ignore"):
            narrow = values.astype(np.float32)
        wrong = ~(np.isfinite(narrow) & (narrow > 0))
        if wrong.any():
            field = int(np.argmax(wrong))
            raise DataError(
                f"{self._where(int(lines[field]))}: the weight {self._shown(int(begins[field]), int(ends[field]))} is "
                "not a finite number above 0 (in float32); drop the edge or give it another weight, or pass "
                "--no-weighted (weighted=False)."
            )
        return narrow

    def _float(self, begin: int, end: int, line: int) -> float:
        spelled = self.text[begin:end].tobytes()
        try:
            if b"_" in spelled:
                raise ValueError
            return float(spelled)
        except ValueError:
            raise DataError(
                f"{self._where(line)}: the weight {self._shown(begin, end)} is not a number; pass --no-weighted "
                "(weighted=False) to leave the third column out."
            ) from None


def _split(rows: np.ndarray, keys: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    return rows[::2], rows[1::2], keys


def guess_form(text: np.ndarray, name: str, options: GraphOptions) -> EdgeForm:
    """Delimiter, header and columns, from the first lines."""
    from any2vec.kernels.graph.edges import find_fields

    is_comment = np.zeros(256, np.uint8)
    is_comment[list(options.comment.encode())] = 1
    sample = [line.strip() for line in first_lines(text, options.comment)]
    if not sample:
        raise DataError(NO_EDGES.format(name))
    check_no_objects(sample[0], name)
    _check_no_mark_up(sample, name)
    if any(b"\r" in line for line in sample):
        raise DataError(
            f"{name} has carriage returns within its lines; end lines by line feeds, which may follow them."
        )
    mark = DELIMITERS.get(options.delimiter, options.delimiter) if options.delimiter else _guess_mark(sample)
    delimiter = 0 if mark == " " else ord(mark)
    width = min(_MOST_NAMES, 3 + sum(map(sample[0].count, (b" ", b"\t") if mark == " " else (mark.encode(),))))
    begins, ends = np.empty((len(sample), width), np.int64), np.empty((len(sample), width), np.int64)
    counts, lines = np.empty(len(sample), np.int64), np.empty(len(sample), np.int64)
    found, _ = find_fields(text, 0, delimiter, is_comment, begins, ends, counts, lines)
    rows = [
        [text[begins[line, field] : ends[line, field]].tobytes() for field in range(min(width, int(counts[line])))]
        for line in range(found)
    ]
    if not rows:
        raise DataError(NO_EDGES.format(name))
    places = _named_places(rows, name, options)
    has_header = places is not None or (_guess_header(rows) if options.header is None else options.header)
    places = places or (0, 1, 2)
    if has_header and found < 2:
        raise DataError(f"{name} holds a header but no edges; give at least one.")
    first = 1 if has_header else 0
    columns = int(counts[first])
    has_weights = len(places) > 2 and columns > places[2] and options.weighted is not False
    where = f"{name}, line {1 + int(np.count_nonzero(text[: int(lines[first])] == 10))}"
    if columns <= max(places[:2]) and columns > 1:
        raise DataError(f"{where}: {columns} columns, and the header names more; give every line the same.")
    if options.weighted and not has_weights and columns > 1:
        lacking = "no third column for the weight" if places == (0, 1, 2) else "no column named weight"
        raise DataError(f"{where}: {lacking}; add one or pass --no-weighted (weighted=False).")
    header = sample[0].decode("utf-8", "replace")[:80] if has_header else ""
    names = _names(rows[0]) if has_header else [str(place + 1) for place in range(columns)]
    notes = edge_notes(names, [names[place] for place in places if place < len(names)], has_weights, options)
    if not has_header and options.header is None:
        notes += first_line_notes([_names(row[:2]) for row in rows], name)
    return EdgeForm(delimiter, is_comment, int(lines[first]), max(2, columns), has_weights, header, places, notes)


def _check_no_mark_up(sample: list[bytes], name: str) -> None:
    """DataError where the first lines are those of GraphML, GEXF or GML."""
    head = b" ".join(sample)
    found = _MARK_UP.match(head)
    if found is None:
        return
    kind = "GML" if found[1] else "GEXF" if b"<gexf" in head else "GraphML" if b"<graphml" in head else "XML"
    reader = "" if kind == "XML" else f" (networkx.read_{kind.lower()})"
    raise DataError(f"{name} is {kind} and no list of edges; read it with NetworkX{reader}, and give the graph.")


def first_lines(text: np.ndarray, comment: str) -> list[bytes]:
    """The first lines that are neither blank nor comments, which begin with a character of `comment`."""
    size = _SAMPLE_BYTES
    while True:
        lines = text[:size].tobytes().split(b"\n")
        if size < len(text):
            lines.pop()
        sample = [line for line in lines if line.strip() and line.strip()[0] not in comment.encode()]
        if len(sample) >= 2 or size >= len(text):
            return sample[:_SAMPLE_LINES]
        size *= 16


def guess_delimiter(sample: list[bytes]) -> str:
    """Tab, comma or semicolon where every line has one, in the first between two ids; else white space.

    No comma where it is every line's decimal mark, as in `1;2;0,5` and `1 2 0,5`.
    """
    marks = (b"\t", b";") if all(map(_DECIMAL_COMMA.match, sample)) else (b"\t", b",", b";")
    for mark in marks:
        if all(part.strip() for part in [*sample[0].split(mark), b""][:2]) and all(mark in line for line in sample):
            return mark.decode()
    return " "


def _guess_mark(sample: list[bytes]) -> str:
    """As `guess_delimiter`; a table of pandas, whose index has no name, begins with it: `,source,target`."""
    for mark in (b",", b";"):
        named = sample[0].startswith(mark) and all(mark in line for line in sample)
        if named and all(usual_columns(_names(sample[0].split(mark)), WORDS_OF_SRC, WORDS_OF_DST)):
            return mark.decode()
    return guess_delimiter(sample)


def ends_and_weight(names: list[str], where: str, options: GraphOptions) -> tuple[list[str], str]:
    """(names of the columns of sources and targets, that of weights): those that are chosen, else by usual names.

    None of the ends where they bear no such names, and "" without weights.

    Raises:
        DataError: one that is chosen is not there.
    """
    chosen, usual = chosen_columns(options.use_columns, names, where), usual_columns(names, WORDS_OF_SRC, WORDS_OF_DST)
    ends = chosen[:2] or (usual if all(usual) else [])
    left = [name for name in names if name not in ends]
    weights = [name for name in chosen[2:] if name in left] or usual_columns(left, *WORDS_OF_WEIGHT)
    return ends, next(filter(None, weights), "")


def edge_notes(names: list[str], chosen: list[str], has_weights: bool, options: GraphOptions) -> list[str]:
    """As `columns_notes`. chosen: a third one has weights, which are left out on request where they are not read.

    Nothing of two columns without a direction, of which either may be first.
    """
    if len(names) <= 2 and not options.directed:
        return []
    words = {"src": WORDS_OF_SRC, "dst": WORDS_OF_DST, "weight": set().union(*WORDS_OF_WEIGHT)}
    left_out = [] if has_weights else chosen[2:]
    names = [name for name in names if name not in left_out]
    return columns_notes(names, [name for name in chosen if name not in left_out], words, options.use_columns)


def _named_places(rows: list[list[bytes]], name: str, options: GraphOptions) -> tuple[int, ...] | None:
    """Columns of sources, targets and, if any, weights, by the names in the first line; None: it does not name them.

    Unless a header is asked for, a name that comes again is that of a node.
    """
    if options.header is False:
        if options.use_columns is not None:
            raise InputError(f"use_columns names columns by the header, and {name} is read without; leave one out.")
        return None
    names = _names(rows[0])
    ends, weight = ends_and_weight(names, name, options)
    chosen = [one for one in (*ends, weight) if one]
    if not ends:
        return None
    if twice := next((one for one in chosen if names.count(one) > 1), None):
        raise DataError(f"{name} has two columns named {twice!r} in its header; rename one.")
    places = tuple(names.index(one) for one in chosen)
    if options.header is None and options.use_columns is None:
        known = {rows[0][place] for place in places[:2]}
        if any(row[place] in known for row in rows[1:] for place in places[:2] if place < len(row)):
            return None
    return (0, 1, 2) if places == (0, 1) and options.use_columns is None else places


def _names(fields: list[bytes]) -> list[str]:
    return [field.strip(b'" ').decode("utf-8", "replace") for field in fields]


def _guess_header(rows: list[list[bytes]]) -> bool:
    if len(rows) < 2 or len(rows[0]) < 2:
        return False
    first, second = rows[0], rows[1:]
    if not any(map(is_number, first[:2])) and all(all(map(is_number, row[:2])) for row in second):
        return True
    return (
        len(first) > 2
        and not any(map(is_number, first[:3]))
        and not _LIKE_A_NUMBER.match(first[2])  # as `1,5` is
        and all(len(row) > 2 and is_number(row[2]) for row in second)
    )


def is_number(field: bytes | str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
