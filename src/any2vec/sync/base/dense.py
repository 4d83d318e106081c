"""How trainers agree on the dense parameters of a model: the contract, and the one that agrees with nobody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from any2vec.tables.replica import Replica
from any2vec.types import Service, ShardedStateful, State


class DenseAgreement(Service, ShardedStateful, Protocol):
    """One trainer's side. Its worker threads call `begin` and `apply` for each of their batches, at once.

    It starts when all hosts are here. It quiesces where this trainer's workers stand still, and so do all others':
    nothing is on its way afterwards. It closes when this trainer has no batch left, and returns when all have come so
    far, or raises HostError in good time.

    Embedding rows are no business of it: they have one copy, or an access of their own.
    """

    def begin(self, worker: int, index: int) -> int:
        """Before batch `index` of this trainer (from 0): the step to which its gradients will belong, or LEFT_OUT.

        Steps are those of all trainers together, and may differ from `index`, either way. The replica is then as fresh
        as the rule asks.
        """

    def apply(self, worker: int, step: int, gradient_Q: np.ndarray) -> None:
        """Change the replica by the gradient of a batch, float32 (Q,), which is the caller's again afterwards."""

    def gather_result(self) -> np.ndarray | None:
        """The parameters that count as the model, at rank 0, None elsewhere; collective, after `quiesce` or `close`."""

    def continues(self, states: Sequence[State]) -> bool:
        """Whether replicas that a former run left, with the states of its hosts, go on as they are.

        Where not, all begin with what that run had agreed on: its rule kept nothing of what this one starts from.
        """
        return True

    def metrics(self) -> dict[str, Any]:
        """Counts for the summary: numbers, and histograms {text of a number: count}."""


class NoAgreement(DenseAgreement):
    """Every trainer for itself; the model is rank 0's replica."""

    def __init__(self, replica: Replica, rank: int = 0) -> None:
        self.replica = replica
        self.rank = rank

    def begin(self, worker: int, index: int) -> int:
        return index

    def apply(self, worker: int, step: int, gradient_Q: np.ndarray) -> None:
        self.replica.step(gradient_Q)

    def gather_result(self) -> np.ndarray | None:
        return self.replica.value if self.rank == 0 else None

    def metrics(self) -> dict[str, Any]:
        return {}
