"""The only loop: whatever is trained, on however many hosts, goes through here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from any2vec.types import Stats, Work


class Learner(Protocol):
    """What one host does with one piece of work."""

    def run(self, work: Work) -> Stats: ...


class Driver(Protocol):
    """How hosts agree: around each piece of work, or behind it."""

    def before(self, work: Work) -> None: ...

    def after(self, work: Work, stats: Stats) -> None: ...

    def is_settled(self, work: Work) -> bool:
        """Whether the hosts agree after this work: a checkpoint may be taken, and all may stop together."""


class Alone:
    """The driver of a single host: nobody to agree with."""

    def before(self, work: Work) -> None:
        pass

    def after(self, work: Work, stats: Stats) -> None:
        pass

    def is_settled(self, work: Work) -> bool:
        return True


def run(
    schedule: Iterable[Work],
    learner: Learner,
    driver: Driver,
    report: Callable[[Work, Stats], None],
) -> None:
    """Do all work of the schedule.

    `report` hears of each piece; it makes records and checkpoints, and stops a run by raising.
    """
    for work in schedule:
        driver.before(work)
        stats = learner.run(work)
        driver.after(work, stats)
        report(work, stats)
