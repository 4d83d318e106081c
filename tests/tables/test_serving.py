"""Hosts that only serve rows: what they tell, who notices when one is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import LONG_WORK, Transport
from any2vec.errors import HostError
from any2vec.plan.sharding.columns import Column
from any2vec.plan.sharding.placing import place_columns
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.server.blocks.serving import served_metrics
from any2vec.tables.server.blocks.trained_block import TrainedBlock
from any2vec.tables.server.client import RowClient
from any2vec.tables.server.clients.remote_rows import RemoteRows
from any2vec.tables.server.server import RowServer

WIDTH, TRAINERS, SERVERS = 2, 2, 2
SGD = RowOptimizer(WIDTH, "sgd", 1.0)
COLUMNS = [Column(name="one", rows=20), Column(name="several", rows=12, lookups=3.0, is_pooled=True)]
PLACEMENT = place_columns(COLUMNS, SERVERS, 4 * WIDTH)
BOUNDS = PLACEMENT.on_ranks(TRAINERS + SERVERS, TRAINERS)


def serve(client: RowClient) -> dict[str, int]:
    """Start, ask for nothing, and tell what was served when all others have left."""
    client.server.start()
    client.close(timeout=LONG_WORK)
    return served_metrics(client.server)


def client_of(transport: Transport, patience: float | None = None, worker: int = 0) -> RowClient:
    low, high = BOUNDS[transport.rank : transport.rank + 2]
    block = TrainedBlock(np.zeros((high - low, WIDTH), np.float32), SGD)
    server = RowServer(transport, {"rows": block}, trainers=range(TRAINERS), patience=patience)
    return RowClient(server, BOUNDS, worker=worker)


def batch(seed: int) -> BatchRows:
    """Five examples: one id of the first column, three of the second."""
    rng = np.random.default_rng(seed)
    ids = [np.append(rng.integers(0, 20), 20 + rng.integers(0, 12, 3)) for _ in range(5)]
    return BatchRows.of(np.concatenate(ids), np.array([at for b in range(5) for at in (4 * b, 4 * b + 1)] + [20]))


def push_ones(access: RemoteRows, seeds: range) -> None:
    """Each row of a batch becomes less by as much as it occurs."""
    for seed in seeds:
        access.pool(batch(seed), seed)
        access.apply_pooled(batch(seed), np.ones((10, WIDTH), np.float32), seed)
    access.flush()


def run(
    train: Callable[[RowClient], Any], at_server: Callable[[RowClient], Any] = serve, patience: float = 20.0
) -> list[Any]:
    """What each host returns; servers are those of the last ranks."""

    def host(transport: Transport) -> Any:
        client = client_of(transport)
        if transport.rank >= TRAINERS:
            return at_server(client)
        client.server.start()
        found = train(client)
        client.close()
        return found

    return run_logical(TRAINERS + SERVERS, host, patience=patience)


def test_a_server_announces_what_it_holds_and_has_done() -> None:
    def train(client: RowClient) -> None:
        first = 3 * client.transport.rank
        push_ones(RemoteRows(client, PLACEMENT, WIDTH), range(first, first + 3))

    metrics = run(train)[TRAINERS:]
    server_V = np.searchsorted(BOUNDS[1:], PLACEMENT.place(np.arange(32)), "right")
    for rank, found in enumerate(metrics, TRAINERS):
        pulled = pooled = updates = 0
        for seed in range(6):
            ids = batch(seed).id_M
            own = ids[server_V[ids] == rank]
            pulled += len(np.unique(own[own < 20]))
            pooled += (own >= 20).sum()
            updates += len(np.unique(own))
        rows = BOUNDS[rank + 1] - BOUNDS[rank]
        sizes = {"rows": rows, "values": rows * WIDTH * 4, "state": 0, "versions": rows * 8}
        done = {"updates": updates, "rows_pulled": pulled, "rows_pushed": pulled, "ids_pooled": pooled}
        assert found | {"requests": 0} == sizes | done | {"requests": 0} and 0 < found["requests"] <= 4 * 6


def test_a_lost_server_is_reported_of_in_time() -> None:
    received = []

    def train(client: RowClient) -> None:
        access = RemoteRows(client, PLACEMENT, WIDTH)
        with pytest.raises(HostError, match="host 3 failed"):
            push_ones(access, range(10_000))
        received.append(client.transport.rank)
        raise HostError("and so did I")

    def at_server(client: RowClient) -> None:
        client.server.start()
        if client.transport.rank == 3:
            raise ZeroDivisionError("no more rows")
        with pytest.raises(HostError, match="row server of rank 2 ended: Logical host 3 failed"):
            client.close(timeout=20.0)

    with pytest.raises(ZeroDivisionError):
        run(train, at_server)
    assert sorted(received) == [0, 1]


def test_a_server_that_cannot_be_reached_is_given_up() -> None:
    """It is never started; the first look-up says so."""

    def host(transport: Transport) -> None:
        client = client_of(transport, patience=0.1)
        if transport.rank < TRAINERS:
            client.server.start()
            with pytest.raises(HostError, match=r"waited 0\.15 s for logical host [23], which sent nothing"):
                RemoteRows(client, PLACEMENT, WIDTH).pool(batch(0), 0)
        transport.barrier()

    run_logical(TRAINERS + SERVERS, host, patience=20)


def test_a_lost_trainer_ends_the_servers() -> None:
    ended = []

    def train(client: RowClient) -> None:
        if client.transport.rank == 1:
            raise ZeroDivisionError("no more clicks")

    def at_server(client: RowClient) -> None:
        with pytest.raises(HostError, match=r"row server of rank [23] ended: Logical host 1 failed"):
            serve(client)
        ended.append(client.transport.rank)

    with pytest.raises(ZeroDivisionError):
        run(train, at_server)
    assert sorted(ended) == [2, 3]
