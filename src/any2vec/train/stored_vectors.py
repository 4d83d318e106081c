"""The vectors of a table larger than memory, written from its partitions, never whole in memory.

The vectors stand in the order of entities, each partition has some of everywhere. So a stretch of entities that fits
into memory is gathered from all partitions, written, then the next one: with c of p partitions in memory the table is
read p / c times, always from first to last, and written once.

Legend: V entities, N entities of a stretch, W values of a vector, R rows of a partition, C columns of the store.
"""

from __future__ import annotations

import numpy as np

from any2vec.data.direct import aligned_rows
from any2vec.data.entity_parts import EntityParts
from any2vec.errors import InputError
from any2vec.formats.table import BLOCK_BYTES
from any2vec.tables.partition_store import PartitionStore


class StoredVectors:
    """The vectors in a store, as a matrix (V, W) of float32 that is sliced by rows, best from first to last.

    Args:
        num_bytes: of memory that a stretch of rows may have.
        column: of the store, at which the vectors begin.
    """

    def __init__(self, store: PartitionStore, parts: EntityParts, width: int, num_bytes: int, column: int = 0) -> None:
        self._store, self._parts, self._column = store, parts, column
        self.shape = parts.num_entities, width
        self.size = parts.num_entities * width
        self._stretch = max(1, max(num_bytes, BLOCK_BYTES) // (4 * width))
        self._first = 0
        self._values_NW = np.empty((0, width), np.float32)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        first, stop, _ = rows.indices(len(self))
        if not self._first <= first <= stop <= self._first + len(self._values_NW):
            self._values_NW = np.empty((0, self.shape[1]), np.float32)  # before the next one is made
            self._values_NW = self._gathered(first, min(len(self), max(stop, first + self._stretch)))
            self._first = first
        return self._values_NW[first - self._first : stop - self._first]

    def _gathered(self, first: int, stop: int) -> np.ndarray:
        store, values_NW = self._store, np.empty((stop - first, self.shape[1]), np.float32)
        row_N = self._parts.rows(np.arange(first, stop))
        row_RC = aligned_rows(store.largest(), store.columns)
        for number in range(store.num_partitions):
            low, high = store.bounds[number : number + 2]
            store.read(number, row_RC)
            place = np.flatnonzero((row_N >= low) & (row_N < high))
            values_NW[place] = row_RC[row_N[place] - low, self._column : self._column + self.shape[1]]
        if not np.isfinite(values_NW).all():
            raise InputError("Some vectors are no numbers any more: the training has diverged; lower learning_rate.")
        return values_NW
