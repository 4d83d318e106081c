"""Elastic averaging of replicas with a center (EASGD; Zhang, Choromanska, LeCun 2015), one trainer at a time.

The center's owners compute d = share * (replica - center) once, move the center by it, and the trainer moves its
replica by as much the other way: center + sum of replicas stays. Trainers do not wait for each other, and what workers
do while a sync runs is kept. The model is the center.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from any2vec.errors import HostError
from any2vec.kernels.replicas.replicas import copy_replica, merge_difference
from any2vec.sync.base.group import ProcessGroup
from any2vec.sync.rules.center import Center
from any2vec.sync.rules.replica_rule import STANDING, WORKING, Phase, ReplicaRule, from_slices
from any2vec.tables.replica import Replica
from any2vec.types import State

_KEPT = "easgd.centre"


class ElasticReplica(ReplicaRule):
    """One trainer's side of S-EASGD or FR-EASGD.

    Args:
        patience: seconds without a sync of any trainer after which one that has finished gives the others up; None:
            the transport's.
    """

    def __init__(self, replica: Replica, group: ProcessGroup, center: Center, patience: float | None = None) -> None:
        self.rank = group.rank
        self.replica = replica
        self.group = group
        self.center = center
        self.patience = group.transport.patience if patience is None else patience
        self.seen = replica.value.copy()
        self.difference = np.zeros_like(replica.value)
        self._standing = WORKING
        self._kept: np.ndarray | None = None
        """the center while all stand still, or from a former run, at rank 0"""

    takes_back = 0.0

    @property
    def communicate(self) -> tuple[Phase, ...]:
        return (self.exchange,)

    @property
    def agreed(self) -> int:
        return self._standing

    @property
    def sent(self) -> int:
        return self.center.sent

    @property
    def received(self) -> int:
        return self.center.received

    def start(self) -> None:
        """The center begins where rank 0 does, or where it had come to."""
        if self.rank == 0:
            self.center.write(self.replica.value if self._kept is None else self._kept)
        self.group.barrier()

    def snapshot(self, standing: int) -> None:
        self._standing = standing
        self.seen = np.empty_like(self.replica.value)  # a new one each time: what was sent may still be on its way
        copy_replica(self.replica.value, self.seen)

    def exchange(self) -> None:
        """Have the center move, and receive by how much; where this trainer stands still there is nothing to say."""
        if self._standing != STANDING:
            self.difference = self.center.pull(self.seen)

    def merge(self) -> None:
        merge_difference(self.replica.value, self.difference)

    def quiesce(self) -> None:
        """Rank 0 reads the center, before and after which all stand still."""
        self.group.barrier()
        self._keep()
        self.group.barrier()

    def close(self, error: BaseException | None = None) -> None:
        """Wait for the others at the center, as long as any of them goes on.

        Raises:
            HostError: a trainer has neither finished nor synchronized for `patience` seconds.
        """
        if error is not None:
            return
        before, until, pause = -1, 0.0, 0.002
        while True:
            pulls_T, is_done_T = self.center.progress(True)
            if is_done_T.all():
                break
            now = time.monotonic()
            if before != (before := int(pulls_T.sum() + is_done_T.sum())):
                until = now + self.patience
            if now > until:
                slow = int(np.flatnonzero(~is_done_T)[0])
                raise HostError(
                    f"Rank {slow} has neither finished nor synchronized for {self.patience:g} s: it hangs, or is lost."
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.5)
        self._keep()

    def gather_result(self) -> np.ndarray | None:
        return self._kept

    def continues(self, states: Sequence[State]) -> bool:
        """Where they have the center."""
        return from_slices(_KEPT, states, len(self.replica.value)) is not None

    def state_dict(self) -> State:
        return {} if self._kept is None else {_KEPT: self._kept.copy()}

    def load_state_dict(self, states: Sequence[State]) -> None:
        self._kept = from_slices(_KEPT, states, len(self.replica.value)) if self.rank == 0 else None

    def _keep(self) -> None:
        if self.rank == 0:
            self._kept = self.center.read()
