"""A small partitioned table and graph on disk, and learners of which any other order of triples is seen in the result.

Letters: M triples, V rows, C columns, S slots.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.io.direct import aligned_rows
from any2vec.data.partitions.buckets import TripleBuckets, blocks_of
from any2vec.data.partitions.row_partitions import RowPartitions
from any2vec.tables.disk.partition_store import PartitionStore

COLUMNS = 3


def graph(entities: int, triples: int, relations: int = 4, seed: int = 1) -> np.ndarray:
    """int64 (M, 3)."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, entities, (triples, 2))
    return np.stack([ends[:, 0], rng.integers(0, relations, triples), ends[:, 1]], axis=1)


def make(folder: Path, triple_M3: np.ndarray, entities: int, partitions: int) -> None:
    """The table, zeros but for each row's own number in its last column, and the buckets."""
    parts = RowPartitions(entities, partitions, seed=7)
    bounds = parts.bounds.tolist()

    def fill(number: int, row_RC: np.ndarray) -> None:
        row_RC[:, -1] = np.arange(bounds[number], bounds[number + 1])

    PartitionStore.create(folder / "table", bounds, COLUMNS, fill).close()
    TripleBuckets.create(folder / "triples", parts, 4, blocks_of(*triple_M3.T))


def count(batch: Any) -> int:
    """Column 0 counts how often a row was a head, by relation, column 1 how often a tail: no order changes that."""
    np.add.at(batch.table_SC[:, 0], batch.slot_M3[:, 0], 1 + batch.slot_M3[:, 1])
    np.add.at(batch.table_SC[:, 1], batch.slot_M3[:, 2], 1)
    return len(batch.slot_M3)


def mingle(batch: Any) -> int:
    """Rows of a triple draw nearer to each other and to a row that is drawn from those there: any other order of the
    triples, and any other draw, would give other numbers."""
    table_SC, size = batch.table_SC, sum(stop - first for first, stop in batch.resident)
    for number, (head, relation, tail) in enumerate(batch.slot_M3.tolist()):
        drawn = (1_000_003 * (batch.place.position + number) + batch.place.epoch) % size
        for first, stop in batch.resident:
            if drawn < stop - first:
                break
            drawn -= stop - first
        other = first + drawn
        table_SC[head, :2] = 0.5 * (table_SC[head, :2] + table_SC[tail, 1::-1]) + np.float32(0.01 * (relation + 1))
        table_SC[tail, 0] = 0.9 * table_SC[tail, 0] + 0.1 * table_SC[other, 2] / size
        table_SC[other, 1] = 0.99 * table_SC[other, 1] - 0.01
    return len(batch.slot_M3)


def table(folder: Path) -> np.ndarray:
    """The whole table, as the store has it; float32 (V, C)."""
    store = PartitionStore.open(folder / "table")
    buffer = aligned_rows(store.largest(), store.columns)
    found = []
    for number in range(store.num_partitions):
        store.read(number, buffer)
        found.append(buffer[: store.rows_of(number)].copy())
    store.close()
    return np.concatenate(found)
