"""The server of dense parameters: hears trainers one at a time, and answers when its rule says so.

Request: [verb, lane, number], then one dense array for `open` and `give`. By verb
    open    the parameters to start from; the first trainer's
    fetch   the parameters, for the batch at position `number`
    give    a gradient of step `number`; unanswered
    settle  this trainer stands still; answered when all do
    finish  this trainer sends nothing more; answered when all have come so far
Answer: [number, verdict], then the parameters unless the batch is left out; phase "refused": one sentence.
`number` of an answer is the step to which the gradient will belong, or from where the trainer's positions go on.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import LONG_WORK, Transport, text_of, text_part
from any2vec.errors import Any2VecError, HostError, InputError
from any2vec.sync.rules.gradient_rule import GradientRule
from any2vec.tables.server.server_thread import ServerThread
from any2vec.types import State

OPEN, FETCH, GIVE, SETTLE, FINISH = "open", "fetch", "give", "settle", "finish"
VERBS = (OPEN, FETCH, GIVE, SETTLE, FINISH)
REFUSED = "refused"


def request(verb: str, worker: int, number: int, dense_Q: np.ndarray | None = None) -> list[Part]:
    """The parts of a request."""
    head = Part("control", np.array([VERBS.index(verb), worker, number], np.int64))
    return [head] if dense_Q is None else [head, Part("dense", dense_Q)]


def answers_on(name: str, worker: int) -> str:
    """The channel on which one worker thread hears its answers."""
    return f"{name}!{worker}"


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
        super().__init__(transport, name, "server of dense parameters", patience, LONG_WORK)
        self.rule = rule
        self.trainers = frozenset(trainers)
        self.settled = 0
        """how often all have stood still"""
        self._is_open = False
        self._waiting: list[tuple[int, int, int]] = []
        """(trainer, lane, position) of fetches that are not answered yet, in their order"""
        self._resting: set[int] = set()
        self._finished: set[int] = set()
        self._own: defaultdict[int, deque[tuple[str, Sequence[Part]]]] = defaultdict(deque)
        """answers to this host's own trainer, by lane"""

    def wait_quiesced(self, number: int) -> None:
        """Wait until all trainers have stood still so often; HostError where the server ends before."""
        with self._changed:
            self._changed.wait_for(lambda: self.settled >= number or self.error is not None, LONG_WORK)
        self.check()

    def receive_own(self, worker: int) -> tuple[str, Sequence[Part]]:
        """(phase, parts) of the next answer to this host's own trainer.

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
            worker = 0
            try:
                verb, worker, number = _read(parts)
                self._do(trainer, verb, worker, number, parts[1:])
                self._answer_ready()
                self.rule.publish()
                self._answer_meetings()
            except HostError:
                raise  # another host is lost
            except Exception as error:  # the asker's to know
                text = str(error) if isinstance(error, Any2VecError) else f"{type(error).__name__}: {error}"
                self._send(trainer, worker, REFUSED, [text_part(text)])

    def state_dict(self) -> State:
        """Parameters and state of the optimizer of this moment, float32 (Q,) each; count: steps made, int64."""
        replica = self.rule.replica
        with self._changed:
            arrays = {"value": replica.value, **replica.state}
            return {name: array.copy() for name, array in arrays.items()} | {"count": np.array(replica.count)}

    def _do(self, trainer: int, verb: str, worker: int, number: int, dense: Sequence[Part]) -> None:
        value_Q = self.rule.replica.value
        if trainer not in self.trainers or trainer in self._finished:
            raise InputError(f"Rank {trainer} is no trainer, or had finished, and asks for {verb}.")
        if verb in (OPEN, GIVE) and (len(dense) != 1 or dense[0].array.shape != value_Q.shape):
            raise InputError(f"Rank {trainer} sent {len(dense)} arrays; {verb} has one, of {len(value_Q)} parameters.")
        if verb == OPEN:
            value_Q[:] = dense[0].array
            self._is_open = True
        elif verb == FETCH:
            self._waiting.append((trainer, worker, number))
        elif verb == GIVE:
            self.rule.take(trainer, number, dense[0].array)
        elif verb == SETTLE:
            self._resting.add(trainer)
            self.rule.rest(trainer)
        else:
            self._finished.add(trainer)
            self.rule.leave(trainer)

    def _answer_ready(self) -> None:
        """Answer those who may read now."""
        if not self._is_open:
            return
        copy_Q: list[Part] = []
        for entry in self._waiting.copy():
            trainer, worker, position = entry
            if self.rule.may_read(trainer, position):
                self._waiting.remove(entry)
                step = self.rule.read(trainer, position)
                copy_Q = copy_Q or self._copy()
                self._answer(trainer, worker, FETCH, step, copy_Q if step <= position else [])

    def _answer_meetings(self) -> None:
        """Answer those who stand still when all do, and those who have finished when all have."""
        if self._resting | self._finished != self.trainers:
            return
        resting, self._resting = self._resting, set()
        for trainer in sorted(resting or self._finished):
            verb = SETTLE if resting else FINISH
            self._answer(trainer, 0, verb, self.rule.position(trainer), self._copy())
        self.settled += bool(resting)
        self._changed.notify_all()

    def _copy(self) -> list[Part]:
        return [Part("dense", self.rule.replica.value.copy())]

    def _answer(self, trainer: int, worker: int, phase: str, number: int, parts: Sequence[Part]) -> None:
        head = Part("control", np.array([number, self.rule.verdict(trainer)], np.int64))
        self._send(trainer, worker, phase, [head, *parts])

    def _send(self, trainer: int, worker: int, phase: str, parts: Sequence[Part]) -> None:
        if trainer == self.transport.rank:
            self._own[worker].append((phase, parts))
            self._changed.notify_all()
        else:
            self.transport.send(trainer, parts, phase, answers_on(self.name, worker))

    def _is_needed(self) -> bool:
        return not self._finished >= self.trainers - {self.transport.rank}

    def _who_is_left(self) -> str:
        return "dense parameters, and not every trainer has finished."

    def _serve_next(self) -> None:
        message = self.transport.recv(None, channel=self.name + "?", timeout=LONG_WORK)
        self.take(message.sender, message.parts)


def read_answer(server: int, phase: str, parts: Sequence[Part]) -> tuple[int, int, np.ndarray | None]:
    """(number, verdict, parameters or None).

    Raises:
        InputError: the server refused.
    """
    if phase == REFUSED:
        raise InputError(f"The server of dense parameters of rank {server} says: {text_of(parts[0])}")
    number, verdict = (int(value) for value in parts[0].array)
    return number, verdict, parts[1].array if len(parts) > 1 else None


def _read(parts: Sequence[Part]) -> tuple[str, int, int]:
    numbers = parts[0].array.reshape(-1).tolist() if parts else []
    if len(numbers) != 3 or not 0 <= numbers[0] < len(VERBS):
        raise InputError(f"{len(parts)} parts that begin with {numbers} are no request for dense parameters.")
    return VERBS[int(numbers[0])], int(numbers[1]), int(numbers[2])
