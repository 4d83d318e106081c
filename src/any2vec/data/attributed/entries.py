"""Entries of an adjacency, in any order, become compressed sparse rows on disk in bounded memory.

They are written down as sorted runs, as long as fit into memory; then stretches of adjacent rows are taken out of all
runs and sorted by themselves. Letters: N nodes, M entries of a piece.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from any2vec.data.io.ahead import made_ahead
from any2vec.data.io.array_file import ArrayFile, map_array
from any2vec.kernels.edge_files.radix import sort_keys
from any2vec.machine import usable_cores

Edges = Iterable[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]
"""pieces (src, dst int32 rows, weights float32 or (0,), types int32 or (0,))"""
RowsOf = Callable[[np.ndarray], np.ndarray]
"""int32 (M,) of ends"""
_PIECE = 1 << 21
_BUCKET = 1 << 20
"""entries of a run and, about, of a stretch, some 40 bytes of memory each; a single row may be longer. Arrays of more
would be new pages of memory each time, which cost more than what is done with them"""
_FEW_RUNS, _MOST_DOUBLINGS = 64, 2
"""runs become twice as long after so many, for stretches are looked for in each of them"""
_MARKS = 1 << 10
"""of a run, by which stretches are cut: one of R runs is longer by R / 2^10 at most"""
_COLUMNS = 1 << 23
"""entries of adjacent columns, for which `transposed` looks through all"""
_MOST_THREADS = 4
_BITS = 32


class Stretch(NamedTuple):
    """Entries of adjacent rows (R of them), columns ascending in a row."""

    rows: np.ndarray
    """int32 (R,), ascending: those that have entries"""
    counts: np.ndarray
    """int64 (R,): of their entries"""
    columns: np.ndarray
    """int32 (M,)"""
    weights: np.ndarray
    """float32 (M,), added up in float64; or (0,)"""
    types: np.ndarray
    """int32 (M,), or (0,)"""
    numbers: np.ndarray
    """int64: of edges, equal entries' beside each other; or (0,)"""
    first: np.ndarray
    """int64 (M,): where those of each entry begin; or (0,)"""


class EntrySorter:
    """Collects edges, an undirected one as an entry each way; `sorted` gives entries back in order, equal ones as one.

    Args:
        folder: a new one, for what is in between: 8 to 24 bytes an entry.
        is_numbered: entries know the numbers of their edges, from 0 as they come.
    """

    def __init__(self, folder: Path, is_directed: bool, is_numbered: bool = False, bucket: int = 0) -> None:
        folder.mkdir()
        self.is_directed, self.num_edges = is_directed, 0
        self._folder, self._is_numbered, self._bucket = folder, is_numbered, bucket or _BUCKET
        self._waiting: list[tuple[np.ndarray, ...]] = []
        self._num_waiting = 0
        self._runs: list[tuple[np.ndarray, ...]] = []
        self._marks: list[np.ndarray] = []
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="any2vec-runs")
        self._writing: Future[None] | None = None

    def close(self) -> None:
        """Remove what is in between; closing again does nothing."""
        self._writer.shutdown()
        self._runs.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    def extend(self, edges: Edges) -> None:
        """Add all of them."""
        for piece in edges:
            self.add(*piece)

    def add(self, src_M: np.ndarray, dst_M: np.ndarray, weight_M: np.ndarray, type_M: np.ndarray) -> None:
        """Edges by ends in [0, 2^31), integers; float32 weights and int32 types, or (0,): of all pieces alike."""
        first, self.num_edges = self.num_edges, self.num_edges + len(src_M)
        number_M = np.arange(first, self.num_edges if self._is_numbered else first)
        parts = weight_M, type_M, number_M
        for start in range(0, len(src_M), self._bucket):
            piece = slice(start, start + self._bucket)
            src, dst, beside = src_M[piece], dst_M[piece], [part[piece] for part in parts]
            self._put(dst, src, beside)
            if not self.is_directed:
                other = src != dst
                self._put(src[other], dst[other], [part[other] if len(part) else part for part in beside])

    def sorted(self, rows_of: RowsOf | None = None) -> Iterator[Stretch]:
        """All entries, in order.

        rows_of: int32 (M,) of the ends as they were added, ascending as they are; None: these are rows.
        """
        self._write_run()
        if self._writing is not None:
            self._writing.result()

        def stretch(ends: tuple[int, int]) -> Stretch:
            found: list[list[np.ndarray]] = [[], [], [], []]
            for run in self._runs:
                start, stop = np.searchsorted(run[0], ends)
                for parts, part in zip(found, run, strict=True):
                    parts.append(part[start:stop])
            key_M, *rest = _merged(*map(np.concatenate, found))
            row_M, column_M = (key_M >> _BITS).astype(np.int32), key_M.astype(np.int32)
            start_R = np.flatnonzero(is_first(row_M))
            row_R, count_R = row_M[start_R], np.diff(start_R, append=len(row_M))
            if rows_of is not None:
                row_R, column_M = rows_of(row_R), rows_of(column_M)
            return Stretch(row_R, count_R, column_M, *rest)

        yield from made_ahead(stretch, pairwise(self._cuts()), min(usable_cores(), _MOST_THREADS), "entries")

    def _put(self, row_M: np.ndarray, column_M: np.ndarray, parts: list[np.ndarray]) -> None:
        key_M = row_M.astype(np.int64) << _BITS
        key_M |= column_M
        self._waiting.append((key_M, *parts))
        self._num_waiting += len(key_M)
        if self._num_waiting >= self._bucket << min(len(self._runs) // _FEW_RUNS, _MOST_DOUBLINGS):
            self._write_run()

    def _write_run(self) -> None:
        """Of what waits, by a thread, when it is done with the one before."""
        if self._writing is not None:
            self._writing.result()
        self._writing = self._writer.submit(self._sort_run, self._waiting) if self._waiting else None
        self._waiting, self._num_waiting = [], 0

    def _sort_run(self, pieces: list[tuple[np.ndarray, ...]]) -> None:
        columns = list(map(list, zip(*pieces, strict=True)))
        pieces.clear()
        key_M, *parts = (np.concatenate(columns.pop(0)) for _ in range(len(columns)))  # which lets go of each behind it
        if any(map(len, parts)):
            order = np.argsort(key_M, kind="stable")
            key_M, *parts = (part[order] if len(part) else part for part in (key_M, *parts))
        else:
            sort_keys(key_M, np.empty_like(key_M), _BITS)
        self._marks.append(key_M[:: max(1, self._bucket // _MARKS)] >> _BITS)
        self._runs.append(tuple(self._stored(place, part) for place, part in enumerate((key_M, *parts))))

    def _stored(self, place: int, part: np.ndarray) -> np.ndarray:
        """It, mapped."""
        if not len(part):
            return part
        file = ArrayFile(self._folder / f"run{len(self._runs)}.{place}", part.dtype.type)
        try:
            file.append(part)
        finally:
            file.close()
        return map_array(file.path, part.dtype.type, part.shape)

    def _cuts(self) -> list[int]:
        """Keys at which stretches of whole rows begin, and one beyond all."""
        some = np.sort(np.concatenate(self._marks))
        row_C = np.unique(some[:: min(_MARKS, self._bucket)])[1:]
        return [0, *(row_C << _BITS).tolist(), np.iinfo(np.int64).max]


def _merged(
    key_M: np.ndarray, weight_M: np.ndarray, type_M: np.ndarray, number_M: np.ndarray
) -> tuple[np.ndarray, ...]:
    """(keys, weights, types, numbers, where those of each entry begin) of different ones, ascending."""
    if not len(weight_M) and not len(type_M) and not len(number_M):
        sort_keys(key_M, np.empty_like(key_M), 0)
        return key_M[is_first(key_M)], weight_M, type_M, number_M, number_M
    order = np.lexsort((type_M, key_M)) if len(type_M) else np.argsort(key_M, kind="stable")
    key_M, type_M = key_M[order], type_M[order] if len(type_M) else type_M
    first = np.flatnonzero(is_first(key_M) if not len(type_M) else is_first(key_M) | is_first(type_M))
    if len(weight_M):
        weight_M = np.add.reduceat(weight_M[order].astype(np.float64), first).astype(np.float32)
    type_M = type_M[first] if len(type_M) else type_M
    numbers = (number_M[order], first) if len(number_M) else (number_M, number_M)
    return key_M[first], weight_M, type_M, *numbers


def is_first(value_M: np.ndarray) -> np.ndarray:
    """bool (M,): whether each is another than the one before."""
    return np.concatenate([np.ones(min(1, len(value_M)), bool), value_M[1:] != value_M[:-1]])


def transposed(indptr: np.ndarray, indices: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The entries of an adjacency by column: pieces (column int32, row int32, place in `indices` int64), in order.

    Each bucket of columns is looked for in all of `indices`, which may be mapped.
    """
    num_nodes = len(indptr) - 1
    count_N = np.zeros(num_nodes, np.int64)
    for start in range(0, len(indices), _PIECE):
        np.add.at(count_N, indices[start : start + _PIECE], 1)
    total = np.cumsum(count_N)
    inner = np.searchsorted(total, np.arange(_COLUMNS, len(indices), _COLUMNS)) + 1
    edges = np.unique(np.concatenate([[0], inner, [num_nodes]])).tolist()
    for low, high in pairwise(edges):
        pieces = ((start, indices[start : start + _PIECE]) for start in range(0, len(indices), _PIECE))
        place_M = np.concatenate([np.flatnonzero((one >= low) & (one < high)) + start for start, one in pieces])
        place_M = place_M[np.argsort(indices[place_M], kind="stable")]
        yield indices[place_M], (np.searchsorted(indptr, place_M, side="right") - 1).astype(np.int32), place_M
