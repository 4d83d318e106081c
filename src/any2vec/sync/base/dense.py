"""How trainers agree on the dense parameters of a model: the contract, and the one that agrees with nobody."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from any2vec.tables.replica import Replica
from any2vec.types import ShardedStateful


class DenseAgreement(ShardedStateful, Protocol):
    """One trainer's side. Its worker threads call `begin` and `apply` for each of their batches, at once.

    Embedding rows are no business of it: they have one copy, or an access of their own.
    """

    def start(self) -> None:
        """All hosts are here; whatever runs behind the workers begins."""

    def begin(self, worker: int, index: int) -> int:
        """Before batch `index` of this trainer (from 0): the step to which its gradients will belong, or LEFT_OUT.

        Steps are those of all trainers together, and may differ from `index`, either way. The replica is then as fresh
        as the rule asks.
        """

    def apply(self, worker: int, step: int, gradient_Q: np.ndarray) -> None:
        """Change the replica by the gradient of a batch, float32 (Q,), which is the caller's again afterwards."""

    def settle(self) -> None:
        """This trainer's workers stand still, and so do all others': nothing is on its way afterwards. Collective."""

    def finish(self) -> None:
        """This trainer has no batch left; returns when all have come here, or raises HostError in good time."""

    def gather_result(self) -> np.ndarray | None:
        """The parameters that count as the model, at rank 0, None elsewhere; collective, after `settle` or `finish`."""

    def facts(self) -> dict[str, Any]:
        """Counts for the summary: numbers, and histograms {text of a number: count}."""


class NoAgreement(DenseAgreement):
    """Every trainer for itself; the model is rank 0's replica."""

    def __init__(self, replica: Replica, rank: int = 0) -> None:
        self.replica = replica
        self.rank = rank

    def start(self) -> None:
        """Nothing runs behind."""

    def begin(self, worker: int, index: int) -> int:
        return index

    def apply(self, worker: int, step: int, gradient_Q: np.ndarray) -> None:
        self.replica.step(gradient_Q)

    def settle(self) -> None:
        """Nothing is ever on its way."""

    def finish(self) -> None:
        """Nobody waits for anybody."""

    def gather_result(self) -> np.ndarray | None:
        return self.replica.value if self.rank == 0 else None

    def facts(self) -> dict[str, Any]:
        return {}
