"""DS-Sync of dense parameters as published (arXiv 2007.03298): after each step trainers average in small groups.

Each trainer steps its replica by its own gradient, then becomes the mean of its group, whose members the schedule
changes with each step. In a group of s each owns a slice: 2 (s - 1) / s replicas leave a trainer in a step, of however
many trainers. States of optimizers stay where they are. The model is the mean of all replicas.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import control
from any2vec.plan.order.groups import GroupSchedule
from any2vec.plan.sharding.sharding import contiguous_bounds
from any2vec.sync.base.dense import DenseAgreement
from any2vec.sync.base.group import ProcessGroup
from any2vec.sync.rules.averaged_replica import mean_of, mean_of_replicas
from any2vec.sync.rules.replica_rule import FINISHED, STANDING
from any2vec.tables.replica import Replica
from any2vec.types import State

_STEP = "grouped.step"


class GroupedSteps(DenseAgreement):
    """A `DenseAgreement`, of one worker thread a trainer; replicas differ.

    A trainer that stands still, or has no batch left, says so to all, in line with what it has sent for its steps: its
    groups go on without it from the step that it is the first to leave out. So who is in a group does not depend on
    the clock. Where all stand still, they go on from the step of the one that has done most.
    """

    def __init__(self, replica: Replica, group: ProcessGroup, schedule: GroupSchedule) -> None:
        self.replica = replica
        self.group = group
        self.schedule = schedule
        self.steps = 0
        """number of this trainer's next step, which says its group"""
        self.wait_seconds = 0.0
        """that this trainer spent in sending, waiting and averaging"""
        self._resting: dict[int, tuple[int, int]] = {}
        """of trainers that stand still: what they say of themselves, and their next step"""

    def begin(self, worker: int, index: int) -> int:
        return self.steps

    def apply(self, worker: int, step: int, gradient_Q: np.ndarray) -> None:
        self.replica.step(gradient_Q)
        began = time.perf_counter()
        group = next(group for group in self.schedule.groups(step) if self.group.rank in group)
        self._average(group)
        self.steps += 1
        self.wait_seconds += time.perf_counter() - began

    def quiesce(self) -> None:
        self._rest(STANDING)

    def close(self, error: BaseException | None = None) -> None:
        """Stand by until none has a batch left."""
        while error is None and self._rest(FINISHED) != {FINISHED}:
            pass

    def gather_result(self) -> np.ndarray | None:
        return mean_of_replicas(self.group, self.replica.value)

    def state_dict(self) -> State:
        return {_STEP: np.array(self.steps)}

    def load_state_dict(self, states: Sequence[State]) -> None:
        self.steps = max((int(state[_STEP]) for state in states if _STEP in state), default=0)

    def metrics(self) -> dict[str, Any]:
        """steps: counted by the first trainer; wait_seconds: of this trainer."""
        steps = {"steps": self.steps} if self.group.rank == 0 else {}
        return {**steps, "wait_seconds": self.wait_seconds}

    def _average(self, group: Sequence[int]) -> None:
        """Become the mean, in rank order, of those of the group that have this step.

        Who learns that one of them stands still sends its slices anew, as others do that learn it, sooner or later. A
        message says among how many its slices are cut, so all go on until they know the same.
        """
        value_Q, rank = self.replica.value, self.group.rank
        cut, found = dict.fromkeys(group, len(group) + 1), {}
        members = [peer for peer in group if peer not in self._resting]
        while True:
            slices = cut_among(len(value_Q), members)
            for peer in members:
                if peer != rank:
                    parts = [control(len(members)), Part("dense", value_Q[slices[peer]].copy())]
                    self.group.send(peer, parts, "reduce")
            for peer in members:
                while peer != rank and peer not in self._resting and cut[peer] > len(members):
                    said, *parts = self.group.recv(peer, None)
                    if parts:
                        cut[peer], found[peer] = int(said.array[0]), parts[0]
                    else:
                        self._note_rest(peer, said)
            if not self._resting.keys() & set(members):
                break
            members = [peer for peer in members if peer not in self._resting]
        own = slices[rank]
        size = own.stop - own.start
        values = [value_Q[own] if peer == rank else self.group.numbers(peer, found[peer], size) for peer in members]
        mean_S = value_Q[own] = mean_of(values)
        others = [peer for peer in members if peer != rank]
        for peer in others:
            self.group.send(peer, [Part("dense", mean_S)], "gather")
        for peer in others:
            (part,) = self.group.recv(peer, "gather")
            value_Q[slices[peer]] = self.group.numbers(peer, part, slices[peer].stop - slices[peer].start)

    def _rest(self, standing: int) -> set[int]:
        """Stand still until all do; what all say of themselves."""
        for rank in self.group.others:
            self.group.send(rank, [control(standing, self.steps)], "rest")
        for rank in self.group.others:
            while rank not in self._resting:
                said, *parts = self.group.recv(rank, None)
                if not parts:  # else it has begun a step that this trainer does not have
                    self._note_rest(rank, said)
        self.steps = max([self.steps, *(step for _, step in self._resting.values())])
        states = {standing} | {one for one, _ in self._resting.values()}
        self._resting = {}
        return states

    def _note_rest(self, rank: int, said: Part) -> None:
        standing, step = said.array
        self._resting[rank] = int(standing), int(step)


def cut_among(size: int, members: Sequence[int]) -> dict[int, slice]:
    """Which of so many parameters each member owns."""
    bounds = contiguous_bounds(size, len(members))
    return {rank: slice(*ends) for rank, ends in zip(members, pairwise(bounds), strict=True)}
