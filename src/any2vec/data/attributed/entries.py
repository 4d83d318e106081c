"""Entries of an adjacency, in any order, become compressed sparse rows on disk in bounded memory.

They are first written down as they come, then dealt out to buckets of adjacent rows that fit into memory, and each
bucket is sorted by itself. Letters: N nodes, M entries of a piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.io.array_file import ArrayFile

_PIECE = 1 << 21
_NO_NUMBERS = np.empty(0, np.int64)
_BUCKET = 1 << 23
"""entries of a bucket, about, some 40 bytes of memory each; a single row may be longer"""


class EntrySorter:
    """Collects (row, column) pairs with weights, types and numbers; `sorted` gives them back in order, equal ones as
    one.

    Args:
        folder: an empty one, for what is in between: 8 to 24 bytes an entry, twice.
    """

    def __init__(self, folder: Path, num_nodes: int, bucket: int = _BUCKET) -> None:
        self._folder, self._num_nodes, self._bucket = folder, num_nodes, bucket
        self._count_N = np.zeros(num_nodes, np.int64)
        self._stores: list[_Store] = []

    def close(self) -> None:
        """Remove what is in between."""
        for store in self._stores:
            store.remove()

    def _store(self, name: str, has_weights: bool, has_types: bool, has_numbers: bool) -> _Store:
        self._stores.append(_Store(self._folder, name, has_weights, has_types, has_numbers))
        return self._stores[-1]

    def add(
        self, row_M: np.ndarray, column_M: np.ndarray, weight_M: np.ndarray, type_M: np.ndarray,
        number_M: np.ndarray = _NO_NUMBERS,
    ) -> None:  # fmt: skip
        """int32 pairs; float32 weights, int32 types and int64 numbers, or (0,): of all pieces alike."""
        if not self._stores:
            self._store("raw", len(weight_M) > 0, len(type_M) > 0, len(number_M) > 0)
        raw = self._stores[0]
        for start in range(0, len(row_M), _PIECE):
            piece = slice(start, start + _PIECE)
            raw.append(row_M[piece], column_M[piece], weight_M[piece], type_M[piece], number_M[piece])
            np.add.at(self._count_N, row_M[piece], 1)

    def sorted(self) -> Iterator[tuple[np.ndarray, ...]]:
        """Pieces in order, rows ascending and columns in a row, weights of equal entries added up in float64: (rows,
        columns, weights, types), then numbers as they were added, equal entries' beside each other, and where those of
        each entry begin; the last two are (0,) without numbers.
        """
        raw = self._stores[0]
        total = np.cumsum(self._count_N)
        cuts = np.searchsorted(total, np.arange(self._bucket, int(total[-1]), self._bucket))
        if not len(cuts):
            yield _merged(raw.read(), self._num_nodes)
            return
        buckets = [self._store(f"bucket{b}", *raw.kinds) for b in range(len(cuts) + 1)]
        for start in range(0, raw.length, _PIECE):
            piece = raw.read(start, start + _PIECE)
            bucket_M = np.searchsorted(cuts, piece[0], side="left").astype(np.uint16)
            order = np.argsort(bucket_M, kind="stable")
            ends = np.cumsum(np.bincount(bucket_M, minlength=len(buckets)))
            for b, end in enumerate(ends):
                chosen = order[ends[b - 1] if b else 0 : end]
                if len(chosen):
                    buckets[b].append(*(part[chosen] if len(part) else part for part in piece))
        raw.remove()
        for store in buckets:
            if store.length:
                yield _merged(store.read(), self._num_nodes)
            store.remove()


class _Store:
    """Entries in files, as they came."""

    def __init__(self, folder: Path, name: str, has_weights: bool, has_types: bool, has_numbers: bool) -> None:
        self.kinds = has_weights, has_types, has_numbers
        chosen = [("pairs", np.int32, (2,), True), ("weights", np.float32, (), has_weights),
                  ("types", np.int32, (), has_types), ("numbers", np.int64, (), has_numbers)]  # fmt: skip
        self._files: list[Any] = [
            ArrayFile(folder / f"{name}.{part}", dtype, row) if wanted else None for part, dtype, row, wanted in chosen
        ]

    @property
    def length(self) -> int:
        return int(self._files[0].length)

    def append(self, row_M: np.ndarray, column_M: np.ndarray, *parts: np.ndarray) -> None:
        for file, part in zip(self._files, (np.stack([row_M, column_M], axis=1), *parts), strict=True):
            if file is not None:
                file.append(part)

    def read(self, start: int = 0, stop: int | None = None) -> tuple[np.ndarray, ...]:
        stop = self.length if stop is None else min(stop, self.length)
        pairs = np.empty((stop - start, 2), np.int32)
        self._files[0].read(start, pairs)
        rest = []
        for file, dtype in zip(self._files[1:], (np.float32, np.int32, np.int64), strict=True):
            rest.append(np.empty(stop - start if file is not None else 0, dtype))
            if file is not None:
                file.read(start, rest[-1])
        return pairs[:, 0], pairs[:, 1], *rest

    def remove(self) -> None:
        for file in self._files:
            if file is not None:
                file.file.close()
                file.path.unlink(missing_ok=True)


def _merged(entries: tuple[np.ndarray, ...], num_nodes: int) -> tuple[np.ndarray, ...]:
    row_M, column_M, weight_M, type_M, number_M = entries
    key_M = row_M.astype(np.int64) * num_nodes + column_M
    if not len(weight_M) and not len(type_M) and not len(number_M):
        key_M.sort()
        key_M = key_M[is_first(key_M)]
        ends = (key_M // num_nodes).astype(np.int32), (key_M % num_nodes).astype(np.int32)
        return *ends, weight_M, type_M, number_M, number_M
    order = np.lexsort((type_M, key_M)) if len(type_M) else np.argsort(key_M, kind="stable")
    key_M, type_M = key_M[order], type_M[order] if len(type_M) else type_M
    first = np.flatnonzero(is_first(key_M) if not len(type_M) else is_first(key_M) | is_first(type_M))
    if len(weight_M):
        weight_M = np.add.reduceat(weight_M[order].astype(np.float64), first).astype(np.float32)
    chosen = order[first]
    type_M = type_M[first] if len(type_M) else type_M
    numbers = (number_M[order], first) if len(number_M) else (number_M, number_M)
    return row_M[chosen], column_M[chosen], weight_M, type_M, *numbers


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
    inner = np.searchsorted(total, np.arange(_BUCKET, len(indices), _BUCKET)) + 1
    edges = np.unique(np.concatenate([[0], inner, [num_nodes]])).tolist()
    for low, high in pairwise(edges):
        pieces = ((start, indices[start : start + _PIECE]) for start in range(0, len(indices), _PIECE))
        place_M = np.concatenate([np.flatnonzero((one >= low) & (one < high)) + start for start, one in pieces])
        place_M = place_M[np.argsort(indices[place_M], kind="stable")]
        yield indices[place_M], (np.searchsorted(indptr, place_M, side="right") - 1).astype(np.int32), place_M
