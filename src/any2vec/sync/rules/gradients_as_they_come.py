"""Gradients step the parameters as they come, whoever sends them: asynchronous, or with a bound on staleness.

Asynchronous: Dean et al. 2012, "Large scale distributed deep networks", section 4.1. Bounded: stale synchronous
parallel, Ho et al. 2013, section 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from any2vec.sync.rules.gradient_rule import UNKNOWN, GradientRule
from any2vec.tables.replica import Replica
from any2vec.tables.server.clocks import END, REST, Clocks


class GradientsAsTheyCome(GradientRule):
    """A `GradientRule`.

    Args:
        bound: a trainer reads for its batch c only when the slowest has sent the gradients of c - bound batches; None:
            at any time, and trainers may have several worker threads each.
    """

    def __init__(self, replica: Replica, trainers: Iterable[int], bound: int | None = None) -> None:
        self.replica = replica
        self.clocks = Clocks(trainers, bound, in_step=False)
        self.steps = 0
        self.overtaken: Counter[int] = Counter()
        """gradients by how many others stepped the parameters between their trainer's last read and them"""
        self._seen: dict[int, int] = {}
        """trainer -> steps before its last read"""

    def may_read(self, trainer: int, position: int) -> bool:
        return self.clocks.may_read(position)

    def read(self, trainer: int, position: int) -> int:
        self._seen[trainer] = self.steps
        if self.clocks.bound is not None:
            self.clocks.read(trainer, position)
        return position

    def take(self, trainer: int, step: int, gradient_Q: np.ndarray) -> None:
        if self.clocks.bound is not None:
            self.clocks.tick(trainer, step)
        self.replica.step(gradient_Q)
        self.overtaken[self.steps - self._seen.get(trainer, self.steps)] += 1
        self.steps += 1

    def verdict(self, trainer: int) -> int:
        return UNKNOWN

    def rest(self, trainer: int) -> None:
        self.clocks.tick(trainer, REST)

    def leave(self, trainer: int) -> None:
        self.clocks.tick(trainer, END)

    def position(self, trainer: int) -> int:
        return self.clocks.of(trainer)

    def metrics(self) -> dict[str, Any]:
        """steps; overtaken: gradients by steps of others since the read; staleness (bounded): reads by batches."""
        found: dict[str, Any] = {"steps": self.steps, "overtaken": _histogram(self.overtaken)}
        return found if self.clocks.bound is None else {**found, "staleness": _histogram(self.clocks.staleness)}


def _histogram(counts: Counter[int]) -> dict[str, int]:
    return {str(number): counts[number] for number in sorted(counts)}
