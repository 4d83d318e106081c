"""Works cover every position once, on the grid of pieces, and follow the clock without touching what is learned."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from any2vec import SkipGram
from any2vec.models.words.learner import SequenceLearner
from any2vec.models.words.source import StoredTokens
from any2vec.plan.order.schedule import MOST_PIECES, WORK_SECONDS, EpochSchedule
from any2vec.tables.memory import MemoryTable
from any2vec.train.loop import Alone, run


class Clock:
    """Says how long each work took, as if a piece took `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds

    def __call__(self) -> float:
        return self.now


def schedule_of(**options: Any) -> EpochSchedule:
    return EpochSchedule(**({"start": 0, "epochs": 1, "unit": 1, "piece": 1} | options))


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
    schedule = schedule_of(
        start=start, stop=stop, epochs=epochs, unit=unit, piece=unit * pieces, threads=threads, rounds=rounds,
        clock=clock,
    )  # fmt: skip
    at, opened, closed = (0, start), [], []
    for work in schedule:
        assert (work.epoch, work.start) == at and start <= work.start <= work.stop <= stop
        assert work.start in (start, stop) or work.start % unit == 0
        assert work.epoch / epochs <= work.progress_to <= (work.epoch + 1) / epochs
        opened += [work.round.number] * work.opens_round
        assert opened[-1] == work.round.number
        closed += [work.round.number] * work.closes_round
        assert opened[: len(closed)] == closed and len(opened) - len(closed) == (not work.closes_round)
        is_end = work.closes_round and work.round.ends_epoch
        assert not is_end or (work.stop == stop and work.progress_to == (work.epoch + 1) / epochs)
        at = (work.epoch + 1, start) if is_end else (work.epoch, work.stop)
        clock.now += next(took)
    assert at == (epochs, start) and closed == list(range(epochs * rounds))


@given(
    length=st.integers(1, 3000), unit=st.integers(1, 8), rounds=st.integers(1, 4), steps=st.integers(1, 5),
    seconds=st.lists(st.floats(0, 10), min_size=1, max_size=8),
)  # fmt: skip
def test_steps_end_at_the_same_places_whatever_the_clock(
    length: int, unit: int, rounds: int, steps: int, seconds: list[float]
) -> None:
    clock, took, ends = Clock(0), itertools.cycle(seconds), []
    options: dict[str, Any] = {"stop": length, "unit": unit, "piece": 2 * unit, "rounds": rounds, "steps": steps}
    for work in schedule_of(**options, clock=clock):
        assert not (work.ends_step and work.closes_round)
        ends += [work.stop] * (work.ends_step or work.closes_round)
        clock.now += next(took)
    steady = list(schedule_of(**options, clock=Clock(0)))
    assert ends == [work.stop for work in steady if work.ends_step or work.closes_round]
    assert len(ends) <= rounds * steps and (length < 2 * unit * rounds * steps or len(ends) == rounds * steps)


@given(length=st.integers(1, 500), rounds=st.integers(1, 6), done=st.integers(0, 5))
def test_a_resumed_schedule_is_the_rest_of_the_whole(length: int, rounds: int, done: int) -> None:
    whole = schedule_of(stop=length, epochs=2, rounds=rounds, clock=Clock(0))
    rest = [found for found in whole.all_rounds() if found[1].number >= done]
    if done < rounds:
        position = rest[0][1].parts[0][0]
        assert list(replace(whole, first=(0, done, position)).all_rounds()) == rest


def test_the_rest_of_an_epoch_on_other_hosts() -> None:
    """Half an epoch is left, in two ranges, of which this host has one and a half: its progress is even over them."""
    schedule = schedule_of(
        start=0, stop=60, epochs=2, rounds=4, first=(0, 0, 0), rest=((10, 20), (50, 70)), rest_progress=0.5,
        clock=Clock(0),
    )  # fmt: skip
    works = [work for work in schedule if work.epoch == 0]
    assert sum(work.stop - work.start for work in works) == 30
    assert {work.round.number for work in works} == {0, 1} and not works[0].round.is_whole
    assert [stretch.progress_from for stretch in works[0].round.stretches] == pytest.approx([0.25, 0.25 + 0.25 / 3])
    assert works[-1].progress_to == 0.5
    assert works[-1].round.parts == ((20, 20), (55, 70))


@given(
    cuts=st.lists(st.integers(0, 200), max_size=8), rounds=st.integers(1, 6), unit=st.integers(1, 5),
    progress=st.sampled_from([0.0, 0.3, 0.9]),
)  # fmt: skip
def test_any_rest_opens_and_closes_every_round(cuts: list[int], rounds: int, unit: int, progress: float) -> None:
    """Even ranges that are empty in some rounds, at their front or at their end."""
    cuts.sort()
    rest = tuple((start, stop) for start, stop in zip(cuts[::2], cuts[1::2], strict=False) if start < stop)
    schedule = schedule_of(
        stop=200, rounds=rounds, unit=unit, piece=unit, rest=rest, rest_progress=progress, clock=Clock(0)
    )
    works = list(schedule)
    expected = max(1, round(rounds * (1 - progress)))
    assert [work.round.number for work in works if work.opens_round] == list(range(expected))
    assert [work.round.number for work in works if work.closes_round] == list(range(expected))
    done = [position for work in works for position in range(work.start, work.stop)]
    assert done == [position for start, stop in rest for position in range(start, stop)]


@pytest.mark.parametrize(("seconds", "pieces"), [(20.0, 1), (WORK_SECONDS / 8, 8), (1e-9, MOST_PIECES)])
def test_works_take_about_the_wanted_time(seconds: float, pieces: int) -> None:
    """However slow a piece is, a stop is heard after one of them; fast ones are taken together."""
    clock = Clock(seconds)
    schedule = schedule_of(stop=10_000, threads=2, clock=clock)
    sizes = []
    for work in schedule:
        sizes.append(work.stop - work.start)
        clock.now += seconds * (work.stop - work.start) / 2
    assert sizes[0] == 2 and max(sizes) == sizes[-2] == 2 * pieces


def test_the_clock_changes_no_bit() -> None:
    tokens = np.random.default_rng(1).integers(0, 50, 20_000).astype(np.int32)
    made = []
    for seconds in (0.0, 5.0):
        rows = np.random.default_rng(2).normal(0, 0.1, (2, 50, 8)).astype(np.float32)
        tables = {"input": MemoryTable(rows[0]), "output": MemoryTable(rows[1])}
        source = StoredTokens(tokens, 16)
        learner = SequenceLearner(
            SkipGram(dim=8), np.bincount(tokens), np.ones(50), source, tables, block=16, piece=1024, threads=1, seed=1
        )
        clock = Clock(0)
        schedule = schedule_of(stop=len(tokens), epochs=2, unit=16, piece=1024, clock=clock)
        works: list[int] = []

        def heard(work, stats, works=works, clock=clock, seconds=seconds) -> None:  # type: ignore[no-untyped-def]
            works.append(work.stop)
            clock.now += seconds

        run(schedule, learner, Alone(), heard)
        made.append((len(works), rows.copy()))
    assert made[0][0] < made[1][0]
    assert (made[0][1] == made[1][1]).all()
