"""The only loop: whatever is trained, on however many hosts, goes through here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from any2vec.types import Stats, Work

OfWork = TypeVar("OfWork")
"""`Work`; other kinds of models may have pieces of work of their own"""
OfStats = TypeVar("OfStats")
"""`Stats`, likewise"""
_Work = TypeVar("_Work", contravariant=True)
_Taken = TypeVar("_Taken", contravariant=True)
_Given = TypeVar("_Given", covariant=True)


class Learner(Protocol[_Work, _Given]):
    """What one host does with one piece of work."""

    def run(self, work: _Work) -> _Given: ...


class Driver(Protocol[_Work, _Taken]):
    """How hosts agree, or how a table comes and goes: around each piece of work, or behind it."""

    def before(self, work: _Work) -> None: ...

    def after(self, work: _Work, stats: _Taken) -> None: ...

    def is_settled(self, work: _Work) -> bool:
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
    schedule: Iterable[OfWork],
    learner: Learner[OfWork, OfStats],
    driver: Driver[OfWork, OfStats],
    report: Callable[[OfWork, OfStats], None],
) -> None:
    """Do all work of the schedule.

    `report` hears of each piece; it makes records and checkpoints, and stops a run by raising.
    """
    for work in schedule:
        driver.before(work)
        stats = learner.run(work)
        driver.after(work, stats)
        report(work, stats)
