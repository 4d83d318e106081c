"""The plan of a run of clicks on paper: bytes are those that a run counts; limits are the ones that were planted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from any2vec.cluster.link import parse_link
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import LONG_WORK, Transport
from any2vec.errors import InputError
from any2vec.plan.cost.clicks import KINDS, ClickShape, ClickSpread, Traffic, click_plan
from any2vec.plan.cost.columns import measure_columns, zipf_columns
from any2vec.plan.cost.hosts import Costs
from any2vec.plan.sharding.columns import Column
from any2vec.plan.sharding.placing import place_columns
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.server.blocks.trained_block import TrainedBlock
from any2vec.tables.server.client import RowClient
from any2vec.tables.server.clients.pulled_rows import ClockedRows
from any2vec.tables.server.clients.remote_rows import RemoteRows
from any2vec.tables.server.server import RowServer

WIDTH, BATCH = 8, 64
ROWS = np.array([3000, 500, 40, 700])
OFFSETS = np.concatenate([[0], np.cumsum(ROWS)])


def batch() -> tuple[np.ndarray, np.ndarray]:
    """One id in the first and third column, three in the others."""
    rng, counts = np.random.default_rng(0), [1, 3, 1, 3] * BATCH
    ids = [OFFSETS[p % 4] + rng.integers(0, ROWS[p % 4], count) for p, count in enumerate(counts)]
    return np.concatenate(ids).astype(np.int64), np.concatenate([[0], np.cumsum(counts)])


COLUMNS = tuple(measure_columns(["a", "b", "c", "d"], OFFSETS, [batch()]))
SHAPE = ClickShape(columns=COLUMNS, width=WIDTH, dense_parameters=1000, batch_size=BATCH, examples_per_s=1e5)


def counted(servers: int, tolerance: float, sums_bags: bool = True) -> dict[str, int]:
    """Bytes by kind of one step of one trainer, both ways, without those of leaving and of the servers' clocks."""
    placement = place_columns(COLUMNS, servers, SHAPE.row_bytes, tolerance=tolerance)
    bounds = placement.on_ranks(1 + servers, 1)

    def host(transport: Transport) -> dict[str, int]:
        size = bounds[transport.rank + 1] - bounds[transport.rank]
        block = TrainedBlock(np.zeros((size, WIDTH + 1), np.float32), RowOptimizer(WIDTH))
        client = RowClient(RowServer(transport, {"rows": block}), bounds)
        client.server.start()
        found: dict[str, int] = {}
        if transport.rank == 0:
            access = RemoteRows(client, placement, WIDTH) if sums_bags else ClockedRows(client)
            id_M, start_P1 = batch()
            rows = BatchRows.of(id_M if sums_bags else placement.place(id_M), start_P1)
            access.pool(rows, 0)
            access.apply_pooled(rows, np.zeros((4 * BATCH, WIDTH), np.float32), 0)
            access.flush()
            counters = transport.counters
            for (kind, _, verb), size in [*counters.sent.items(), *counters.received.items()]:
                found[kind] = found.get(kind, 0) + (size if verb not in ("leave", "tick") else 0)
        client.close(timeout=LONG_WORK)
        return found

    return run_logical(1 + servers, host, patience=20)[0]


def planned(servers: int, tolerance: float, sums_bags: bool = True) -> dict[str, int]:
    placement = place_columns(COLUMNS, servers, SHAPE.row_bytes, tolerance=tolerance)
    sent, got, _ = Traffic.of(placement, BATCH, sums_bags).bytes_by_server(WIDTH)
    found: dict[str, int] = {}
    for part in (sent, got):
        for name, size in part.items():
            found[KINDS[name]] = found.get(KINDS[name], 0) + round(size.sum())
    return found


@pytest.mark.parametrize("sums_bags", [True, False])
@pytest.mark.parametrize("servers", [1, 3])
def test_bytes_of_whole_columns_are_exactly_those_that_are_counted(servers: int, sums_bags: bool) -> None:
    assert planned(servers, 1e9, sums_bags) == counted(servers, 1e9, sums_bags)


def test_bytes_of_columns_that_are_cut_are_nearly_those_that_are_counted() -> None:
    """How many bags have rows of a server is expected, not known."""
    expected = counted(3, 1.0)
    for kind, size in planned(3, 1.0).items():
        assert size == pytest.approx(expected[kind], rel=0.06)


def test_a_billion_rows_on_paper() -> None:
    share = np.arange(1, 27) ** -1.5
    rows = (share / share.sum() * 1e9).astype(np.int64)
    rows[0] += 10**9 - rows.sum()
    columns = tuple(
        Column(name=f"c{f}", rows=int(size), distinct=min(1.0, size / 2048 / 3)) for f, size in enumerate(rows)
    )
    shape = ClickShape(columns=columns, width=64, dense_parameters=500_000, examples_per_s=2e4)
    plan = click_plan(shape, ClickSpread(trainers=100, servers=100, link=parse_link("25Gbit,20us")))
    found = json.loads(json.dumps(plan.as_dict()))
    assert found["is_modeled"] and found["placement"]["num_rows"] == 10**9
    assert max(found["placement"]["balance"][load] for load in ("cost", "rows")) <= 1.05
    assert found["server_memory"]["values"] == 10**7 * 64 * 4 and found["server_memory"]["state"] == 10**7 * 4
    assert found["speedup"] <= 100


def test_what_was_made_slow_is_the_bottleneck() -> None:
    free = Costs(byte_seconds=0.0, message_seconds=0.0, number_seconds=0.0)
    spread = ClickSpread(trainers=4, servers=2, sync_gap=0)

    def bottleneck(costs: Costs = free, shape: ClickShape = SHAPE, **changes: Any) -> str:
        return click_plan(shape, replace(spread, **changes), costs).bottleneck

    plan = click_plan(SHAPE, spread, free)
    assert (
        plan.bottleneck == "workers"
        and plan.speedup == pytest.approx(4)
        and plan.steps_per_s == pytest.approx(1e5 / BATCH)
    )
    assert bottleneck(Costs(byte_seconds=0, message_seconds=1e-3)) == "busiest server"
    slow = parse_link("1Mbit")
    assert bottleneck(trainers=1, servers=8, workers=9, link=slow) == "trainer's line"
    assert bottleneck(trainers=40, servers=2, workers=9, link=slow) == "busiest server's line"
    heavy = replace(SHAPE, dense_parameters=10**6)
    assert bottleneck(shape=heavy, trainers=40, servers=2, sync_servers=1, sync_gap=1.0, link=slow) == (
        "sync servers' line"
    )


def test_more_of_what_is_short_helps() -> None:
    """Pace rises with workers until the line is full, and falls when replicas agree more often."""
    spread = ClickSpread(trainers=4, servers=4, link=parse_link("10Mbit,1ms"), sync="mean", sync_gap=0)
    shape = replace(SHAPE, dense_parameters=10_000)
    paces = [click_plan(shape, replace(spread, workers=workers)).steps_per_s for workers in (1, 2, 4, 8, 16)]
    assert paces == sorted(paces) and paces[0] < paces[1] and paces[-1] == paces[-2]
    rare, often = (click_plan(shape, replace(spread, workers=16, sync_gap=gap)) for gap in (50.0, 5.0))
    assert often.steps_per_s < rare.steps_per_s < paces[-1]
    assert often.bytes_per_step["dense"] == 2 * 2 * 3 / 4 * 10_000 * 4 / 5 == 10 * rare.bytes_per_step["dense"]


def test_one_trainer_that_owns_all_rows_sends_nothing() -> None:
    plan = click_plan(SHAPE, ClickSpread(trainers=1, link=parse_link("1Mbit,1s")))
    assert not any(plan.bytes_per_step.values()) and plan.messages_per_step == 0
    assert plan.step_seconds == {"compute": BATCH / 1e5, "handle": 0, "serve": 0, "link": 0}
    assert plan.bottleneck == "workers" and plan.speedup == pytest.approx(1) and plan.busiest_server_bytes_per_s == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"trainers": 0}, "trainers must be a whole number from 1"),
        ({"servers": -1}, "servers must be a whole number from 0"),
        ({"sync": "gossip"}, "sync must be one of center, mean"),
        ({"sync_gap": -1.0}, "sync_gap must be a number"),
        ({"workers": 0}, "workers must be a whole number from 1"),
        ({"server_bytes": 10_000}, "do not fit into 2 servers of 10,000 bytes"),
    ],
)
def test_what_cannot_be_planned(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        click_plan(SHAPE, ClickSpread(**{"trainers": 2, "servers": 2} | change))


def test_rows_are_cut_into_columns_from_one_on() -> None:
    assert [(one.name, one.rows) for one in zipf_columns(7, 1, 1.1, 10)] == [("C1", 7)]
    assert [one.rows for one in zipf_columns(7, 3, 1.1, 10)] == [3, 2, 2]
    with pytest.raises(InputError, match="columns"):
        zipf_columns(7, 0, 1.1, 10)
