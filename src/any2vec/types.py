"""Small frozen nouns that every floor shares. They hold; they do not work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

Stage = Callable[[str, int, int | None], None]
"""called with (what is being read or made, amount done, amount in all or None)"""
State = dict[str, np.ndarray]
"""what is kept to go on from: arrays of any dtype and shape, by name"""

LEFT_OUT = 1 << 62
"""step of a batch that comes too late for its own: nothing is computed for it"""


class Csr(NamedTuple):
    """A graph in compressed sparse rows: the neighbours of node v are `indices[indptr[v]:indptr[v + 1]]`, ascending.

    An undirected edge is stored in both directions, a self-loop once. `weights` is empty when every weight is 1.
    """

    indptr: np.ndarray
    """int64 (num_nodes + 1,)"""
    indices: np.ndarray
    """int32 (num_edges,), ascending within a row, no duplicates"""
    weights: np.ndarray
    """float32 (num_edges,), finite and > 0; or (0,) for an unweighted graph"""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Positions [start, stop) of an epoch that one host trains, and the share of the whole run, 0..1, at both ends."""

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
class Round:
    """What one host trains between two agreements of the hosts."""

    number: int
    """from 0, over all epochs"""
    stretches: tuple[Stretch, ...]
    """nearly always one; several, or none, where a run goes on with another number of hosts"""
    parts: tuple[tuple[int, int], ...]
    """positions [start, stop) of the round, one for each stretch"""
    is_whole: bool = True
    """its epoch began on as many hosts as there are now"""
    ends_epoch: bool = False
    """no other round of its epoch follows"""


@dataclass(frozen=True, slots=True)
class Work:
    """One piece of work of a schedule: positions [start, stop) of the item axis (tokens, or walks) in one epoch."""

    epoch: int
    start: int
    stop: int
    stretch: Stretch
    """what it is a piece of: the learning rate follows its progress"""
    round: Round
    opens_round: bool
    closes_round: bool
    ends_step: bool = False
    """the next step of the round begins behind it, at a place that does not depend on the clock"""

    @property
    def progress_to(self) -> float:
        """Share of the whole run done after this work, 0..1."""
        return self.stretch.progress(self.stop)


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

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


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
