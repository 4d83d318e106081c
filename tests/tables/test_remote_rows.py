"""Rows on servers: the same bits as rows at hand, what travels, many workers at once, and refusals."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import LONG_WORK, Transport
from any2vec.errors import InputError
from any2vec.plan.sharding.columns import Column, Placement, Shard
from any2vec.plan.sharding.placing import place_columns
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.row_table import MemoryRows
from any2vec.tables.server.blocks.trained_block import TrainedBlock
from any2vec.tables.server.client import RowClient
from any2vec.tables.server.clients.remote_rows import RemoteRows
from any2vec.tables.server.server import RowServer

WIDTH, STEPS, BATCH = 3, 6, 16
ROWS = (40, 3, 200, 12)
SINGLE, SEVERAL = np.zeros(4, np.bool_), np.array([False, True, False, True])


def placed(servers: int, tolerance: float = 1.0) -> Placement:
    columns = [Column(name=f"c{f}", rows=rows, lookups=1 + f % 2) for f, rows in enumerate(ROWS)]
    return place_columns(columns, servers, 4 * (WIDTH + 1), tolerance=tolerance)


def shredded(servers: int) -> Placement:
    """Every column cut into several ranges for each server (of one row, or none, where it is short)."""
    shards, pieces = [], 2 * servers
    for f, (rows, offset) in enumerate(zip(ROWS, np.cumsum(ROWS) - ROWS, strict=True)):
        for piece, (low, high) in enumerate(pairwise(rows * k // pieces for k in range(pieces + 1))):
            if low < high:
                shards.append(Shard(f, int(offset) + low, int(offset) + high, (piece + f) % servers))
    shards.sort(key=lambda shard: (shard.server, shard.first))
    return Placement(placed(1).columns, tuple(shards), servers, 4 * (WIDTH + 1))


def batch(seed: int, is_several_F: np.ndarray = SINGLE) -> BatchRows:
    """Bags of one id, or of up to four (none, too) where a column has several."""
    rng, offset_F = np.random.default_rng(seed), np.cumsum(ROWS) - ROWS
    counts = [int(rng.integers(0, 5)) if is_several_F[f] else 1 for _ in range(BATCH) for f in range(len(ROWS))]
    ids = [offset_F[p % len(ROWS)] + rng.integers(0, ROWS[p % len(ROWS)], count) for p, count in enumerate(counts)]
    return BatchRows.of(np.concatenate(ids).astype(np.int64), np.concatenate([[0], np.cumsum(counts)]))


def start_table(optimizer: RowOptimizer, is_whole: bool = False) -> np.ndarray:
    rng = np.random.default_rng(7)
    table = np.zeros((sum(ROWS), optimizer.num_columns), np.float32)
    table[:, :WIDTH] = rng.integers(-9, 9, (sum(ROWS), WIDTH)) if is_whole else rng.standard_normal((sum(ROWS), WIDTH))
    return table


def gradient(seed: int, is_whole: bool = False) -> np.ndarray:
    rng, shape = np.random.default_rng((seed, 1)), (BATCH * len(ROWS), WIDTH)
    return (rng.integers(-4, 4, shape) if is_whole else rng.standard_normal(shape)).astype(np.float32)


def served(
    trainers: int, servers: int, placement: Placement, table: np.ndarray, work: Callable[[RowClient], Any],
    optimizer: RowOptimizer,
) -> tuple[np.ndarray, list[Any]]:  # fmt: skip
    """The rows after all, in their own order, and what each trainer returned. servers 0: trainers own the rows."""
    hosts = trainers + servers
    bounds = placement.on_ranks(hosts, trainers if servers else 0)

    def host(transport: Transport) -> tuple[np.ndarray, Any]:
        low, high = bounds[transport.rank : transport.rank + 2]
        block = TrainedBlock(table[placement.rows(np.arange(low, high))], optimizer)
        server = RowServer(transport, {"rows": block}, trainers=range(trainers))
        server.start()
        client = RowClient(server, bounds)
        found = None
        if transport.rank < trainers:
            found = work(client)
            client.close()
        else:
            client.close(timeout=LONG_WORK)
        return block.table.copy(), found

    done = run_logical(hosts, host, patience=20)
    whole = np.empty_like(table)
    whole[placement.rows(np.arange(placement.num_rows))] = np.concatenate([rows for rows, _ in done])
    return whole, [found for _, found in done[:trainers]]


@pytest.mark.parametrize("kind", ["sgd", "adagrad", "adam"])
@pytest.mark.parametrize("tolerance", [1.0, 1e9, None])
@pytest.mark.parametrize("servers", [0, 1, 2, 3])
def test_single_ids_and_pulled_bags_give_the_bits_of_rows_at_hand(servers: int, tolerance: float, kind: Any) -> None:
    optimizer = RowOptimizer(WIDTH, kind, 0.1)
    local = MemoryRows(start_table(optimizer), optimizer)
    expected = []
    for step in range(STEPS):
        expected.append(local.pool(batch(step, SEVERAL), step))
        local.apply_pooled(batch(step, SEVERAL), gradient(step), step)
    placement = placed(max(servers, 1), tolerance) if tolerance else shredded(max(servers, 1))

    def work(client: RowClient) -> list[np.ndarray]:
        access, found = RemoteRows(client, placement, WIDTH, SINGLE), []
        for step in range(STEPS):
            found.append(access.pool(batch(step, SEVERAL), step))
            access.apply_pooled(batch(step, SEVERAL), gradient(step), step)
        access.close()
        return found

    rows, [found] = served(1, servers, placement, start_table(optimizer), work, optimizer)
    assert np.array_equal(rows, local.table) and np.array_equal(found, expected)


@pytest.mark.parametrize("servers", [0, 1, 2, 3])
def test_pooled_sums_of_whole_numbers_are_those_of_rows_at_hand(servers: int) -> None:
    """Sums of whole numbers are exact, so it does not matter that servers add up their own rows first."""
    optimizer = RowOptimizer(WIDTH, "sgd", 1.0)
    local = MemoryRows(start_table(optimizer, True), optimizer)
    expected = []
    for step in range(STEPS):
        expected.append(local.pool(batch(step, SEVERAL), step))
        local.apply_pooled(batch(step, SEVERAL), gradient(step, True), step)
    placement = shredded(max(servers, 1))

    def work(client: RowClient) -> list[np.ndarray]:
        access, found = RemoteRows(client, placement, WIDTH, SEVERAL), []
        for step in range(STEPS):
            found.append(access.pool(batch(step, SEVERAL), step))
            access.apply_pooled(batch(step, SEVERAL), gradient(step, True), step)
        access.close()
        return found

    rows, [found] = served(1, servers, placement, start_table(optimizer, True), work, optimizer)
    assert np.array_equal(found, expected) and np.array_equal(rows, local.table)


def train(
    access: RemoteRows | MemoryRows, steps: range, is_several_F: np.ndarray = SEVERAL, is_whole: bool = False
) -> list[np.ndarray]:
    """What the batches of `steps` read."""
    found = []
    for step in steps:
        found.append(access.pool(batch(step, is_several_F), step))
        access.apply_pooled(batch(step, is_several_F), gradient(step, is_whole), step)
    access.close()
    return found


@pytest.mark.parametrize("kind", ["sgd", "adagrad", "adam"])
def test_bags_that_one_server_owns_give_the_bits_of_rows_at_hand(kind: Any) -> None:
    """No column is cut, so servers pool bags just as they would be pooled at hand."""
    optimizer, placement = RowOptimizer(WIDTH, kind, 0.1), placed(3, 1e9)
    assert len(placement.shards) == len(ROWS)
    local = MemoryRows(start_table(optimizer), optimizer)
    expected = train(local, range(STEPS))
    rows, [found] = served(
        1, 3, placement, start_table(optimizer),
        lambda client: train(RemoteRows(client, placement, WIDTH, SEVERAL), range(STEPS)), optimizer,
    )  # fmt: skip
    assert np.array_equal(found, expected) and np.array_equal(rows, local.table)


@pytest.mark.parametrize("kind", ["sgd", "adagrad", "adam"])
def test_bags_that_several_servers_own_are_their_sums_added_by_rank(kind: Any) -> None:
    """Sums differ from those at hand by the order of additions alone; gradients of rows do not differ at all."""
    optimizer, placement = RowOptimizer(WIDTH, kind, 0.1), shredded(3)
    table, rows = start_table(optimizer), batch(0, SEVERAL)
    server_V = np.searchsorted(placement.on_ranks(3)[1:], placement.place(np.arange(len(table))), "right")
    expected = np.zeros((rows.num_bags, WIDTH), np.float32)
    for p in range(rows.num_bags):
        ids = rows.id_M[rows.start_P1[p] : rows.start_P1[p + 1]]
        for server in range(3):
            total = np.zeros(WIDTH, np.float32)
            for row in ids[server_V[ids] == server]:
                total += table[row, :WIDTH]
            expected[p] += total
    own = {len(set(server_V[rows.id_M[first:stop]])) for first, stop in pairwise(rows.start_P1)}
    assert {0, 1, 2} <= own
    local = MemoryRows(table.copy(), optimizer)
    local.apply_pooled(rows, gradient(0), 0)
    after, [found] = served(
        1, 3, placement, table,
        lambda client: train(RemoteRows(client, placement, WIDTH, SEVERAL), range(1)), optimizer,
    )  # fmt: skip
    assert np.array_equal(found[0], expected) and np.array_equal(after, local.table)


def test_the_columns_that_were_measured_with_several_ids_are_pooled() -> None:
    columns = [Column(name=f"c{f}", rows=rows, is_pooled=bool(SEVERAL[f])) for f, rows in enumerate(ROWS)]
    placement, optimizer = place_columns(columns, 2, 16), RowOptimizer(WIDTH)

    def work(client: RowClient) -> dict[str, int]:
        RemoteRows(client, placement, WIDTH).pool(batch(0, SEVERAL), 0)
        return dict(client.transport.counters.messages_sent)

    _, [verbs] = served(1, 2, placement, start_table(optimizer), work, optimizer)
    assert verbs == {"pull": 2, "pool": 2}


@pytest.mark.parametrize("servers", [0, 2])
def test_workers_of_two_trainers_lose_nothing_of_rows_of_their_own(servers: int) -> None:
    """Each of four threads has examples whose rows no other one has; steps of whole numbers are exact."""
    optimizer, threads, pushes = RowOptimizer(WIDTH, "sgd", 1.0), 2, 30
    columns = [Column(name=f"c{f}", rows=16, is_pooled=f == 1) for f in range(2)]
    placement = place_columns(columns, servers or 2, 16)
    table = np.zeros((32, WIDTH), np.float32)

    def own_batch(worker: int, step: int) -> BatchRows:
        rng = np.random.default_rng((worker, step))
        one, several = 4 * worker + rng.integers(0, 4, 5), 16 + 4 * worker + rng.integers(0, 4, (5, 3))
        return BatchRows.of(
            np.column_stack([one, several]).reshape(-1), np.sort([0, *range(1, 20, 4), *range(4, 21, 4)])
        )

    def work(client: RowClient) -> None:
        failed: list[BaseException] = []

        def run(worker: int) -> None:
            try:
                worker = threads * client.transport.rank + worker
                access = RemoteRows(RowClient(client.server, client.bounds, worker=worker), placement, WIDTH)
                for step in range(pushes):
                    rows = own_batch(worker, step)
                    access.pool(rows, step)
                    access.apply_pooled(rows, np.full((10, WIDTH), worker + 1, np.float32), step)
                access.close()
            except BaseException as error:
                failed.append(error)

        workers = [threading.Thread(target=run, args=(worker,), daemon=True) for worker in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(30)
        assert not failed and not any(worker.is_alive() for worker in workers)

    rows, _ = served(2, servers, placement, table, work, optimizer)
    expected = np.zeros(32)
    for worker in range(4):
        for step in range(pushes):
            np.add.at(expected, own_batch(worker, step).id_M, -(worker + 1))
    assert np.array_equal(rows, np.repeat(expected[:, None], WIDTH, 1))


def test_workers_that_share_rows_lose_next_to_nothing() -> None:
    """Four threads push ones to the same eight rows; a race may lose a push (Hogwild), it must not lose many."""
    optimizer, pushes = RowOptimizer(WIDTH, "sgd", 1.0), 50
    placement = place_columns([Column(name="c", rows=8)], 2, 16)

    def work(client: RowClient) -> None:
        access = RemoteRows(client, placement, WIDTH)
        for step in range(pushes):
            access.apply_pooled(BatchRows.of(np.arange(8), np.arange(9)), np.ones((8, WIDTH), np.float32), step)
        access.close()

    rows, _ = served(4, 2, placement, np.zeros((8, WIDTH), np.float32), work, optimizer)
    assert (rows >= -4 * pushes).all() and rows.mean() <= -0.95 * 4 * pushes


def test_gradients_of_batches_that_were_not_looked_up_just_before_arrive_too() -> None:
    """A pipeline may look up many batches before it pushes the first; scoring never pushes."""
    optimizer, placement = RowOptimizer(WIDTH, "sgd", 1.0), placed(2)
    local = MemoryRows(start_table(optimizer, True), optimizer)
    for step in range(STEPS):
        local.apply_pooled(batch(step, SEVERAL), gradient(step, True), step)

    def work(client: RowClient) -> None:
        access = RemoteRows(client, placement, WIDTH, SEVERAL)
        for step in range(20):
            access.pool(batch(step, SEVERAL), step)
        for step in range(STEPS):
            access.apply_pooled(batch(step, SEVERAL), gradient(step, True), step)
        access.close()

    rows, _ = served(1, 2, placement, start_table(optimizer, True), work, optimizer)
    assert np.array_equal(rows, local.table)


def test_rows_that_are_not_there_and_columns_that_do_not_fit() -> None:
    placement, optimizer = placed(2), RowOptimizer(WIDTH)

    def work(client: RowClient) -> None:
        with pytest.raises(InputError, match="4 columns of 255 rows are placed; got 3 columns"):
            RemoteRows(client, placement, WIDTH, SEVERAL[:3])
        access = RemoteRows(client, placement, WIDTH, SEVERAL)
        with pytest.raises(InputError, match="Rows 255 to 255 were asked for; the table has rows 0 to 254"):
            access.pool(BatchRows.of(np.array([255]), np.array([0, 1, 1, 1, 1])), 0)
        with pytest.raises(InputError, match=r"Gradients of 64 bags of 3 numbers were to come, got \(64, 4\)"):
            access.apply_pooled(batch(0, SEVERAL), np.zeros((4 * BATCH, WIDTH + 1), np.float32), 0)

    served(1, 2, placement, start_table(optimizer), work, optimizer)
