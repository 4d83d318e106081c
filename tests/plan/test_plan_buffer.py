"""Partitions from a budget of memory: never above it, the fewest bytes, and the smallest budget that works."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from any2vec.errors import InputError
from any2vec.plan.order.bucket_orders import beta_swaps, make_order
from any2vec.plan.order.buffer import AHEAD, MOST_PARTITIONS, SLACK, block_rows, plan_buffer, smallest_budget

sizes = st.integers(1, 10**9), st.integers(4, 4000), st.integers(0, 10**9)


@given(*sizes, st.integers(0, 10**12))
def test_a_plan_stays_within_its_budget(rows: int, row_bytes: int, fixed: int, more: int) -> None:
    budget = fixed + more
    if budget < smallest_budget(rows, row_bytes, fixed):
        with pytest.raises(InputError) as caught:
            plan_buffer(rows, row_bytes, budget, fixed)
        said = re.search(r"needs memory (\d+)MB at least", str(caught.value))
        assert said is not None
        spare = int(said[1]) * 1_000_000 - smallest_budget(rows, row_bytes, fixed)
        assert SLACK <= spare < SLACK + 1_000_000
        return
    plan = plan_buffer(rows, row_bytes, budget, fixed)
    assert plan.memory_bytes <= budget and 1 <= plan.capacity <= plan.partitions <= MOST_PARTITIONS
    assert plan.partitions * plan.partition_bytes >= rows * row_bytes
    assert plan.is_in_memory == (fixed + rows * row_bytes <= budget)


@given(*sizes, st.integers(0, 10**9))
def test_the_smallest_budget_works(rows: int, row_bytes: int, fixed: int, more: int) -> None:
    smallest = smallest_budget(rows, row_bytes, fixed, more)
    plan = plan_buffer(rows, row_bytes, smallest, fixed, more)
    assert plan.memory_bytes + more * plan.is_in_memory <= smallest
    with pytest.raises(InputError):
        plan_buffer(rows, row_bytes, smallest - 1, fixed, more)


@pytest.mark.parametrize(("more", "named", "beside"), [(-60_000_000, 59, 40), (5_000_000, 109, 100)])
def test_a_refusal_adds_up(more: int, named: int, beside: int) -> None:
    """A table of 10.24 MB: all of it where that takes less beside it, else four of 64 partitions of 163,840 bytes."""
    reported = rf"needs memory {named}MB at least, of which {beside}MB are .*; got 5 bytes"
    with pytest.raises(InputError, match=reported):
        plan_buffer(10_000, 1024, 5, 100_000_000, more)


def test_no_other_number_of_partitions_moves_less() -> None:
    """A table of 4 GB, a quarter of it in memory: all legal shapes tried, each with what it truly moves."""
    rows, row_bytes, budget = 8_000_000, 516, 1_032_000_000
    plan = plan_buffer(rows, row_bytes, budget)
    moved = {}
    for partitions in range(5, MOST_PARTITIONS + 1):
        each = -(-rows // partitions) * row_bytes
        block = -(-each // (1024 * row_bytes)) * 1024 * row_bytes  # whole pages: 516 bytes are 4 times an odd number
        capacity = budget // block - AHEAD
        if 2 <= capacity < partitions:
            moved[partitions] = 2 * make_order("beta", partitions, capacity).swaps * each
    assert plan.epoch_bytes == min(moved.values()) == moved[plan.partitions]
    assert plan.swaps == beta_swaps(plan.partitions, plan.capacity)
    block = block_rows(-(-rows // plan.partitions), row_bytes) * row_bytes
    assert plan.as_dict()["memory_bytes"] == (plan.capacity + AHEAD) * block <= budget
    assert plan.as_dict()["commit_bytes"] == plan.capacity * plan.partition_bytes


@given(st.integers(1, 10**6), st.integers(1, 1000))
def test_blocks_are_the_fewest_whole_pages(rows: int, columns: int) -> None:
    block = block_rows(rows, 4 * columns)
    assert block >= rows and block * 4 * columns % 4096 == 0
    assert not any(less * 4 * columns % 4096 == 0 for less in range(rows, block))
