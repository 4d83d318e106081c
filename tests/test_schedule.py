"""Works cover every position once, on the grid of pieces, and follow the clock without touching what is learned."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from any2vec import SkipGram
from any2vec.models.learner import SequenceLearner
from any2vec.models.source import StoredTokens
from any2vec.plan.schedule import MOST_PIECES, WORK_SECONDS, EpochSchedule
from any2vec.tables.memory import MemoryTable
from any2vec.train.loop import Alone, run


class Clock:
    """Says how long each work took, as if a piece took `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds

    def __call__(self) -> float:
        return self.now


@given(
    num_positions=st.integers(1, 5000), epochs=st.integers(1, 3), piece=st.integers(1, 64), threads=st.integers(1, 4),
    seconds=st.lists(st.floats(0, 10), min_size=1, max_size=8),
)  # fmt: skip
def test_works_cover_every_position_once(
    num_positions: int, epochs: int, piece: int, threads: int, seconds: list[float]
) -> None:
    clock, took = Clock(0), itertools.cycle(seconds)
    schedule = EpochSchedule(num_positions=num_positions, epochs=epochs, piece=piece, threads=threads, clock=clock)
    at = (0, 0)
    for work in schedule:
        assert (work.epoch, work.start) == at and work.start < work.stop <= num_positions
        assert work.start % piece == 0 and (work.stop % piece == 0 or work.stop == num_positions)
        assert 0 <= work.progress_from < work.progress_to <= 1
        at = (work.epoch, work.stop) if work.stop < num_positions else (work.epoch + 1, 0)
        clock.now += next(took)
    assert at == (epochs, 0)


@pytest.mark.parametrize(("seconds", "pieces"), [(20.0, 1), (WORK_SECONDS / 8, 8), (1e-9, MOST_PIECES)])
def test_works_take_about_the_wanted_time(seconds: float, pieces: int) -> None:
    """However slow a piece is, a stop is heard after one of them; fast ones are taken together."""
    clock = Clock(seconds)
    schedule = EpochSchedule(num_positions=10_000, epochs=1, piece=1, threads=2, clock=clock)
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
        schedule = EpochSchedule(num_positions=len(tokens), epochs=2, piece=1024, clock=clock)
        works: list[int] = []

        def heard(work, stats, works=works, clock=clock, seconds=seconds) -> None:  # type: ignore[no-untyped-def]
            works.append(work.stop)
            clock.now += seconds

        run(schedule, learner, Alone(), heard, epochs=2)
        made.append((len(works), rows.copy()))
    assert made[0][0] < made[1][0]
    assert (made[0][1] == made[1][1]).all()
