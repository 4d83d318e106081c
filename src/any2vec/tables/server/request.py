"""What trainers say to servers of rows and of dense parameters, and these to them: a control part, then what it is of.

Request: [verb, number, table, clock, option, worker], then by verb
    pull   ids (ascending slots, packed)               option: bits of a number of the answer
    push   ids (ascending slots, packed), rows         option: 1 for changes, 0 for values
    pool   ids (slots), ids (ids of each bag, > 0)
    call   whatever the block's own operation, the option, takes and gives
    tick   all pushes of round `clock` have been sent
    leave  this trainer asks for nothing more; unanswered
Answer: [number, outcome], then rows (pull, pool), or one sentence where the outcome is no success.

Of dense parameters (sync/drivers/gradient_server.py) three of the verbs are asked, with one array each, or none:
    pull   the parameters, for the batch at position `clock`; option 1: at once, and then the state of their optimizer
           and its count of steps
    push   option 1: a gradient of step `clock`; 0: the parameters to go on from, and the rest as of `pull` where it is
           known; answered where it is refused
    tick   clock REST: this trainer stands still, END: it sends nothing more; answered when all do
Answer: behind the number and outcome [step, verdict], then the parameters unless the batch is left out. The step is
that to which the gradient will belong, or from where the trainer's positions go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import text_of, text_part
from any2vec.errors import HostError, InputError, MessageError

VERBS = ("pull", "push", "pool", "call", "tick", "leave")
ROW_PARTS = {"pull": 2, "push": 3, "pool": 3, "call": 1, "tick": 1, "leave": 1}
"""verb -> parts that its request has at least, of a server of rows"""
DONE, ILLEGAL, FAILED = 0, 1, 2
"""outcomes: as asked; the request is at fault; the server or another host is"""
ANY_TIME = -1
"""clock of a request that belongs to no round: it never waits"""
UNKNOWN = -1
"""number of a request that could not be read"""


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
    """which thread of the client gets the answer"""

    def part(self) -> Part:
        numbers = (VERBS.index(self.verb), self.number, self.table, self.clock, self.option, self.worker)
        return Part("control", np.array(numbers, np.int64))


def read_request(parts: Sequence[Part], least: Mapping[str, int] = ROW_PARTS) -> Request:
    """least: verb -> parts that its request has at least. Raises MessageError where it is none."""
    numbers = parts[0].array.reshape(-1).tolist() if parts and parts[0].array.dtype == np.int64 else []
    verb = VERBS[int(numbers[0])] if len(numbers) == 6 and 0 <= numbers[0] < len(VERBS) else ""
    if verb not in least or len(parts) < least[verb]:
        raise MessageError(f"{len(parts)} parts that begin with {numbers} are no request.")
    return Request(verb, *(int(number) for number in numbers[1:]))


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


def read_answer(
    server: int, parts: Sequence[Part], what: str = "row server"
) -> tuple[int, tuple[Part, ...], Exception | None]:
    """(number of the request, what was asked for, the error that the server, a `what`, has sent)."""
    number, outcome = (int(value) for value in parts[0].array)
    if outcome == DONE:
        return number, tuple(parts[1:]), None
    kind = InputError if outcome == ILLEGAL else HostError
    return number, (), kind(f"The {what} of rank {server} says: {text_of(parts[1])}")
