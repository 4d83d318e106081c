"""Rows whose gradients wait until somebody decides which trainers count: for synchronous steps with backup workers.

Legend: B rows of the block, C their columns, W those that are values, K rows of a push, U rows that a step changes.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from any2vec.cluster.message import Part
from any2vec.errors import InputError
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.server.blocks.trained_block import TrainedBlock

ACCEPT = 2
"""operation: [step, ranks of the trainers that count, ascending]; gives nothing"""


class HeldBlock(TrainedBlock):
    """A `TrainedBlock` that steps once for each step, by the sum of the gradients of those that count, in rank order.

    The row server that serves it has bound 0, and who decides is its only trainer: readers of step t + 1 wait for step
    t.

    Args:
        scale: of the sums: N / M where M of N trainers count, and all have scaled by 1 / N.
        applied: called with every step that has taken effect; set it to the server's `tick` for who decides.
    """

    def __init__(self, table_BC: np.ndarray, optimizer: RowOptimizer, scale: float = 1.0) -> None:
        super().__init__(table_BC, optimizer)
        self.scale = scale
        self.step = 0
        """the one whose trainers are not yet known"""
        self.applied: Callable[[int], None] = lambda step: None
        self.dropped: Counter[int] = Counter()
        """trainer -> pushes that did not count"""
        self._held: defaultdict[int, dict[int, tuple[np.ndarray, np.ndarray]]] = defaultdict(dict)
        """step -> trainer -> its push"""
        self._lock = threading.Lock()

    def push(self, trainer: int, clock: int, slot_K: np.ndarray, value_KD: np.ndarray, is_delta: bool) -> None:
        """Hold gradients, float32 (K, W), for step `clock`; drop them if it is over. slot_K int64, ascending.

        Raises:
            InputError: slots or shapes do not fit, or it is the trainer's second push of the step.
        """
        self._check(slot_K)
        self._check_push(slot_K, value_KD, is_delta)
        with self._lock:
            if clock < self.step:
                self.dropped[trainer] += 1
            elif trainer in self._held[clock]:
                raise InputError(f"Rank {trainer} pushed twice in step {clock}; its rows of a step come at once.")
            else:
                self._held[clock][trainer] = slot_K, value_KD

    def call(self, operation: int, trainer: int, parts: Sequence[Part]) -> list[Part]:
        """ACCEPT."""
        if operation != ACCEPT or len(parts) != 1 or not parts[0].array.size:
            raise InputError(
                f"Operation {operation} with {len(parts)} parts was asked of a block that holds gradients."
            )
        step, *trainers = (int(number) for number in parts[0].array.reshape(-1))
        self.accept(step, trainers)
        return []

    def accept(self, step: int, trainers: Sequence[int]) -> None:
        """Let a step take effect: exactly these trainers count, ascending; those that pushed nothing here have no rows.

        Raises:
            InputError: the step is not the next one.
        """
        with self._lock:
            if step != self.step:
                raise InputError(f"Step {step} was decided where step {self.step} was to be.")
            held = self._held.pop(step, {})
            self.dropped.update(rank for rank in held if rank not in trainers)
            counted = [held[rank] for rank in trainers if rank in held]
            if counted:
                slot_U = self.optimizer.step_by_sum(self.table, counted, self.scale)
                self.version_B[slot_U] += 1
            self.step += 1
        self.applied(step)

    def _check_push(self, slot_K: np.ndarray, value_KD: np.ndarray, is_delta: bool) -> None:
        if not is_delta or value_KD.shape != (len(slot_K), self.dim) or (np.diff(slot_K) <= 0).any():
            raise InputError(
                f"A block that holds gradients takes those of {len(slot_K)} ascending rows, of shape "
                f"{(len(slot_K), self.dim)}; got shape {value_KD.shape}, rows out of order, or values."
            )
