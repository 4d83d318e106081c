"""Synchronization behind the workers, with threads: whoever is first, it learns, it ends, and nobody waits."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from any2vec.cluster.launch.processes import run_processes
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.errors import HostError
from any2vec.sync.base.group import ProcessGroup
from any2vec.sync.drivers.replicas import FixedRate, ShadowSync
from any2vec.sync.make import make_replicated
from any2vec.sync.options.names import Fixed, FixedEasgd, Shadow, ShadowEasgd, parse_click_sync
from any2vec.sync.rules.center import CenterBlock, ServedCenter
from any2vec.sync.rules.elastic_replica import ElasticReplica
from any2vec.sync.rules.replica_rule import WORKING
from any2vec.tables.replica import Replica
from found_by_children import python_path
from planted_replicas import PlantedSquares, train_replicas
from replay import NearCenter

SHADOWS = ["shadow-easgd", "shadow-ma", "shadow-bmuf"]
ALL = [*SHADOWS, "fr-easgd:5", "fr-ma:5", "fr-bmuf:5"]
PROBLEM = PlantedSquares(size=32)
START = PROBLEM.excess(np.zeros(32))


@pytest.fixture(autouse=True)
def no_shadow_is_left() -> Iterator[None]:
    yield
    until = time.monotonic() + 10
    while (left := [thread.name for thread in threading.enumerate() if "shadow" in thread.name]) and (
        time.monotonic() < until
    ):
        time.sleep(0.01)
    assert not left


@pytest.fixture
def quick_turns() -> Iterator[None]:
    """Threads take turns a hundred times as often, so that small problems interleave as large ones do."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(before / 100)
    yield
    sys.setswitchinterval(before)


def agreement_of(
    transport: Transport, sync: str, trainers: int, value: np.ndarray | None = None
) -> tuple[ShadowSync | FixedRate, ServedCenter | None]:
    """A trainer's, of plain SGD, and its center, which all trainers own; neither is started."""
    how = parse_click_sync(sync)
    assert isinstance(how, Shadow | Fixed)
    replica = Replica(np.zeros(32, np.float32) if value is None else value, "sgd", 0.02)
    center = None
    if isinstance(how, ShadowEasgd | FixedEasgd):
        center = ServedCenter(transport, len(replica.value), range(trainers), trainers, how.alpha)
    return make_replicated(how, replica, ProcessGroup(transport, trainers), center), center


def steps(agreement: ShadowSync | FixedRate, rank: int, count: int, first: int = 0) -> None:
    for index in range(first, first + count):
        step = agreement.begin(0, index)
        agreement.apply(0, step, PROBLEM.gradient(agreement.replica.value, rank, index))


@pytest.mark.parametrize("sync", ALL)
@pytest.mark.parametrize(("trainers", "workers", "servers"), [(1, 1, 1), (3, 1, 2), (2, 3, 0)])
def test_trainers_learn_and_end_together(
    sync: str, trainers: int, workers: int, servers: int, quick_turns: None
) -> None:
    """As different as their numbers of batches are; the model is what it is said to be."""
    batches = [600, 360, 480][:trainers]
    found = train_replicas(
        sync, trainers, batches, workers=workers, servers=servers, problem=PROBLEM, patience=30, longest_gap=20
    )
    assert PROBLEM.excess(found.model) < START / 4
    for metrics, count in zip(found.metrics, batches, strict=True):
        gaps = {int(gap): times for gap, times in metrics["sync_gap"].items()}
        assert metrics["iterations"] == count == sum(gap * times for gap, times in gaps.items())
        assert metrics["sync_gap_mean"] == count / sum(gaps.values()) and min(gaps) > 0
        assert metrics["syncs"] >= sum(gaps.values()) and metrics["sync_seconds"] > 0
        assert 0 <= metrics["lost_by_merging"] <= metrics["lost_if_overwritten"] < 1
        assert sync.startswith("fr") or 0 <= metrics["shadow_cpu_share"] <= 1
    if "easgd" not in sync:
        assert len({metrics["syncs"] for metrics in found.metrics}) == 1
        assert all(np.array_equal(replica, found.model) for replica in found.replicas)


@pytest.mark.parametrize("every", [1, 3, 7])
def test_the_gap_of_a_fixed_rate_is_its_rate(every: int) -> None:
    found = train_replicas(f"fr-ma:{every}", 2, 40, problem=PROBLEM)
    for metrics in found.metrics:
        left = {str(40 % every): 1} if 40 % every else {}
        assert metrics["sync_gap"] == {str(every): 40 // every} | left


def test_a_shadow_leaves_a_trainer_its_iterations() -> None:
    """With least=50 it syncs no more than every 50 of them, however fast it would be."""
    found = train_replicas("shadow-ma:0.5:least=50", 1, 200, problem=PROBLEM)
    assert all(int(gap) >= 50 for gap in list(found.metrics[0]["sync_gap"])[1:]) and found.metrics[0]["syncs"] <= 5


@pytest.mark.parametrize("sync", SHADOWS)
def test_workers_go_on_while_a_sync_is_held(sync: str) -> None:
    """Rank 1 holds its slice of the center, and has no iteration after which its own shadow would sync."""
    is_done = threading.Event()

    def host(transport: Transport) -> None:
        agreement, center = agreement_of(transport, sync, 2)
        assert isinstance(agreement, ShadowSync)
        if center is not None:
            center.start()
        agreement.start()
        if transport.rank == 1:
            with nullcontext() if center is None else center.block._lock:
                transport.send(0, (), "held")
                assert is_done.wait(30)
        else:
            transport.recv(1, "held")
            steps(agreement, 0, 1)
            until = time.monotonic() + 10
            while not agreement._turn.locked() and time.monotonic() < until:
                time.sleep(0.001)
            steps(agreement, 0, 300, 1)
            assert agreement._turn.locked() and agreement.metrics()["syncs"] == 0 and agreement.syncing.gap == 301
            is_done.set()
        steps(agreement, transport.rank, 20)
        agreement.close()
        agreement.gather_result()
        assert agreement.metrics()["syncs"] > 0
        if center is not None:
            center.close()

    run_logical(2, host, patience=30)


def train_through_slow_syncs(sync: str) -> tuple[float, dict[str, Any]]:
    """Two trainers, of whose every 100 iterations 80 fall into a sync: (excess of the model, facts of rank 0)."""

    def host(transport: Transport) -> tuple[np.ndarray | None, dict[str, Any]]:
        agreement, _ = agreement_of(transport, f"{sync}:least=20", 2)
        assert isinstance(agreement, ShadowSync)
        rule, is_begun, may_end = agreement.rule, threading.Event(), threading.Event()
        snapshot = rule.snapshot

        def slow(standing: int) -> None:
            snapshot(standing)
            if standing == WORKING:
                is_begun.set()
                assert may_end.wait(30)
                may_end.clear()

        rule.snapshot = slow  # type: ignore[method-assign]
        agreement.start()
        for turn in range(4):
            steps(agreement, transport.rank, 20, 100 * turn)
            assert is_begun.wait(30)
            is_begun.clear()
            steps(agreement, transport.rank, 80, 100 * turn + 20)
            may_end.set()
            until = time.monotonic() + 30
            while agreement.syncing.syncs == turn and time.monotonic() < until:
                time.sleep(0.001)
        agreement.close()
        return agreement.gather_result(), agreement.metrics()

    (model, metrics), _ = run_logical(2, host, patience=30)
    assert model is not None and metrics["sync_gap"] == {"100": 4}
    return PROBLEM.excess(model), metrics


def test_overwriting_loses_what_workers_do_during_a_slow_sync() -> None:
    """Most of what is learnt, is learnt during one."""
    excess, lost = {}, {}
    for sync in ("shadow-ma:1:blend", "shadow-ma:0.5:blend", "shadow-ma:0.5"):
        excess[sync], metrics = train_through_slow_syncs(sync)
        lost[sync] = metrics["lost_if_overwritten"], metrics["lost_by_merging"]
    overwritten, blended, shifted = lost.values()
    assert overwritten[0] == overwritten[1] > 0.5
    assert blended[0] > 0.5 and blended[1] == blended[0] / 2
    assert shifted[0] > 0.5 and shifted[1] == 0
    assert excess["shadow-ma:1:blend"] > 2 * excess["shadow-ma:0.5"]


@pytest.mark.parametrize("sync", ALL)
def test_a_trainer_that_raises_ends_the_others_with_its_sentence(sync: str) -> None:
    received: list[HostError] = []

    def host(transport: Transport) -> None:
        agreement, center = agreement_of(transport, sync, 3)
        if center is not None:
            center.start()
        agreement.start()
        try:
            steps(agreement, transport.rank, 10)
            if transport.rank == 1:
                raise ZeroDivisionError("no more examples")
            steps(agreement, transport.rank, 10**6 if transport.rank == 2 else 10, 10)
            agreement.close()
        except HostError as error:
            received.append(error)
            raise
        finally:
            if isinstance(agreement, ShadowSync):
                agreement.close(HostError("over"))

    with pytest.raises(ZeroDivisionError, match="no more examples"):
        run_logical(3, host, patience=30)
    assert all("host 1 failed" in str(error) for error in received) and len(received) == 2


@pytest.mark.parametrize("sync", ALL)
def test_a_trainer_that_hangs_is_given_up(sync: str) -> None:
    """Rank 1 does a few iterations and then neither goes on nor ends."""
    is_over = threading.Event()

    def host(transport: Transport) -> str:
        agreement, center = agreement_of(transport, sync, 2)
        if center is not None:
            center.start()
        agreement.start()
        steps(agreement, transport.rank, 7)
        said = ""
        if transport.rank == 1:
            assert is_over.wait(30)
        else:
            with pytest.raises(HostError) as caught:
                agreement.close()
            said = str(caught.value)
            is_over.set()
        if isinstance(agreement, ShadowSync):
            agreement.close(HostError("over"))
        return said

    said, _ = run_logical(2, host, patience=0.3)
    if "easgd" in sync:
        assert said == "Rank 1 has neither finished nor synchronized for 0.3 s: it hangs, or is lost."
    else:
        assert "waited 0.3 s for logical host 1" in said


def test_a_slow_trainer_is_not_given_up() -> None:
    """Rank 1 takes twice as long as rank 0 has patience, but it goes on all the time."""

    def host(transport: Transport) -> int:
        agreement, center = agreement_of(transport, "fr-easgd:1", 2)
        assert center is not None
        center.start()
        agreement.start()
        for index in range(20 * transport.rank):
            time.sleep(0.1)
            steps(agreement, 1, 1, index)
        agreement.close()
        agreement.gather_result()
        center.close()
        return agreement.metrics()["syncs"]

    assert run_logical(2, host, patience=1.0) == [1, 21]


def test_workers_receive_what_ended_the_shadow() -> None:
    def host(transport: Transport) -> None:
        block = CenterBlock(31, 1, 0.5)  # of one parameter too few
        replica = Replica(np.zeros(32, np.float32), "sgd", 0.02)
        rule = ElasticReplica(replica, ProcessGroup(transport, 1), NearCenter(block, 0))
        agreement = ShadowSync(rule)
        agreement._thread.start()
        with pytest.raises(HostError, match="The shadow of rank 0 ended: InputError: The slice of the center has 31"):
            for index in range(10**6):
                steps(agreement, 0, 1, index)
        for call in (lambda: agreement.begin(0, 0), agreement.quiesce, agreement.close):
            with pytest.raises(HostError, match="The shadow of rank 0 ended"):
                call()

    run_logical(1, host)


@pytest.mark.parametrize("sync", SHADOWS)
def test_nothing_moves_while_all_stand_still(sync: str, quick_turns: None) -> None:
    """Trainers stand still three times, at different iterations, and go on; rank 0 then knows the model of the time."""

    def host(transport: Transport) -> list[np.ndarray]:
        agreement, center = agreement_of(transport, sync, 3)
        if center is not None:
            center.start()
        agreement.start()
        done, models = 0, []
        for _ in range(3):
            until = agreement.metrics()["syncs"] + 1 + transport.rank
            while agreement.metrics()["syncs"] < until:
                steps(agreement, transport.rank, 5, done)
                done += 5
            agreement.quiesce()
            before = agreement.replica.value.copy(), agreement.metrics()["syncs"]
            memory, model = dict(agreement.state_dict()), agreement.gather_result()
            time.sleep(0.03)
            transport.barrier()
            assert np.array_equal(agreement.replica.value, before[0]) and agreement.metrics()["syncs"] == before[1]
            assert {name: array.tobytes() for name, array in memory.items()} == {
                name: array.tobytes() for name, array in agreement.state_dict().items()
            }
            if transport.rank == 0:
                assert model is not None
                models.append(model)
                if sync == "shadow-easgd":
                    assert center is not None and np.array_equal(center.read(), model)
            transport.barrier()
        agreement.close()
        agreement.gather_result()
        if center is not None:
            center.close()
        return models

    models = run_logical(3, host, patience=30)[0]
    assert len(models) == 3 and all(PROBLEM.excess(model) < START for model in models)


def test_a_settled_trainer_waits_for_one_that_still_works() -> None:
    """Its last replica joins the syncs of the others until they stand still, too."""

    def host(transport: Transport) -> int:
        agreement, _ = agreement_of(transport, "fr-ma:2", 2)
        agreement.start()
        if transport.rank == 0:
            steps(agreement, 0, 20)
        agreement.quiesce()
        assert agreement.metrics()["syncs"] == 10
        agreement.close()
        return agreement.metrics()["syncs"]

    assert run_logical(2, host, patience=30) == [11, 11]


def test_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two trainers, one with twice the batches, and a server of the center."""
    pytest.importorskip("torch", reason="hosts as processes need torch (the extra any2vec[torch])")
    if os.name == "nt":
        pytest.skip("hosts as processes need POSIX")
    monkeypatch.setenv("PYTHONPATH", python_path())
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    lines: list[str] = []
    settings = {"sync": "shadow-easgd", "trainers": 2, "batches": 1500}
    run_processes(3, "shadow_programs", json.dumps(settings), lines.append)
    excess, syncs = json.loads(lines[-1])
    assert excess < PlantedSquares().excess(np.zeros(64)) / 4 and min(syncs[:2]) > 1
