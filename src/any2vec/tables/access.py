"""What a learner sees of the rows of a batch, wherever they live: sums over bags, and where their gradients go."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from any2vec.kernels.clicks.bags import pool_bags
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.row_optimiser import RowOptimiser
from any2vec.types import Service


class RowAccess(Service, Protocol):
    """One worker's way to the rows: for each of its batches `pooled`, then `push`, in the order of its steps.

    Where trainers quiesce, changes may stay here; a flush brings them to where the rows live, for they are collected.
    When it closes no batch follows, and it flushes.
    """

    def pooled(self, rows: BatchRows, step: int) -> np.ndarray:
        """Sums of the values over the bags, float32 (P, W), 0 for an empty one."""

    def push(self, rows: BatchRows, step: int, gradient_PW: np.ndarray) -> None:
        """Change the rows by the gradients of the bags' sums, float32 (P, W)."""


class LocalRows(RowAccess):
    """Rows of this process' own table; several workers share it without a lock (Hogwild).

    Args:
        table_VC: float32 (V, C), C order, values and state as `optimiser` has them; kept.
    """

    def __init__(self, table_VC: np.ndarray, optimiser: RowOptimiser) -> None:
        self.table = table_VC
        self.optimiser = optimiser

    def pooled(self, rows: BatchRows, step: int) -> np.ndarray:
        sum_PW = np.empty((rows.num_bags, self.optimiser.width), np.float32)
        pool_bags(self.table, rows.id_M, rows.start_P1, sum_PW)
        return sum_PW

    def push(self, rows: BatchRows, step: int, gradient_PW: np.ndarray) -> None:
        self.optimiser.step(self.table, rows.row_U, rows.gradients(gradient_PW))
