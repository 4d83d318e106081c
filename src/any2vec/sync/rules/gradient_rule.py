"""What a server of dense parameters does with gradients: the contract of the rules."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from any2vec.tables.replica import Replica

UNKNOWN, DROPPED, ACCEPTED = -1, 0, 1
"""what became of a gradient"""


class GradientRule(Protocol):
    """Who may read when, and which gradients count. Called by one thread at a time; knows no messages.

    Trainers count their batches; a trainer's position is the number of those before.
    """

    replica: Replica
    """what the server holds: parameters (all, or a slice), and the state of their optimizer"""

    def may_read(self, trainer: int, position: int) -> bool:
        """Whether a trainer gets the parameters now for its batch at a position."""

    def read(self, trainer: int, position: int) -> int:
        """A trainer gets them: the step to which its gradient will belong; above `position`, it is too late for one."""

    def take(self, trainer: int, step: int, gradient_Q: np.ndarray) -> None:
        """A gradient, float32 (Q,), kept or not.

        Raises:
            InputError: the trainer was not to send one.
        """

    def verdict(self, trainer: int) -> int:
        """What became of the trainer's last gradient, told once: ACCEPTED or DROPPED; else UNKNOWN."""

    def rest(self, trainer: int) -> None:
        """A trainer stands still; when all do that have not left, all go on."""

    def leave(self, trainer: int) -> None:
        """A trainer sends nothing more."""

    def position(self, trainer: int) -> int:
        """From where a trainer goes on that has rested."""

    def publish(self) -> None:
        """Tell others what was decided, after those who waited for it have been answered; it has taken effect then."""
        return

    def metrics(self) -> dict[str, Any]:
        """Counts for the summary."""


def sum_in_rank_order(gradients: dict[int, np.ndarray]) -> np.ndarray:
    """The float32 sum of one array or more of the same shape, by rank: ((first + second) + third) + …"""
    first, *rest = sorted(gradients)
    total = gradients[first].copy()
    for rank in rest:
        total += gradients[rank]
    return total
