"""The row server: pull, push and pool from many hosts, staleness, refusals, time limits and the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.cluster.codec import pack_ids
from any2vec.cluster.message import Part
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.errors import HostError, InputError, MessageError
from any2vec.tables.server.blocks.row_block import Added, RowBlock
from any2vec.tables.server.client import RowClient
from any2vec.tables.server.clocks import Clocks
from any2vec.tables.server.request import ANY_TIME, Request, read_answer, read_request
from any2vec.tables.server.server import RowServer

ROWS, DIM = 23, 5
BOUNDS = {hosts: [ROWS * host // hosts for host in range(hosts + 1)] for hosts in range(1, 9)}


def whole_table(seed: int = 0) -> np.ndarray:
    """Whole numbers: sums of them are exact in float32, in whatever order."""
    return np.random.default_rng(seed).integers(-99, 99, (ROWS, DIM)).astype(np.float32)


def client_of(
    transport: Transport, bounds: list[int] | None = None, in_flight: int = 64, is_late: bool = False, **options: Any
) -> RowClient:
    """A server of the tables "a" and "b", started unless it is late, and the client beside it."""
    bounds = bounds or BOUNDS[transport.hosts]
    low, high = bounds[transport.rank : transport.rank + 2]
    blocks = {name: RowBlock(Added(whole_table(seed)[low:high])) for seed, name in enumerate("ab")}
    server = RowServer(transport, blocks, **options)
    if not is_late:
        server.start()
    return RowClient(server, bounds, in_flight)


def serve(hosts: int, work: Callable[[RowClient], Any], patience: float = 20.0, **options: Any) -> list[Any]:
    """What `work` returns on each of so many hosts; then all leave."""

    def host(transport: Transport) -> Any:
        client = client_of(transport, **options)
        found = work(client)
        client.close()
        return found

    return run_logical(hosts, host, patience=patience)


@pytest.mark.parametrize("hosts", [1, 2, 5])
def test_pulled_rows_are_those_of_the_table(hosts: int) -> None:
    def work(client: RowClient) -> None:
        rng = np.random.default_rng(client.transport.rank)
        for size in (0, 1, 7, ROWS, 60):
            ids = np.unique(rng.integers(0, ROWS, size))
            assert np.array_equal(client.pull({"b": ids})["b"], whole_table(1)[ids])
        both = client.pull({"a": np.arange(ROWS), "b": np.array([3])})
        assert np.array_equal(both["a"], whole_table(0)) and np.array_equal(both["b"], whole_table(1)[[3]])

    serve(hosts, work)


@pytest.mark.parametrize("in_flight", [1, 64])
def test_changes_of_many_hosts_add_up_and_versions_count_them(in_flight: int) -> None:
    hosts, pushes = 4, 30

    def changes(rank: int) -> list[tuple[np.ndarray, np.ndarray]]:
        rng = np.random.default_rng(rank)
        every = [np.unique(rng.integers(0, ROWS, n)) for n in rng.integers(0, ROWS, pushes)]
        return [(ids, rng.integers(-9, 9, (len(ids), DIM)).astype(np.float32)) for ids in every]

    def work(client: RowClient) -> tuple[np.ndarray, np.ndarray]:
        for ids, delta in changes(client.transport.rank):
            client.push("a", ids, delta, 0)
            client.pull({"a": ids})
        client.flush()
        client.transport.barrier()
        found = client.pull({"a": np.arange(ROWS)})["a"]
        client.transport.barrier()
        return found, client.server.blocks["a"].version_B

    expected, versions = whole_table(0), np.zeros(ROWS, np.int64)
    for rank in range(hosts):
        for ids, delta in changes(rank):
            expected[ids] += delta
            versions[ids] += 1
    found = serve(hosts, work, in_flight=in_flight)
    assert all(np.array_equal(rows, expected) for rows, _ in found)
    assert np.array_equal(np.concatenate([counted for _, counted in found]), versions)


def test_no_more_pushes_are_under_way_than_the_limit() -> None:
    """Rank 1's server is not started before rank 0 has found that its third push waits."""

    def host(transport: Transport) -> None:
        client = client_of(transport, in_flight=2, patience=0.1 if transport.rank == 0 else None, is_late=True)
        if transport.rank == 0:
            client.server.start()
            for number in range(3):
                assert len(client._under_way) == number
                if number < 2:
                    client.push("a", np.array([20]), np.ones((1, DIM), np.float32), 0)
            with pytest.raises(HostError, match="sent nothing"):
                client.push("a", np.array([20]), np.ones((1, DIM), np.float32), 0)
            assert len(client._under_way) == 2
        transport.barrier()
        if transport.rank == 1:
            client.server.start()
        client.server.patience = 20.0
        client.flush()
        transport.barrier()
        assert np.array_equal(client.pull({"a": np.array([20])})["a"], whole_table()[[20]] + 2)
        client.close()

    run_logical(2, host)


def test_a_host_reads_what_it_has_written() -> None:
    def work(client: RowClient) -> None:
        mine = np.arange(client.transport.rank, ROWS, 3)
        expected = whole_table(0)[mine]
        for step in range(20):
            change = np.full((len(mine), DIM), step, np.float32)
            client.push("a", mine, change, ANY_TIME)
            expected += change
            assert np.array_equal(client.pull({"a": mine})["a"], expected)

    serve(3, work)


def test_bytes_are_counted_by_kind() -> None:
    """Rank 0 pulls three rows of rank 1, and pushes two; ids are a bitmap of rank 1's 12 rows, in 2 bytes."""

    def work(client: RowClient) -> dict[str, int]:
        if client.transport.rank == 0:
            client.pull({"a": np.array([1, 12, 14, 20])})
            client.push("a", np.array([0, 15, 16]), np.ones((3, DIM), np.float32), 0)
        client.flush()
        client.transport.barrier()
        return client.transport.counters.bytes_by_kind()

    asked, answered = serve(2, work)
    assert asked["rows"] == 2 * DIM * 4 and asked["ids"] == 2 + 2
    assert answered["rows"] == 3 * DIM * 4 and answered["ids"] == answered["dense"] == 0 and answered["control"] > 0


@pytest.mark.parametrize("bits", [16, 8])
def test_rows_travel_in_fewer_bits(bits: int) -> None:
    def work(client: RowClient) -> np.ndarray:
        return client.pull({"a": np.arange(ROWS)}, bits=bits)["a"]

    for rank, rows in enumerate(serve(2, work)):
        half_step = np.abs(whole_table()).max(axis=1, keepdims=True) / (2 ** (bits - 1) - 1) / 2
        assert (np.abs(rows - whole_table()) <= half_step * 1.001).all()
        own = slice(*BOUNDS[2][rank : rank + 2])
        assert np.array_equal(rows[own], whole_table()[own]) and not np.array_equal(rows, whole_table())


def test_who_came_first_is_served_first() -> None:
    """Rank 1 asks between two requests of rank 0."""

    def host(transport: Transport) -> list[int]:
        if transport.rank == 0:
            transport.send(2, (), "ask", "rows?")
            transport.send(1, (), "go")
            transport.recv(1)
            transport.send(2, (), "ask", "rows?")
        elif transport.rank == 1:
            transport.recv(0)
            transport.send(2, (), "ask", "rows?")
            transport.send(0, (), "go")
        transport.barrier()
        return [transport.recv(None, channel="rows?").sender for _ in range(3)] if transport.rank == 2 else []

    assert run_logical(3, host)[2] == [0, 1, 0]


# Staleness


class Watched(Clocks):
    """Clocks that note, at each read, how far the slowest was behind, and whether somebody was behind by more."""

    reads: list[int]

    def read(self, trainer: int, clock: int) -> None:
        self.reads.append(clock - min(self._done.values()))
        super().read(trainer, clock)


def adversary(rank: int, number: int, kind: str) -> float:
    """Seconds of a round."""
    if kind == "one is slow":
        return 0.004 if rank == 2 else 0.0
    if kind == "in turns":
        return 0.004 if number % 3 == rank else 0.0
    return float(np.random.default_rng((rank, number)).exponential(0.001))


@pytest.mark.parametrize("kind", ["one is slow", "in turns", "by chance"])
@pytest.mark.parametrize("bound", [0, 1, 3, None])
def test_no_read_is_staler_than_the_bound(bound: int | None, kind: str) -> None:
    hosts, rounds = 4, 12

    def work(client: RowClient) -> tuple[list[int], dict[str, dict[str, int]]]:
        clocks = client.server.clocks
        clocks.__class__ = Watched
        clocks.reads = []  # type: ignore[attr-defined]
        client.transport.barrier()
        for number in range(rounds):
            client.pull({"a": np.arange(ROWS)}, number)
            time.sleep(adversary(client.transport.rank, number, kind))
            client.push("a", np.arange(ROWS), np.ones((ROWS, DIM), np.float32), number)
            client.tick(number)
        client.flush()
        client.transport.barrier()
        rows = client.pull({"a": np.arange(ROWS)})["a"]
        assert np.array_equal(rows, whole_table() + hosts * rounds)
        client.transport.barrier()
        return clocks.reads, client.server.metrics()  # type: ignore[attr-defined]

    for reads, metrics in serve(hosts, work, bound=bound):
        assert len(reads) == hosts * rounds == sum(metrics["staleness"].values())
        assert max(reads) == max(int(clocks) for clocks in metrics["staleness"])
        assert sum(metrics["overtaken"].values()) == hosts * rounds
        if bound is not None:
            assert max(reads) <= bound
            # From (own clock - bound) to (own clock + bound + 1) is what each other trainer can do meanwhile.
            assert max(int(number) for number in metrics["overtaken"]) <= (hosts - 1) * (2 * bound + 1)


@given(st.integers(1, 4), st.integers(0, 3), st.data())
@settings(deadline=None, max_examples=60)
def test_clocks_in_any_order_keep_the_bound(hosts: int, bound: int, data: st.DataObject) -> None:
    """Any interleaving of reads and ticks that the clocks allow; somebody may always go on."""
    clocks, at, has_read = Clocks(range(hosts), bound, False), [0] * hosts, [False] * hosts
    for _ in range(40):
        free = [rank for rank in range(hosts) if has_read[rank] or clocks.may_read(at[rank])]
        assert free
        rank = data.draw(st.sampled_from(free))
        if not has_read[rank]:
            clocks.read(rank, at[rank])
            assert at[rank] - min(at) <= bound
        else:
            clocks.tick(rank, at[rank])
            at[rank] += 1
        has_read[rank] = not has_read[rank]
        assert clocks.slowest == min(at)
    assert all(number <= bound for number in clocks.staleness)


def test_who_has_left_holds_nobody_up() -> None:
    def work(client: RowClient) -> None:
        for number in range(1 + 3 * client.transport.rank):
            client.pull({"a": np.array([0, 22])}, number)
            client.tick(number)

    serve(3, work, bound=0)


def test_rounds_must_be_ended_one_after_the_other() -> None:
    def work(client: RowClient) -> None:
        client.tick(0)
        if client.transport.rank == 1:
            with pytest.raises(InputError, match="Rank 1 ended round 5, where round 1 was to end"):
                client.server.tick(5)
            client._ask(0, [], "tick", None, 5)
            with pytest.raises(InputError, match="row server of rank 0 says: Rank 1 ended round 5"):
                client.flush()

    serve(2, work)


class Recording(Added):
    """Rows that note whose pushes were merged: each push consists of its trainer's rank."""

    def __init__(self, rows_BD: np.ndarray) -> None:
        super().__init__(rows_BD)
        self.seen: list[int] = []

    def merge(self, slot_K: np.ndarray, now_KD: np.ndarray, is_delta: bool) -> None:
        self.seen.append(int(now_KD[0, 0]))

    def finish(self, is_delta: bool) -> np.ndarray:
        self.seen.append(-1)
        return np.array([2])


@given(st.permutations([(rank, clock) for rank in range(3) for clock in range(2)]))
@settings(deadline=None, max_examples=30)
def test_in_step_pushes_take_effect_in_rank_order_whoever_comes_first(order: list[tuple[int, int]]) -> None:
    merger = Recording(whole_table())
    block = RowBlock(merger, in_step=True)
    for rank, clock in order:
        block.push(rank, clock, np.array([2]), np.full((1, DIM), rank, np.float32), True)
    assert merger.seen == []
    block.apply(0)
    block.apply(1)
    assert merger.seen == [0, 1, 2, -1] * 2
    assert block.version_B[2] == 2 == block.version_B.sum()


def test_in_step_a_trainer_pushes_once_a_round_and_as_the_others_do() -> None:
    block = RowBlock(Recording(whole_table()), in_step=True)
    one = np.array([2]), np.zeros((1, DIM), np.float32)
    block.push(0, 0, *one, is_delta=True)
    for rank, is_delta in [(0, True), (1, False)]:
        with pytest.raises(InputError, match=f"Rank {rank}: in step all push once in round 0"):
            block.push(rank, 0, *one, is_delta=is_delta)


# Refusals, time limits, the end

REQUESTS = {
    "a row that is not there": (Request("pull", 901), [Part("ids", np.array([3, 200], np.uint16))], "row 200"),
    "a table that is not there": (Request("pull", 901, 7), [pack_ids(np.array([1]), 12)], "Table number 7"),
    "half a request": (Request("pull", 901), [], "no request"),
    "rows of another size": (
        Request("push", 901, 0, 0, 1),
        [pack_ids(np.array([1]), 12), Part("rows", np.zeros((1, 9), np.float32))],
        "shape",
    ),
    "a row twice": (
        Request("push", 901, 0, 0, 1),
        [Part("ids", np.array([3, 3], np.uint16)), Part("rows", np.zeros((2, DIM), np.float32))],
        "out of order",
    ),
    "values, unasked": (
        Request("push", 901, 0, 0, 0),
        [pack_ids(np.array([1]), 12), Part("rows", np.zeros((1, DIM), np.float32))],
        "takes changes",
    ),
    "bags that do not fit": (
        Request("pool", 901),
        [Part("ids", np.array([1, 2], np.uint32)), Part("ids", np.array([3], np.uint32))],
        "Bags of 3 ids",
    ),
    "bags of bags": (
        Request("pool", 901),
        [Part("ids", np.array([[1]], np.uint32)), Part("ids", np.array([1], np.uint32))],
        "uint32 (1, 1)",
    ),
    "bags of fractions": (
        Request("pool", 901),
        [Part("ids", np.array([1.5], np.float32)), Part("ids", np.array([1], np.uint32))],
        "float32 (1,)",
    ),
    "rows of another type": (
        Request("push", 901, 0, 0, 1),
        [pack_ids(np.array([1]), 12), Part("rows", np.zeros((1, DIM)))],
        "float64",
    ),
    "bits that there are not": (Request("pull", 901, 0, ANY_TIME, 5), [pack_ids(np.array([1]), 12)], "KeyError"),
}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1.5])
def test_a_request_of_fractions_is_none(number: float) -> None:
    with pytest.raises(MessageError, match="no request"):
        read_request([Part("control", np.array([0, number, 0, 0, 0, 0])), pack_ids(np.array([1]), 12)])


@pytest.mark.parametrize("what", REQUESTS)
def test_a_request_at_fault_is_answered_by_a_sentence_and_the_server_lives_on(what: str) -> None:
    request, parts, words = REQUESTS[what]

    def work(client: RowClient) -> None:
        if client.transport.rank == 0:
            client.transport.send(1, [request.part(), *parts], request.verb, "rows?")
            message = client.transport.recv(1, channel="rows!")
            _, _, error = read_answer(1, message.parts)
            assert words in str(error) and "row server of rank 1" in str(error)
        assert np.array_equal(client.pull({"a": np.arange(ROWS)})["a"], whole_table())

    serve(2, work)


def test_a_refused_push_is_reported_of_later() -> None:
    def work(client: RowClient) -> None:
        if client.transport.rank == 0:
            client.push("a", np.array([20]), np.zeros((1, DIM + 1), np.float32), 0)
            with pytest.raises(InputError, match="rank 1 says: A push of 1 rows has shape"):
                client.flush()
            with pytest.raises(InputError, match="A push of 1 rows has shape"):
                client.push("a", np.array([2]), np.zeros((1, DIM + 1), np.float32), 0)

    serve(2, work)


@pytest.mark.parametrize("ids", [[-1], [ROWS], [3, 3], [4, 3]])
def test_ids_are_checked_at_the_door(ids: list[int]) -> None:
    def work(client: RowClient) -> None:
        with pytest.raises(InputError, match=f"from 0 to {ROWS - 1}, ascending and none twice"):
            client.pull({"a": np.array(ids)})

    serve(2, work)


@pytest.mark.parametrize("asker", [0, 1, 2])
def test_who_waits_too_long_for_the_slowest_receives_who_it_is(asker: int) -> None:
    """Rank 2 never ends its round 0; the row asked for is rank 0's."""

    def work(client: RowClient) -> None:
        if client.transport.rank != 2:
            client.tick(0)
        if client.transport.rank == asker:
            with pytest.raises(HostError, match=r"Rank 2 is in round 0, and a trainer in round 1 has waited 0\.1 s"):
                client.pull({"a": np.array([0])}, 1)
        client.transport.barrier()
        assert np.array_equal(client.pull({"a": np.array([0])})["a"], whole_table()[:1])

    run_logical(3, lambda transport: _with_patience(transport, work, bound=0))


def _with_patience(transport: Transport, work: Callable[[RowClient], None], **options: Any) -> None:
    client = client_of(transport, patience=0.1, **options)
    work(client)
    client.transport.barrier()
    client.server.patience = 20.0
    client.close()


def test_the_server_wakes_for_whoever_has_waited_longest() -> None:
    """Two wait for the slowest trainer; the time limit of its own sleep is that of the first one's patience."""
    asked: list[float] = []

    def silent(self: Transport, peer: int | None, timeout: float, **_: Any) -> Any:
        asked.append(timeout)
        raise HostError("nobody asks")

    def work(transport: Transport) -> None:
        server: Any = RowServer(transport, {}, bound=0)
        now = time.monotonic()
        server._waiting = [(now + 1000, None, None), (now + 50, None, None), (now + 500, None, None)]
        with pytest.MonkeyPatch.context() as patch, pytest.raises(HostError, match="nobody asks"):
            patch.setattr(type(transport), "recv", silent)
            server._next()

    run_logical(1, work)
    assert len(asked) == 1 and 0 < asked[0] <= 50


def test_a_server_that_does_not_answer_is_given_up() -> None:
    def host(transport: Transport) -> None:
        if transport.rank == 0:
            client = client_of(transport, patience=0.1)
            with pytest.raises(HostError, match=r"waited 0\.15 s for logical host 1"):
                client.pull({"a": np.array([22])})
        transport.barrier()

    run_logical(2, host)


def test_a_host_that_fails_ends_servers_and_askers() -> None:
    ended: list[RowServer] = []

    def host(transport: Transport) -> None:
        client = client_of(transport, bound=0)
        ended.append(client.server)
        if transport.rank == 1:
            raise ZeroDivisionError("no more rows")
        client.tick(0)
        with pytest.raises(HostError, match="host 1 failed"):
            client.pull({"a": np.arange(ROWS)}, 1)
        raise HostError("and so did I")

    with pytest.raises(ZeroDivisionError):
        run_logical(3, host)
    for server in ended:
        server._thread.join(5)
        assert not server._thread.is_alive()


def test_a_host_that_waits_for_its_own_server_receives_of_its_end() -> None:
    """Only the own block is asked for, so no message could tell."""
    received = threading.Event()

    def host(transport: Transport) -> None:
        client = client_of(transport, bound=0)
        if transport.rank == 1:
            client.transport.recv(0)
            raise ZeroDivisionError("no more rows")
        client.transport.send(1, (), "go")
        client.tick(0)
        with pytest.raises(HostError, match="row server of rank 0 ended: Logical host 1 failed"):
            client.pull({"a": np.array([0])}, 1)
        received.set()

    with pytest.raises(ZeroDivisionError):
        run_logical(2, host, patience=10)
    assert received.is_set()


def test_servers_of_several_channels_stand_side_by_side() -> None:
    def host(transport: Transport) -> None:
        one, two = client_of(transport), client_of(transport, name="others")
        one.push("a", np.arange(ROWS), np.ones((ROWS, DIM), np.float32), 0)
        one.flush()
        transport.barrier()
        assert np.array_equal(two.pull({"a": np.arange(ROWS)})["a"], whole_table())
        assert np.array_equal(one.pull({"a": np.arange(ROWS)})["a"], whole_table() + 2)
        one.close()
        two.close()

    run_logical(2, host)


def test_a_host_may_own_nothing() -> None:
    """Rank 1 is a trainer alone."""

    def work(client: RowClient) -> None:
        assert np.array_equal(client.pull({"a": np.arange(ROWS)})["a"], whole_table())

    serve(3, work, bounds=[0, 9, 9, ROWS])
