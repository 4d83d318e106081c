"""Placing columns on servers: nothing lost, even loads, bounds, and the plan of a run on paper."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.errors import InputError
from any2vec.plan.cost.columns import measure_columns
from any2vec.plan.sharding.columns import Column, Placement
from any2vec.plan.sharding.placing import place_columns

ROW_BYTES = 4 * 17


def skewed_columns(num_rows: int, count: int = 26, power: float = 1.5) -> list[Column]:
    """Rows by a power law, look-ups and distinct rows by chance."""
    rng, share = np.random.default_rng(0), np.arange(1, count + 1) ** -power
    rows = np.maximum(1, (share / share.sum() * num_rows).astype(np.int64))
    rows[0] += num_rows - rows.sum()
    return [
        Column(
            name=f"c{f}", rows=int(rows[f]), lookups=float(rng.uniform(0.5, 4)), distinct=float(rng.uniform(0.001, 1)),
            is_pooled=f % 3 == 0,
        )
        for f in range(count)
    ]  # fmt: skip


@st.composite
def some_columns(draw: st.DrawFn) -> list[Column]:
    columns = []
    for f in range(draw(st.integers(1, 6))):
        rows = draw(st.integers(1, 40))
        weights = draw(st.lists(st.floats(0, 9), min_size=1, max_size=min(rows, 5)).filter(any))
        lookups, distinct = draw(st.floats(0, 9)), draw(st.floats(0, 1))
        columns.append(
            Column(
                name=f"c{f}",
                rows=rows,
                lookups=lookups,
                distinct=distinct,
                is_pooled=draw(st.booleans()),
                weight_K=tuple(weights),
            )
        )
    return columns


@given(some_columns(), st.integers(1, 9), st.sampled_from([1.0, 1.05, 1e9]))
@settings(deadline=None, max_examples=150)
def test_every_row_is_in_one_place(columns: list[Column], servers: int, tolerance: float) -> None:
    placement = place_columns(columns, servers, ROW_BYTES, tolerance=tolerance)
    rows = np.arange(sum(column.rows for column in columns))
    placed = placement.place(rows)
    assert np.array_equal(np.sort(placed), rows) and np.array_equal(placement.rows(placed), rows)
    bounds = placement.on_ranks(servers + 3, 2)
    assert len(bounds) == servers + 4 and bounds[0] == bounds[2] == 0 and bounds[-1] == bounds[-2] == len(rows)
    for shard in placement.shards:
        low, high = bounds[2 + shard.server], bounds[3 + shard.server]
        own = placed[shard.first : shard.stop]
        assert low <= own[0] <= own[-1] < high and np.array_equal(own, np.arange(own[0], own[0] + len(own)))
        offset, stop = placement.offsets[shard.column : shard.column + 2]
        assert offset <= shard.first < shard.stop <= stop
    assert sum(load.rows for load in placement.loads) == len(rows)
    assert np.isclose(sum(load.cost for load in placement.loads), sum(column.cost for column in columns))
    assert np.isclose(sum(load.lookups for load in placement.loads), sum(column.lookups for column in columns))


def test_a_billion_rows_on_a_hundred_servers_are_even() -> None:
    placement = place_columns(skewed_columns(10**9), 100, 4 * 65)
    assert placement.num_rows == 10**9 and len(placement.shards) <= 2 * (26 + 100)
    assert placement.balance("cost") <= 1.05 and placement.balance("rows") <= 1.0001


@pytest.mark.parametrize("servers", [2, 3, 5, 8])
def test_few_columns_are_cut_and_only_where_a_server_ends(servers: int) -> None:
    columns = skewed_columns(10**6)
    placement = place_columns(columns, servers, ROW_BYTES)
    assert max(placement.balance("cost"), placement.balance("rows")) <= 1.05
    assert len(placement.shards) <= len(columns) + 2 * (servers - 1)


def test_columns_that_fit_are_not_cut() -> None:
    columns = [Column(name=f"c{f}", rows=rows, distinct=rows / 100) for f, rows in enumerate([30, 20, 10, 60])]
    placement = place_columns(columns, 2, ROW_BYTES)
    assert [shard.server for shard in sorted(placement.shards)] == [1, 1, 1, 0]
    assert placement.balance("cost") == placement.balance("rows") == 1.0


@given(st.lists(st.integers(1, 12), min_size=1, max_size=7), st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_whole_columns_are_within_4_thirds_of_the_best(sizes: list[int], servers: int) -> None:
    """Graham's bound, over every way to place them; cost goes with rows, so that both loads are one."""
    columns = [Column(name=f"c{f}", rows=size, distinct=float(size)) for f, size in enumerate(sizes)]
    found = max(load.rows for load in place_columns(columns, servers, ROW_BYTES, tolerance=1e9).loads)
    best = min(
        max(sum(size for size, at in zip(sizes, where, strict=True) if at == server) for server in range(servers))
        for where in itertools.product(range(servers), repeat=len(sizes))
    )
    assert best <= found <= (4 / 3 - 1 / (3 * servers)) * best + 1e-9
    cut = place_columns(columns, servers, ROW_BYTES)
    assert max(load.rows for load in cut.loads) <= found


@given(st.permutations(range(26)), st.sampled_from([3, 40]))
@settings(deadline=None, max_examples=15)
def test_another_order_of_columns_gives_the_same_loads(order: list[int], servers: int) -> None:
    columns = skewed_columns(10**6)
    expected = place_columns(columns, servers, ROW_BYTES).loads
    found = place_columns([columns[f] for f in order], servers, ROW_BYTES).loads
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.rows == theirs.rows and np.isclose(mine.cost, theirs.cost)


@given(st.data(), st.integers(2, 5), st.sampled_from([1.0, 1e9]))
@settings(deadline=None, max_examples=80)
def test_columns_that_are_alike_in_part_may_stand_in_any_order(
    data: st.DataObject, servers: int, tolerance: float
) -> None:
    """Few different sizes, so that columns tie in one load or in both."""
    sizes = data.draw(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=6))
    columns = [Column(name=f"c{f}", rows=6 * rows, distinct=float(cost)) for f, (rows, cost) in enumerate(sizes)]
    order = data.draw(st.permutations(range(len(columns))))
    expected = place_columns(columns, servers, ROW_BYTES, tolerance=tolerance).loads
    found = place_columns([columns[f] for f in order], servers, ROW_BYTES, tolerance=tolerance).loads
    assert [load.rows for load in found] == [load.rows for load in expected]
    assert np.allclose([load.cost for load in found], [load.cost for load in expected])


def test_measured_weights_say_where_a_column_is_cut() -> None:
    """Of a column whose first quarter has all the cost, each of two servers takes half of that, and half the rest."""
    column = Column(name="c", rows=400, distinct=1.0, weight_K=(1.0, 0.0, 0.0, 0.0))
    placement = place_columns([column], 2, ROW_BYTES)
    assert placement.balance("cost") == placement.balance("rows") == 1.0
    for server in range(2):
        assert sum(min(shard.stop, 100) - min(shard.first, 100) for shard in placement.of(server)) == 50


def test_memory_of_a_server_is_respected() -> None:
    """A dear column and a large one: whole, the large one is beyond the memory of a server."""
    columns = [Column(name="dear", rows=10, distinct=1.0), Column(name="large", rows=90, distinct=1.0)]
    loose = place_columns(columns, 2, 8, tolerance=1e9)
    assert max(load.bytes for load in loose.loads) == 720
    tight = place_columns(columns, 2, 8, 400, tolerance=1e9)
    assert max(load.bytes for load in tight.loads) == 400
    with pytest.raises(InputError, match=r"100 rows of 8 bytes do not fit into 2 servers of 399 bytes; take 3 servers"):
        place_columns(columns, 2, 8, 399)
    with pytest.raises(InputError, match="A row takes 8 bytes, and a server has 7"):
        place_columns(columns, 2, 8, 7)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rows": 0}, "rows of column 'c' must be a whole number from 1"),
        ({"lookups": -1.0}, "lookups of column 'c' must be a number"),
        ({"distinct": float("nan")}, "distinct of column 'c' must be a number"),
        ({"weight_K": ()}, "has 0 weights; it needs 1 to 4"),
        ({"weight_K": (1.0,) * 5}, "has 5 weights; it needs 1 to 4"),
        ({"weight_K": (1.0, -1.0)}, "each 0 or more"),
        ({"weight_K": (0.0,)}, "weights of column 'c' are all 0"),
    ],
)
def test_what_cannot_be_placed(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        place_columns([Column(**{"name": "c", "rows": 4} | change)], 2, ROW_BYTES)


def test_other_arguments_are_checked() -> None:
    with pytest.raises(InputError, match="There must be a column"):
        place_columns([], 2, ROW_BYTES)
    with pytest.raises(InputError, match="servers must be a whole number from 1"):
        place_columns([Column(name="c", rows=4)], 0, ROW_BYTES)
    placement = place_columns([Column(name="c", rows=4)], 2, ROW_BYTES)
    with pytest.raises(InputError, match="hosts must be a whole number from 3"):
        placement.on_ranks(2, 1)


def test_a_placement_as_json_says_who_holds_what() -> None:
    columns = [Column(name="a", rows=30, distinct=0.3), Column(name="b", rows=10, distinct=0.1)]
    found = json.loads(json.dumps(place_columns(columns, 2, 8).as_dict()))
    assert found["balance"] == {"cost": 1.0, "rows": 1.0, "lookups": pytest.approx(2 * (1 / 3 + 1) / 2)}
    assert [server["bytes"] for server in found["servers"]] == [160, 160]
    holds = [server["holds"] for server in found["servers"]]
    assert holds == [[{"column": "a", "rows": [0, 20]}], [{"column": "a", "rows": [20, 30]}, {"column": "b"}]]


# Look-ups of a sample


def test_look_ups_are_counted_on_a_sample() -> None:
    """Two batches of two examples, column b with several ids, column c with one or none."""
    offsets = np.array([0, 5, 9, 10])
    batches = [
        (np.array([0, 5, 6, 0, 5, 9]), np.array([0, 1, 3, 3, 4, 5, 6])),
        (np.array([1, 2]), np.array([0, 1, 1, 1, 2, 2, 2])),
    ]
    one, several, maybe = measure_columns(["a", "b", "c"], offsets, batches)
    assert maybe == Column(name="c", rows=1, lookups=1 / 4, distinct=1 / 4, weight_K=maybe.weight_K)
    assert one == Column(name="a", rows=5, lookups=1.0, distinct=3 / 4, weight_K=one.weight_K)
    assert several == Column(name="b", rows=4, lookups=3 / 4, distinct=2 / 4, is_pooled=True, weight_K=several.weight_K)
    assert one.cost == 2 * 3 / 4 and several.cost == 3 / 4 + 2 / 4
    with pytest.raises(InputError, match="no example"):
        measure_columns(["a", "b"], offsets, [])


def test_a_sample_shows_which_rows_are_dear() -> None:
    """All ids are of the first of 16 ranges of 1,000 rows."""
    ids = np.random.default_rng(0).integers(0, 1000, 500)
    (column,) = measure_columns(["a"], np.array([0, 16_000]), [(ids, np.arange(501))])
    assert column.weight_K == (1.0 + len(np.unique(ids)), *[1.0] * 15)
    placement = place_columns([column], 2, ROW_BYTES)
    assert placement.balance("cost") <= 1.05 and placement.balance("rows") <= 1.05
    assert isinstance(placement, Placement)
