"""Batches in stages: each once, never staler than the bound, results in order, errors where they are heard."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from any2vec.errors import HostError, InputError
from any2vec.train.out_of_core.pipeline import Pipeline, Stage


@pytest.mark.parametrize(("bound", "threads"), [(1, 1), (1, 3), (2, 2), (4, 3), (16, 4), (64, 4)])
@pytest.mark.parametrize("stages", [1, 3])
def test_no_batch_is_staler_than_the_bound(bound: int, threads: int, stages: int) -> None:
    """Some batches take ten times as long as others; staleness is counted by the batches themselves, too."""
    lock = threading.Lock()
    changes, seen = 0, []
    delays = np.random.default_rng(1).choice([0.0, 0.0005, 0.005], 300)

    def read(batch: int) -> tuple[int, int]:
        return batch, changes

    def wait(found: tuple[int, int]) -> tuple[int, int]:
        time.sleep(delays[found[0]])
        return found

    def change(found: tuple[int, int]) -> int:
        nonlocal changes
        with lock:
            seen.append(changes - found[1])
            changes += 1
        return found[0]

    calls = [Stage(read), Stage(wait, threads), Stage(change)]
    if stages == 1:
        calls = [Stage(lambda batch: change(wait(read(batch))), threads)]
    with Pipeline(calls, bound) as pipeline:
        for batch in range(300):
            pipeline.put(batch)
        assert pipeline.flush() == list(range(300))
    assert sum(pipeline.staleness.values()) == 300 and max(pipeline.staleness) < bound and max(seen) < bound
    if min(bound, threads) > 1:
        assert max(pipeline.staleness) > 0


def test_a_slow_batch_is_not_overtaken_by_more_than_the_bound() -> None:
    """Two threads: while one is held up, the other does what the bound allows, and then waits."""
    done, go_on = [], threading.Event()

    def work(batch: int) -> None:
        if batch == 0:
            assert go_on.wait(20)
        done.append(batch)

    with Pipeline([Stage(work, 2)], bound=5) as pipeline:
        feeder = threading.Thread(target=lambda: [pipeline.put(batch) for batch in range(20)], daemon=True)
        feeder.start()
        deadline = time.monotonic() + 20
        while len(done) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.1)
        assert done == [1, 2, 3, 4]
        go_on.set()
        feeder.join(20)
        pipeline.flush()
    assert sorted(done) == list(range(20)) and max(pipeline.staleness) == 4


def test_results_are_drained_once() -> None:
    with Pipeline([Stage(lambda batch: 2 * batch, 2)], bound=3) as pipeline:
        for batch in range(5):
            pipeline.put(batch)
        assert pipeline.flush() == [0, 2, 4, 6, 8] and pipeline.flush() == []
        pipeline.put(9)
        assert pipeline.flush() == [18]


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_batch_wakes_the_first_stage_whoever_else_waits(stages: int) -> None:
    calls = [Stage(lambda batch: batch + 1, 2)] * stages
    with Pipeline(calls, bound=4, patience=5) as pipeline:
        for batch in range(20):
            pipeline.put(batch)
            assert pipeline.flush() == [batch + stages]


@pytest.mark.parametrize("stage", [0, 1])
def test_an_error_is_received(stage: int) -> None:
    def fail(batch: Any) -> Any:
        raise ValueError("batch 3 has no rows")

    calls = [Stage(lambda batch: batch), Stage(lambda batch: batch)]
    calls[stage] = Stage(fail)
    threads = threading.active_count()
    with pytest.raises(ValueError, match="batch 3 has no rows"), Pipeline(calls, bound=4) as pipeline:
        for batch in range(100):
            pipeline.put(batch)
        pipeline.flush()
    assert threading.active_count() == threads


def test_waiting_ends() -> None:
    held = threading.Event()
    with (
        pytest.raises(HostError, match=r"No batch was done for 0\.1 s, with 1 under way"),
        Pipeline([Stage(lambda batch: held.wait(1))], bound=1, patience=0.1) as pipeline,
    ):
        pipeline.put(0)
        pipeline.flush()
    held.set()


def test_what_is_not_legal_is_said() -> None:
    with pytest.raises(InputError, match="staleness_bound must be a whole number from 1"):
        Pipeline([Stage(print)], bound=0)
    with pytest.raises(InputError, match="threads must be a whole number from 1"):
        Pipeline([Stage(print, 0)])
