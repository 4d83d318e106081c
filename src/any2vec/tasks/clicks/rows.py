"""The rows of a run of a model of clicks, as one host has them: its own, or those of servers, through a cache or not.

Legend: V rows of the table, C columns (values and state), B rows of this host's block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import LONG_WORK, Transport
from any2vec.kernels.common.rng import PURPOSE_INIT, stream_key
from any2vec.kernels.rows.row_start import start_rows
from any2vec.models.clicks.config import ClickModel
from any2vec.models.clicks.learner import ClickSource
from any2vec.plan.cost.columns import measure_columns
from any2vec.plan.order.epochs import EpochSchedule
from any2vec.plan.order.roles import Roles
from any2vec.plan.sharding.columns import Column
from any2vec.plan.sharding.placing import place_columns
from any2vec.sync.options.trainers import TrainerAgreement
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.row_table import MemoryRows, PooledTable
from any2vec.tables.server.blocks.serving import served_metrics
from any2vec.tasks.clicks.row_backends import RowBackendOptions, make_row_backend
from any2vec.types import Service

START_SPREAD = 0.05
"""numbers of vectors start uniform within this"""
_SAMPLE = 16
"""batches from which look-up costs are measured"""


class ClickData(ClickSource, Protocol):
    """What a run needs to know of examples besides themselves, as `Clicks` has it."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    num_rows_F: np.ndarray
    offset_F: np.ndarray
    is_mean_F: np.ndarray
    counts_V: np.ndarray

    @property
    def num_rows(self) -> int: ...


class HostRows(Service, Protocol):
    """This host's side of the rows of a run. What is marked collective, all hosts call together.

    It quiesces, collective, when all hosts' accesses have flushed, and closes, collective, when nobody asks for
    anything more.
    """

    @property
    def accesses(self) -> Sequence[PooledTable]:
        """One for each worker of this host."""

    backend: Any
    """how the rows travel; None where they do not"""

    @property
    def place(self) -> Callable[[np.ndarray], np.ndarray] | None:
        """From rows of the table to those that the accesses know; None: they are the same."""

    def gather_result(self) -> np.ndarray | None:
        """The table, float32 (V, C), at rank 0. Collective, after `quiesce`."""

    def metrics(self) -> dict[str, Any]:
        """Counts of this host."""


def row_optimizer(model: ClickModel) -> RowOptimizer:
    return RowOptimizer(model.width, model.optimizer, model.learning_rate)


def fresh_rows(model: ClickModel, row_B: np.ndarray, seed: int) -> np.ndarray:
    """Rows as they start, float32 (B, C): vectors uniform, weights and state 0; row_B int64: their numbers."""
    table_BC = np.empty((len(row_B), row_optimizer(model).num_columns), np.float32)
    start_rows(table_BC, row_B, model.vector_dim, stream_key(seed, PURPOSE_INIT), START_SPREAD)
    return table_BC


class LocalRows(Service):
    """A single host: the whole table."""

    place: Callable[[np.ndarray], np.ndarray] | None = None
    backend = None

    def __init__(self, model: ClickModel, data: ClickData, seed: int, stored: np.ndarray | None, workers: int) -> None:
        self.table = fresh_rows(model, np.arange(data.num_rows), seed) if stored is None else stored.copy()
        self.accesses: list[PooledTable] = [MemoryRows(self.table, row_optimizer(model))] * workers

    def gather_result(self) -> np.ndarray | None:
        return self.table

    def metrics(self) -> dict[str, Any]:
        return {}


class ServedRows(Service):
    """One host of several: the block that it owns, its server, and its workers' ways to all of them."""

    def __init__(
        self, model: ClickModel, data: ClickData, seed: int, stored: np.ndarray | None, workers: int,
        transport: Transport, roles: Roles, options: TrainerAgreement,
        schedule: EpochSchedule,
    ) -> None:  # fmt: skip
        self.transport = transport
        optimizer = row_optimizer(model)
        columns = measured_columns(data, model.batch_size)
        self.placement = placement = place_columns(columns, len(roles.row_owners), 4 * optimizer.num_columns)
        own = np.arange(*placement.on_ranks(transport.hosts, roles.row_owners[0])[transport.rank :][:2])
        row_B = placement.rows(own)
        self.table = fresh_rows(model, row_B, seed) if stored is None else stored[row_B]

        def fresh(placed_N: np.ndarray) -> np.ndarray:
            return fresh_rows(model, placement.rows(placed_N), seed)

        def busiest(number: int) -> np.ndarray:
            return np.sort(placement.place(np.argsort(-np.asarray(data.counts_V), kind="stable")[:number]))

        # Pure, and without a state of their own that training moves on: what every trainer is to do, known here.
        # The own one may begin with a share of what other hosts have left of an epoch, and is copied as it stands; who
        # looks at others, too (bagpipe), begins or goes on with whole epochs.
        schedules = [
            copy(schedule) if trainer == schedule.rank else replace(schedule, rank=trainer)
            for trainer in range(roles.trainers)
        ]

        def batch_rows(trainer: int, step: int) -> np.ndarray:
            span = schedules[trainer].span_at(step)
            batch = data.batch(span.start, span.stop)
            return BatchRows.of(placement.place(batch.id_M), batch.start_P).row_U

        setting = RowBackendOptions(
            optimizer=optimizer, placement=placement, roles=roles, options=options, workers=workers, table=self.table,
            fresh=fresh if stored is None else None, busiest=busiest, batch_rows=batch_rows,
            num_steps=schedule.num_steps, first_step=schedule.step,
        )  # fmt: skip
        self.backend = make_row_backend(setting, transport)
        self.accesses = self.backend.accesses
        self.place: Callable[[np.ndarray], np.ndarray] | None = placement.place if self.backend.is_placed else None

    def start(self) -> None:
        self.backend.server.start()

    def quiesce(self) -> None:
        self.transport.barrier("settle")

    def gather_result(self) -> np.ndarray | None:
        found = self.transport.gather([Part("rows", self.table.copy())] if len(self.table) else [], "gather")
        if not found:
            return None
        placed_VC = np.concatenate([part.array for rank in sorted(found) for part in found[rank]])
        return placed_VC[self.placement.place(np.arange(len(placed_VC)))]

    def metrics(self) -> dict[str, Any]:
        return {**served_metrics(self.backend.server), **self.backend.metrics()}

    def close(self, error: BaseException | None = None) -> None:
        if error is not None:
            for access in self.accesses:
                access.close(error)
        self.backend.main.close(error, timeout=LONG_WORK)


def measured_columns(data: ClickData, batch_size: int) -> list[Column]:
    """What each column costs, measured on batches spread over the data; the same on every host."""
    starts = np.unique(np.linspace(0, max(0, data.num_examples - batch_size), _SAMPLE).astype(np.int64)).tolist()
    batches = (data.batch(start, min(start + batch_size, data.num_examples)) for start in starts)
    return measure_columns(data.columns, data.offset_F, ((batch.id_M, batch.start_P) for batch in batches))
