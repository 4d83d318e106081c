"""Blockwise model-update filtering (BMUF; Chen, Huo 2016): a global model follows the mean of the replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from any2vec.kernels.replicas.replicas import block_momentum
from any2vec.sync.base.group import ProcessGroup
from any2vec.sync.rules.averaged_replica import Averaged, total_of
from any2vec.sync.rules.replica_rule import from_slices
from any2vec.tables.replica import Replica
from any2vec.types import State


class BlockMomentum(Averaged):
    """S-BMUF, and FR-BMUF with a blend of share 1.

    velocity = momentum velocity + rate (mean - global); global += velocity.
    All replicas start from the global model, and it is the model. Each trainer keeps its slice of the velocity.

    Args:
        rate: (0, 2]; momentum: [0, 1), of two trainers or more: a mean of one filters nothing.
    """

    def __init__(
        self, replica: Replica, group: ProcessGroup, share: float = 0.5, how: Literal["shift", "blend"] = "shift",
        rate: float = 1.0, momentum: float = 0.5,
    ) -> None:  # fmt: skip
        super().__init__(replica, group, share, how)
        self.rate = rate
        self.momentum = momentum if group.trainers > 1 else 0.0
        own = self.slice_of(self.rank)
        self.velocity = np.zeros(own.stop - own.start, np.float32)

    def gather_result(self) -> np.ndarray | None:
        return None if self.rank else self.target.copy()

    def continues(self, states: Sequence[State]) -> bool:
        """Where they have the global model."""
        return from_slices("bmuf.global", states, len(self.target)) is not None

    def state_dict(self) -> State:
        own = self.slice_of(self.rank)
        return {"bmuf.global": self.target[own].copy(), "bmuf.velocity": self.velocity.copy()}

    def load_state_dict(self, states: Sequence[State]) -> None:
        """Of any number of trainers: their slices, one behind the other, are the whole."""
        known, velocity = (from_slices(name, states, len(self.target)) for name in ("bmuf.global", "bmuf.velocity"))
        if known is not None:
            self.target[:] = known
            self.is_recalled = True
        if velocity is not None:
            self.velocity[:] = velocity[self.slice_of(self.rank)]

    def _result(self, values: Sequence[np.ndarray]) -> np.ndarray:
        global_S = self.target[self.slice_of(self.rank)].copy()
        block_momentum(total_of(values), self.group.trainers, self.rate, self.momentum, self.velocity, global_S)
        return global_S
