"""Rows on servers: the same bits as rows at hand, what travels, many workers at once, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import LONG_WORK, Transport
from any2vec.plan.placement import Column, Placement
from any2vec.plan.placing import place_columns
from any2vec.tables.access import LocalRows
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.remote import RowClient
from any2vec.tables.remote_rows import RemoteRows
from any2vec.tables.row_optimiser import RowOptimiser
from any2vec.tables.server import RowServer
from any2vec.tables.trained_block import TrainedBlock

WIDTH, STEPS, BATCH = 3, 6, 16
ROWS = (40, 3, 200, 12)
SINGLE, SEVERAL = np.zeros(4, np.bool_), np.array([False, True, False, True])


def placed(servers: int, tolerance: float = 1.0) -> Placement:
    columns = [Column(name=f"c{f}", rows=rows, lookups=1 + f % 2) for f, rows in enumerate(ROWS)]
    return place_columns(columns, servers, 4 * (WIDTH + 1), tolerance=tolerance)


def batch(seed: int, is_several_F: np.ndarray = SINGLE) -> BatchRows:
    """Bags of one id, or of up to four (none, too) where a column has several."""
    rng, offset_F = np.random.default_rng(seed), np.cumsum(ROWS) - ROWS
    counts = [int(rng.integers(0, 5)) if is_several_F[f] else 1 for _ in range(BATCH) for f in range(len(ROWS))]
    ids = [offset_F[p % len(ROWS)] + rng.integers(0, ROWS[p % len(ROWS)], count) for p, count in enumerate(counts)]
    return BatchRows.of(np.concatenate(ids).astype(np.int64), np.concatenate([[0], np.cumsum(counts)]))


def start_table(optimiser: RowOptimiser, is_whole: bool = False) -> np.ndarray:
    rng = np.random.default_rng(7)
    table = np.zeros((sum(ROWS), optimiser.num_columns), np.float32)
    table[:, :WIDTH] = rng.integers(-9, 9, (sum(ROWS), WIDTH)) if is_whole else rng.standard_normal((sum(ROWS), WIDTH))
    return table


def gradient(seed: int, is_whole: bool = False) -> np.ndarray:
    rng, shape = np.random.default_rng((seed, 1)), (BATCH * len(ROWS), WIDTH)
    return (rng.integers(-4, 4, shape) if is_whole else rng.standard_normal(shape)).astype(np.float32)


def served(
    trainers: int, servers: int, placement: Placement, table: np.ndarray, work: Callable[[RowClient], Any],
    optimiser: RowOptimiser,
) -> tuple[np.ndarray, list[Any]]:  # fmt: skip
    """The rows after all, in their own order, and what each trainer returned. servers 0: trainers own the rows."""
    hosts = trainers + servers
    bounds = placement.bounds(hosts, trainers if servers else 0)

    def host(transport: Transport) -> tuple[np.ndarray, Any]:
        low, high = bounds[transport.rank : transport.rank + 2]
        block = TrainedBlock(table[placement.unplace(np.arange(low, high))], optimiser)
        server = RowServer(transport, {"rows": block}, trainers=range(trainers))
        server.start()
        client = RowClient(server, bounds)
        found = None
        if transport.rank < trainers:
            found = work(client)
            client.leave()
        else:
            client.leave(LONG_WORK)
        return block.copy(), found

    done = run_logical(hosts, host, patience=20)
    whole = np.empty_like(table)
    whole[placement.unplace(np.arange(placement.num_rows))] = np.concatenate([rows for rows, _ in done])
    return whole, [found for _, found in done[:trainers]]


@pytest.mark.parametrize("kind", ["sgd", "adagrad", "adam"])
@pytest.mark.parametrize("tolerance", [1.0, 1e9])
@pytest.mark.parametrize("servers", [0, 1, 2, 3])
def test_single_ids_and_pulled_bags_give_the_bits_of_rows_at_hand(servers: int, tolerance: float, kind: Any) -> None:
    optimiser = RowOptimiser(WIDTH, kind, 0.1)
    local = LocalRows(start_table(optimiser), optimiser)
    expected = []
    for step in range(STEPS):
        expected.append(local.pooled(batch(step, SEVERAL), step))
        local.push(batch(step, SEVERAL), step, gradient(step))
    placement = placed(max(servers, 1), tolerance)

    def work(client: RowClient) -> list[np.ndarray]:
        access, found = RemoteRows(client, placement, WIDTH, SINGLE), []
        for step in range(STEPS):
            found.append(access.pooled(batch(step, SEVERAL), step))
            access.push(batch(step, SEVERAL), step, gradient(step))
        access.finish()
        return found

    rows, [found] = served(1, servers, placement, start_table(optimiser), work, optimiser)
    assert np.array_equal(rows, local.table) and np.array_equal(found, expected)


@pytest.mark.parametrize("servers", [0, 1, 2, 3])
def test_pooled_sums_of_whole_numbers_are_those_of_rows_at_hand(servers: int) -> None:
    """Sums of whole numbers are exact, so it does not matter that servers add up their own rows first."""
    optimiser = RowOptimiser(WIDTH, "sgd", 1.0)
    local = LocalRows(start_table(optimiser, True), optimiser)
    expected = []
    for step in range(STEPS):
        expected.append(local.pooled(batch(step, SEVERAL), step))
        local.push(batch(step, SEVERAL), step, gradient(step, True))
    placement = placed(max(servers, 1))

    def work(client: RowClient) -> list[np.ndarray]:
        access, found = RemoteRows(client, placement, WIDTH, SEVERAL), []
        for step in range(STEPS):
            found.append(access.pooled(batch(step, SEVERAL), step))
            access.push(batch(step, SEVERAL), step, gradient(step, True))
        access.finish()
        return found

    rows, [found] = served(1, servers, placement, start_table(optimiser, True), work, optimiser)
    assert np.array_equal(found, expected) and np.array_equal(rows, local.table)
