"""Gradients go to servers of the dense parameters, which step, and every batch begins with what they have."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.errors import FormatError
from any2vec.plan.sharding.sharding import contiguous_bounds
from any2vec.sync.base.dense import DenseAgreement
from any2vec.sync.drivers.gradient_server import WHAT, GradientServer
from any2vec.sync.rules.gradient_rules import (
    ACCEPTED,
    DROPPED,
    UNKNOWN,
    GradientRule,
)
from any2vec.tables.replica import Replica
from any2vec.tables.server.clocks import END, REST
from any2vec.tables.server.request import Request, answers_on, read_answer
from any2vec.types import LEFT_OUT, State

RuleOf = Callable[[Replica], GradientRule]
"""from what a server is to hold, its rule"""


class ServedGradients(DenseAgreement):
    """A `DenseAgreement`: one on every trainer, and one on every server that trains nothing (its `start`, `quiesce`,
    `close`, `state_dict`, `load_state_dict` and `metrics`).

    In a step, Q parameters come to each trainer and its Q gradients leave it, in as many messages as there are servers.

    Args:
        replica: of the same size and optimizer everywhere; the values of the first trainer's are what all start from.
        trainers: their ranks, ascending.
        servers: ranks, each with a slice of the parameters; trainers or others.
        rule_of: makes the rule of a server.
        is_stepped: whether trainers count their batches together (all rules but `async`): one worker thread each.
        examples: how many examples batch `index` of this trainer has, for the count of those that were dropped.
        name: of the channels.
    """

    def __init__(
        self, transport: Transport, replica: Replica, trainers: Sequence[int], servers: Sequence[int], rule_of: RuleOf,
        is_stepped: bool, examples: Callable[[int], int] | None = None, name: str = "gradients",
    ) -> None:  # fmt: skip
        self.transport = transport
        self.replica = replica
        self.trainers = tuple(trainers)
        self.servers = tuple(sorted(servers))
        self.name = name
        self.verdicts: Counter[int] = Counter()
        """gradients of this trainer by what became of them"""
        self.left_out = 0
        """batches of this trainer that came too late to begin"""
        self.examples_dropped = 0
        self.wait_seconds = 0.0
        """that this trainer has waited for parameters"""
        self._is_stepped = is_stepped
        self._examples = examples
        self._position = 0
        self._step = 0
        """of the others, as it was received last"""
        self._given = 0
        """index of the batch of the last gradient"""
        self._settled = 0
        bounds = contiguous_bounds(len(replica.value), len(self.servers))
        self._slices = {rank: slice(*ends) for rank, ends in zip(self.servers, pairwise(bounds), strict=True)}
        self.server: GradientServer | None = None
        """this host's own"""
        if transport.rank in self.servers:
            held = Replica(self._own(replica.value).copy(), replica.kind, replica.rate, replica.epsilon)
            self.server = GradientServer(transport, rule_of(held), self.trainers, name)

    @property
    def _trains(self) -> bool:
        return self.transport.rank in self.trainers

    def start(self) -> None:
        """Raises HostError when the server is lost."""
        if self.server is not None:
            self.server.start()
        if self.transport.rank == self.trainers[0]:
            self._send(Request("push", 0), self.replica.value)

    def begin(self, worker: int, index: int) -> int:
        """Raises InputError where a server refuses, HostError where trainers are too far behind for too long."""
        position = self._position if self._is_stepped else index
        self._position += 1
        if position < self._step:
            return self._leave_out(index)
        started = time.perf_counter()
        self._send(Request("pull", index, clock=position, worker=worker))
        step = self._receive_all(worker)
        self.wait_seconds += time.perf_counter() - started
        if step > position:
            self._step = step
            return self._leave_out(index)
        self._given = index
        return step

    def apply(self, worker: int, step: int, gradient_Q: np.ndarray) -> None:
        self._send(Request("push", step, clock=step, option=1, worker=worker), gradient_Q)

    def quiesce(self) -> None:
        """Raises HostError when somebody is lost."""
        self._settled += 1
        if self._trains:
            self._meet(REST)
        elif self.server is not None:
            self.server.wait_quiesced(self._settled)

    def close(self, error: BaseException | None = None) -> None:
        """Raises HostError when somebody is lost."""
        if error is not None:
            return
        if self._trains:
            self._meet(END)
        if self.server is not None:
            self.server.close()

    def gather_result(self) -> np.ndarray | None:
        return self.replica.value if self.transport.rank == self.trainers[0] else None

    def state_dict(self) -> State:
        """Of a server: its slice of the parameters and their optimizer's state, float32; how often it stepped."""
        return {} if self.server is None else self.server.state_dict()

    def load_state_dict(self, states: Sequence[State]) -> None:
        """Before `start`, and after the replica has what it goes on with. The number of servers may be another one.

        Raises:
            FormatError: the states are not those of servers of so many parameters.
        """
        kept = [state for state in states if "value" in state]
        if self.server is None:
            return
        held = self.server.rule.replica
        if not kept:  # trainers have stepped for themselves
            held.count = self.replica.count
            for name, array in held.state.items():
                array[:] = self._own(self.replica.state[name])
            return
        arrays = {"value": held.value, **held.state}
        for name, array in arrays.items():
            whole = np.concatenate([state.get(name, np.empty(0, np.float32)) for state in kept])
            if whole.shape != self.replica.value.shape:
                raise FormatError(
                    f"A checkpoint has {len(whole)} numbers {name!r} of the servers of dense parameters, not "
                    f"{len(self.replica.value)}: it was made by another model or optimizer."
                )
            array[:] = self._own(whole)
        held.count = int(kept[0]["count"].item())

    def fetch_state(self) -> State:
        """What all servers have, for a trainer: float32 (Q,) each, as `Replica` names them; count, int64 ().

        All trainers stand still.

        Raises:
            HostError: a server is lost.
        """
        names, own = ("value", *self.replica.state), self.replica
        found = {name: np.empty_like(own.value) for name in names}
        self._send(Request("pull", 0, option=1))
        for rank, part in self._slices.items():
            *arrays, count = self._receive(rank, 0)[1:]
            for name, one in zip(names, arrays, strict=True):
                found[name][part] = one.array
        return found | {"count": np.array(count.array[0])}

    def send_state(self, state: State) -> None:
        """Let all servers go on from what `fetch_state` gave. All trainers stand still."""
        for rank, part in self._slices.items():
            parts = [Part("dense", state[name][part].copy()) for name in ("value", *self.replica.state)]
            self._ask(rank, [Request("push", 0).part(), *parts, Part("control", state["count"].reshape(1))], "push")

    def metrics(self) -> dict[str, Any]:
        """The first server: its rule's. A trainer: wait_seconds; m-of-n: accepted, dropped, left_out {rank: count}.

        examples_dropped, where their numbers are known: of gradients that were dropped, and of batches left out.
        """
        found: dict[str, Any] = {}
        if self.server is not None and self.transport.rank == self.servers[0]:
            found = self.server.rule.metrics()
        if not self._trains:
            return found
        found["wait_seconds"] = self.wait_seconds
        if self.verdicts or self.left_out:
            own = str(self.transport.rank)
            found |= {"accepted": {own: self.verdicts[ACCEPTED]}, "dropped": {own: self.verdicts[DROPPED]}}
            found |= {"left_out": {own: self.left_out}}
            if self._examples is not None:
                found["examples_dropped"] = self.examples_dropped
        return found

    def _leave_out(self, index: int) -> int:
        self.left_out += 1
        self._lose(index)
        return LEFT_OUT

    def _lose(self, index: int) -> None:
        if self._examples is not None:
            self.examples_dropped += self._examples(index)

    def _meet(self, clock: int) -> None:
        self._send(Request("tick", 0, clock=clock))
        self._position = self._step = self._receive_all(0)

    def _own(self, array_Q: np.ndarray) -> np.ndarray:
        return array_Q[self._slices[self.transport.rank]]

    def _send(self, request: Request, dense_Q: np.ndarray | None = None) -> None:
        """Ask every server; an array is cut into their slices, copied."""
        for rank, part in self._slices.items():
            parts = [request.part()] if dense_Q is None else [request.part(), Part("dense", dense_Q[part].copy())]
            self._ask(rank, parts, request.verb)

    def _ask(self, rank: int, parts: Sequence[Part], verb: str) -> None:
        if self.server is not None and rank == self.transport.rank:
            self.server.take(rank, parts)
        else:
            self.transport.send(rank, parts, verb, self.name + "?")

    def _receive_all(self, worker: int) -> int:
        """Take every server's answer into the replica; the step that they say."""
        step = 0
        for rank, part in self._slices.items():
            found = self._receive(rank, worker)
            step, verdict = (int(value) for value in found[0].array)
            if len(found) > 1:
                self.replica.value[part] = found[1].array
            if verdict != UNKNOWN:
                self.verdicts[verdict] += 1
                if verdict == DROPPED:
                    self._lose(self._given)
        return step

    def _receive(self, rank: int, worker: int) -> Sequence[Part]:
        """The next answer of a server."""
        if self.server is not None and rank == self.transport.rank:
            parts = self.server.receive_own(worker)
        else:
            parts = self.transport.recv(rank, None, answers_on(self.name, worker)).parts
        _, found, error = read_answer(rank, parts, WHAT)
        if error is not None:
            raise error
        return found
