"""Orders of edge buckets: every bucket once, where its partitions are; swaps as published, in closed form, fewest."""

from __future__ import annotations

import random
from functools import cache
from itertools import combinations, pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from any2vec.errors import InputError
from any2vec.plan.order.bucket_orders import (
    ORDERS,
    Bucket,
    _hilbert,
    _with_belady,
    beta_buffers,
    beta_swaps,
    fewest_swaps,
    make_order,
)

shapes = st.integers(1, 14).flatmap(lambda p: st.tuples(st.just(p), st.integers(min(2, p), p)))


@given(st.sampled_from(ORDERS), shapes, st.integers(0, 9))
def test_every_bucket_comes_once_while_its_partitions_are_there(name: str, shape: tuple[int, int], epoch: int) -> None:
    partitions, capacity = shape
    order = make_order(name, partitions, capacity, epoch=epoch)
    found = [bucket for state in order.states for bucket in state.buckets]
    assert sorted(found) == list(product(range(partitions), repeat=2))
    for state in order.states:
        assert len(set(state.held)) == len(state.held) <= capacity
        assert all(set(bucket) <= set(state.held) for bucket in state.buckets)
    for before, after in pairwise(order.states):  # who stays keeps its slot
        stay = set(before.held) & set(after.held)
        assert all(before.held.index(part) == after.held.index(part) for part in stay)
    assert order == make_order(name, partitions, capacity, epoch=epoch)
    assert order.swaps >= fewest_swaps(partitions, capacity)


@pytest.mark.parametrize("partitions", range(1, 25))
def test_beta_swaps_are_its_closed_form(partitions: int) -> None:
    for capacity in range(min(2, partitions), partitions + 1):
        order = make_order("beta", partitions, capacity)
        assert order.swaps == beta_swaps(partitions, capacity) and order.loads == order.swaps + capacity


def test_beta_lets_all_partitions_meet() -> None:
    buffers = list(beta_buffers(11, 4, random.Random(3)))
    met = {pair for held in buffers for pair in combinations(sorted(held), 2)}
    assert met == set(combinations(range(11), 2))


@pytest.mark.parametrize(
    ("partitions", "capacity", "expected"),
    [
        (8, 4, {"bound": 8, "beta": 9, "hilbert-symmetric": 10, "hilbert": 18, "row-major": 37}),
        (16, 4, {"bound": 38, "beta": 42, "hilbert-symmetric": 56, "hilbert": 102, "row-major": 205}),
        (16, 8, {"bound": 14, "beta": 17, "hilbert-symmetric": 20, "hilbert": 36, "row-major": 136}),
        (32, 8, {"bound": 67, "beta": 78, "hilbert-symmetric": 112, "hilbert": 204, "row-major": 792, "comet": 84}),
        (8, 2, {"bound": 27, "beta": 27}),
        (32, 2, {"bound": 495, "beta": 495}),
    ],
)
def test_swaps_are_those_of_the_literature(partitions: int, capacity: int, expected: dict[str, int]) -> None:
    """Figures of an independent simulation (Marius' code; the curve with Belady's replacement)."""
    names = expected.keys() - {"bound"}
    found = {name: make_order(name, partitions, capacity).swaps for name in names}
    assert found | {"bound": fewest_swaps(partitions, capacity)} == expected


def test_comets_swaps_are_those_of_its_groups() -> None:
    for group, swaps in ((1, 78), (2, 84), (4, 108)):
        assert make_order("comet", 32, 8, group=group).swaps == swaps == group * beta_swaps(32 // group, 8 // group)


def test_comet_spreads_buckets_evenly() -> None:
    """Coefficient of variation of a state's buckets: lower than where each bucket comes as early as can be."""

    def spread(name: str) -> float:
        sizes = [len(state.buckets) for state in make_order(name, 32, 8, group=1).states]
        mean = sum(sizes) / len(sizes)
        return (sum((size - mean) ** 2 for size in sizes) / len(sizes)) ** 0.5 / mean

    assert spread("comet") < 0.75 * spread("beta")


def test_hilberts_curve_goes_from_neighbor_to_neighbor() -> None:
    for before, after in pairwise(_hilbert(16)):
        assert abs(before[0] - after[0]) + abs(before[1] - after[1]) == 1


def fewest_reads(buckets: list[Bucket], capacity: int) -> int:
    """By trying every choice of who leaves."""

    @cache
    def best(number: int, held: frozenset[int]) -> int:
        if number == len(buckets):
            return 0
        wanted = set(buckets[number])
        missing = len(wanted - held)
        everything = held | wanted
        leaving = max(0, len(everything) - capacity)
        choices = combinations(sorted(everything - wanted), leaving)
        return missing + min(best(number + 1, everything - set(gone)) for gone in choices)

    return best(0, frozenset())


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=10), st.integers(2, 4))
def test_no_replacement_reads_less_than_beladys(buckets: list[Bucket], capacity: int) -> None:
    states = _with_belady(buckets, capacity)
    reads = len(states[0].held) + sum(len(set(after.held) - set(before.held)) for before, after in pairwise(states))
    assert reads == fewest_reads(buckets, capacity)
    assert [bucket for state in states for bucket in state.buckets] == buckets


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("betta", 8, 4), "must be one of beta, comet, .*, got 'betta'"),
        (("beta", 8, 1), "holds from 2 to 8 of them, got 1"),
        (("beta", 8, 9), "holds from 2 to 8 of them, got 9"),
        (("comet", 9, 4, 1, 0, 2), "must divide 9 partitions"),
        (("comet", 8, 2, 1, 0, 2), "leave room for two groups, got 2"),
    ],
)
def test_what_is_not_legal_is_said(arguments: tuple[object, ...], said: str) -> None:
    with pytest.raises(InputError, match=said):
        make_order(*arguments)  # type: ignore[arg-type]
