"""The dense layers of a run of a model of clicks, as one host has them: its replica, and how it agrees with others'."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from any2vec.cluster.transport import Transport
from any2vec.errors import InputError
from any2vec.models.click_config import ClickModel
from any2vec.plan.roles import Roles
from any2vec.sync.centre import ServedCentre
from any2vec.sync.circle import Circle
from any2vec.sync.dense import DenseAgreement, NoAgreement
from any2vec.sync.replica_make import make_replicated
from any2vec.sync.replica_names import Alone, Fixed, FixedEasgd, Shadow, ShadowEasgd
from any2vec.sync.trainers import TrainerOptions
from any2vec.tables.replica import Replica


class Served(Protocol):
    """What serves a common copy, on every host."""

    def start(self) -> None: ...

    def leave(self, timeout: float | None = None) -> None: ...


class HostDense:
    """One host's side. A server has no replica of its own: its agreement is None."""

    def __init__(self, agreement: DenseAgreement | None, replica: Replica, served: Served | None = None) -> None:
        self.agreement = agreement
        self.replica = replica
        self._served = served

    def start(self) -> None:
        if self._served is not None:
            self._served.start()
        if self.agreement is not None:
            self.agreement.start()

    def settle(self) -> None:
        """Nothing is on its way. Collective."""
        if self.agreement is not None:
            self.agreement.settle()

    def end(self) -> None:
        """No batch follows."""
        if self.agreement is not None:
            self.agreement.finish()

    def model(self) -> np.ndarray | None:
        """The parameters that count, at rank 0. Collective."""
        return None if self.agreement is None else self.agreement.model()

    @property
    def memory(self) -> dict[str, np.ndarray]:
        """Replica, state of its optimiser, and what the agreement remembers: (1, n) each."""
        if self.agreement is None:
            return {}
        own = {"replica": self.replica.value, "replica.count": np.array([self.replica.count], np.float32)}
        own |= {f"replica.{name}": state for name, state in self.replica.state.items()} | self.agreement.memory
        return {name: array.reshape(1, -1) for name, array in own.items() if array.size}

    def recall(self, memories: list[dict[str, np.ndarray]], rank: int) -> None:
        """Go on from what a former run had; a trainer that it had not starts as its rank 0 was."""
        if self.agreement is None or not memories:
            return
        mine = memories[rank if rank < len(memories) and "replica" in memories[rank] else 0]
        self.replica.value[:] = mine["replica"][0]
        self.replica.count = int(mine["replica.count"][0, 0])
        for name, state in self.replica.state.items():
            state[:] = mine[f"replica.{name}"][0]
        known = [{name: array[0] for name, array in one.items()} for one in memories]
        self.agreement.recall(known)

    def facts(self) -> dict[str, Any]:
        return {} if self.agreement is None else self.agreement.facts()

    def finish(self) -> None:
        """Nobody asks for anything more. Collective."""
        if self._served is not None:
            self._served.leave()


def make_dense(
    model: ClickModel, value_Q: np.ndarray, transport: Transport, roles: Roles, options: TrainerOptions | None
) -> HostDense:
    """This host's side of the dense layers; value_Q: as they start, float32 (Q,), kept.

    Raises:
        InputError: the agreement does not go with so many hosts.
    """
    replica = Replica(value_Q, model.optimiser, model.dense_rate)
    how = Alone() if options is None else options.agreement
    is_trainer = roles.is_trainer(transport.rank)
    if isinstance(how, Alone) or (roles.ranks == 1 and isinstance(how, Shadow | Fixed)):
        return HostDense(NoAgreement(replica, transport.rank) if is_trainer else None, replica)
    if isinstance(how, Shadow | Fixed):
        centre = None
        if isinstance(how, ShadowEasgd | FixedEasgd):
            centre = ServedCentre(transport, len(value_Q), list(roles.dense_owners), roles.trainers, how.alpha)
        if not is_trainer:
            return HostDense(None, replica, centre)
        return HostDense(make_replicated(how, replica, Circle(transport, roles.trainers), centre), replica, centre)
    raise InputError(f"sync {how.name} is not there yet.")
