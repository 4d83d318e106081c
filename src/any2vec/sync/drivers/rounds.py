"""The driver that lets hosts agree between rounds (bulk-synchronous), whatever the agreement is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from any2vec.types import Service, ShardedStateful, Span, Stats, Work


class Agreement(Service, ShardedStateful, Protocol):
    """What hosts do around a round; every host calls the same methods in the same order."""

    def begin_round(self, work: Work[Span]) -> None:
        """Before the first work of a round. By default every row is here already."""
        return

    def end_round(self) -> None:
        """After the last work of a round."""

    def gather_result(self) -> dict[str, np.ndarray] | None:
        """The agreed tables at rank 0, None elsewhere; they hold until the next call of any method."""


class SingleHost(Agreement):
    """A host that has nobody to agree with: training alone, to the bit.

    tables: name -> float32 (V, D), trained in place.
    """

    def __init__(self, tables: dict[str, np.ndarray]) -> None:
        self.tables = tables

    def end_round(self) -> None:
        """Nobody to agree with."""

    def gather_result(self) -> dict[str, np.ndarray] | None:
        """The tables."""
        return self.tables


@runtime_checkable
class WorkListener(Protocol):
    """An agreement that wants to know how the work goes."""

    def on_work(self, work: Work[Span], stats: Stats) -> None:
        """After each piece of work, and before the round closes."""


@runtime_checkable
class Measured(Protocol):
    """An agreement that has something to say about how it went."""

    def metrics(self) -> dict[str, dict[str, int]]:
        """Counts of this host, by name and then by what is counted; a run's summary adds them up over the hosts."""


@runtime_checkable
class FreeRunning(Protocol):
    """An agreement in which no host waits for all others at the end of a round.

    Reports, checkpoints and stops need all hosts together. They meet after every `settle_every` rounds, and at the end
    of each epoch; in between a stop that is asked for waits.
    """

    settle_every: int


class Rounds:
    """Calls an agreement where rounds open and close, and takes the time that it needs."""

    def __init__(
        self, agreement: Agreement, ahead: Callable[[int, Sequence[tuple[int, int]]], None] | None = None
    ) -> None:
        """ahead: called with the epoch and the positions of each round before anything else in it, by all hosts."""
        self.agreement = agreement
        self._ahead = ahead
        self.seconds = 0.0
        """spent in agreements, waiting for other hosts included"""
        self.walk_seconds = 0.0
        """spent in `ahead`, waiting for other hosts included; none of it is in `seconds`"""
        self.rounds = 0

    def before(self, work: Work[Span]) -> None:
        if work.opens_round:
            if self._ahead is not None:
                began = time.perf_counter()
                self._ahead(work.epoch, [(span.start, span.stop) for span in work.round.spans])
                self.walk_seconds += time.perf_counter() - began
            began = time.perf_counter()
            self.agreement.begin_round(work)
            self.seconds += time.perf_counter() - began

    def after(self, work: Work[Span], stats: Stats) -> None:
        began = time.perf_counter()
        if isinstance(self.agreement, WorkListener):
            self.agreement.on_work(work, stats)
        if work.ends_round:
            self.agreement.end_round()
            self.rounds += 1
        self.seconds += time.perf_counter() - began

    def is_settled(self, work: Work[Span]) -> bool:
        if not work.ends_round or not isinstance(self.agreement, FreeRunning):
            return work.ends_round
        return work.ends_epoch or (work.round.number + 1) % self.agreement.settle_every == 0

    def metrics(self) -> dict[str, dict[str, int]]:
        """The agreement's metrics of this host; {} for most."""
        return self.agreement.metrics() if isinstance(self.agreement, Measured) else {}

    def close(self, error: BaseException | None = None) -> None:
        """The run is over, its result is gathered."""
        self.agreement.close(error)
