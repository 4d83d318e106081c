"""Synchronous training of rows without a cache: every step pulls its rows, and all trainers' gradients step them once.

It is what cached synchronous training must equal, bit by bit.

Legend: B rows of a block, C their columns, W those that are values, K rows of a push.
"""

from __future__ import annotations

import numpy as np

from any2vec.errors import InputError
from any2vec.kernels.rank_sums import add_in_turn
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.remote import RowClient
from any2vec.tables.row_block import RowBlock
from any2vec.tables.row_optimiser import RowOptimiser


class GradientSum:
    """Merger of a `RowBlock` in step: sums a step's gradients in rank order, then lets the optimiser step once.

    Args:
        table_BC: float32 (B, C), C order, values and state as `optimiser` has them; kept, not copied.
    """

    def __init__(self, table_BC: np.ndarray, optimiser: RowOptimiser) -> None:
        self.table = table_BC
        self.optimiser = optimiser
        self.rows = table_BC[:, : optimiser.width]
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
        slot_K = np.unique(np.concatenate([slots for slots, _ in parts]))
        sum_KW, is_begun_K = np.empty((len(slot_K), self.optimiser.width), np.float32), np.zeros(len(slot_K), np.uint8)
        for slots, gradients in parts:
            add_in_turn(gradients, np.searchsorted(slot_K, slots), is_begun_K, sum_KW)
        self.optimiser.step(self.table, slot_K, sum_KW)
        return slot_K


def in_step_block(table_BC: np.ndarray, optimiser: RowOptimiser) -> RowBlock:
    """The block of a server for `InStepRows`, which is made with bound 0 and in_step."""
    return RowBlock(GradientSum(table_BC, optimiser), in_step=True)


class InStepRows:
    """A trainer's access to rows of `in_step_block`s: a step reads what all steps before it have made of the rows.

    Args:
        num_steps: of the trainer that has most; one whose batches end earlier takes part in the rest without rows.
    """

    def __init__(self, client: RowClient, name: str, optimiser: RowOptimiser, num_steps: int) -> None:
        self.client = client
        self.name = name
        self.optimiser = optimiser
        self.num_steps = num_steps
        self._done = 0

    def pooled(self, rows: BatchRows, step: int) -> np.ndarray:
        """Sums over the bags, float32 (P, W); waits for the slowest trainer.

        Raises:
            HostError: a server or a trainer is lost.
        """
        value_UW = self.client.pull({self.name: rows.row_U}, step)[self.name]
        return rows.pool(value_UW, self.optimiser.width)

    def push(self, rows: BatchRows, step: int, gradient_PW: np.ndarray) -> None:
        """Send the gradients of the step; steps come one after the other from 0 on."""
        self.client.push(self.name, rows.row_U, rows.gradients(gradient_PW), step)
        self.client.tick(step)
        self._done = step + 1

    def flush(self) -> None:
        """Wait until everything has been taken. The rows change once the other trainers have come here, too."""
        self.client.drain()

    def finish(self) -> None:
        """Take part in the steps that others still have, and flush."""
        for step in range(self._done, self.num_steps):
            self.client.tick(step)
        self._done = self.num_steps
        self.flush()
