"""Works cover every position once, on the grid of pieces; pacing follows the clock without touching what is learned."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from any2vec import SkipGram
from any2vec.models.words.learner import SequenceLearner
from any2vec.models.words.source import StoredTokens
from any2vec.plan.order.epochs import EpochSchedule
from any2vec.train.loop import MOST_PIECES, WORK_SECONDS, LocalDriver, paced, run
from any2vec.types import Span, Work


class Clock:
    """Says how long each work took, as if a piece took `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds

    def __call__(self) -> float:
        return self.now


def schedule_of(*, start: int = 0, stop: int = 0, **options: Any) -> EpochSchedule:
    return EpochSchedule(**({"bounds": (start, stop), "epochs": 1, "unit": 1, "piece": 1} | options))


def works_of(schedule: EpochSchedule, clock: Clock, threads: int = 1) -> Iterator[Work[Span]]:
    return paced(schedule, WORK_SECONDS, threads, clock)


@given(
    start=st.integers(0, 100), length=st.integers(0, 3000), epochs=st.integers(1, 3), unit=st.integers(1, 8),
    pieces=st.integers(1, 8), threads=st.integers(1, 4), rounds=st.integers(1, 7),
    seconds=st.lists(st.floats(0, 10), min_size=1, max_size=8),
)  # fmt: skip
def test_works_cover_every_position_once(
    start: int, length: int, epochs: int, unit: int, pieces: int, threads: int, rounds: int, seconds: list[float]
) -> None:
    """Whatever the clock says; every epoch has as many rounds, even where a host has nothing to do in some."""
    clock, took, stop = Clock(0), itertools.cycle(seconds), start + length
    schedule = schedule_of(start=start, stop=stop, epochs=epochs, unit=unit, piece=unit * pieces, rounds=rounds)
    at, opened, closed = (0, start), [], []
    for work in works_of(schedule, clock, threads):
        span = work.payload
        assert (work.epoch, span.start) == at and start <= span.start <= span.stop <= stop
        assert span.start in (start, stop) or span.start % unit == 0
        assert work.epoch / epochs <= work.progress <= (work.epoch + 1) / epochs
        opened += [work.round.number] * work.opens_round
        assert opened[-1] == work.round.number
        closed += [work.round.number] * work.ends_round
        assert opened[: len(closed)] == closed and len(opened) - len(closed) == (not work.ends_round)
        assert not work.ends_epoch or (span.stop == stop and work.progress == (work.epoch + 1) / epochs)
        at = (work.epoch + 1, start) if work.ends_epoch else (work.epoch, span.stop)
        clock.now += next(took)
    assert at == (epochs, start) and closed == list(range(epochs * rounds))


@given(
    length=st.integers(1, 3000), unit=st.integers(1, 8), rounds=st.integers(1, 4), parts=st.integers(1, 5),
    seconds=st.lists(st.floats(0, 10), min_size=1, max_size=8),
)  # fmt: skip
def test_parts_end_at_the_same_places_whatever_the_clock(
    length: int, unit: int, rounds: int, parts: int, seconds: list[float]
) -> None:
    clock, took, ends = Clock(0), itertools.cycle(seconds), []
    options: dict[str, Any] = {"stop": length, "unit": unit, "piece": 2 * unit, "rounds": rounds, "parts": parts}
    for work in works_of(schedule_of(**options), clock):
        assert not (work.ends_part and work.ends_round)
        ends += [work.payload.stop] * (work.ends_part or work.ends_round)
        clock.now += next(took)
    assert ends == [work.payload.stop for work in schedule_of(**options) if work.ends_part or work.ends_round]
    assert len(ends) <= rounds * parts and (length < 2 * unit * rounds * parts or len(ends) == rounds * parts)


@given(length=st.integers(1, 500), rounds=st.integers(1, 6), done=st.integers(0, 5))
def test_a_resumed_schedule_is_the_rest_of_the_whole(length: int, rounds: int, done: int) -> None:
    whole = EpochSchedule(bounds=(0, length, length + 9), epochs=2, unit=1, piece=1, rounds=rounds)
    rest = [found for found in whole.rounds_ahead() if found[1].number >= done]
    if done < rounds:
        position = rest[0][1].spans[0].start
        left = ((position, length),) if position < length else ()
        place = {"epoch": 0, "rounds_done": done, "rounds": rounds, "is_whole": True}
        whole.load_state_dict(place | {"rest": (left, ((length, length + 9),))}, 2)
        assert list(whole.rounds_ahead()) == rest


def test_the_rest_of_an_epoch_on_other_hosts() -> None:
    """Half an epoch is left, in two ranges, of which this host has one and a half: its progress is even over them."""
    schedule = EpochSchedule(
        bounds=(0, 60, 120), rank=1, epochs=2, unit=1, piece=1, rounds=4, boundary=lambda position: position
    )
    rest = (((80, 110),), ((10, 20), (50, 70)))
    schedule.load_state_dict({"epoch": 0, "rounds_done": 1, "rounds": 4, "rest": rest, "is_whole": True}, 2)
    assert schedule.left() == [(10, 20), (50, 70)] and not schedule.state_dict()["is_whole"]
    works = [work for work in schedule if work.epoch == 0]
    assert sum(work.payload.stop - work.payload.start for work in works) == 30
    assert {work.round.number for work in works} == {0, 1}
    lines = [span.line for span in works[0].round.spans]
    assert [line.progress_from for line in lines] == pytest.approx([0.25, 0.25 + 0.25 / 3])
    assert works[-1].progress == 0.5
    assert [(span.start, span.stop) for span in works[-1].round.spans] == [(20, 20), (55, 70)]


@given(
    cuts=st.lists(st.integers(0, 200), max_size=8), rounds=st.integers(1, 6), unit=st.integers(1, 5),
)  # fmt: skip
def test_any_rest_opens_and_closes_every_round(cuts: list[int], rounds: int, unit: int) -> None:
    """Even ranges that are empty in some rounds, at their front or at their end."""
    cuts.sort()
    rest = tuple((start, stop) for start, stop in zip(cuts[::2], cuts[1::2], strict=False) if start < stop)
    if not rest:
        return
    schedule = schedule_of(stop=200, rounds=rounds, unit=unit, piece=unit, boundary=lambda position: position)
    schedule.load_state_dict({"epoch": 0, "rounds_done": 0, "rounds": 0, "rest": (rest,), "is_whole": False}, 1)
    works = list(schedule)
    left = sum(stop - start for start, stop in rest) / 200
    expected = max(1, round(rounds * left))
    assert [work.round.number for work in works if work.opens_round] == list(range(expected))
    assert [work.round.number for work in works if work.ends_round] == list(range(expected))
    done = [position for work in works for position in range(work.payload.start, work.payload.stop)]
    assert done == [position for start, stop in rest for position in range(start, stop)]


@pytest.mark.parametrize(("seconds", "pieces"), [(20.0, 1), (WORK_SECONDS / 8, 8), (1e-9, MOST_PIECES)])
def test_works_take_about_the_wanted_time(seconds: float, pieces: int) -> None:
    """However slow a piece is, a stop is heard after one of them; fast ones are taken together."""
    clock = Clock(seconds)
    sizes = []
    for work in works_of(schedule_of(stop=10_000), clock, threads=2):
        sizes.append(work.payload.stop - work.payload.start)
        clock.now += seconds * sizes[-1] / 2
    assert sizes[0] == 2 and max(sizes) == sizes[-2] == 2 * pieces


def test_the_clock_changes_no_bit() -> None:
    tokens = np.random.default_rng(1).integers(0, 50, 20_000).astype(np.int32)
    made = []
    for seconds in (0.0, 5.0):
        rows = np.random.default_rng(2).normal(0, 0.1, (2, 50, 8)).astype(np.float32)
        tables = {"input": rows[0], "output": rows[1]}
        source = StoredTokens(tokens, 16)
        learner = SequenceLearner(
            SkipGram(dim=8), np.bincount(tokens), np.ones(50), source, tables, block=16, piece=1024, threads=1, seed=1
        )
        clock = Clock(0)
        schedule = schedule_of(stop=len(tokens), epochs=2, unit=16, piece=1024)
        works: list[int] = []

        def received(work, stats, works=works, clock=clock, seconds=seconds) -> None:  # type: ignore[no-untyped-def]
            works.append(work.payload.stop)
            clock.now += seconds

        run(works_of(schedule, clock), learner, LocalDriver(), received)
        made.append((len(works), rows.copy()))
    assert made[0][0] < made[1][0]
    assert (made[0][1] == made[1][1]).all()
