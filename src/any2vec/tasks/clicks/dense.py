"""The dense layers of a run of a model of clicks, as one host has them: its replica, and how it agrees with others'."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from any2vec.cluster.transport import LONG_WORK, Transport
from any2vec.models.clicks.config import ClickModel
from any2vec.plan.order.roles import Roles
from any2vec.sync.base.dense import DenseAgreement, NoAgreement
from any2vec.sync.base.group import ProcessGroup
from any2vec.sync.make import make_gradients, make_grouped, make_replicated
from any2vec.sync.options.names import (
    Async,
    Bounded,
    Bsp,
    ClickSync,
    Fixed,
    FixedEasgd,
    MOfN,
    NoSync,
    Shadow,
    ShadowEasgd,
    StepGroups,
)
from any2vec.sync.options.trainers import TrainerAgreement
from any2vec.sync.rules.center import ServedCenter
from any2vec.sync.rules.gradient_rules import OnHeld
from any2vec.sync.rules.replica_rule import from_slices
from any2vec.tables.replica import Replica
from any2vec.types import Service, State


class HostDense(Service):
    """One host's side; its agreement is None where it has nothing to say.

    Args:
        served: what this host has of a common copy, beside the agreement.
        starts_alike: all trainers start from the same parameters, those that were agreed.
        trainers: number of former trainers that go on with their own replicas, where what counts is made of these: with
            fewer some of it would be lost; None: any.
    """

    def __init__(
        self, agreement: DenseAgreement | None, replica: Replica, is_trainer: bool, served: ServedCenter | None = None,
        starts_alike: bool = False, trainers: int | None = None,
    ) -> None:  # fmt: skip
        self.agreement = agreement
        self.replica = replica
        self._is_trainer = is_trainer
        self._served = served
        self._starts_alike = starts_alike
        self._trainers = trainers

    def start(self) -> None:
        if self._served is not None:
            self._served.start()
        if self.agreement is not None:
            self.agreement.start()

    def quiesce(self) -> None:
        """Nothing is on its way. Collective."""
        if self.agreement is not None:
            self.agreement.quiesce()

    def gather_result(self) -> np.ndarray | None:
        """The parameters that count, at rank 0. Collective."""
        return self.agreement.gather_result() if self.agreement is not None and self._is_trainer else None

    def state_dict(self) -> State:
        """Replica, state of its optimizer, and that of the agreement."""
        if self.agreement is None:
            return {}
        own = {"replica": self.replica.value, "replica.count": np.array(self.replica.count)}
        own |= {f"replica.{name}": array for name, array in self.replica.state.items()}
        return own | self.agreement.state_dict()

    def load_state_dict(self, states: Sequence[State], agreed_Q: np.ndarray, rank: int) -> None:
        """Go on from what a former run had, by rank.

        agreed_Q: its parameters, float32 (Q,), for a trainer that is new, or where all are to be alike: also where the
            agreement does not continue that of the former run.
        """
        if self.agreement is None or not states:
            return
        are_fewer_or_more = self._trainers not in (None, sum("replica" in state for state in states))
        are_alike = self._starts_alike or are_fewer_or_more or not self.agreement.continues(states)
        has_own = not are_alike and rank < len(states) and "replica" in states[rank]
        mine = states[rank if has_own else 0]
        self.replica.value[:] = mine["replica"] if has_own else agreed_Q
        count = mine["replica.count"]
        is_served = not count.item()  # servers have made the steps, and have the state
        if is_served:
            count = next((one["count"] for one in states if "count" in one), count)
        self.replica.count = int(count.item())
        for name, array in self.replica.state.items():
            served = from_slices(name, states, len(agreed_Q)) if is_served else None
            array[:] = mine[f"replica.{name}"] if served is None else served
        self.agreement.load_state_dict(states)

    def metrics(self) -> dict[str, Any]:
        return {} if self.agreement is None else self.agreement.metrics()

    def close(self, error: BaseException | None = None) -> None:
        """Nobody asks for anything more; the agreement has closed before. Collective."""
        if error is not None and self.agreement is not None:
            self.agreement.close(error)
        if self._served is not None:
            self._served.close(error, timeout=LONG_WORK)


def make_dense(
    model: ClickModel, value_Q: np.ndarray, transport: Transport, roles: Roles, options: TrainerAgreement | None,
    on_held: OnHeld | None, examples: Callable[[int], int],
) -> HostDense:  # fmt: skip
    """This host's side of the dense layers.

    Args:
        value_Q: as they start, float32 (Q,), kept.
        on_held: m-of-n, on the host that decides: who holds the rows' gradients.
        examples: how many examples batch `index` of this trainer has.

    Raises:
        InputError: the agreement does not go with so many hosts.
    """
    replica = Replica(value_Q, model.optimizer, model.dense_rate)
    how: ClickSync = NoSync() if options is None else options.agreement
    rank, trainers, owners = transport.rank, roles.trainers, list(roles.dense_owners)
    is_trainer = roles.is_trainer(rank)
    if isinstance(how, Shadow | Fixed):
        center = None
        if isinstance(how, ShadowEasgd | FixedEasgd):
            center = ServedCenter(transport, len(value_Q), owners, trainers, how.alpha)
        agreement = make_replicated(how, replica, ProcessGroup(transport, trainers), center) if is_trainer else None
        return HostDense(agreement, replica, is_trainer, center, trainers=trainers if center is None else None)
    if isinstance(how, StepGroups):
        by_groups = make_grouped(how, replica, ProcessGroup(transport, trainers)) if is_trainer else None
        return HostDense(by_groups, replica, is_trainer, trainers=trainers)
    if isinstance(how, Bsp | Bounded | Async | MOfN):
        servers = owners[:1] if isinstance(how, MOfN) else [] if isinstance(how, Bsp) else owners
        if not is_trainer and rank not in servers:
            return HostDense(None, replica, False)
        by_gradients = make_gradients(how, transport, replica, list(range(trainers)), owners, on_held, examples)
        return HostDense(by_gradients, replica, is_trainer, starts_alike=True)
    alone = NoAgreement(replica, rank) if is_trainer else None
    return HostDense(alone, replica, is_trainer, starts_alike=options is None)
