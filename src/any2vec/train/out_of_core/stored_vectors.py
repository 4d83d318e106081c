"""The vectors of a table larger than memory, written from its partitions, never whole in memory.

The vectors stand in the order of entities, each partition has some of everywhere. So a stretch of entities that fits
into memory is gathered from all partitions, written, then the next one: with c of p partitions in memory the table is
read p / c times, always from first to last, and written once.

Legend: V entities, N entities of a stretch, W values of a vector, R rows of a partition, C columns of the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.io.direct import aligned_rows
from any2vec.data.partitions.row_partitions import RowPartitions
from any2vec.errors import InputError
from any2vec.formats.native import write_native
from any2vec.formats.table import BLOCK_BYTES, Table, check_writable
from any2vec.tables.disk.partition_exchange import AllPartitions
from any2vec.tables.disk.partition_store import PartitionStore

_GATHERED = 1 << 14
"""rows that are copied from a partition at once"""


class StoredVectors:
    """The vectors in a store, as a matrix (V, W) of float32 that is sliced by rows, best from first to last.

    A slice is good until the next one is asked for: all lie in the same memory.

    Args:
        num_bytes: of memory that a stretch of rows may have.
        column: of the store, at which the vectors begin.
    """

    def __init__(
        self, store: PartitionStore | AllPartitions, parts: RowPartitions, width: int, num_bytes: int, column: int = 0
    ) -> None:
        self._store, self._parts, self._columns = store, parts, slice(column, column + width)
        self.shape = parts.num_entities, width
        self.size = parts.num_entities * width
        self._stretch = max(1, max(num_bytes, BLOCK_BYTES) // (4 * width))
        self.release()

    def release(self) -> None:
        """Let go of the stretch at hand; whoever asks for a slice then has it gathered again."""
        self._first = 0
        self._memory_NW = self._values_NW = np.empty((0, self.shape[1]), np.float32)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        first, stop, _ = rows.indices(len(self))
        if not self._first <= first <= stop <= self._first + len(self._values_NW):
            last = min(len(self), max(stop, first + self._stretch))
            if last - first > len(self._memory_NW):
                self._memory_NW = np.empty((last - first, self.shape[1]), np.float32)
            self._values_NW, self._first = self._memory_NW[: last - first], first
            self._gather(first, last)
        return self._values_NW[first - self._first : stop - self._first]

    def _gather(self, first: int, stop: int) -> None:
        store, values_NW = self._store, self._values_NW
        row_N = self._parts.rows(np.arange(first, stop))
        row_RC = aligned_rows(store.largest(), store.columns)
        for number in range(store.num_partitions):
            low, high = store.bounds[number : number + 2]
            store.read(number, row_RC)
            if not np.isfinite(row_RC[: high - low, self._columns].sum()):
                raise InputError(
                    "Some vectors are no numbers any more: the training has diverged; lower learning_rate."
                )
            place = np.flatnonzero((row_N >= low) & (row_N < high))
            for piece in np.array_split(place, 1 + place.size // _GATHERED):
                values_NW[piece] = row_RC[row_N[piece] - low, self._columns]


@dataclass(frozen=True)
class StoredTable:
    """What goes into the run folder; the same files that a run in memory leaves."""

    table: Table
    """whose vectors are `StoredVectors`"""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """what stands beside them: file name -> something with `write(path)`"""

    def __len__(self) -> int:
        return len(self.table.keys)

    def save_into(self, folder: Path) -> None:
        """Write the vectors and the names; of the vectors nothing stays in memory, for the result is opened next."""
        check_writable(self.table.keys)
        write_native(Path(folder), self.table, "float32")
        for vectors in (self.table.vectors, self.table.output):
            if isinstance(vectors, StoredVectors):
                vectors.release()
