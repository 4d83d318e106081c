"""What every schedule keeps to: a class to inherit, with a way to make the schedule and to say what a work covers."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import pytest

from any2vec.types import Schedule, Work

HOSTS = (1, 2, 4)


class ScheduleTests(ABC):
    """Deterministic schedules that end. A subclass gives small ones."""

    @abstractmethod
    def schedule(self, hosts: int, rank: int) -> Any:
        """A new one of a host of several; the same at every call."""

    @abstractmethod
    def covered(self, work: Work[Any]) -> Iterable[Hashable]:
        """The items that a work trains."""

    @abstractmethod
    def items(self) -> Iterable[Hashable]:
        """All items of an epoch."""

    @abstractmethod
    def key(self, work: Work[Any]) -> Any:
        """What must be the same where a run goes on: all but what says how much of a round is left."""

    def is_legal(self, work: Work[Any]) -> bool:
        """Whether a run of one of these hosts can go on behind a work."""
        return True

    def state(self, schedules: Sequence[Any]) -> dict[str, Any]:
        """Of all hosts together."""
        return schedules[0].state_dict()

    def every(self, hosts: int) -> list[Any]:
        return [self.schedule(hosts, rank) for rank in range(hosts)]

    @pytest.mark.parametrize("hosts", HOSTS)
    def test_a_peek_shows_what_comes(self, hosts: int) -> None:
        for rank in range(hosts):
            schedule: Schedule[Any] = self.schedule(hosts, rank)
            works = [self.key(work) for work in self.schedule(hosts, rank)]
            assert [self.key(work) for work in schedule.peek(len(works) + 1)] == works
            seen = []
            for number, work in enumerate(schedule):
                seen.append(self.key(work))
                ahead = [self.key(one) for one in schedule.peek(3)]
                assert ahead == works[number + 1 : number + 4]
            assert seen == works and list(schedule.peek(3)) == []

    @pytest.mark.parametrize("hosts", HOSTS)
    def test_what_is_given_is_done(self, hosts: int) -> None:
        """Another iterator goes on behind it."""
        works = [self.key(work) for work in self.schedule(hosts, 0)]
        schedule = self.schedule(hosts, 0)
        found = [self.key(next(iter(schedule))) for _ in works]
        assert found == works and next(iter(schedule), None) is None

    @pytest.mark.parametrize("hosts", HOSTS)
    def test_hosts_cover_every_item_once_an_epoch(self, hosts: int) -> None:
        epochs: dict[int, Counter[Hashable]] = {}
        for schedule in self.every(hosts):
            for work in schedule:
                epochs.setdefault(work.epoch, Counter()).update(self.covered(work))
        whole = Counter(self.items())
        assert epochs == dict.fromkeys(range(len(epochs)), whole) and len(epochs) > 1

    @pytest.mark.parametrize("hosts", HOSTS)
    def test_rounds_and_epochs_open_and_end_in_turn(self, hosts: int) -> None:
        for schedule in self.every(hosts):
            last, is_open, steps = (0, -1), False, [-1]
            for work in schedule:
                assert work.opens_round != is_open
                now = (work.epoch, work.round.number)
                assert now > last if work.opens_round else now == last
                assert not (work.ends_part and work.ends_round) and (work.ends_round or not work.ends_epoch)
                last, is_open = now, not work.ends_round
                steps += [work.step] * bool(list(self.covered(work)))
                ended = work
            assert ended.ends_epoch and ended.progress == 1.0
            assert steps == sorted(steps)

    def test_a_run_goes_on_at_every_place(self) -> None:
        works = [self.key(work) for work in self.schedule(1, 0)]
        schedule = self.schedule(1, 0)
        for number, work in enumerate(schedule):
            if self.is_legal(work):
                state = json.loads(json.dumps(schedule.state_dict()))
                again = self.schedule(1, 0)
                again.load_state_dict(state, 1)
                assert [self.key(one) for one in again.peek(len(works))] == works[number + 1 :]


def round_ends(schedule: Any, rounds: int) -> None:
    """Do so many rounds of it."""
    while rounds:
        rounds -= next(iter(schedule)).ends_round
