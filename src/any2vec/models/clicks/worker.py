"""What one worker thread does with one batch of clicks: rows in, forward, backward, gradients out.

Legend: B examples, F columns, P = B F bags, W values of a row, Q dense parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import nn

from any2vec.data.clicks.rows import ClickBatch
from any2vec.errors import InputError
from any2vec.models.clicks.nets import share_storage
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.row_table import PooledTable
from any2vec.types import LEFT_OUT


class Agreement(Protocol):
    """What a worker needs of `any2vec.sync.base.dense.DenseAgreement`."""

    def begin(self, worker: int, index: int) -> int:
        """The step to which the gradients of batch `index` will belong, or LEFT_OUT."""

    def apply(self, worker: int, step: int, gradient_Q: np.ndarray) -> None:
        """Change the dense parameters."""


class ClickWorker:
    """One of the Hogwild threads of a trainer.

    Args:
        net: a module of its own, over the dense parameters that all workers share.
        value_Q: those, float32 (Q,).
        is_mean_F: bool (F,): columns whose bags are means; those of the others are sums.
        scale: of every gradient: 1 / trainers where a step takes the mean of all trainers' gradients, else 1.
        place: from rows of the table, int64 (M,), to those that `access` knows; None: they are the same.
        row_scale: of gradients of rows besides, where rows alone step by such a mean.
    """

    def __init__(
        self, number: int, net: nn.Module, value_Q: np.ndarray, access: PooledTable, agreement: Agreement,
        is_mean_F: np.ndarray, scale: float = 1.0, place: Callable[[np.ndarray], np.ndarray] | None = None,
        row_scale: float = 1.0,
    ) -> None:  # fmt: skip
        self.number = number
        self.net = net
        self.access = access
        self.agreement = agreement
        self._gradient_Q = np.zeros_like(value_Q)
        self._is_mean_F = is_mean_F
        self._has_means = bool(is_mean_F.any())
        self.updates = 0
        """of rows"""
        self._scale = scale
        self._row_scale = np.float32(row_scale)
        self._place = place
        share_storage(net, value_Q, self._gradient_Q)

    def train(self, batch: ClickBatch, index: int) -> float | None:
        """Train on batch `index` of this trainer; the sum of the losses of its examples, None where it was left out.

        Raises:
            InputError: the loss is no number any more; rows and dense layers are as they were.
        """
        step = self.agreement.begin(self.number, index)
        if step == LEFT_OUT:
            return None
        size = max(1, len(batch.label_B))
        rows = BatchRows.of(batch.id_M if self._place is None else self._place(batch.id_M), batch.start_P)
        pooled_BFW = self._pooled(rows, step, len(batch.label_B))
        self._gradient_Q[:] = 0.0
        logit_B = self.net(torch.from_numpy(batch.dense_BX), pooled_BFW)
        loss = nn.functional.binary_cross_entropy_with_logits(logit_B, torch.from_numpy(batch.label_B), reduction="sum")
        loss_sum = float(loss.detach())
        if not math.isfinite(loss_sum):
            raise InputError(
                f"The loss of batch {index} is {loss_sum}: the training has diverged; lower learning_rate or "
                "dense_learning_rate."
            )
        loss.backward(torch.tensor(self._scale / size))
        assert pooled_BFW.grad is not None
        gradient_PW = pooled_BFW.grad.numpy().reshape(rows.num_bags, pooled_BFW.shape[2])
        if self._row_scale != 1:
            gradient_PW = gradient_PW * self._row_scale
        self.access.apply_pooled(rows, self._per_bag(rows, gradient_PW), step)
        self.updates += len(rows.row_U)
        self.agreement.apply(self.number, step, self._gradient_Q)
        return loss_sum

    def rest(self, step: int) -> None:
        """Take part in a step of the rows without examples."""
        rows = BatchRows.of(np.empty(0, np.int64), np.zeros(1, np.int64))
        self.access.apply_pooled(rows, self.access.pool(rows, step), step)

    def _pooled(self, rows: BatchRows, step: int, size: int) -> torch.Tensor:
        sums_PW = self._per_bag(rows, self.access.pool(rows, step))
        num_columns = len(self._is_mean_F)
        return torch.from_numpy(sums_PW).view(size, num_columns, sums_PW.shape[1]).requires_grad_()

    def _per_bag(self, rows: BatchRows, value_PW: np.ndarray) -> np.ndarray:
        """Sums become means where a column has means, and gradients of means those of sums."""
        if not self._has_means:
            return value_PW
        count_P = np.maximum(np.diff(rows.start_P1), 1)
        count_P[~np.tile(self._is_mean_F, rows.num_bags // len(self._is_mean_F))] = 1
        return value_PW / count_P[:, None].astype(np.float32)


def predict(net: nn.Module, batch: ClickBatch, sums_PW: np.ndarray, is_mean_F: np.ndarray) -> np.ndarray:
    """Probabilities of clicks, float64 (B,), from sums of rows over bags; nothing is learned."""
    num_columns = len(is_mean_F)
    count_P = np.maximum(np.diff(batch.start_P), 1)
    count_P[~np.tile(is_mean_F, len(batch.label_B))] = 1
    pooled = torch.from_numpy(sums_PW / count_P[:, None].astype(np.float32))
    with torch.no_grad():
        logit_B = net(torch.from_numpy(batch.dense_BX), pooled.view(len(batch.label_B), num_columns, -1))
        return torch.sigmoid(logit_B.double()).numpy()
