"""What trainers and row servers say to each other: a control part, then which rows, then rows.

Request: [verb, number, table, clock, option, lane], then by verb
    pull   ids (ascending slots, packed)               option: bits of the answer + 64 where versions are wanted
    push   ids (ascending slots, packed), rows         option: 1 for changes, 0 for values
    pool   ids (slots), ids (ids of each bag, > 0)
    call   whatever the block's own operation, the option, takes and gives
    tick   all pushes of round `clock` have been sent
    leave  this trainer asks for nothing more; unanswered
Answer: [number, outcome], then rows (pull, pool) and versions, or one sentence where the outcome is no success.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import text_of, text_part
from any2vec.errors import HostError, InputError, MessageError

VERBS = ("pull", "push", "pool", "call", "tick", "leave")
_PARTS = {"pull": 2, "push": 3, "pool": 3, "call": 1, "tick": 1, "leave": 1}
"""verb -> parts that its request has at least"""
DONE, ILLEGAL, FAILED = 0, 1, 2
"""outcomes: as asked; the request is at fault; the server or another host is"""
ANY_TIME = -1
"""clock of a request that belongs to no round: it never waits"""
UNKNOWN = -1
"""number of a request that could not be read"""
WITH_VERSIONS = 64


@dataclass(frozen=True)
class Request:
    """The control part of a request."""

    verb: str
    number: int
    """of the request, at the asker; the answer bears it"""
    table: int = 0
    """index of the table, in the order in which all hosts name them"""
    clock: int = ANY_TIME
    option: int = 0
    worker: int = 0
    """which of the asker's threads hears the answer"""

    def part(self) -> Part:
        numbers = (VERBS.index(self.verb), self.number, self.table, self.clock, self.option, self.worker)
        return Part("control", np.array(numbers, np.int64))


def read_request(parts: Sequence[Part]) -> Request:
    """Raises MessageError where it is none."""
    numbers = parts[0].array.reshape(-1).tolist() if parts else []
    if len(numbers) != 6 or not 0 <= numbers[0] < len(VERBS) or len(parts) < _PARTS[VERBS[int(numbers[0])]]:
        raise MessageError(f"{len(parts)} parts that begin with {numbers} are no request.")
    return Request(VERBS[int(numbers[0])], *(int(number) for number in numbers[1:]))


def answers_on(name: str, worker: int) -> str:
    """The channel on which the answers of server `name` to one of an asker's threads travel."""
    return f"{name}!{worker}" if worker else name + "!"


def answer(number: int, parts: Sequence[Part] = ()) -> list[Part]:
    """The parts of a successful answer."""
    return [Part("control", np.array([number, DONE], np.int64)), *parts]


def refusal(number: int, error: Exception) -> list[Part]:
    """The parts of an answer that says in one sentence what went wrong."""
    outcome = ILLEGAL if isinstance(error, InputError) else FAILED
    text = str(error) if isinstance(error, InputError | HostError) else f"{type(error).__name__}: {error}"
    return [Part("control", np.array([number, outcome], np.int64)), text_part(text)]


def read_answer(server: int, parts: Sequence[Part]) -> tuple[int, tuple[Part, ...], Exception | None]:
    """(number of the request, what was asked for, the error that the server tells of)."""
    number, outcome = (int(value) for value in parts[0].array)
    if outcome == DONE:
        return number, tuple(parts[1:]), None
    kind = InputError if outcome == ILLEGAL else HostError
    return number, (), kind(f"The row server of rank {server} says: {text_of(parts[1])}")
