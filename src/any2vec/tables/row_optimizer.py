"""Row optimizers: how a gradient changes a row, whose state stands in the same row behind its values.

So whoever moves, caches or stores a row moves its state with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from any2vec.checks import check_choice, check_number
from any2vec.kernels.rows.rank_sums import sum_in_turn
from any2vec.kernels.rows.steps import adagrad_rows, adam_rows, sgd_rows

OPTIMIZERS = ("adagrad", "adam", "sgd")
BETA1, BETA2 = 0.9, 0.999


@dataclass(frozen=True)
class RowOptimizer:
    """A rule for rows of `width` values; W below."""

    width: int
    """values of a row, 1 or more"""
    kind: Literal["adagrad", "adam", "sgd"] = "adagrad"
    """adagrad and adam are row-wise: one squared gradient for a row"""
    rate: float = 0.05
    """learning rate, more than 0"""
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        check_choice("optimizer", self.kind, OPTIMIZERS)
        check_number("learning_rate", self.rate, 0, 100, open_low=True)

    @property
    def num_state(self) -> int:
        """Numbers of state in a row: 0 for sgd, 1 for adagrad, W + 2 for adam."""
        return {"sgd": 0, "adagrad": 1, "adam": self.width + 2}[self.kind]

    @property
    def num_columns(self) -> int:
        """Numbers of a row, values and state."""
        return self.width + self.num_state

    def step(
        self, table_VC: np.ndarray, slot_U: np.ndarray, gradient_UW: np.ndarray, rate: float | None = None
    ) -> None:
        """Change rows in place, without a lock; each of slot_U (int64) once. A given rate goes before the rule's."""
        rate = self.rate if rate is None else rate
        if self.kind == "sgd":
            sgd_rows(table_VC, slot_U, gradient_UW, rate)
        elif self.kind == "adagrad":
            adagrad_rows(table_VC, slot_U, gradient_UW, rate, self.epsilon)
        else:
            adam_rows(table_VC, slot_U, gradient_UW, rate, BETA1, BETA2, self.epsilon)

    def step_by_sum(
        self, table_VC: np.ndarray, pushes: Sequence[tuple[np.ndarray, np.ndarray]], scale: float = 1.0
    ) -> np.ndarray:
        """Step once by the sum of several trainers' gradients, added in the order given, on which its bits depend.

        Args:
            pushes: 1 or more, (int64 (K,), float32 (K, W)) of each trainer, whose rows are distinct.
            scale: of the sums.

        Returns:
            slot_U, int64, ascending: the rows that changed.
        """
        slot_U = np.unique(np.concatenate([slot_K for slot_K, _ in pushes]))
        parts = ((gradient_KW, np.searchsorted(slot_U, slot_K)) for slot_K, gradient_KW in pushes)
        sum_UW = sum_in_turn(parts, len(slot_U), self.width)
        if scale != 1.0:
            sum_UW *= np.float32(scale)
        self.step(table_VC, slot_U, sum_UW)
        return slot_U
