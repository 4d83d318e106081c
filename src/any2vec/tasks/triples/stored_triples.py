"""The result of a run of a model of triples whose table is larger than memory.

Legend: V entities, W values of a row, P values of a relation's row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from any2vec.data.partitions.buckets import blocks_of
from any2vec.data.partitions.row_partitions import RowPartitions
from any2vec.data.triples.triples import Triples
from any2vec.formats.native import write_native
from any2vec.formats.table import Table, check_writable
from any2vec.models.triples.config import TripleModel
from any2vec.models.triples.score import Dense
from any2vec.models.triples.scorer import parts_of
from any2vec.tables.disk.partition_exchange import AllPartitions
from any2vec.tables.disk.partition_store import PartitionStore
from any2vec.train.out_of_core.stored_vectors import StoredVectors


@dataclass(frozen=True)
class StoredTriples:
    """What goes into the run folder; the same files that a run in memory leaves."""

    model: TripleModel
    triples: Triples
    store: PartitionStore | AllPartitions
    entities: RowPartitions
    relation_RP: np.ndarray
    dense: Dense
    num_bytes: int
    """of memory that the vectors may have meanwhile"""

    def __len__(self) -> int:
        return len(self.triples.entities)

    def save_into(self, folder: Path) -> None:
        """Write the vectors and the names."""
        check_writable(self.triples.entities)
        vectors = StoredVectors(self.store, self.entities, self.model.dim, self.num_bytes)
        meta = {"model": self.model.as_dict()}
        table = Table(self.triples.entities, cast(np.ndarray, vectors), None, self._counts(), meta)
        write_native(Path(folder), table, "float32")

    @property
    def parts(self) -> Mapping[str, Any]:
        """What stands beside them: file name -> something with `write(path)`."""
        given = self.triples
        column_3M = given.head, given.relation, given.tail
        return parts_of(self.model, given.relations, self.relation_RP, column_3M, self.dense)

    def _counts(self) -> np.ndarray:
        count_V = np.zeros(len(self.triples.entities), np.int64)
        for triple_M3 in blocks_of(self.triples.head, None, self.triples.tail)():
            np.add.at(count_V, triple_M3[:, 0], 1)
            np.add.at(count_V, triple_M3[:, 2], 1)
        return count_V
