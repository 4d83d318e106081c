"""Bytes that a buffer of partitions reads and writes in an epoch, as it counts them and as the kernel does: one JSON
line. Nothing is trained; every partition of a state that has buckets counts as changed."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path

import numpy as np

from any2vec.plan.order.buffer_walk import BufferWalk
from any2vec.tables.disk.partition_buffer import PartitionBuffer
from any2vec.tables.disk.partition_store import PartitionStore


def of_the_kernel() -> dict[str, int]:
    """Bytes that this process has had read from and written to disks."""
    lines = (line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return {name: int(value) for name, value in lines if name in ("read_bytes", "write_bytes")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--orders", nargs="+", required=True)
    for name in ("--rows", "--columns", "--partitions", "--capacity"):
        parser.add_argument(name, type=int, required=True)
    args = parser.parse_args()
    bounds = [args.rows * part // args.partitions for part in range(args.partitions + 1)]

    def fill(number: int, row_RC: np.ndarray) -> None:
        row_RC[:] = number

    found = {}
    for order in args.orders:
        store = PartitionStore.create(args.folder, bounds, args.columns, fill, overwrite=args.folder.exists())
        walk = BufferWalk(order=order, partitions=args.partitions, capacity=args.capacity, epochs=1)
        before, begun = of_the_kernel(), time.monotonic()
        with PartitionBuffer(store, walk, walk.blocks) as buffer:
            for turn in buffer.turns():
                if turn.buckets:
                    buffer.mark()
            buffer.commit({})
            counts = buffer.counts
        after = of_the_kernel()
        found[order] = counts.as_dict() | {
            "kernel_read": after["read_bytes"] - before["read_bytes"],
            "kernel_written": after["write_bytes"] - before["write_bytes"],
            "seconds": time.monotonic() - begun,
        }
        store.close()
    shutil.rmtree(args.folder)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
