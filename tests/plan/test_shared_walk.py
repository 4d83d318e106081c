"""Partitions of several hosts: every bucket once, nobody shares, everybody works as much, and few travel."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.errors import InputError
from any2vec.plan.order.buffer_walk import Position
from any2vec.plan.order.groups import tournament
from any2vec.plan.order.shared_walk import Rounds, SharedWalk

HOSTS = st.integers(1, 16)


def walks(hosts: int, partitions: int, capacity: int, epochs: int, **more: int) -> list[SharedWalk]:
    options = {"hosts": hosts, "partitions": partitions, "capacity": capacity, "epochs": epochs}
    return [SharedWalk(**options, rank=rank, **more) for rank in range(hosts)]


@pytest.mark.parametrize("hosts", range(1, 33))
def test_every_two_groups_meet_once_and_each_host_keeps_one(hosts: int) -> None:
    rounds = tournament(hosts)
    met = [frozenset(pair) for pairs in rounds for pair in pairs]
    assert len(rounds) == 2 * hosts - 1 and len(set(met)) == len(met)
    assert set(met) == {frozenset(pair) for pair in combinations(range(2 * hosts), 2)}
    for before, after in pairwise(rounds):
        assert sorted(group for pair in after for group in pair) == list(range(2 * hosts))
        for former, (kept, new) in zip(before, after, strict=True):
            assert kept in former and new not in former


shapes = HOSTS.flatmap(lambda hosts: st.tuples(st.just(hosts), st.integers(2 * hosts, 64), st.integers(2, 8)))


@settings(deadline=None, max_examples=40)
@given(shapes, st.integers(1, 3), st.integers(0, 9))
def test_each_bucket_is_trained_once_by_who_alone_holds_it(shape: tuple[int, int, int], epochs: int, seed: int) -> None:
    hosts, partitions, capacity = shape
    rounds, every = Rounds(hosts, partitions, epochs), walks(*shape, epochs, seed=seed)
    trained: list[Counter[tuple[int, int]]] = [Counter() for _ in range(epochs)]
    for number in range(rounds.number):
        owned = [part for rank in range(hosts) for part in rounds.owned(number, rank)]
        assert sorted(owned) == list(range(partitions))  # disjoint, and nothing is lost
    for walk in every:
        block_of: dict[int, int] = {}
        done: list[tuple[int, int]] = []
        for turn in walk:
            for place in turn.leaving:
                assert block_of.pop(place.part) == place.block
            for place in turn.entering:
                assert place.part not in block_of and place.block not in block_of.values()
                assert place.block < walk.blocks
                block_of[place.part] = place.block
            assert turn.block_of == block_of and len(block_of) <= capacity
            assert set(block_of) <= set(rounds.owned(turn.round, walk.rank))
            assert all(set(bucket) <= set(block_of) for bucket in turn.buckets)
            assert all(rounds.host_of(bucket) == walk.rank for bucket in turn.buckets)
            assert list(turn.before) == done
            trained[turn.epoch].update(turn.buckets)
            done = [] if turn.ends_epoch else done + list(turn.buckets)
    for counts in trained:
        assert sorted(counts) == list(product(range(partitions), repeat=2)) and set(counts.values()) == {1}


@settings(deadline=None, max_examples=20)
@given(HOSTS.flatmap(lambda h: st.tuples(st.just(h), st.sampled_from(range(2 * h, 65, 2 * h)), st.integers(2, 8))))
def test_equal_groups_are_equal_work_and_few_partitions_travel(shape: tuple[int, int, int]) -> None:
    """p (H - 1) partitions an epoch: one group a host and round but the first. Equally many buckets in each round."""
    hosts, partitions, capacity = shape
    rounds, epochs = Rounds(hosts, partitions, 2), 2
    work = np.zeros((rounds.number, hosts), int)
    for walk in walks(hosts, partitions, capacity, epochs):
        for turn in walk:
            work[turn.round, walk.rank] += len(turn.buckets)
    assert (work == work[:, :1]).all() and work.sum() == epochs * partitions**2
    for epoch in range(epochs):
        numbers = range(epoch * rounds.per_epoch, (epoch + 1) * rounds.per_epoch)
        taken = [len(rounds.taken(number, rank)) for number in numbers for rank in range(hosts)]
        given_ = [len(rounds.given(number, rank)) for number in numbers for rank in range(hosts)]
        assert sum(taken) == sum(given_) == partitions * (hosts - 1)
        share = partitions // hosts
        fewest = (partitions * (partitions - 1) - hosts * share * (share - 1)) / 2 / (share - 1)
        assert sum(taken) <= 2 * fewest  # any schedule: who comes to a host meets share - 1 others there at most


def test_two_hosts_by_hand() -> None:
    rounds = Rounds(2, 4, 2)
    owned = [[rounds.owned(number, rank) for rank in range(2)] for number in range(6)]
    assert owned[:3] == [[(0, 3), (1, 2)], [(1, 3), (0, 2)], [(2, 3), (0, 1)]]
    assert owned[3:] == owned[:3][::-1]  # backwards: nothing travels between the epochs


@pytest.mark.parametrize("capacity", [2, 3, 8])
def test_a_walk_goes_on_at_the_beginning_of_a_round(capacity: int) -> None:
    for walk in walks(2, 8, capacity, 2):
        turns = list(walk)
        for position, number in walk.round_after.items():
            options = {"hosts": 2, "rank": walk.rank, "partitions": 8, "capacity": capacity, "epochs": 2}
            rest = list(SharedWalk(**options, start=position))
            after = [turn for turn in turns if turn.round >= number]
            assert rest[1:] == after[1:]
            assert not after or (rest[0].held == rest[0].entering == after[0].held and not rest[0].leaving)
        with pytest.raises(InputError, match="has no round that begins at state 99"):
            list(SharedWalk(hosts=2, rank=0, partitions=8, capacity=4, epochs=2, start=Position(0, 99)))


def test_a_group_passes_another_with_few_loads() -> None:
    """Two groups of 4, 4 in memory: 3 stay while 4 pass, then the fourth stays while they come back."""
    for walk in walks(2, 16, 4, 1):
        for number in (1, 2):
            loads = [part for turn in walk if turn.round == number for part, _ in turn.entering]
            assert len(loads) <= 4 + 4 + 3
    in_memory = [len(turn.buckets) for turn in walks(2, 16, 8, 1)[0]]
    assert in_memory == [64, 8, 8, 8, 8, 8, 8, 8, 8]  # all that is there trains with each that arrives


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="3 hosts need 6 partitions at least, two for each, got 5"):
        Rounds(3, 5, 1)
    with pytest.raises(InputError, match="A host holds 2 partitions at least, got 1"):
        SharedWalk(hosts=1, rank=0, partitions=2, capacity=1, epochs=1)
