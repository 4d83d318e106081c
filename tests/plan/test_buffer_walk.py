"""The way of the buffer: it holds what the order says, no block holds two partitions, swaps are those of the order."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.errors import InputError
from any2vec.plan.order.bucket_orders import ORDERS, beta_swaps, make_order
from any2vec.plan.order.buffer import AHEAD
from any2vec.plan.order.buffer_walk import BufferWalk, Place, Position, renamed

shapes = st.integers(1, 12).flatmap(lambda p: st.tuples(st.just(p), st.integers(min(2, p), p)))


@settings(deadline=None)
@given(st.sampled_from(ORDERS), shapes, st.integers(1, 3))
def test_a_walk_holds_what_its_order_trains(name: str, shape: tuple[int, int], epochs: int) -> None:
    walk = BufferWalk(order=name, partitions=shape[0], capacity=shape[1], epochs=epochs)
    block_of: dict[int, int] = {}
    trained: list[list[tuple[int, int]]] = [[] for _ in range(epochs)]
    entered = 0
    for turn in walk:
        for place in turn.leaving:
            assert block_of.pop(place.part) == place.block
        for place in turn.entering:
            assert place.part not in block_of and place.block not in block_of.values() and place.block < walk.blocks
            block_of[place.part] = place.block
        entered += len(turn.entering)
        assert turn.block_of == block_of and len(block_of) <= shape[1] and list(turn.held) == sorted(turn.held)
        assert all(set(bucket) <= set(block_of) for bucket in turn.buckets)
        assert list(turn.before) == trained[turn.epoch]
        trained[turn.epoch] += turn.buckets
    assert all(sorted(one) == list(product(range(shape[0]), repeat=2)) for one in trained)
    orders = [make_order(name, *shape, seed=1, epoch=epoch) for epoch in range(epochs)]
    assert entered == orders[0].loads + sum(order.swaps for order in orders[1:])  # nothing between epochs


@pytest.mark.parametrize("partitions", range(2, 65, 3))
def test_epochs_of_beta_read_its_closed_form(partitions: int) -> None:
    for capacity in {2, max(2, partitions // 4), partitions}:
        turns = list(BufferWalk(order="beta", partitions=partitions, capacity=capacity, epochs=2))
        for epoch in range(2):
            read = sum(len(turn.entering) for turn in turns if turn.epoch == epoch)
            assert read == beta_swaps(partitions, capacity) + (capacity if epoch == 0 else 0)


@pytest.mark.parametrize("name", ORDERS)
def test_a_walk_goes_on_where_it_was(name: str) -> None:
    """From every turn: the same turns, in the same blocks."""
    options = {"order": name, "partitions": 6, "capacity": 3, "epochs": 2}
    turns = list(BufferWalk(**options))
    for number, turn in enumerate(turns):
        rest = list(BufferWalk(**options, start=Position(turn.epoch, turn.state, 17)))
        assert rest[0].entering == turn.held == rest[0].held and not rest[0].leaving
        assert rest[0].buckets == turn.buckets and rest[1:] == turns[number + 1 :]
    assert list(BufferWalk(**options, start=Position(2))) == []


def test_a_partition_enters_the_block_that_is_free_for_longest() -> None:
    turns = list(BufferWalk(order="beta", partitions=5, capacity=2, epochs=1))
    assert [block for _, block in turns[0].entering] == [0, 1]
    free = [2, 3]
    for turn in turns[1:]:
        free += [place.block for place in turn.leaving]
        assert [place.block for place in turn.entering] == [free.pop(0) for _ in turn.entering]


def test_all_partitions_in_memory_need_no_more_blocks() -> None:
    (turn,) = BufferWalk(order="beta", partitions=3, capacity=3, epochs=1)
    assert turn.held == (Place(0, 0), Place(1, 1), Place(2, 2)) and len(turn.buckets) == 9
    assert BufferWalk(order="beta", partitions=3, capacity=3, epochs=1).blocks == 3
    assert BufferWalk(order="beta", partitions=4, capacity=3, epochs=1).blocks == 3 + AHEAD


def test_other_names_are_the_same_order() -> None:
    order = make_order("hilbert", 7, 3)
    other = renamed(order, (6, 2, 4))
    assert other.states[0].held == (6, 2, 4) and other.swaps == order.swaps
    assert sorted(bucket for state in other.states for bucket in state.buckets) == list(product(range(7), repeat=2))


def test_a_place_that_no_walk_has_is_reported() -> None:
    with pytest.raises(InputError, match="A run of 1 epochs has no state 99 in epoch 0"):
        list(BufferWalk(order="beta", partitions=4, capacity=2, epochs=1, start=Position(0, 99)))
