"""Stages on threads: in order, within bounds, counted; they end with their owner, and an error is the owner's."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from any2vec import GraphSAGE
from any2vec.background import Spent, Stage, StageThreads, chained
from any2vec.data.attributed.features import FeatureRows
from any2vec.data.attributed.row_file import RowFile
from any2vec.data.io.array_file import ArrayFile
from any2vec.models.networks.batches import LearnerData
from any2vec.models.networks.features import CachedFeatures
from any2vec.models.networks.learner import GraphLearner
from any2vec.types import Csr, ProgressLine, Round, Span, Work

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


NODES, BATCH = 60, 16


def learner(threads: int) -> GraphLearner:
    rng, none = np.random.default_rng(0), np.empty(0, np.int64)
    csr = Csr(np.arange(NODES + 1) * 3, rng.integers(0, NODES, 3 * NODES).astype(np.int32), np.empty(0, np.float32))
    features = FeatureRows(rng.standard_normal((NODES, 5), np.float32), np.empty(0, np.float32))
    labels = rng.integers(0, 3, NODES, np.int32)
    data = LearnerData(csr, features, labels, 3, {"train": np.arange(NODES), "val": none, "test": none})
    return GraphLearner(GraphSAGE(hidden=4, fanouts="2,2", batch_size=BATCH), data, 1, threads)


def trained(one: GraphLearner, works: list[tuple[int, int, int]]) -> np.ndarray:
    """The first weights behind works (epoch, first item, item behind the last)."""
    for epoch, start, stop in works:
        one.run(Work(Span(start, stop, ProgressLine(0, NODES, 0.0, 0.0)), epoch, Round(0), 0.0))
    one.close()
    return np.array(next(iter(one.state_dict().values())))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("num_steps", [0, 8, 100])
def test_works_may_be_cut_anyhow_and_begin_anywhere(threads: int, num_steps: int) -> None:
    """With and without a plan; what comes next is known, or is another step than was expected."""
    one, other, third = (learner(threads) for _ in range(3))
    one.stages.plan(num_steps, 0)
    expected = trained(learner(1), [(0, 0, NODES), (1, 0, NODES)])
    assert np.array_equal(trained(one, [(0, 0, NODES), (1, 0, NODES)]), expected)
    pieces = [(0, 0, 16), (0, 16, 48), (0, 48, NODES), (1, 0, 32), (1, 32, NODES)]
    assert np.array_equal(trained(other, pieces), expected)
    assert other.batches.reader.sampled == one.batches.reader.sampled > 0
    again = [(0, 0, 32), (1, 0, NODES), (0, 16, 32)]
    assert np.array_equal(trained(third, again), trained(learner(1), again))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("trace_bytes", [0, 1 << 20])
def test_rows_from_disk_are_the_same_wherever_works_begin(threads: int, trace_bytes: int, tmp_path: Path) -> None:
    """Belady looks ahead, also over an epoch's end, and another step than was expected begins it anew."""
    works = [(0, 0, 32), (1, 0, NODES), (0, 16, 32), (2, 0, NODES)]
    plain, one = learner(1), learner(threads)
    rows = plain.data.features.take(np.arange(NODES))
    file = ArrayFile(tmp_path / "features.npy", np.float32, (5,))
    file.append(rows)
    file.close()
    reader = RowFile(tmp_path / "features.npy", np.dtype(np.float32), NODES, 5)
    features = CachedFeatures(reader, np.empty(0, np.float32), 20, "belady")
    one.use_features(features)
    one.stages.plan(12, 3, trace_bytes)
    assert np.array_equal(trained(one, works), trained(plain, works))
    assert one.batches.reader.reads.missed > 0 and (one.stages.trace.spilled_bytes > 0) == (trace_bytes == 0)
