"""The driver that lets hosts agree between rounds (bulk-synchronous), whatever the agreement is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from any2vec.types import Span, Stats, Work


class Agreement(Protocol):
    """What hosts do around a round; every host calls the same methods in the same order."""

    def open(self, work: Work[Span]) -> None:
        """Before the first work of a round."""

    def close(self) -> None:
        """After the last work of a round."""

    def collect(self) -> dict[str, np.ndarray] | None:
        """The agreed tables at rank 0, None elsewhere; they hold until the next call of any method."""

    @property
    def memory(self) -> dict[str, np.ndarray]:
        """What this host alone remembers from round to round; a checkpoint keeps it.

        Its arrays may be those that the next work changes: who keeps them, or sends them, copies them first.
        """

    def recall(self, memories: Sequence[dict[str, np.ndarray]]) -> None:
        """Take up the memories of all hosts of a former run, by rank; there may have been more or fewer of them."""


@runtime_checkable
class Listener(Protocol):
    """An agreement that wants to know how the work goes."""

    def hear(self, work: Work[Span], stats: Stats) -> None:
        """After each piece of work, and before the round closes."""


@runtime_checkable
class Telling(Protocol):
    """An agreement that has something to say about how it went."""

    def facts(self) -> dict[str, dict[str, int]]:
        """Counts of this host, by name and then by what is counted; a run's summary adds them up over the hosts."""


@runtime_checkable
class FreeRunning(Protocol):
    """An agreement in which no host waits for all others at the end of a round.

    Reports, checkpoints and stops need all hosts together. They meet after every `settle_every` rounds, and at the end
    of each epoch; in between a stop that is asked for waits.
    """

    settle_every: int

    def finish(self) -> None:
        """End what serves other hosts in the background; all hosts call it together, after everything else."""


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
            self.agreement.open(work)
            self.seconds += time.perf_counter() - began

    def after(self, work: Work[Span], stats: Stats) -> None:
        began = time.perf_counter()
        if isinstance(self.agreement, Listener):
            self.agreement.hear(work, stats)
        if work.ends_round:
            self.agreement.close()
            self.rounds += 1
        self.seconds += time.perf_counter() - began

    def is_settled(self, work: Work[Span]) -> bool:
        if not work.ends_round or not isinstance(self.agreement, FreeRunning):
            return work.ends_round
        return work.ends_epoch or (work.round.number + 1) % self.agreement.settle_every == 0

    def facts(self) -> dict[str, dict[str, int]]:
        """What the agreement tells of this host; {} for most."""
        return self.agreement.facts() if isinstance(self.agreement, Telling) else {}

    def finish(self) -> None:
        """The run is over, its result is collected."""
        if isinstance(self.agreement, FreeRunning):
            self.agreement.finish()
