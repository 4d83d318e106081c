"""The result of a run whose table is larger than memory: written from its partitions, never whole in memory.

The vectors stand in the order of entities, each partition has some of everywhere. So a stretch of entities that fits
into memory is gathered from all partitions, written, then the next one: with c of p partitions in memory the table is
read p / c times, always from first to last, and written once.

Legend: V entities, W values of a row, R rows of a partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from any2vec.data.direct import aligned_rows
from any2vec.data.entity_parts import EntityParts
from any2vec.data.triple_buckets import blocks_of
from any2vec.data.triples import Triples
from any2vec.errors import InputError
from any2vec.formats.native import write_native
from any2vec.formats.table import BLOCK_BYTES, Table, check_writable
from any2vec.models.triple_config import TripleModel
from any2vec.models.triple_scorer import TRIPLES, TripleScorer
from any2vec.tables.partition_exchange import AllPartitions
from any2vec.tables.partition_store import PartitionStore


class StoredVectors:
    """The vectors in a store, as a matrix (V, W) of float32 that is sliced by rows, best from first to last.

    Args:
        num_bytes: of memory that a stretch of rows may have.
    """

    def __init__(self, store: PartitionStore | AllPartitions, parts: EntityParts, width: int, num_bytes: int) -> None:
        self._store, self._parts = store, parts
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
            values_NW[place] = row_RC[row_N[place] - low, : self.shape[1]]
        if not np.isfinite(values_NW).all():
            raise InputError("Some vectors are no numbers any more: the training has diverged; lower learning_rate.")
        return values_NW


@dataclass(frozen=True)
class StoredTriples:
    """What goes into the run folder; the same files that a run in memory leaves."""

    model: TripleModel
    triples: Triples
    store: PartitionStore | AllPartitions
    entities: EntityParts
    relation_RP: np.ndarray
    num_bytes: int
    """of memory that the vectors may have meanwhile"""

    def save_into(self, folder: Path) -> None:
        """Write the vectors and the names."""
        check_writable(self.triples.entities)
        vectors = StoredVectors(self.store, self.entities, self.model.dim, self.num_bytes)
        meta = {"model": self.model.as_dict()}
        table = Table(self.triples.entities, cast(np.ndarray, vectors), None, self._counts(), meta)
        write_native(Path(folder), table, "float32")

    def parts(self) -> Mapping[str, Any]:
        """What stands beside them: file name -> something with `write(path)`."""
        none_VW = np.empty((0, self.model.dim), np.float32)
        seen_M3 = np.empty((0, 3), np.int32)
        scorer = TripleScorer(
            self.model, self.triples.entities, self.triples.relations, none_VW, self.relation_RP, seen_M3
        )
        return {**scorer.parts(), TRIPLES: _Seen(self.triples)}

    def _counts(self) -> np.ndarray:
        count_V = np.zeros(len(self.triples.entities), np.int64)
        for triple_M3 in blocks_of(self.triples.head, None, self.triples.tail)():
            np.add.at(count_V, triple_M3[:, 0], 1)
            np.add.at(count_V, triple_M3[:, 2], 1)
        return count_V


@dataclass(frozen=True)
class _Seen:
    triples: Triples

    def write(self, path: Path) -> None:
        given = self.triples
        with path.open("wb") as file:
            head = {"descr": "<i4", "fortran_order": False, "shape": (len(given), 3)}
            np.lib.format.write_array_header_1_0(file, head)
            for triple_M3 in blocks_of(given.head, given.relation, given.tail)():
                file.write(np.ascontiguousarray(triple_M3, "<i4").data)
