"""DS-Sync at each step: trainers step alone, then average in groups whose members change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from any2vec.cluster.link import parse_link
from any2vec.cluster.message import Part, overhead
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.errors import InputError
from any2vec.plan.order.groups import GroupSchedule
from any2vec.sync.base.group import ProcessGroup
from any2vec.sync.drivers.grouped_steps import GroupedSteps
from any2vec.sync.exchange.groups import DivideAndShuffle
from any2vec.sync.make import make_grouped
from any2vec.sync.options.names import StepGroups, parse_click_sync, parse_sync
from any2vec.tables.replica import Replica
from gradient_cases import RATE, SIZE, rough, start_values

SYNCS = [
    ("ds-sync", 4), ("ds-sync:3", 7), ("ds-sync:butterfly:2", 4), ("ds-sync:topology:2", 6), ("ds-sync:topology", 2),
    ("ds-sync:5", 5),
]  # fmt: skip


def made(transport: Transport, sync: str, trainers: int) -> GroupedSteps:
    how = parse_click_sync(sync)
    assert isinstance(how, StepGroups)
    return make_grouped(how, Replica(start_values(), "sgd", RATE), ProcessGroup(transport, trainers))


def naive(sync: str, rounds: Sequence[Sequence[int]]) -> tuple[list[np.ndarray], np.ndarray]:
    """Replicas, and the model, after rounds in which each trainer has so many batches."""
    how: Any = parse_click_sync(sync)
    trainers = len(rounds[0])
    schedule = GroupSchedule.of(how.schedule, trainers, how.size, how.seed)
    replicas = [Replica(start_values(), "sgd", RATE) for _ in range(trainers)]
    first = 0
    for counts in rounds:
        for step in range(first, first + max(counts)):
            working = [rank for rank in range(trainers) if step < first + counts[rank]]
            for rank in working:
                replicas[rank].step(rough(rank, step))
            for group in schedule.groups(step):
                members = [rank for rank in group if rank in working]
                if members:
                    mean = np.mean([replicas[rank].value.astype(np.float64) for rank in members], axis=0)
                    for rank in members:
                        replicas[rank].value[:] = mean
        first += max(counts)
    values = [replica.value for replica in replicas]
    return values, np.mean([value.astype(np.float64) for value in values], axis=0).astype(np.float32)


@pytest.mark.parametrize(("sync", "trainers"), SYNCS)
@pytest.mark.parametrize("unequal", [False, True])
def test_groups_average_after_each_step(sync: str, trainers: int, unequal: bool) -> None:
    """Three rounds; trainers that have fewer batches than others are left out of the steps that they do not have."""
    rng = np.random.default_rng(trainers)
    rounds = [rng.integers(0, 7, trainers).tolist() if unequal else [5] * trainers for _ in range(3)]

    def work(transport: Transport) -> tuple[np.ndarray, np.ndarray | None, int]:
        agreement, rank = made(transport, sync, trainers), transport.rank
        agreement.start()
        index = 0
        for counts in rounds:
            for _ in range(counts[rank]):
                step = agreement.begin(0, index)
                agreement.apply(0, step, rough(rank, step))
                index += 1
            agreement.quiesce()
        agreement.close()
        return agreement.replica.value, agreement.gather_result(), agreement.steps

    found = run_logical(trainers, work, patience=20)
    values, model = naive(sync, rounds)
    for (value, _, steps), expected in zip(found, values, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-6)
        assert steps == sum(map(max, rounds))
    assert found[0][1] is not None and all(other is None for _, other, _ in found[1:])
    np.testing.assert_allclose(found[0][1], model, rtol=1e-6)


def test_one_trainer_that_has_ended_holds_up_nobody() -> None:
    """Rank 1 has no batch after the first round, and closes while others go on to settle."""

    def work(transport: Transport) -> int:
        agreement = made(transport, "ds-sync:3", 3)
        for index in range(2 if transport.rank == 1 else 9):
            agreement.apply(0, agreement.begin(0, index), rough(transport.rank, index))
            if index in (4, 6):
                agreement.quiesce()
        agreement.close()
        return agreement.steps

    assert run_logical(3, work, patience=20) == [9, 9, 9]


@pytest.mark.parametrize("first", [0, 1, 2])
def test_the_butterfly_is_the_mean_of_all_after_its_steps(first: int) -> None:
    """Eight trainers that step once and then stay agree after three steps, wherever the schedule stands."""

    def work(transport: Transport) -> np.ndarray:
        agreement = made(transport, "ds-sync:butterfly:2", 8)
        agreement.load_state_dict([{"grouped.step": np.array(first)}])
        for index in range(3):
            gradient = rough(transport.rank, 0) * np.float32(index == 0)
            agreement.apply(0, agreement.begin(0, index), gradient)
        return agreement.replica.value

    found = run_logical(8, work, patience=20)
    steps = [start_values() - np.float32(RATE) * rough(rank, 0) for rank in range(8)]
    for value in found:
        np.testing.assert_allclose(value, np.mean(steps, axis=0), rtol=2e-6)


@pytest.mark.parametrize(("sync", "size", "trainers"), [("ds-sync:2", 2, 6), ("ds-sync:3", 3, 9), ("ds-sync:4", 4, 8)])
def test_bytes_of_a_step_are_those_of_the_group(sync: str, size: int, trainers: int) -> None:
    """2 (s - 1) / s replicas leave a trainer, however many trainers there are."""
    steps = 6

    def work(transport: Transport) -> tuple[int, int]:
        agreement = made(transport, sync, trainers)
        for index in range(steps):
            agreement.apply(0, agreement.begin(0, index), rough(transport.rank, index))
        kinds = transport.counters.bytes_by_kind()
        return kinds["dense"], kinds["control"]

    found = run_logical(trainers, work, patience=20)
    heads = steps * (size - 1) * (overhead(2) + Part("control", np.zeros(1)).array.nbytes + overhead(1))
    assert sum(dense for dense, _ in found) == trainers * steps * 2 * (size - 1) / size * 4 * SIZE
    assert all(control == heads for _, control in found)


@pytest.mark.parametrize(("trainers", "sites"), [(8, 2), (6, 3)])
def test_a_topology_has_the_sites_of_the_link_where_all_hosts_train(trainers: int, sites: int) -> None:
    """As the rounds of words have; with two servers among 8 hosts the groups' own number counts."""
    link = parse_link("10Gbit,50us;2:100Mbit,30ms")

    def schedules(transport: Transport) -> tuple[GroupSchedule, GroupSchedule]:
        how: Any = parse_sync("ds-sync:topology")
        rounds = DivideAndShuffle(transport, {"input": np.zeros((4, 2), np.float32)}, how).schedule
        return made(transport, "ds-sync:topology", trainers).schedule, rounds

    for steps, rounds in run_logical(8, schedules, link=link):
        assert (rounds.sites, steps.sites) == (2, sites)
        assert trainers < 8 or all(steps.groups(number) == rounds.groups(number) for number in range(4))


def test_a_schedule_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="The butterfly needs 2 hosts, or 4, 8 and so on, got 6"):
        run_logical(6, lambda transport: made(transport, "ds-sync:butterfly:2", 6), patience=5)
