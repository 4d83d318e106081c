"""Belady over superbatches, in training from disk: GRAPH.npz FOLDER EPOCHS ACCESSES; one JSON line.

What is read is counted three times: by a plan made of the batches' nodes alone, by the run, and by the kernel
(/proc/self/io, the second epoch on: nothing else is read by then). The time of planning is that of the stage
`look_ahead`, and of planning ACCESSES uses of rows at a stretch.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from any2vec import GraphSAGE
from any2vec.data.attributed.features import FeatureRows
from any2vec.data.attributed.row_file import RowFile
from any2vec.data.io.array_file import ArrayFile
from any2vec.data.io.direct import PAGE
from any2vec.models.networks.batches import LearnerData
from any2vec.models.networks.features import CachedFeatures
from any2vec.models.networks.learner import GraphLearner
from any2vec.plan.lookahead.oracle import NextUseOracle
from any2vec.tables.residency.residency import Residency
from any2vec.tasks.graphs.planning import batches_ahead
from any2vec.types import Csr, ProgressLine, Round, Span, Work

COLUMNS, CLASSES, THREADS, SEED = 128, 16, 2, 1
TRAINS, STANDS = 0.1, 0.1
"""shares of the nodes: that train, whose rows stand in memory"""
TRACE = 1 << 20
"""bytes of samples in memory"""


def main(path: str, folder: str, epochs: str, accesses: str) -> None:
    stored = np.load(path)
    csr = Csr(stored["indptr"], stored["indices"], np.empty(0, np.float32))
    rng, num = np.random.default_rng(SEED), len(csr.indptr) - 1
    train, none = np.sort(rng.choice(num, int(TRAINS * num), replace=False)), np.empty(0, np.int64)
    labels, parts = rng.integers(0, CLASSES, num, np.int32), {"train": train, "val": none, "test": none}
    features = CachedFeatures(_file(Path(folder), num), np.empty(0, np.float32), int(STANDS * num), "belady")
    plain = FeatureRows(np.empty((0, COLUMNS), np.float32), np.empty(0, np.float32))
    model = GraphSAGE(hidden=128, fanouts="10,5", batch_size=256)
    learner = GraphLearner(model, LearnerData(csr, plain, labels, CLASSES, parts), SEED, THREADS)
    learner.use_features(features)
    steps = int(epochs) * learner.num_batches
    batches = [learner.batches.nodes_of(*divmod(step, learner.num_batches)) for step in range(steps)]
    ahead = batches_ahead(features.residency.capacity, float(np.mean([len(one) for one in batches])))
    learner.stages.plan(steps, ahead, TRACE)
    learner.compile()
    found = _trained(learner, int(epochs))
    found["planned"] = _misses(batches, features.residency.capacity, ahead)
    few = _first(batches * (1 + int(accesses) // max(1, sum(map(len, batches)))), int(accesses))
    began = time.perf_counter()
    _misses(few, features.residency.capacity, ahead)
    found |= {"plan_seconds": time.perf_counter() - began, "accesses": sum(map(len, few)), "ahead": ahead}
    learner.close()
    print(json.dumps(found))


def _file(folder: Path, num: int) -> RowFile:
    """Random rows; behind them a page, so that no read ends at the end of the file, which is not counted in pages."""
    folder.mkdir(parents=True, exist_ok=True)
    path, rng = folder / "features.npy", np.random.default_rng(SEED)
    file = ArrayFile(path, np.float32, (COLUMNS,))
    for first in range(0, num + PAGE, PAGE):
        file.append(rng.standard_normal((min(PAGE, num + PAGE - first), COLUMNS), np.float32))
    file.close()
    return RowFile(path, np.dtype(np.float32), num, COLUMNS)


def _trained(learner: GraphLearner, epochs: int) -> dict[str, Any]:
    """Counts and seconds of all epochs; bytes of all but the first."""
    num, reader = len(learner.data.rows["train"]), learner.batches.reader
    span, began, before = Span(0, num, ProgressLine(0, num, 0.0, 0.0)), time.perf_counter(), (0, 0)
    for epoch in range(epochs):
        if epoch == 1:
            before = _kernel_bytes(), reader.reads.bytes_read
        learner.run(Work(span, epoch, Round(0), 0.0))
    return {
        "seconds": time.perf_counter() - began, "missed": reader.reads.missed, "read": reader.sampled,
        "kernel_bytes": _kernel_bytes() - before[0], "bytes": reader.reads.bytes_read - before[1],
        **learner.stages.summary(1.0),
    }  # fmt: skip


def _kernel_bytes() -> int:
    """That this process has had read from disks."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["read_bytes"])


def _misses(batches: list[np.ndarray], rows: int, ahead: int) -> int:
    """Of Belady that knows so many batches ahead: from ids alone."""
    residency, found = Residency(rows, "belady"), 0
    oracle = NextUseOracle(batches.__getitem__, 0, len(batches), ahead)
    for one in batches:
        placed = residency.place(one, oracle.next_uses(one, residency.expect))
        is_held = placed.slot_U >= 0
        found += int((~is_held | placed.is_new_U).sum())
        residency.release(placed.slot_U[is_held])
    return found


def _first(batches: list[np.ndarray], accesses: int) -> list[np.ndarray]:
    """As many of them as have so many rows."""
    stop = int(np.searchsorted(np.cumsum([len(one) for one in batches]), accesses)) + 1
    return batches[:stop]


if __name__ == "__main__":
    main(*sys.argv[1:])
