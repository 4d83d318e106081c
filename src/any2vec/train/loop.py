"""The only loop: whatever is trained, on however many hosts, goes through here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from any2vec.types import Schedule, Span, Stats, Work

WORK_SECONDS = 0.35
"""works grow or shrink to take about so long: a stop soon takes effect, and threads seldom wait for each other"""
MOST_PIECES = 256
"""pieces of a work, per thread, at most"""


class Learner(Protocol):
    """What one host does with one piece of work."""

    def run(self, work: Work[Any]) -> Any:
        """Its `Stats`; a learner of several threads may give those of each batch."""


class Driver(Protocol):
    """How hosts agree, or how a table comes and goes: around each piece of work, or behind it."""

    def before(self, work: Work[Any]) -> None: ...

    def after(self, work: Work[Any], stats: Any) -> None: ...

    def is_settled(self, work: Work[Any]) -> bool:
        """Whether the hosts agree after this work: a checkpoint may be taken, and all may stop together."""


class LocalDriver:
    """The driver of a single host: nobody to agree with."""

    def before(self, work: Work[Any]) -> None:
        pass

    def after(self, work: Work[Any], stats: Stats) -> None:
        pass

    def is_settled(self, work: Work[Any]) -> bool:
        return True


class SpanSchedule(Schedule[Span], Protocol):
    """A schedule over positions, of pieces that may be taken together."""

    def take(self, steps: int) -> Work[Span] | None:
        """Adjacent pieces as one work, `steps` of them or as many as there are before a cut; None: there is none."""


def paced(
    schedule: SpanSchedule, seconds: float, threads: int = 1, clock: Callable[[], float] = time.perf_counter
) -> Iterator[Work[Span]]:
    """The works of a schedule, as many pieces together as take about so many seconds of that clock.

    What is learned does not depend on it, for rates and draws belong to positions, and step numbers to pieces.

    Args:
        threads: that train: a work has so many pieces at least, but for the last one before a cut.
    """
    pieces = 1  # of each thread: the first works are small, for nobody knows yet how slow they are
    while (work := schedule.take(pieces * threads)) is not None:
        began = clock()
        yield work
        if work.payload.start < work.payload.stop:
            pieces = _next_size(pieces, clock() - began, seconds)


def _next_size(pieces: int, took: float, seconds: float) -> int:
    """Pieces of the next work after one of `pieces` took so long: at most four times as many, 1..MOST_PIECES."""
    wanted = round(pieces * seconds / max(took, 1e-9))
    return max(1, min(wanted, 4 * pieces, MOST_PIECES))


class LoopParts(NamedTuple):
    """What `run` takes."""

    schedule: Iterable[Work[Any]]
    learner: Learner
    driver: Driver
    report: Callable[[Work[Any], Any], None]


def run(
    schedule: Iterable[Work[Any]],
    learner: Learner,
    driver: Driver,
    report: Callable[[Work[Any], Any], None],
) -> None:
    """Do all work of the schedule.

    `report` is called with each piece; it makes records and checkpoints, and stops a run by raising.
    """
    for work in schedule:
        driver.before(work)
        stats = learner.run(work)
        driver.after(work, stats)
        report(work, stats)
