"""Who owns row r: every row has one owner and one slot there, whichever way rows are divided."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.errors import InputError
from any2vec.plan.sharding.columns import Column
from any2vec.plan.sharding.nodes import NodeSharding
from any2vec.plan.sharding.placing import place_columns
from any2vec.plan.sharding.sharding import Blocks, Contiguous, Sharding, Striped
from any2vec.types import Csr

KINDS = ("contiguous", "striped", "columns", "hash", "graph", "layers")


def sharding_of(kind: str, num_rows: int, owners: int) -> Sharding:
    edges = np.empty(0, np.int32), np.empty(0, np.float32)
    if kind == "contiguous":
        return Contiguous(num_rows, owners)
    if kind == "striped":
        return Striped(num_rows, owners)
    if kind == "columns":
        sizes = [size for size in (num_rows // 2, num_rows - num_rows // 2) if size]
        return place_columns([Column(name=f"c{at}", rows=size) for at, size in enumerate(sizes)], owners, 8)
    if kind == "hash":
        return NodeSharding.make(Csr(np.zeros(num_rows + 1, np.int64), *edges), owners, "hash")
    if kind == "graph":
        return NodeSharding.of(np.arange(num_rows) ** 2 % owners, owners)
    return Contiguous.of([0, *sorted((np.arange(owners - 1) * 7 % (num_rows + 1)).tolist()), num_rows])


@settings(deadline=None, max_examples=40)
@pytest.mark.parametrize("kind", KINDS)
@given(num_rows=st.integers(1, 200), owners=st.integers(1, 12))
def test_every_row_has_one_owner_and_one_slot(kind: str, num_rows: int, owners: int) -> None:
    sharding, rows = sharding_of(kind, num_rows, owners), np.arange(num_rows)
    assert (sharding.num_rows, sharding.owners) == (num_rows, owners)
    held = [sharding.ids(owner) for owner in range(owners)]
    assert sorted(np.concatenate(held).tolist()) == rows.tolist()
    for owner, ids in enumerate(held):
        assert (sharding.owner(ids) == owner).all()
        assert np.array_equal(sharding.slot(ids), np.arange(len(ids)))
    mixed = np.random.default_rng(1).permutation(rows)
    assert np.array_equal([held[o][s] for o, s in zip(sharding.owner(mixed), sharding.slot(mixed), strict=True)], mixed)
    if isinstance(sharding, Blocks):
        places = sharding.marked(rows % 3 == 0)
        assert sorted(sharding.rows(places)) == rows[::3].tolist() and (np.diff(places) > 0).all()
        assert [places[cut].tolist() for cut in sharding.cuts(places)] == [
            [place for place in places if low <= place < high]
            for low, high in (sharding.block(owner) for owner in range(owners))
        ]


def test_who_owns_what_is_as_it_is_written_here() -> None:
    assert [Contiguous(10, 4).ids(owner).tolist() for owner in range(4)] == [[0, 1], [2, 3, 4], [5, 6], [7, 8, 9]]
    assert [Striped(10, 3).ids(owner).tolist() for owner in range(3)] == [[0, 3, 6], [9, 1, 4], [7, 2, 5, 8]]
    assert Striped(10, 3).on_ranks(6, 2) == [0, 0, 0, 3, 6, 10, 10]
    with pytest.raises(InputError, match="hosts must be"):
        Striped(10, 3).on_ranks(4, 2)


@pytest.mark.parametrize(("num_rows", "hosts"), [(10, 3), (12, 4), (7, 1), (3, 5), (1000, 32)])
def test_stripes_come_in_the_order_of_the_cards(num_rows: int, hosts: int) -> None:
    striped = Striped(num_rows, hosts)
    rows = striped.rows(np.arange(num_rows))
    assert list(rows) == sorted(range(num_rows), key=lambda row: (row % hosts, row))
    assert (striped.by_place(np.arange(num_rows)) == rows).all()


def test_every_owner_has_its_share_of_the_frequent_rows() -> None:
    striped = Striped(10_007, 32)
    frequent = [(striped.ids(owner) < 320).sum() for owner in range(32)]
    assert min(frequent) >= 9 and max(frequent) <= 12
