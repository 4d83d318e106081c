"""How fast one worker of this machine trains a model of clicks, with its rows at hand."""

from __future__ import annotations

import time

import numpy as np

from any2vec.data.click_batch import ClickBatch
from any2vec.models.click_config import ClickModel
from any2vec.train.click_rows import fresh_rows, row_optimiser

_ROWS = 10_000
"""of each column, at most: their way from memory is part of what is measured"""
_SECONDS = 1.5


def examples_per_s(model: ClickModel, num_dense: int, num_columns: int, rows: int) -> float:
    """Measured for a second or two on made-up examples; the kernels are compiled before. rows: of a column."""
    from any2vec.models.click_nets import make_net, single_thread, start_values
    from any2vec.models.click_worker import ClickWorker
    from any2vec.sync.dense import NoAgreement
    from any2vec.tables.access import LocalRows
    from any2vec.tables.replica import Replica

    rows = min(rows, _ROWS)
    net = make_net(model, num_dense, num_columns)
    value_Q = start_values(net, 1)
    access = LocalRows(fresh_rows(model, np.arange(rows * num_columns), 1), row_optimiser(model))
    replica = Replica(value_Q, model.optimiser, model.dense_rate)
    worker = ClickWorker(0, net, value_Q, access, NoAgreement(replica), np.zeros(num_columns, np.bool_))
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
    from any2vec.models.click_nets import make_net, start_values

    return len(start_values(make_net(model, num_dense, num_columns), 1))


def _batch(rng: np.random.Generator, size: int, num_dense: int, num_columns: int, rows: int) -> ClickBatch:
    ids = rng.integers(0, rows, (size, num_columns)) + np.arange(num_columns) * rows
    dense = rng.normal(size=(size, num_dense)).astype(np.float32)
    start = np.arange(size * num_columns + 1, dtype=np.int64)
    return ClickBatch((rng.random(size) < 0.25).astype(np.float32), dense, ids.reshape(-1), start)
