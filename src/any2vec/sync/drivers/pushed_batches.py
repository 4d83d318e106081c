"""A trainer of a stream whose model is dense: gradients go to servers, which step, and each step begins with theirs."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from any2vec.sync.drivers.served_gradients import ServedGradients
from any2vec.types import State, Stats


class DenseLearner(Protocol):
    """A learner of Q dense parameters whose optimizer has two moments and counts its steps (Adam)."""

    def put(self, value_Q: np.ndarray) -> None:
        """Take parameters, float32 (Q,)."""

    def flat_state(self) -> State:
        """value, mean, square: float32 (Q,); count: int64 ()."""

    def load_flat_state(self, state: State) -> None:
        """Go on from that."""


class PushedBatches:
    """The driver of one trainer.

    Args:
        learner: whose gradients these are; its own optimizer stands still.
        in_rounds: each trainer gets a batch at a time, and all wait for the slowest behind it.
    """

    def __init__(self, agreement: ServedGradients, learner: DenseLearner, in_rounds: bool) -> None:
        self.agreement = agreement
        self._learner = learner
        self._in_rounds = in_rounds
        self._index = self._step = 0
        """steps of this trainer; that to which the gradient at hand belongs"""

    def begin(self) -> None:
        """Before a step: the parameters become as fresh as the rule asks."""
        self._step = self.agreement.begin(0, self._index)
        self._learner.put(self.agreement.replica.value)

    def agree(self, gradient_Q: np.ndarray) -> None:
        """Send the gradient of a step, float32 (Q,)."""
        self.agreement.apply(0, self._step, gradient_Q)
        self._index += 1

    def before(self, work: object) -> None:
        """Each step asks for itself."""

    def after(self, work: object, stats: Stats) -> None:
        """In rounds: wait for the others, who wait for nobody here meanwhile."""
        if self._in_rounds:
            self.agreement.quiesce()

    def is_settled(self, work: object) -> bool:
        return False

    def quiesce(self, is_first: bool) -> None:
        """Stand still with all others; the first trainer gets what the servers have."""
        self.agreement.quiesce()
        if is_first:
            self._learner.load_flat_state(self.agreement.fetch_state())

    def write(self, is_first: bool) -> None:
        """The learner has another state now: the first trainer's is that of the servers."""
        if is_first:
            self.agreement.send_state(self._learner.flat_state())
