"""Runs over the toy table of any2vec.testing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from any2vec.data.partitions.buckets import TripleBuckets
from any2vec.plan.order.buffer import AHEAD
from any2vec.plan.order.buffer_walk import BufferWalk
from any2vec.tables.disk.partition_store import PartitionStore
from any2vec.testing.toy_table import count
from any2vec.train.out_of_core.run import OutOfCoreOptions, OutOfCoreReport, OutOfCoreRun

OPTIONS = OutOfCoreOptions(batch_size=40, window=100, threads=1, commit_seconds=1e9)


def train(
    folder: Path, order: str, capacity: int, epochs: int = 2, compute: Any = count, options: Any = OPTIONS,
    ahead: int = AHEAD, **more: Any,
) -> OutOfCoreReport:  # fmt: skip
    store, buckets = PartitionStore.open(folder / "table"), TripleBuckets.open(folder / "triples")
    walk = BufferWalk(
        order=order, partitions=store.num_partitions, capacity=capacity, epochs=epochs, seed=3, ahead=ahead
    )
    try:
        return OutOfCoreRun(store, buckets, walk, compute, options, **more).run()
    finally:
        store.close()
