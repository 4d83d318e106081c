"""Edges of a file whose nodes are whole numbers, some at a time, on their way into a graph folder. Letter: M ids."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.attributed.edges import Piece, ReadWholeError, read_pieces
from any2vec.data.attributed.entries import EntrySorter, is_first
from any2vec.data.graph.graph import MAX_NODES
from any2vec.data.io.files import display
from any2vec.data.options import GraphOptions
from any2vec.errors import DataError
from any2vec.tasks.graphs.edges import NO_TYPES, EdgeSource
from any2vec.tasks.graphs.nodes import Nodes
from any2vec.types import Stage, as_reading

_FEW = 1 << 21
_SMALL = 1 << 28
"""numbers below are marked in a table, of a byte each"""


def edges_in_pieces(
    name: str, options: GraphOptions, known: Nodes | None, is_numbered: bool, folder: Path, stage: Stage | None
) -> EdgeSource:  # fmt: skip
    """The edges of a file, read once; two times more where ids are negative, or 2^28 and more.

    folder: a new one, for what is in between. is_numbered: as of `EntrySorter`. known: as of `typed_edges`.

    Raises:
        ReadWholeError: an id is no whole number, or edges with weights have no direction.
        DataError: as of `read_graph`.
    """

    def pieces() -> Generator[Piece, None, None]:
        with closing(read_pieces(name, options, as_reading(stage))) as given:
            for piece in given:
                if len(piece[2]) and not options.directed:
                    raise ReadWholeError
                yield piece

    if known is None:
        with ExitStack() as stack:
            entries = stack.enter_context(closing(EntrySorter(folder, options.directed, is_numbered)))
            found = stack.enter_context(closing(pieces()))
            if (ids := _marked(found, entries)) is not None:
                source = EdgeSource(_nodes(ids, name), entries, options.directed, display(name))
                stack.pop_all()  # they are needed
                return source
        with closing(pieces()) as found:
            known = _nodes(_distinct_ids(found), name)
    return EdgeSource(known, _by_row(pieces(), known, display(name)), options.directed, display(name))


def _by_row(pieces: Iterator[Piece], nodes: Nodes, name: str) -> Iterator[Any]:
    for src, dst, weights in pieces:
        yield nodes.rows_of_ids(src, name), nodes.rows_of_ids(dst, name), weights, NO_TYPES


def _nodes(ids: np.ndarray, name: str) -> Nodes:
    """ids: int64 (N,), ascending."""
    if not len(ids):
        raise ReadWholeError  # which is said where the whole file is read
    if len(ids) > MAX_NODES:
        raise DataError(f"{name} has {len(ids):,} nodes; {MAX_NODES:,} is the most.")
    return Nodes.of_ids(ids)


def _marked(pieces: Iterator[Piece], entries: EntrySorter) -> np.ndarray | None:
    """int64, ascending: the different ids, while entries get the edges; None where one is not small."""
    is_there = np.zeros(_SMALL, bool)  # pages that nothing is marked in take no memory
    for src, dst, weights in pieces:
        for ids in (src, dst):
            if len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= _SMALL):
                return None
            is_there[ids] = True
        entries.add(src, dst, weights, NO_TYPES)
    return np.flatnonzero(is_there)


def _distinct_ids(pieces: Iterator[Piece]) -> np.ndarray:
    """int64, ascending: the different ids; they are merged whenever as many are new as are known, so that it stays
    cheap."""
    known, new = np.empty(0, np.int64), [np.empty(0, np.int64)]
    for ids in chain.from_iterable(piece[:2] for piece in pieces):
        new.append(_distinct([ids]))
        if sum(map(len, new)) > max(len(known), _FEW):
            known, new = _distinct([known, *new]), []
    return _distinct([known, *new])


def _distinct(parts: list[np.ndarray]) -> np.ndarray:
    """Ascending. As `np.unique`, which hashes integers, several times slower than it sorts them."""
    values = np.concatenate(parts)
    values.sort()
    return values[is_first(values)]
