"""The block of a row server that trains synchronously: all trainers' gradients of a step, summed, step its rows once.

It is what cached synchronous training must equal, bit by bit.

Legend: B rows of a block, C their columns, W those that are values, K rows of a push.
"""

from __future__ import annotations

import numpy as np

from any2vec.errors import InputError
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.server.blocks.row_block import RowBlock


class GradientSum:
    """Merger of a `RowBlock` in step: sums a step's gradients in rank order, then lets the optimizer step once.

    Args:
        table_BC: float32 (B, C), C order, values and state as `optimizer` has them; kept, not copied.
    """

    def __init__(self, table_BC: np.ndarray, optimizer: RowOptimizer) -> None:
        self.table = table_BC
        self.optimizer = optimizer
        self.rows = table_BC[:, : optimizer.width]
        """float32 (B, W), the values alone: state does not travel"""
        self._parts: list[tuple[np.ndarray, np.ndarray]] = []

    def merge(self, slot_K: np.ndarray, now_KD: np.ndarray, is_delta: bool) -> None:
        """One trainer's gradients, float32 (K, W)."""
        if not is_delta:
            raise InputError("A block that trains its rows takes gradients, not values.")
        self._parts.append((slot_K, now_KD))

    def finish(self, is_delta: bool) -> np.ndarray:
        """Step the rows that had gradients."""
        parts, self._parts = self._parts, []
        return self.optimizer.step_by_sum(self.table, parts)


class InStepBlock(RowBlock):
    """The block of a server that is made with bound 0 and in_step; trainers reach it by `ClockedRows`.

    Args:
        table_BC, optimizer: as `GradientSum` has them.
    """

    def __init__(self, table_BC: np.ndarray, optimizer: RowOptimizer) -> None:
        super().__init__(GradientSum(table_BC, optimizer), in_step=True)
        self.table = table_BC

    @property
    def memory(self) -> dict[str, int]:
        found = super().memory
        return found | {"state": self.table.nbytes - found["values"]}
