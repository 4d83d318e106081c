"""Small frozen nouns that every floor shares. They hold; they do not work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

Stage = Callable[[str, int, int | None], None]
"""called with (what is being read or made, amount done, amount in all or None)"""
State = dict[str, np.ndarray]
"""what is kept to go on from: arrays of any dtype and shape, by name"""

LEFT_OUT = 1 << 62
"""step of a batch that comes too late for its own: nothing is computed for it"""


def as_reading(stage: Stage | None) -> Callable[[int, int | None], None]:
    """What a reader calls with how much it has read, and of how much."""
    return lambda done, total: None if stage is None else stage("reading", done, total)


class Csr(NamedTuple):
    """A graph in compressed sparse rows: the neighbors of node v are `indices[indptr[v]:indptr[v + 1]]`, ascending.

    An undirected edge is stored in both directions, a self-loop once. `weights` is empty when every weight is 1.
    """

    indptr: np.ndarray
    """int64 (num_nodes + 1,)"""
    indices: np.ndarray
    """int32 (num_edges,), ascending within a row, no duplicates"""
    weights: np.ndarray
    """float32 (num_edges,), finite and > 0; or (0,) for an unweighted graph"""


@dataclass(frozen=True, slots=True)
class ProgressLine:
    """How the share of the whole run that is done, 0..1, grows over positions [start, stop) of an epoch: evenly."""

    start: int
    stop: int
    progress_from: float
    progress_to: float

    def progress(self, position: int) -> float:
        """Share of the whole run that lies before a position, 0..1."""
        if position >= self.stop:
            return self.progress_to
        share = (position - self.start) / (self.stop - self.start)
        return self.progress_from + (self.progress_to - self.progress_from) * share


@dataclass(frozen=True, slots=True)
class Span:
    """Positions [start, stop) of the items of an epoch: tokens, walks, examples, nodes."""

    start: int
    stop: int
    line: ProgressLine
    """of all positions of which these are some: learning rates follow it"""

    def progress(self, position: int) -> float:
        """Share of the whole run that lies before a position, 0..1."""
        return self.line.progress(position)


@dataclass(frozen=True, slots=True)
class Round:
    """What one host trains between two agreements of the hosts."""

    number: int
    """from 0, over all epochs"""
    spans: tuple[Span, ...] = ()
    """nearly always one; several, or none, where a run goes on with another number of hosts"""


P = TypeVar("P", covariant=True)
"""payload of a work"""


@dataclass(frozen=True, slots=True)
class Work(Generic[P]):
    """One piece of work of a schedule, or several adjacent ones together."""

    payload: P
    """what is trained"""
    epoch: int
    round: Round
    progress: float
    """share of the whole run done after this work, 0..1"""
    opens_round: bool = False
    ends_round: bool = False
    ends_part: bool = False
    """the next part of the round begins behind it"""
    ends_epoch: bool = False
    step: int = 0
    """number of its first piece, from 0, over all epochs"""


class Schedule(Protocol[P]):
    """Works in order, the same whatever the clock says."""

    def __iter__(self) -> Iterator[Work[P]]:
        """Works from here on: what an iterator has given is done, and another one goes on behind it."""

    def peek(self, steps: int) -> Sequence[Work[P]]:
        """The works to come, `steps` of them or fewer: none is consumed, and nothing is waited for."""

    def state_dict(self) -> dict[str, Any]:
        """Where the schedule stands, behind the last work that was given: JSON."""

    def load_state_dict(self, state: Mapping[str, Any], hosts: int) -> None:
        """Go on from there, as one of so many hosts."""


@dataclass(frozen=True, slots=True)
class Stats:
    """What a learner says of one piece of work."""

    items: int
    """in-vocabulary items before subsampling"""
    loss_sum: float
    """float64 sum of the loss over the positive examples that were measured"""
    loss_examples: int
    cpu_seconds: float = 0.0
    """seconds spent in kernels, summed over threads"""

    def __add__(self, other: Stats) -> Stats:
        return Stats(
            self.items + other.items,
            self.loss_sum + other.loss_sum,
            self.loss_examples + other.loss_examples,
            self.cpu_seconds + other.cpu_seconds,
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """One progress record: a line of `progress.jsonl`, and what the bar, the report and callbacks read."""

    seconds: float
    """seconds of training so far (monotonic clock, this process; resumed runs add up)"""
    epoch: int
    epochs: int
    round: int
    progress: float
    """0..1 of the whole run"""
    loss: float | None
    """mean per positive example over the work since the last record"""
    learning_rate: float
    items: int
    """in-vocabulary items done so far"""
    items_per_s: float
    """since the last record"""
    busy_cores: float
    rss_bytes: int
    """anonymous resident memory"""
    mapped_bytes: int
    """resident pages of mapped files"""
    bytes_sent: int = 0
    bytes_received: int = 0
    validation: dict[str, float] = field(default_factory=dict)
    """metrics by name, of the record that ends an epoch after which the run has validated"""
    most: ClassVar[int] = 1 << 62
    """records that are kept in memory"""

    def replaces(self, former: Progress) -> bool:
        """Whether a former record is of this one's work: hosts that were started again go on from before."""
        return former.items >= self.items

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "validation" or value}


class Stateful(Protocol):
    """What a checkpoint keeps, wherever there is one of it."""

    def state_dict(self) -> State:
        """Its arrays may be those that the next work changes: who keeps them, or sends them, copies them first."""

    def load_state_dict(self, state: State) -> None:
        """Go on from what `state_dict` returned.

        Raises:
            FormatError: it is no such state, or of other settings.
        """


class ShardedStateful(Protocol):
    """What a checkpoint keeps of each host. By default a host keeps nothing of its own."""

    def state_dict(self) -> State:
        """The state of this host alone; as that of `Stateful`, its arrays may change with the next work."""
        return {}

    def load_state_dict(self, states: Sequence[State]) -> None:
        """Go on from the states of all hosts of a former run, by rank; there may have been more or fewer of them."""
        return


class Service(Protocol):
    """What lives beside the loop: servers, threads, ways to rows. By default each of the four steps is nothing."""

    def start(self) -> None:
        """Begin to work."""
        return

    def quiesce(self) -> None:
        """Stand still together with all others, where the state is consistent; the work goes on afterwards."""
        return

    def flush(self) -> None:
        """Return when all that is pending has been sent, or written."""
        return

    def close(self, error: BaseException | None = None) -> None:
        """End, together with all others; error: what the run ends by, so nobody is waited for and nothing flushed."""
        return
