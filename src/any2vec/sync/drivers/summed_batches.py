"""A trainer of a stream whose model is dense: at every step all trainers step once, by the mean of their gradients.

Legend: Q parameters.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from any2vec.sync.drivers.summed_gradients import SummedGradients
from any2vec.types import Stats


class SteppedLearner:
    """The parameters of a learner, as an agreement steps them.

    Args:
        value_Q: float32 (Q,), what they begin with.
        step: takes a step by a gradient.
    """

    def __init__(self, value_Q: np.ndarray, step: Callable[[np.ndarray], None]) -> None:
        self.value = value_Q
        self.state: dict[str, np.ndarray] = {}
        self._step = step

    def step(self, gradient_Q: np.ndarray) -> None:
        self._step(gradient_Q)


class SummedBatches:
    """The driver of one trainer. A round has a batch for each; who has fewer steps in it takes those of the others."""

    def __init__(self, agreement: SummedGradients) -> None:
        self.agreement = agreement

    def begin(self) -> None:
        """Before a step: all parameters are here."""

    def agree(self, gradient_Q: np.ndarray) -> None:
        """Step by the sum of this gradient, float32 (Q,), and those of the others."""
        self.agreement.apply(0, 0, gradient_Q)

    def before(self, work: object) -> None:
        """All parameters are here."""

    def after(self, work: object, stats: Stats) -> None:
        """Take the steps of the others until the round is over."""
        self.agreement.quiesce()

    def is_settled(self, work: object) -> bool:
        return False
