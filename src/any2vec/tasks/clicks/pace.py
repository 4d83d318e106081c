"""How fast one worker of this machine trains a model of clicks, with its rows at hand."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from any2vec.data.clicks.batch import ClickBatch
from any2vec.models.clicks.config import ClickModel
from any2vec.tasks.clicks.rows import fresh_rows, row_optimiser

if TYPE_CHECKING:
    from any2vec.models.clicks.worker import ClickWorker

_ROWS = 10_000
"""of each column, at most: their way from memory is part of what is measured"""
_SECONDS = 1.5


def warm_up(model: ClickModel, num_dense: int, num_columns: int) -> None:
    """Compile every kernel of a worker, or load it from the cache, and let PyTorch make what it makes at first use."""
    worker = _worker(model, num_dense, num_columns, 2)
    worker.train(_batch(np.random.default_rng(1), 2, num_dense, num_columns, 2), 0)


def examples_per_s(model: ClickModel, num_dense: int, num_columns: int, rows: int) -> float:
    """Measured for a second or two on made-up examples; the kernels are compiled before. rows: of a column."""
    from any2vec.models.clicks.nets import single_thread

    rows = min(rows, _ROWS)
    worker = _worker(model, num_dense, num_columns, rows)
    batches = [_batch(np.random.default_rng(seed), model.batch_size, num_dense, num_columns, rows) for seed in range(8)]
    with single_thread():
        worker.train(batches[0], 0)
        began, steps = time.perf_counter(), 0
        while time.perf_counter() - began < _SECONDS:
            worker.train(batches[steps % len(batches)], steps + 1)
            steps += 1
        return steps * model.batch_size / (time.perf_counter() - began)


def num_dense_parameters(model: ClickModel, num_dense: int, num_columns: int) -> int:
    """Q, the numbers of the dense layers."""
    from any2vec.models.clicks.nets import make_net, start_values

    return len(start_values(make_net(model, num_dense, num_columns), 1))


def _worker(model: ClickModel, num_dense: int, num_columns: int, rows: int) -> ClickWorker:
    """A worker with rows of its own, which agrees with nobody."""
    from any2vec.models.clicks.nets import make_net, start_values
    from any2vec.models.clicks.worker import ClickWorker
    from any2vec.sync.base.dense import NoAgreement
    from any2vec.tables.replica import Replica
    from any2vec.tables.row_table import MemoryRows

    net = make_net(model, num_dense, num_columns)
    value_Q = start_values(net, 1)
    access = MemoryRows(fresh_rows(model, np.arange(rows * num_columns), 1), row_optimiser(model))
    replica = Replica(value_Q, model.optimiser, model.dense_rate)
    return ClickWorker(0, net, value_Q, access, NoAgreement(replica), np.zeros(num_columns, np.bool_))


def _batch(rng: np.random.Generator, size: int, num_dense: int, num_columns: int, rows: int) -> ClickBatch:
    ids = rng.integers(0, rows, (size, num_columns)) + np.arange(num_columns) * rows
    dense = rng.normal(size=(size, num_dense)).astype(np.float32)
    start = np.arange(size * num_columns + 1, dtype=np.int64)
    return ClickBatch((rng.random(size) < 0.25).astype(np.float32), dense, ids.reshape(-1), start)
