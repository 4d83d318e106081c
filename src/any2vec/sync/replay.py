"""Any interleaving of workers' steps and phases of syncs, in one thread: the same rules, without chance.

What a thread would do while it waits for another, a schedule simply does not do: whoever syncs too early gets an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from any2vec.cluster.threads import run_logical
from any2vec.sync.base.group import ProcessGroup
from any2vec.sync.drivers.syncing import Syncing
from any2vec.sync.options.names import Fixed, Shadow
from any2vec.sync.replica_make import make_rule, needs_center
from any2vec.sync.rules.center import CenterBlock, NearCenter
from any2vec.sync.rules.replica_rule import WORKING, Phase
from any2vec.tables.replica import Replica


class Replay:
    """Trainers 0..N - 1, each with a replica, that a schedule drives.

    Args:
        replicas: by trainer, in the order of their ranks; kept.
    """

    def __init__(self, how: Shadow | Fixed, replicas: Sequence[Replica]) -> None:
        self.replicas = list(replicas)
        ends = run_logical(len(replicas), lambda transport: transport)  # of hosts that have ended: nothing can wait
        size = len(replicas[0].value)
        self.center = CenterBlock(size, len(replicas), getattr(how, "alpha", 0.0)) if needs_center(how) else None
        if self.center is not None:
            self.center.value[:] = replicas[0].value
        self.syncings = [
            Syncing(
                make_rule(
                    how, replica, ProcessGroup(end, len(replicas)),
                    None if self.center is None else NearCenter(self.center, end.rank),
                )
            )
            for end, replica in zip(ends, replicas, strict=True)
        ]  # fmt: skip
        self._left: list[list[Phase]] = [[] for _ in replicas]
        """phases of each trainer's sync that are still to come, the next one last"""

    @property
    def phases(self) -> int:
        """Calls of `sync` that make up one sync: snapshot, communication, merge."""
        return len(self.syncings[0].rule.communicate) + 2

    def step(self, trainer: int, gradient_Q: np.ndarray, worker: int = 0) -> None:
        """A worker of a trainer does an iteration."""
        self.replicas[trainer].step(gradient_Q)
        self.syncings[trainer].iterate(worker)

    def sync(self, trainer: int, standing: int = WORKING) -> None:
        """The next phase of a trainer's sync.

        Raises:
            HostError: it needs a phase of another trainer that has not been done.
        """
        syncing = self.syncings[trainer]
        left = self._left[trainer]
        if not left:
            left += [syncing.merge, *reversed(syncing.rule.communicate), partial(syncing.rule.snapshot, standing)]
        left[-1]()
        left.pop()

    def sync_all(self, standing: int = WORKING) -> None:
        """A whole sync of all trainers, while their workers stand still."""
        for _ in range(self.phases):
            for trainer in range(len(self.replicas)):
                self.sync(trainer, standing)
