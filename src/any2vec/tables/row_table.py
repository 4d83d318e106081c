"""Rows of one table as one worker sees them, wherever they live and whatever stands in between.

Legend: U distinct rows of a batch, C their columns, W those that are values, P bags.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol

import numpy as np

from any2vec.errors import InputError
from any2vec.kernels.cache.cached_rows import add_changes
from any2vec.kernels.rows.bags import pool_bags
from any2vec.kernels.rows.rows import gather_rows
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.types import Service

NOT_READ = "Gradients belong to the batch that was read last, and come once."


class PooledTable(Service, Protocol):
    """What is read are sums over bags: for each batch of a worker `pool`, then `apply_pooled`, in the order of steps.

    Where trainers quiesce, changes may stay here; a flush brings them to where the rows live, for they are collected.
    When it closes no batch follows, and it flushes.
    """

    def pool(self, bags: BatchRows, step: int) -> np.ndarray:
        """Sums of the values over the bags, float32 (P, W), 0 for an empty one."""

    def apply_pooled(self, bags: BatchRows, gradient_PW: np.ndarray, step: int) -> None:
        """Change the rows by the gradients of the bags' sums, float32 (P, W)."""


class Lease(NamedTuple):
    """Rows that a worker has read, and may change until it reads others."""

    id_U: np.ndarray
    """int64, ascending, none twice"""
    row_UC: np.ndarray
    """float32: values, and their optimizer's state where it is stepped here"""


class RowTable(PooledTable, ABC):
    """The rows themselves can be read, too: `gather`, then `apply` or `add`, once for each batch of a worker."""

    width: int
    """W"""
    _lease: Lease | None = None
    """of the batch that was pooled last"""

    @abstractmethod
    def gather(self, id_U: np.ndarray, step: int) -> Lease:
        """Rows by id, int64 (U,), ascending, none twice.

        Raises:
            InputError: an id is not of the table.
            HostError: an owner is lost, or does not come so far in time.
        """

    @abstractmethod
    def apply(self, lease: Lease, gradient_UW: np.ndarray, step: int) -> None:
        """Let the row optimizer change the rows by their gradients, float32 (U, W), wherever it does."""

    def pool(self, bags: BatchRows, step: int) -> np.ndarray:
        self._lease = self.gather(bags.row_U, step)
        return bags.pool(self._lease.row_UC, self.width)

    def apply_pooled(self, bags: BatchRows, gradient_PW: np.ndarray, step: int) -> None:
        lease, self._lease = self._lease or Lease(bags.row_U, np.empty((0, self.width), np.float32)), None
        if len(lease.id_U) != len(bags.row_U):
            raise InputError(NOT_READ)
        self.apply(lease, bags.gradients(gradient_PW), step)


class ChangedTable(RowTable, ABC):
    """Rows come with their state, so a worker may step them itself."""

    @abstractmethod
    def add(self, lease: Lease, change_UC: np.ndarray, step: int) -> None:
        """The worker has changed the rows by so much, values and state, float32 (U, C)."""


class MemoryRows(ChangedTable):
    """Rows of this process' own table; several workers share it without a lock (Hogwild).

    Args:
        table_VC: float32 (V, C), C order, values and state as `optimizer` has them; kept.
    """

    def __init__(self, table_VC: np.ndarray, optimizer: RowOptimizer) -> None:
        self.table = table_VC
        self.optimizer = optimizer
        self.width = optimizer.width

    def gather(self, id_U: np.ndarray, step: int) -> Lease:
        row_UC = np.empty((len(id_U), self.table.shape[1]), np.float32)
        gather_rows(self.table, id_U, row_UC)
        return Lease(id_U, row_UC)

    def apply(self, lease: Lease, gradient_UW: np.ndarray, step: int) -> None:
        self.optimizer.step(self.table, lease.id_U, gradient_UW)

    def add(self, lease: Lease, change_UC: np.ndarray, step: int) -> None:
        add_changes(self.table, lease.id_U, change_UC, self.width)

    def pool(self, bags: BatchRows, step: int) -> np.ndarray:
        sum_PW = np.empty((bags.num_bags, self.width), np.float32)
        pool_bags(self.table, bags.id_M, bags.start_P1, sum_PW)
        return sum_PW

    def apply_pooled(self, bags: BatchRows, gradient_PW: np.ndarray, step: int) -> None:
        self.optimizer.step(self.table, bags.row_U, bags.gradients(gradient_PW))
