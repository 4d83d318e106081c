"""The driver of tables that are replicas: hosts agree behind the training, or every so many of its steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from any2vec.cluster.transport import LONG_WORK, Transport
from any2vec.sync.base.flat import Flat
from any2vec.sync.base.group import ProcessGroup
from any2vec.sync.options.names import Fixed, FixedEasgd, Shadow, ShadowEasgd
from any2vec.sync.rules.center import ServedCenter
from any2vec.tables.replica import Replica
from any2vec.types import Service, Span, State, Stats, Work

_REPLICA = "replica"


class TableReplicas(Service):
    """One host's side. Where a round ends all hosts stand still: records, checkpoints and stops are possible.

    Args:
        tables: name -> float32 (V, C), copied; `tables` then are those to train, which lie one behind the other.
        widths: name -> columns of values, before those of states.
        counts: name -> occurrences of its rows in an epoch, (V,).
    """

    def __init__(
        self, how: Shadow | Fixed, transport: Transport, tables: dict[str, np.ndarray], widths: dict[str, int],
        counts: dict[str, np.ndarray],
    ) -> None:  # fmt: skip
        from any2vec.sync.make import make_replicated  # brings every exchange, which a run on one host has no use for

        flat = Flat({name: (len(table), table.shape[1]) for name, table in tables.items()}, widths)
        self.flat = flat
        self.replica = Replica(np.concatenate([table.ravel() for table in tables.values()]), "sgd")
        self.tables = flat.views(self.replica.value)
        self.rounds = 0
        self.walk_seconds = 0.0
        self._trainers, self._rank = transport.hosts, transport.rank
        self._center = None
        if isinstance(how, ShadowEasgd | FixedEasgd):
            hosts = range(transport.hosts)
            self._center = ServedCenter(transport, flat.size, hosts, len(hosts), how.alpha)
        group = ProcessGroup(transport, transport.hosts)
        self.agreement = make_replicated(how, self.replica, group, self._center, False, flat, counts)

    @property
    def seconds(self) -> float:
        """Spent in syncs, waiting for other hosts included."""
        return self.agreement.syncing.seconds

    def start(self) -> None:
        if self._center is not None:
            self._center.start()
        self.agreement.start()

    def moved(self, worker: int) -> None:
        """A worker has trained one more batch."""
        self.agreement.moved(worker)

    def before(self, work: Work[Span]) -> None:
        self.agreement.begin(0, work.step)

    def after(self, work: Work[Span], stats: Stats) -> None:
        if work.ends_round:
            self.agreement.quiesce()
            self.rounds += 1

    def is_settled(self, work: Work[Span]) -> bool:
        return work.ends_round

    def metrics(self) -> dict[str, dict[str, int]]:
        """Iterations from one sync to the next -> how often."""
        return {"sync_gap": self.agreement.metrics()["sync_gap"]}

    def finish(self) -> None:
        """No work follows: all hosts join the last syncs."""
        self.agreement.close()

    def gather_result(self) -> dict[str, np.ndarray] | None:
        """The agreed tables at rank 0, None elsewhere; hosts stand still."""
        found = self.agreement.gather_result()
        return None if found is None else {name: table.copy() for name, table in self.flat.views(found).items()}

    def state_dict(self) -> State:
        return {_REPLICA: self.replica.value.copy()} | self.agreement.state_dict()

    def load_state_dict(self, states: Sequence[State]) -> None:
        """Go on from the states of as many hosts, left by a rule that this one continues; others begin alike, with what
        was agreed.
        """
        are_replicas = len(states) == self._trainers and all(_REPLICA in state for state in states)
        if are_replicas and self.agreement.continues(states):
            self.replica.value[:] = states[self._rank][_REPLICA]
            self.agreement.load_state_dict(states)

    def close(self, error: BaseException | None = None) -> None:
        """Nobody asks for anything more."""
        if error is not None:
            self.agreement.close(error)
        if self._center is not None:
            self._center.close(error, timeout=LONG_WORK)
