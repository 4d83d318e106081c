"""Edges whose ids are whole numbers, read some at a time: from text, Parquet and Arrow. Letter: M edges of a piece."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from any2vec.data.graph.edge_list import NO_EDGES, EdgeReader, first_lines, guess_form, text_blocks
from any2vec.data.graph.edge_objects import checked_weights
from any2vec.data.graph.edge_tables import choose_columns
from any2vec.data.io.ahead import made_ahead
from any2vec.data.io.files import display, form_of, whole_lines
from any2vec.data.options import GraphOptions, ProgressCall
from any2vec.errors import DataError
from any2vec.machine import usable_cores

Piece = tuple[np.ndarray, np.ndarray, np.ndarray]
"""(src, dst int64 (M,), weights float32 (M,) or (0,))"""
_BATCH_ROWS = 1 << 20
_MOST_THREADS = 4
"""that read lines; more would wait for one another's Python"""
_SHORTEST, _DIGITS = 4, slice(ord("0"), ord("9") + 1)
"""bytes of a line of two numbers at least; characters"""
_NO_WEIGHTS = np.empty(0, np.float32)


class ReadWholeError(Exception):
    """An id is no whole number, or so: the file has to be read whole."""


def read_pieces(name: str, options: GraphOptions, progress: ProgressCall | None) -> Generator[Piece, None, None]:
    """The edges of a file.

    Raises:
        ReadWholeError: an id is none. DataError: as of `read_graph`.
    """
    form = form_of(name)
    return _of_table(name, form, options) if form in ("parquet", "arrow") else _of_text(name, options, progress)


def _of_text(name: str, options: GraphOptions, progress: ProgressCall | None) -> Generator[Piece, None, None]:
    """In the order of the file; threads read some blocks ahead."""
    return made_ahead(_piece, _readers(name, options, progress), min(usable_cores(), _MOST_THREADS), "edges")


def _piece(reader: EdgeReader) -> Piece:
    if (simple := _simple(reader)) is not None:
        return simple
    ids = reader.integers()
    if ids is None:
        raise ReadWholeError
    return ids[::2], ids[1::2], np.concatenate(reader.weights) if reader.weights else _NO_WEIGHTS


def _simple(reader: EdgeReader) -> Piece | None:
    """The edges where all lines are two plain numbers; None: they may be otherwise."""
    from any2vec.kernels.edge_files.id_pairs import parse_pairs

    text, form = reader.text, reader.form
    if form.has_weights or form.num_columns != 2 or form.places[:2] != (0, 1) or form.is_comment[_DIGITS].any():
        return None
    id_2L = np.empty((2, (len(text) - form.start) // _SHORTEST), np.int64)
    found, stop = parse_pairs(text, form.start, form.delimiter, id_2L)
    return (id_2L[0, :found], id_2L[1, :found], _NO_WEIGHTS) if stop == len(text) and found else None


def _readers(name: str, options: GraphOptions, progress: ProgressCall | None) -> Iterator[EdgeReader]:
    """Of each block of whole lines."""
    form, line = None, 0
    for block in whole_lines(display(name), text_blocks(name, progress)):
        text = np.frombuffer(block, np.uint8)
        lines = block.count(b"\n")
        if form is None:
            text = text[len(BOM_UTF8) if not line and block.startswith(BOM_UTF8) else 0 :]
            if not first_lines(text, options.comment):  # comments alone
                line += lines
                continue
            form = guess_form(text, display(name), options)
        elif form.start:
            form = replace(form, start=0)
        yield EdgeReader(text, display(name), form, line)
        line += lines
    if form is None:
        raise DataError(NO_EDGES.format(display(name)))


def _of_table(name: str, form: str, options: GraphOptions) -> Generator[Piece, None, None]:
    from any2vec.data.io.arrow import TableReader, pa

    table = TableReader(name, form)
    chosen = choose_columns(table.schema, table.name, options)
    if not all(pa.types.is_integer(table.schema.field(column).type) for column in chosen[:2]):
        raise ReadWholeError
    for batch in table.batches(chosen, _BATCH_ROWS):
        if any(column.null_count for column in batch.values()):
            raise ReadWholeError  # which is said where the whole file is read
        columns: list[Any] = [batch[column].to_numpy(zero_copy_only=False) for column in chosen]
        if any(ids.dtype == np.uint64 and len(ids) and int(ids.max()) >> 63 for ids in columns[:2]):
            raise ReadWholeError
        weights = checked_weights(columns[2], len(columns[0]), table.name, options) if len(chosen) == 3 else None
        yield (
            columns[0].astype(np.int64, copy=False), columns[1].astype(np.int64, copy=False),
            _NO_WEIGHTS if weights is None else weights,
        )  # fmt: skip
