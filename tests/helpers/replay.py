"""Any interleaving of workers' steps and phases of syncs, in one thread: the same rules, without chance.

What a thread would do while it waits for another, a schedule simply does not do: whoever syncs too early gets an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from any2vec.cluster.message import Part, overhead
from any2vec.cluster.threads import run_logical
from any2vec.plan.sharding.sharding import contiguous_bounds
from any2vec.sync.base.group import ProcessGroup
from any2vec.sync.drivers.replicas import Syncing
from any2vec.sync.make import make_rule
from any2vec.sync.options.names import Fixed, FixedEasgd, Shadow, ShadowEasgd
from any2vec.sync.rules.center import PROGRESS, PULL, WRITE, CenterBlock
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
        is_elastic = isinstance(how, ShadowEasgd | FixedEasgd)
        self.center = CenterBlock(size, len(replicas), how.alpha) if is_elastic else None
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


class NearCenter:
    """A center in this process, for trainers that share it without a transport. `trainer` is whose end this is."""

    def __init__(self, block: CenterBlock, trainer: int) -> None:
        self.block = block
        self.trainer = trainer
        self.sent = self.received = 0

    def pull(self, seen_Q: np.ndarray) -> np.ndarray:
        return self.block.call(PULL, self.trainer, [Part("dense", seen_Q)])[0].array

    def read(self) -> np.ndarray:
        return self.block.value.copy()

    def write(self, value_Q: np.ndarray) -> None:
        self.block.call(WRITE, self.trainer, [Part("dense", value_Q)])

    def progress(self, is_done: bool) -> tuple[np.ndarray, np.ndarray]:
        reported_T = self.block.call(PROGRESS, self.trainer, [Part("control", np.array([is_done], np.int64))])[0].array
        return reported_T[0], reported_T[1] > 0


def average_bytes(size: int, trainers: int, rank: int) -> tuple[int, int]:
    """(bytes sent, bytes received) by one trainer when the replicas of `size` parameters are averaged once."""
    bounds = contiguous_bounds(size, trainers)
    own = bounds[rank + 1] - bounds[rank]
    heads = (trainers - 1) * (overhead(2) + 8 + overhead(1))
    sent = received = heads + 4 * (size - own) + 4 * (trainers - 1) * own
    return sent, received
