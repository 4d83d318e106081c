"""Rows that several hosts have changed: at their owners, in rank order; and back at all, some or all of the hosts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from any2vec.cluster.message import Part
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.plan.sharding.sharding import Blocks, Contiguous, Striped
from any2vec.sync.base.members import Rows, reduce_rows, share_rows

NUM_ROWS, DIM = 23, 3


def reported_by(rank: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows that a host has changed, by how much): rounded sums depend on the order in which they are taken."""
    rng = np.random.default_rng(rank)
    ids = np.flatnonzero(rng.random(NUM_ROWS) < 0.6)
    return ids, rng.normal(size=(len(ids), DIM)).astype(np.float32) * np.float32(10.0) ** rng.integers(-6, 6, (1, DIM))


@pytest.mark.parametrize("sharding_of", [Contiguous, Striped])
@pytest.mark.parametrize(("hosts", "members"), [(1, [0]), (3, [0, 1, 2]), (5, [1, 2, 4])])
def test_owners_add_up_in_rank_order_and_all_members_have_the_sums(
    hosts: int, members: list[int], sharding_of: Callable[[int, int], Blocks]
) -> None:
    sharding = sharding_of(NUM_ROWS, len(members))
    expected = np.zeros((NUM_ROWS, DIM), np.float32)
    for rank in members:
        ids, change = reported_by(rank)
        expected[ids] += change.astype(np.float32)

    def add_up(name: str, size: int, each: list[list[np.ndarray]]) -> np.ndarray:
        total = np.zeros((size, DIM), np.float32)
        for slots, change in each:
            total[slots] += change
        return total

    def host(transport: Transport) -> np.ndarray | None:
        if transport.rank not in members:
            return None
        ids, change = reported_by(transport.rank)
        place = sharding.place(ids)
        order = np.argsort(place)
        rows = Rows(sharding, place[order], [Part("rows", change[order].astype(np.float32))])
        sums = reduce_rows(transport, members, {"a": rows, "b": Rows(sharding, place[:0], rows.parts)}, add_up)
        assert not sums["b"].any()
        low, high = sharding.block(members.index(transport.rank))
        found = np.full((NUM_ROWS, DIM), np.nan, np.float32)
        shared = {"a": Rows(sharding, np.arange(low, high), [Part("rows", sums["a"])])}
        for name, (places, values) in share_rows(transport, members, shared):
            assert name == "a"
            found[sharding.rows(places)] = values
        return found

    found = [table for table in run_logical(hosts, host, patience=20.0) if table is not None]
    assert len(found) == len(members) and all(np.array_equal(table, expected) for table in found)
