"""Edges whose ids are whole numbers, read some at a time: from text, Parquet and Arrow. Letter: M edges of a piece."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from any2vec.data.graph.edge_list import NO_EDGES, EdgeReader, first_lines, guess_form, text_blocks
from any2vec.data.graph.edge_objects import checked_weights
from any2vec.data.graph.edge_tables import choose_columns
from any2vec.data.io.files import display, form_of, whole_lines
from any2vec.data.options import GraphOptions, ProgressCall
from any2vec.errors import DataError
from any2vec.machine import usable_cores

Piece = tuple[np.ndarray, np.ndarray, np.ndarray]
"""(src, dst int64 (M,), weights float32 (M,) or (0,))"""
_BATCH_ROWS = 1 << 20
_MOST_THREADS = 4
"""that read lines; more would wait for one another's Python"""


class ReadWholeError(Exception):
    """An id is no whole number, or so: the file has to be read whole."""


def read_pieces(name: str, options: GraphOptions, progress: ProgressCall | None) -> Iterator[Piece]:
    """The edges of a file.

    Raises:
        ReadWholeError: an id is none. DataError: as of `read_graph`.
    """
    form = form_of(name)
    return _of_table(name, form, options) if form in ("parquet", "arrow") else _of_text(name, options, progress)


def _of_text(name: str, options: GraphOptions, progress: ProgressCall | None) -> Iterator[Piece]:
    """In the order of the file; threads read some blocks ahead."""
    threads = min(usable_cores(), _MOST_THREADS)
    waiting: deque[Future[Piece]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="any2vec-edges") as pool:
        for reader in _readers(name, options, progress):
            waiting.append(pool.submit(_piece, reader))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _piece(reader: EdgeReader) -> Piece:
    ids = reader.integers()
    if ids is None:
        raise ReadWholeError
    return ids[::2], ids[1::2], np.concatenate(reader.weights) if reader.weights else np.empty(0, np.float32)


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


def _of_table(name: str, form: str, options: GraphOptions) -> Iterator[Piece]:
    from any2vec.data.io.arrow import TableReader, pa

    table = TableReader(name, form)
    chosen = choose_columns(table.schema, table.name, options)
    if not all(pa.types.is_integer(table.schema.field(column).type) for column in chosen[:2]):
        raise ReadWholeError
    for batch in table.batches(chosen, _BATCH_ROWS):
        if any(column.null_count for column in batch.values()):
            raise ReadWholeError  # which is said where the whole file is read
        columns: list[Any] = [batch[column].to_numpy(zero_copy_only=False) for column in chosen]
        weights = checked_weights(columns[2], len(columns[0]), table.name, options) if len(chosen) == 3 else None
        yield (
            columns[0].astype(np.int64), columns[1].astype(np.int64),
            np.empty(0, np.float32) if weights is None else weights,
        )  # fmt: skip
