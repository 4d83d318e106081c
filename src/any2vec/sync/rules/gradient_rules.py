"""What a server of dense parameters does with gradients: the contract of the rules, and the two that there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from any2vec.errors import InputError
from any2vec.tables.replica import Replica
from any2vec.tables.server.clocks import END, REST, Clocks

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
        """What became of the trainer's last gradient, returned once: ACCEPTED or DROPPED; else UNKNOWN."""

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


class OnHeld(Protocol):
    """Who holds what else of a step takes effect with it: the rows of the trainers that were accepted."""

    def notify(self, step: int, trainers: Sequence[int]) -> None:
        """These trainers, ascending, and no others, are accepted for a step; it has taken effect when this returns.

        Step by step, from 0.
        """


class FirstGradients:
    """A `GradientRule`.

    The sum of a step's first `needed` gradients, in rank order in float32, times N / `needed`: where trainers scale
    theirs by 1 / N, the mean over the accepted. Where fewer trainers are left than are needed, all of them are needed,
    and those that have none count as zero. A gradient that belongs to an earlier step is dropped, so none counts twice,
    or for another step.

    Args:
        needed: M, 1..N.
        on_held: learns who was accepted, step by step; None: nobody.

    The first M of N gradients of a step count, the late ones do not: synchronous training with backup workers. Abadi et
    al. 2016, "TensorFlow: a system for large-scale machine learning", section 4.4; Chen et al. 2016, "Revisiting
    distributed synchronous SGD", algorithms 3 and 4. Ours: batches belong to steps by their numbers, so a trainer that
    came too late for a step leaves out its batches up to the step of the others, and all end together.
    """

    def __init__(self, replica: Replica, trainers: Iterable[int], needed: int, on_held: OnHeld | None = None) -> None:
        self.replica = replica
        self.trainers = tuple(trainers)
        self.needed = needed
        self.on_held = on_held
        self.step = 0
        """the one whose gradients are collected"""
        self._active = set(self.trainers)
        self._left: set[int] = set()
        self._gave: dict[int, np.ndarray] = {}
        self._verdict: dict[int, int] = {}
        self._closed: list[tuple[int, list[int]]] = []
        """steps of which nobody was notified yet"""
        if not 1 <= needed <= len(self.trainers):
            raise InputError(
                f"M of m-of-n must be from 1 to the number of trainers, {len(self.trainers)}; got {needed}."
            )

    def may_read(self, trainer: int, position: int) -> bool:
        return self.step >= position

    def read(self, trainer: int, position: int) -> int:
        return self.step

    def take(self, trainer: int, step: int, gradient_Q: np.ndarray) -> None:
        if gradient_Q.shape != self.replica.value.shape:
            raise InputError(f"A gradient has shape {self.replica.value.shape}, got {gradient_Q.shape}.")
        if step < self.step:
            self._verdict[trainer] = DROPPED
            return
        if step > self.step or trainer in self._gave:
            raise InputError(
                f"Rank {trainer} sent a gradient for step {step}; step {self.step} takes one of each trainer, and no "
                "later one is open."
            )
        self._gave[trainer] = gradient_Q
        self._close()

    def verdict(self, trainer: int) -> int:
        return self._verdict.pop(trainer, UNKNOWN)

    def rest(self, trainer: int) -> None:
        self._active.discard(trainer)
        self._close()
        if not self._active:
            self._active = set(self.trainers) - self._left

    def leave(self, trainer: int) -> None:
        self._left.add(trainer)
        self.rest(trainer)

    def position(self, trainer: int) -> int:
        return self.step

    def publish(self) -> None:
        closed, self._closed = self._closed, []
        for step, trainers in closed:
            if self.on_held is not None:
                self.on_held.notify(step, trainers)

    def metrics(self) -> dict[str, Any]:
        return {"steps": self.step}

    def _close(self) -> None:
        """Take the step if enough have come, of those who may."""
        if not self._gave or len(self._gave) < min(self.needed, len(self._active | self._gave.keys())):
            return
        total = sum_in_rank_order(self._gave)
        if self.needed < len(self.trainers):
            total *= np.float32(len(self.trainers) / self.needed)
        self.replica.step(total)
        self._verdict.update(dict.fromkeys(self._gave, ACCEPTED))
        self._closed.append((self.step, sorted(self._gave)))
        self._gave = {}
        self.step += 1


class AsyncGradients(GradientRule):
    """A `GradientRule`.

    Args:
        bound: a trainer reads for its batch c only when the slowest has sent the gradients of c - bound batches; None:
            at any time, and trainers may have several worker threads each.

    Gradients step the parameters as they come, whoever sends them: asynchronous, or with a bound on staleness.
    Asynchronous: Dean et al. 2012, "Large scale distributed deep networks", section 4.1. Bounded: stale synchronous
    parallel, Ho et al. 2013, section 3.
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
