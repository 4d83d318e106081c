"""Stages on threads: in order, within bounds, counted; they end with their owner, and an error is the owner's."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from any2vec.background import Spent, Stage, StageThreads, chained

NAMES = ("double", "pairs", "add", "owner")


class StalledError(Exception):
    pass


def double(number: int) -> int:
    return 2 * number


def pairs(coming: Iterator[int]) -> Iterator[tuple[int, int]]:
    """Holds one back."""
    before = next(coming, None)
    for one in coming:
        assert before is not None
        yield before, one
        before = one


def line(source: Any, rooms: tuple[int, int] = (2, 1), patience: float = 60.0, work: Any = double) -> Any:
    spent = {name: Spent() for name in NAMES}
    stages = [Stage("double", partial(map, work)), Stage("pairs", pairs), Stage("add", partial(map, sum))]
    made = StageThreads(source, [stages[:1], stages[1:]], rooms, spent, patience, StalledError)
    return made, stages, spent


@pytest.mark.parametrize("rooms", [(1, 1), (5, 3)])
def test_threads_make_what_the_chain_makes(rooms: tuple[int, int]) -> None:
    made, stages, spent = line(range(50), rooms)
    expected = list(chained(iter(range(50)), stages, {name: Spent() for name in NAMES}))
    assert expected == [4 * number + 2 for number in range(49)]
    with made:
        made.allow(49)
        assert [made.take(spent["owner"]) for _ in range(49)] == expected
    assert not any(thread.is_alive() for thread in made._threads)


def test_no_more_is_made_than_there_is_room_for_and_than_is_allowed() -> None:
    """Of rooms 2 and 1: two wait to be paired, one is held back, and one pair is made, beside what is under way."""
    taken: list[int] = []
    lock = threading.Condition()

    def noted(number: int) -> int:
        with lock:
            taken.append(number)
            lock.notify_all()
        return double(number)

    made, _, spent = line(range(100), work=noted)
    with made:
        with lock:
            assert lock.wait_for(lambda: len(taken) == 2, 30)
        time.sleep(0.05)
        assert len(taken) == 2  # nothing may be paired yet
        made.allow(1)
        assert made.take(spent["owner"]) == 2
        time.sleep(0.05)
        assert len(taken) <= 5
        made.allow(99)
        assert [made.take(spent["owner"]) for _ in range(98)] == [4 * number + 2 for number in range(1, 99)]


def test_seconds_at_work_leave_out_those_of_the_stages_before() -> None:
    def slow(number: int) -> int:
        time.sleep(0.01)
        return number

    for is_threaded in (False, True):
        made, stages, spent = line(range(21), work=slow)
        if is_threaded:
            with made:
                made.allow(20)
                for _ in range(20):
                    made.take(spent["owner"])
            assert spent["pairs"].for_input > 0.1 and spent["owner"].for_input > 0.1
        else:
            list(chained(iter(range(21)), stages, spent))
            assert not any(one.for_input or one.for_room for one in spent.values())
        assert spent["double"].at_work > max(0.2, spent["pairs"].at_work + spent["add"].at_work)


def test_an_error_of_a_stage_is_the_owners_and_ends_the_threads() -> None:
    def bad(number: int) -> int:
        if number == 7:
            raise ZeroDivisionError("seven")
        return number

    made, _, spent = line(range(50), work=bad)
    with made, pytest.raises(ZeroDivisionError, match="seven"):
        made.allow(50)
        for _ in range(50):
            made.take(spent["owner"])
    assert not any(thread.is_alive() for thread in made._threads)


def test_waiting_is_bounded() -> None:
    hangs = threading.Event()
    made, _, spent = line(range(5), patience=0.1, work=lambda number: hangs.wait(30))
    with made, pytest.raises(StalledError):
        made.allow(4)
        made.take(spent["owner"])
    hangs.set()
