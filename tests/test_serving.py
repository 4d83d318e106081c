"""Hosts that only serve rows: what they tell, who notices when one is lost, and their checkpoints."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.errors import FormatError, HostError, InputError
from any2vec.plan.placement import Column
from any2vec.plan.placing import place_columns
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.remote import RowClient
from any2vec.tables.remote_rows import RemoteRows
from any2vec.tables.row_optimiser import RowOptimiser
from any2vec.tables.server import RowServer
from any2vec.tables.server_checkpoint import BlockPlace, restore_block, save_block, server_file, updates_lost
from any2vec.tables.serving import serve, served_facts
from any2vec.tables.trained_block import TrainedBlock

WIDTH, TRAINERS, SERVERS = 2, 2, 2
SGD = RowOptimiser(WIDTH, "sgd", 1.0)
COLUMNS = [Column(name="one", rows=20), Column(name="several", rows=12, lookups=3.0, is_pooled=True)]
PLACEMENT = place_columns(COLUMNS, SERVERS, 4 * WIDTH)
BOUNDS = PLACEMENT.bounds(TRAINERS + SERVERS, TRAINERS)


def client_of(transport: Transport, patience: float | None = None, lane: int = 0) -> RowClient:
    low, high = BOUNDS[transport.rank : transport.rank + 2]
    block = TrainedBlock(np.zeros((high - low, WIDTH), np.float32), SGD)
    server = RowServer(transport, {"rows": block}, trainers=range(TRAINERS), patience=patience)
    return RowClient(server, BOUNDS, lane=lane)


def batch(seed: int) -> BatchRows:
    """Five examples: one id of the first column, three of the second."""
    rng = np.random.default_rng(seed)
    ids = [np.append(rng.integers(0, 20), 20 + rng.integers(0, 12, 3)) for _ in range(5)]
    return BatchRows.of(np.concatenate(ids), np.array([at for b in range(5) for at in (4 * b, 4 * b + 1)] + [20]))


def push_ones(access: RemoteRows, seeds: range) -> None:
    """Each row of a batch becomes less by as much as it occurs."""
    for seed in seeds:
        access.pooled(batch(seed), seed)
        access.push(batch(seed), seed, np.ones((10, WIDTH), np.float32))
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
        client.leave()
        return found

    return run_logical(TRAINERS + SERVERS, host, patience=patience)


def test_a_server_tells_what_it_holds_and_has_done() -> None:
    def train(client: RowClient) -> None:
        first = 3 * client.transport.rank
        push_ones(RemoteRows(client, PLACEMENT, WIDTH), range(first, first + 3))

    facts = run(train)[TRAINERS:]
    server_V = np.searchsorted(BOUNDS[1:], PLACEMENT.place(np.arange(32)), "right")
    for rank, found in enumerate(facts, TRAINERS):
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


def test_a_lost_server_is_told_of_in_time() -> None:
    heard = []

    def train(client: RowClient) -> None:
        access = RemoteRows(client, PLACEMENT, WIDTH)
        with pytest.raises(HostError, match="host 3 failed"):
            push_ones(access, range(10_000))
        heard.append(client.transport.rank)
        raise HostError("and so did I")

    def at_server(client: RowClient) -> None:
        client.server.start()
        if client.transport.rank == 3:
            raise ZeroDivisionError("no more rows")
        with pytest.raises(HostError, match="row server of rank 2 ended: Logical host 3 failed"):
            client.leave(20.0)

    with pytest.raises(ZeroDivisionError):
        run(train, at_server)
    assert sorted(heard) == [0, 1]


def test_a_server_that_cannot_be_reached_is_given_up() -> None:
    """It is never started; the first look-up says so."""

    def host(transport: Transport) -> None:
        client = client_of(transport, patience=0.1)
        if transport.rank < TRAINERS:
            client.server.start()
            with pytest.raises(HostError, match=r"waited 0\.15 s for logical host [23], which sent nothing"):
                RemoteRows(client, PLACEMENT, WIDTH).pooled(batch(0), 0)
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


# Checkpoints


def block_of(client: RowClient) -> TrainedBlock:
    block = client.server.blocks["rows"]
    assert isinstance(block, TrainedBlock)
    return block


def place_of(rank: int) -> BlockPlace:
    return BlockPlace(rank=rank, first=BOUNDS[rank], job="a job")


def test_a_server_that_dies_goes_on_from_its_checkpoint_and_the_loss_is_stated(tmp_path: Path) -> None:
    """Servers write while two workers of each trainer push. Server 3 dies when all has been acknowledged."""
    acknowledged: list[Counter[int]] = []
    held: dict[int, TrainedBlock] = {}
    saved = threading.Event()

    def train(client: RowClient) -> None:
        clients = [client, RowClient(client.server, BOUNDS, lane=1)]

        def work(lane: int) -> None:
            access, seed = RemoteRows(clients[lane], PLACEMENT, WIDTH), 1000 * (2 * client.transport.rank + lane)
            push_ones(access, range(seed, seed + 20))
            assert saved.wait(20)
            push_ones(access, range(seed + 20, seed + 40))

        lanes = [threading.Thread(target=work, args=(lane,), daemon=True) for lane in range(2)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join(30)
        acknowledged.extend(client.acknowledged for client in clients)
        client.transport.barrier()
        raise HostError("whoever uses the rows hears of it")

    def at_server(client: RowClient) -> None:
        rank, block = client.transport.rank, block_of(client)
        held[rank] = block
        written = []

        def write() -> None:  # the last one is written while pushes go on
            if not saved.is_set() and block.updates:
                written.append(save_block(tmp_path, block, place_of(rank)))
            if rank == 3 and len(written) == 3:
                saved.set()

        client.server.every(0.002, write)
        client.server.start()
        client.transport.barrier()
        raise ZeroDivisionError("the power is off")

    with pytest.raises((ZeroDivisionError, HostError)):
        run(train, at_server)
    assert len(acknowledged) == 4
    restored = TrainedBlock(np.zeros_like(held[3].table), SGD)
    known = restore_block(tmp_path, restored, place_of(3))
    # What the checkpoint holds is of one moment: a row has lost one for each occurrence in a push that it took.
    assert 0 < known == restored.updates < held[3].updates
    assert (restored.table[:, 0] <= -restored.version_B).all() and (restored.table[:, 0] >= held[3].table[:, 0]).all()
    # Every acknowledged update was there when it died, and nothing else.
    assert sum(counts[3] for counts in acknowledged) == held[3].updates
    assert updates_lost(3, acknowledged, known) == held[3].updates - known > 0
    assert updates_lost(3, acknowledged, held[3].updates) == 0 == updates_lost(3, [], known)


def test_rows_state_and_versions_come_back(tmp_path: Path) -> None:
    optimiser, rng = RowOptimiser(WIDTH, "adam"), np.random.default_rng(0)
    block = TrainedBlock(rng.standard_normal((9, optimiser.num_columns)).astype(np.float32), optimiser)
    block.version_B[:] = rng.integers(0, 2**62, 9) // 16
    assert save_block(tmp_path, block, place_of(2)) == block.updates
    found = TrainedBlock(np.zeros_like(block.table), optimiser)
    table = found.table
    assert restore_block(tmp_path, found, place_of(2)) == block.updates and found.table is table
    assert np.array_equal(found.table, block.table) and np.array_equal(found.version_B, block.version_B)
    assert [path.name for path in tmp_path.iterdir()] == ["server-2.safetensors"]


def test_a_server_without_rows_has_a_checkpoint_too(tmp_path: Path) -> None:
    block = TrainedBlock(np.zeros((0, WIDTH), np.float32), SGD)
    assert save_block(tmp_path, block, place_of(2)) == restore_block(tmp_path, block, place_of(2)) == 0


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    block = TrainedBlock(np.ones((5, WIDTH), np.float32), SGD)
    save_block(tmp_path, block, place_of(2))
    path = server_file(tmp_path, 2)
    others = {
        "first = 0, this one has 7": (block, replace(place_of(2), first=7)),
        "job = 'a job', this one has 'another'": (block, replace(place_of(2), job="another")),
        "rows = 5, this one has 6": (TrainedBlock(np.zeros((6, WIDTH), np.float32), SGD), place_of(2)),
        "optimiser = 'sgd', this one has 'adagrad'": (
            TrainedBlock(np.zeros((5, WIDTH + 1), np.float32), RowOptimiser(WIDTH)),
            place_of(2),
        ),
    }
    for said, (other, place) in others.items():
        before = other.table.copy()
        with pytest.raises(InputError, match=said):
            restore_block(tmp_path, other, place)
        assert np.array_equal(other.table, before)
    path.rename(server_file(tmp_path, 3))
    with pytest.raises(InputError, match="rank = 2, this one has 3"):
        restore_block(tmp_path, block, place_of(3))
    with pytest.raises(FormatError, match=r"server-2\.safetensors is no checkpoint of a server that can be read"):
        restore_block(tmp_path, block, place_of(2))


@pytest.mark.parametrize("cut", [4, 60, -8])
def test_a_damaged_checkpoint_is_refused_and_changes_nothing(tmp_path: Path, cut: int) -> None:
    block = TrainedBlock(np.ones((5, WIDTH), np.float32), SGD)
    save_block(tmp_path, block, place_of(2))
    path = server_file(tmp_path, 2)
    path.write_bytes(path.read_bytes()[:cut])
    block.table[:] = 3.0
    with pytest.raises(FormatError, match="no checkpoint of a server that can be read"):
        restore_block(tmp_path, block, place_of(2))
    assert (block.table == 3.0).all()


def test_a_checkpoint_that_cannot_be_written_ends_the_server_with_a_sentence(tmp_path: Path) -> None:
    """Whoever asks hears of the lost server; the former checkpoint stands."""
    (tmp_path / "file").write_text("")

    def train(client: RowClient) -> None:
        client.transport.recv(3)
        raise HostError("the run ends")

    def at_server(client: RowClient) -> None:
        if client.transport.rank == 3:
            folder = tmp_path / "file" / "folder"
            client.server.every(0.0, lambda: save_block(folder, block_of(client), place_of(3)) and None)
            with pytest.raises(
                HostError, match=r"row server of rank 3 ended: Cannot write .*: a part of the path is a"
            ):
                serve(client)
            for trainer in range(TRAINERS):
                client.transport.send(trainer, (), "told")
        else:
            client.server.start()

    with pytest.raises(HostError, match="the run ends"):
        run(train, at_server)


def test_a_chore_is_done_between_requests_and_while_nobody_asks() -> None:
    done = threading.Event()

    def train(client: RowClient) -> None:
        push_ones(RemoteRows(client, PLACEMENT, WIDTH), range(3))
        assert done.wait(20)

    def at_server(client: RowClient) -> dict[str, int]:
        count = []

        def work() -> None:
            assert threading.current_thread().name == f"server-{client.transport.rank}"
            count.append(served_facts(client.server)["requests"])
            if len(count) > 20 and count[-1] == count[-2] > 0:
                done.set()

        client.server.every(0.001, work)
        return serve(client)

    assert all(found["updates"] for found in run(train, at_server)[TRAINERS:])
