"""Runs whose table is partly on disk, ended at random calls that change the disk; how each goes on: one JSON line.

A killed run is a process that ends, by `os._exit`, instead of the so-manyth call; a write is first done in part. What
the system still has in memory then reaches the disk, as when a process is killed, and not as when the power fails.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.io import direct
from any2vec.data.partitions import buckets as triple_buckets
from any2vec.data.partitions.buckets import TripleBuckets
from any2vec.plan.order.buffer_walk import BufferWalk
from any2vec.tables.disk.partition_store import PartitionStore
from any2vec.testing.toy_table import graph, make, mingle, table
from any2vec.train.out_of_core.run import OutOfCoreOptions, OutOfCoreRun

ENTITIES, TRIPLES, PARTITIONS, CAPACITY, EPOCHS = 6000, 3000, 8, 3, 1
OPTIONS = OutOfCoreOptions(batch_size=100, window=200, commit_seconds=1e9)
KILLED = 77
COMMIT_EVERY = 3
"""windows"""
CHANGES = {os: ("pwritev", "fsync"), Path: ("unlink", "replace", "rename", "write_text", "write_bytes")}


def train(folder: Path, order: str) -> int:
    """Windows that were trained."""
    store, buckets = PartitionStore.open(folder / "table"), TripleBuckets.open(folder / "triples")
    walk = BufferWalk(order=order, partitions=PARTITIONS, capacity=CAPACITY, epochs=EPOCHS)
    windows = 0

    def received(work: Any, results: list[Any]) -> None:
        nonlocal windows
        windows += 1

    OutOfCoreRun(
        store, buckets, walk, mingle, OPTIONS, dense=lambda: {"relation": np.arange(100.0)}, report=received,
        is_due=lambda position: windows % COMMIT_EVERY == COMMIT_EVERY - 1,
    ).run()  # fmt: skip
    store.close()
    return windows


class Fault:
    """Counts the calls that change the disk, of all threads, and ends the process at one of them."""

    def __init__(self, point: int) -> None:
        self.left, self.calls = point, 0
        self._lock = threading.Lock()
        for owner, names in CHANGES.items():
            for name in names:
                setattr(owner, name, self._watched(name, getattr(owner, name)))

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                self.calls += 1
                self.left -= 1
                if self.left == -1:
                    if name == "pwritev":
                        call(arguments[0], [arguments[1][0][: direct.PAGE]], arguments[2])
                    os._exit(KILLED)
            return call(*arguments, **options)

        return called


def apart(task: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """What a task says that is done in a process of its own; None where that was killed."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child:
        os.close(sender)
        with os.fdopen(receiver) as reported:
            text = reported.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code not in (0, KILLED):
            raise RuntimeError(f"a run ended with {code}")
        return json.loads(text) if code == 0 else None
    try:
        os.write(sender, json.dumps(task()).encode())
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def whole_run(folder: Path, order: str, point: int) -> dict[str, Any]:
    fault = Fault(point)
    windows = train(folder, order)
    return {"calls": fault.calls, "windows": windows}


def rest_of_run(folder: Path, order: str, expected: Path) -> dict[str, Any]:
    """What a killed run left, and whether it ends as it would have."""
    store = PartitionStore.open(folder / "table")
    problems, at = list(store.check()), store.note.get("position")
    store.close()
    windows = train(folder, order)
    files = sum(path.name.startswith("part-") for path in (folder / "table").iterdir())
    is_same = bool(np.array_equal(table(folder), np.load(expected))) and files == PARTITIONS
    return {"problems": problems, "at": at, "windows": windows, "is_same": is_same}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--points", type=int, required=True)
    parser.add_argument("--orders", nargs="+", default=["beta", "comet", "hilbert"])
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    direct.PIECE = 4 * direct.PAGE  # a partition is written in several calls
    triple_buckets.CHUNK = 1024
    shutil.rmtree(args.folder, ignore_errors=True)
    first, now = args.folder / "first", args.folder / "now"
    make(first, graph(ENTITIES, TRIPLES), ENTITIES, PARTITIONS)
    rng, found = random.Random(args.seed), []
    whole = {}
    for order in args.orders:
        shutil.copytree(first, now)
        whole[order] = apart(lambda: whole_run(now, order, 1 << 60)) or {}  # noqa: B023
        np.save(args.folder / f"{order}.npy", table(now))
        shutil.rmtree(now)
    for number in range(args.points):
        order = args.orders[number % len(args.orders)]
        point = rng.randrange(whole[order]["calls"])
        shutil.copytree(first, now)
        was_killed = apart(lambda: whole_run(now, order, point)) is None  # noqa: B023
        rest = apart(lambda: rest_of_run(now, order, args.folder / f"{order}.npy"))  # noqa: B023
        assert rest is not None
        found.append({"order": order, "point": point, "was_killed": was_killed, **rest})
        shutil.rmtree(now)
    shutil.rmtree(args.folder)
    print(json.dumps({"whole": whole, "runs": found}))


if __name__ == "__main__":
    main()
