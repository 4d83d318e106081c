"""The contract of a rule by which replicas of dense parameters synchronize: snapshot, communicate, merge.

What calls it is a driver's business (any2vec.sync.drivers.replicas): a thread behind the workers, the workers
themselves every k iterations, or a schedule (the tests).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from any2vec.tables.replica import Replica
from any2vec.types import Service, ShardedStateful, State

WORKING, STANDING, FINISHED = 0, 1, 2
"""what a trainer says of itself in a sync: its workers run, they stand still for a while, or it has no batch left"""
Phase = Callable[[], None]


class ReplicaRule(Service, ShardedStateful, Protocol):
    """One trainer's side of a rule; one sync at a time.

    It starts when all trainers are here, with equal replicas or those of a checkpoint; it quiesces when they stand
    still and no sync is under way; it closes behind the last sync, when that is so of all trainers. Collective.
    """

    rank: int
    replica: Replica
    seen: np.ndarray
    """the last snapshot, float32 (Q,)"""

    @property
    def sent(self) -> int:
        """Bytes that syncs have sent, heads of messages included."""

    @property
    def received(self) -> int: ...

    @property
    def takes_back(self) -> float:
        """Share of what workers do while a sync runs that its merge takes back; 1 where it overwrites."""

    @property
    def communicate(self) -> tuple[Phase, ...]:
        """What follows a snapshot, in its order; each phase may wait for the others' phases before it, no more."""

    @property
    def agreed(self) -> int:
        """The least that any trainer has said of itself in the last sync, for which this rule waits for it.

        Where all stand still the sync was nothing but that word: there is nothing to merge.
        """

    def snapshot(self, standing: int) -> None:
        """Begin a sync with the replica of this moment, while workers run."""

    def merge(self) -> None:
        """End a sync: bring what was communicated into the replica, while workers run."""

    def continues(self, states: Sequence[State]) -> bool:
        """As of `DenseAgreement`: whether the states have what this rule starts from."""

    def gather_result(self) -> np.ndarray | None:
        """The parameters that count as the model, at rank 0, after `quiesce` or `close`. Collective."""


def from_slices(name: str, states: Sequence[State], size: int) -> np.ndarray | None:
    """An array of `size` numbers whose slices ranks remembered in their order; None where they do not make it up."""
    slices = [np.asarray(state[name], np.float32) for state in states if name in state]
    whole = np.concatenate(slices) if slices else np.empty(0, np.float32)
    return whole if whole.size == size else None
