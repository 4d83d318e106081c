"""The server of dense parameters: takes requests one at a time, and answers when its rule says so.

It speaks as servers of rows do (`tables.server.request`).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import LONG_WORK, Transport
from any2vec.errors import HostError, InputError, MessageError
from any2vec.sync.rules.gradient_rules import GradientRule
from any2vec.tables.server.clocks import END, REST
from any2vec.tables.server.request import UNKNOWN, Request, answer, answers_on, read_request, refusal
from any2vec.tables.server.server_thread import ServerThread
from any2vec.types import State

WHAT = "server of dense parameters"
_PARTS = {"pull": 1, "push": 2, "tick": 1}
"""verb -> parts that its request has at least"""


class GradientServer(ServerThread):
    """Serves trainers; this host's own asks without a message.

    Args:
        rule: holds the parameters.
        trainers: their ranks, ascending; the first one opens.
        patience: seconds that this host's own trainer waits for an answer; None: the transport's.
    """

    def __init__(
        self, transport: Transport, rule: GradientRule, trainers: Iterable[int], name: str = "gradients",
        patience: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(transport, name, WHAT, patience, LONG_WORK)
        self.rule = rule
        self.trainers = frozenset(trainers)
        self.settled = 0
        """how often all have stood still"""
        self._is_open = False
        self._waiting: list[tuple[int, Request]] = []
        """(trainer, pull) that are not answered yet, in their order"""
        self._resting: dict[int, Request] = {}
        self._finished: dict[int, Request] = {}
        """trainer -> the tick by which it said so"""
        self._own: defaultdict[int, deque[Sequence[Part]]] = defaultdict(deque)
        """answers to this host's own trainer, by worker"""

    def wait_quiesced(self, number: int) -> None:
        """Wait until all trainers have stood still so often; HostError where the server ends before."""
        with self._changed:
            self._changed.wait_for(lambda: self.settled >= number or self.error is not None, LONG_WORK)
        self.check()

    def receive_own(self, worker: int) -> Sequence[Part]:
        """The next answer to this host's own trainer.

        Raises:
            HostError: none came in time, or the server has ended by an error.
        """
        with self._changed:
            self._changed.wait_for(lambda: bool(self._own[worker]) or self.error is not None, self.patience)
            if self._own[worker]:
                return self._own[worker].popleft()
        self.check()
        raise HostError(f"Rank {self.transport.rank} waited {self.patience:g} s for trainers that are behind.")

    def take(self, trainer: int, parts: Sequence[Part]) -> None:
        """Carry out one request, and answer whoever need not wait any more."""
        with self._changed:
            try:
                request = read_request(parts, _PARTS)
            except MessageError as error:
                self._reply(trainer, Request("pull", UNKNOWN), refusal(UNKNOWN, error))
                return
            try:
                self._do(trainer, request, parts[1:])
                self._answer_ready()
                self.rule.publish()
                self._answer_quiesced()
            except HostError:
                raise  # another host is lost
            except Exception as error:  # the asker's to know
                self._reply(trainer, request, refusal(request.number, error))

    def state_dict(self) -> State:
        """Parameters and state of the optimizer of this moment, float32 (Q,) each; count: steps made, int64."""
        replica = self.rule.replica
        with self._changed:
            arrays = {"value": replica.value, **replica.state}
            return {name: array.copy() for name, array in arrays.items()} | {"count": np.array(replica.count)}

    def _do(self, trainer: int, request: Request, dense: Sequence[Part]) -> None:
        value_Q, verb, clock = self.rule.replica.value, request.verb, request.clock
        if trainer not in self.trainers or trainer in self._finished:
            raise InputError(f"Rank {trainer} is no trainer, or had finished, and asks for a {verb}.")
        arrays = {"value": value_Q, **self.rule.replica.state}
        allowed = (1,) if request.option else (1, len(arrays) + 1)
        if verb == "push" and (
            len(dense) not in allowed or any(part.array.shape != value_Q.shape for part in dense[: len(arrays)])
        ):
            has = "one" if request.option else f"one, or {len(arrays)} and a count"
            raise InputError(
                f"Rank {trainer} sent {len(dense)} arrays; a push has {has}, of {len(value_Q)} parameters."
            )
        if verb == "pull" and request.option:
            count = Part("control", np.array([self.rule.replica.count]))
            self._answer(trainer, request, 0, [*(Part("dense", array.copy()) for array in arrays.values()), count])
        elif verb == "pull":
            self._waiting.append((trainer, request))
        elif verb == "push" and request.option:
            self.rule.take(trainer, clock, dense[0].array)
        elif verb == "push":
            for array, part in zip(arrays.values(), dense, strict=False):
                array[:] = part.array
            if len(dense) > 1:
                self.rule.replica.count = int(dense[-1].array[0])
            self._is_open = True
        elif clock == REST:
            self._resting[trainer] = request
            self.rule.rest(trainer)
        elif clock == END:
            self._finished[trainer] = request
            self.rule.leave(trainer)
        else:
            raise InputError(f"Rank {trainer} ended round {clock}, and steps of dense parameters end by their pushes.")

    def _answer_ready(self) -> None:
        """Answer those who may read now."""
        if not self._is_open:
            return
        copy_Q: list[Part] = []
        for entry in self._waiting.copy():
            trainer, request = entry
            if self.rule.may_read(trainer, request.clock):
                self._waiting.remove(entry)
                step = self.rule.read(trainer, request.clock)
                copy_Q = copy_Q or self._copy()
                self._answer(trainer, request, step, copy_Q if step <= request.clock else [])

    def _answer_quiesced(self) -> None:
        """Answer those who stand still when all do, and those who have finished when all have."""
        if self._resting.keys() | self._finished.keys() != self.trainers:
            return
        resting, self._resting = self._resting, {}
        for trainer, request in sorted((resting or self._finished).items()):
            self._answer(trainer, request, self.rule.position(trainer), self._copy())
        self.settled += bool(resting)
        self._changed.notify_all()

    def _copy(self) -> list[Part]:
        return [Part("dense", self.rule.replica.value.copy())]

    def _answer(self, trainer: int, request: Request, step: int, dense: Sequence[Part]) -> None:
        head = Part("control", np.array([step, self.rule.verdict(trainer)], np.int64))
        self._reply(trainer, request, answer(request.number, [head, *dense]))

    def _reply(self, trainer: int, request: Request, parts: Sequence[Part]) -> None:
        if trainer == self.transport.rank:
            self._own[request.worker].append(parts)
            self._changed.notify_all()
        else:
            self.transport.send(trainer, parts, request.verb, answers_on(self.name, request.worker))

    def _is_needed(self) -> bool:
        return not self._finished.keys() >= self.trainers - {self.transport.rank}

    def _who_is_left(self) -> str:
        return "dense parameters, and not every trainer has finished."

    def _serve_next(self) -> None:
        message = self.transport.recv(None, channel=self.name + "?", timeout=LONG_WORK)
        self.take(message.sender, message.parts)
