"""Replicas that all trainers average, and what they make of the mean: model averaging, and what extends it.

Each trainer owns a slice of the parameters: it gets the slice of all snapshots, adds them up in rank order in float64,
and broadcasts the result. Trainers wait for each other, their workers do not. How a replica, which they have moved
meanwhile, then goes over to the result:

    blend  (1 - share) replica + share result      ShadowSync (Zheng et al. 2020): takes back a share of what they did;
                                                   with share 1 it is the foreground algorithm, which assigns
    shift  replica + share (result - snapshot)     ours: takes back nothing; the same where workers stand still

A slow sync spans most of the workers' time, so a blend takes back about `share` of all that they learn. With 8 trainers
it has learned less (docs/log.md), and shift is the default.

Each message to an owner says whether its sender works, stands still or has finished, so all know the same of a round.

Legend: Q parameters, N trainers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

import numpy as np

from any2vec.cluster.message import Part, size_of
from any2vec.cluster.transport import control
from any2vec.kernels.replicas.replicas import add_replica, copy_replica, mean_replica, merge_shift, merge_towards
from any2vec.plan.sharding.sharding import contiguous_bounds
from any2vec.sync.base.group import ProcessGroup
from any2vec.sync.rules.replica_rule import FINISHED, STANDING, WORKING, Phase
from any2vec.tables.replica import Replica
from any2vec.types import Service, ShardedStateful, State


class Averaged(Service, ShardedStateful, ABC):
    """One trainer's side of a round of averages.

    Args:
        share: how far a replica goes over to the result in a sync, (0, 1]; in the last one it goes all the way.
    """

    def __init__(
        self, replica: Replica, group: ProcessGroup, share: float = 0.5, how: Literal["shift", "blend"] = "shift"
    ) -> None:
        self.rank = group.rank
        self.replica = replica
        self.group = group
        self.share = share
        self.how = how
        self.seen = replica.value.copy()
        self.target = replica.value.copy()
        """the last result, float32 (Q,)"""
        self.is_recalled = False
        self.sent = self.received = 0
        """bytes of syncs, heads of messages included"""
        self._bounds = contiguous_bounds(len(replica.value), group.trainers)
        self._standing = self._agreed = WORKING

    @property
    def takes_back(self) -> float:
        return 0.0 if self.how == "shift" else self.share

    @property
    def communicate(self) -> tuple[Phase, ...]:
        return self.scatter, self.reduce, self.gather

    @property
    def agreed(self) -> int:
        return self._agreed

    def start(self) -> None:
        """Trainers meet in every sync; until the first, and unless another is recalled, the result is the replica."""
        if not self.is_recalled:
            self.target = self.replica.value.copy()

    def snapshot(self, standing: int) -> None:
        self._standing = standing
        self.seen = np.empty_like(self.replica.value)  # a new one each time: what was sent may still be on its way
        copy_replica(self.replica.value, self.seen)

    def scatter(self) -> None:
        """Send each owner its slice."""
        for peer in self.group.others:
            self._announce(peer, [control(self._standing), Part("dense", self.seen[self.slice_of(peer)])], "scatter")

    def reduce(self) -> None:
        """Take what all have of the own slice, agree on the result, and tell all."""
        own = self.slice_of(self.rank)
        said, values = [self._standing], []
        for rank in range(self.group.trainers):
            if rank == self.rank:
                values.append(self.seen[own])
                continue
            standing, part = self._receive(rank, "scatter")
            said.append(int(standing.array[0]))
            values.append(self.group.numbers(rank, part, own.stop - own.start))
        self._agreed = min(said)
        if self._agreed == STANDING:
            return
        result_S = self._result(values)
        self.target = self.target.copy()
        self.target[own] = result_S
        for peer in self.group.others:
            self._announce(peer, [Part("dense", result_S)], "gather")

    def gather(self) -> None:
        """Receive the other slices of the result."""
        if self._agreed == STANDING:
            return
        for rank in self.group.others:
            where = self.slice_of(rank)
            (part,) = self._receive(rank, "gather")
            self.target[where] = self.group.numbers(rank, part, where.stop - where.start)

    def merge(self) -> None:
        value, is_last = self.replica.value, self._agreed == FINISHED
        if self.how == "shift" and not is_last:
            merge_shift(value, self.target, self.seen, self.share)
        else:
            merge_towards(value, self.target, 1.0 if is_last else self.share)

    def quiesce(self) -> None:
        """All have received it in the round before."""
        assert self._agreed >= STANDING, "a trainer works"

    def close(self, error: BaseException | None = None) -> None:
        """All have received it in the round before."""
        assert error is not None or self._agreed == FINISHED, "a trainer has batches left"

    def continues(self, states: Sequence[State]) -> bool:
        """The mean of replicas is their mean, whatever they started from."""
        return True

    def slice_of(self, rank: int) -> slice:
        """The parameters that a trainer owns."""
        return slice(self._bounds[rank], self._bounds[rank + 1])

    def _announce(self, peer: int, parts: Sequence[Part], phase: str) -> None:
        self.sent += size_of(parts)
        self.group.send(peer, parts, phase)

    def _receive(self, peer: int, phase: str) -> tuple[Part, ...]:
        parts = self.group.recv(peer, phase)
        self.received += size_of(parts)
        return parts

    @abstractmethod
    def gather_result(self) -> np.ndarray | None:
        """The parameters that count as the model, at rank 0, after `quiesce` or `close`. Collective."""

    @abstractmethod
    def _result(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """What snapshots of the own slice, float32 (S,) in rank order, make of it: float32 (S,), a new array."""


def total_of(values: Sequence[np.ndarray]) -> np.ndarray:
    """Their sum in the order given, float64."""
    total_S = np.zeros(len(values[0]), np.float64)
    for value_S in values:
        add_replica(total_S, value_S)
    return total_S


def mean_of(values: Sequence[np.ndarray]) -> np.ndarray:
    """Their mean, float32."""
    mean_S = np.empty(len(values[0]), np.float32)
    mean_replica(total_of(values), len(values), mean_S)
    return mean_S


def mean_of_replicas(group: ProcessGroup, value_Q: np.ndarray) -> np.ndarray | None:
    """The mean of all trainers' parameters, in rank order, at rank 0, None elsewhere. Collective."""
    if group.rank:
        group.send(0, [Part("dense", value_Q.copy())], "model")
        return None
    values = [value_Q]
    for rank in range(1, group.trainers):
        (part,) = group.recv(rank, "model")
        values.append(group.numbers(rank, part, len(value_Q)))
    return mean_of(values)


class ModelAveraging(Averaged):
    """S-MA, and FR-MA with a blend of share 1: the result is the mean. The model is the mean of the replicas."""

    def gather_result(self) -> np.ndarray | None:
        return mean_of_replicas(self.group, self.replica.value)

    def _result(self, values: Sequence[np.ndarray]) -> np.ndarray:
        return mean_of(values)
