"""Gradients of trainers meet: all at every step, within a bound of staleness, or as they come; servers that go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.cluster.message import Part, overhead
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.errors import FormatError, HostError, InputError, JobError
from any2vec.sync.base.dense import DenseAgreement
from any2vec.sync.drivers.served_gradients import ServedGradients
from any2vec.sync.drivers.summed_gradients import SummedGradients
from any2vec.sync.make import make_gradients, needed_of
from any2vec.sync.options.names import MOfN, parse_click_sync
from any2vec.sync.rules.gradient_rules import FirstGradients
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.replica import Replica
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.server.blocks.trained_block import SynchronousBlock, TrainedBlock
from any2vec.tables.server.client import RowClient
from any2vec.tables.server.clients.pulled_rows import ClockedRows
from any2vec.tables.server.request import Request
from any2vec.tables.server.server import RowServer
from gradient_cases import (
    KINDS,
    RATE,
    SIZE,
    bsp,
    gradient,
    kinds_sent,
    merged,
    rough,
    served,
    start_values,
    stepped,
    summed,
    train,
)

# All at every step


def test_bsp_is_one_host_on_the_union_of_the_batches() -> None:
    """Least squares by SGD. A sum of 3 x 8 terms in another order: some units in the last place, 20 steps of it."""
    trainers, size, steps = 3, 8, 20
    rng = np.random.default_rng(0)
    x_NX = rng.normal(size=(trainers * size * steps, SIZE)).astype(np.float32)
    y_N = (x_NX @ rng.normal(size=SIZE)).astype(np.float32)

    def slope(value_Q: np.ndarray, rows: np.ndarray, scale: float) -> np.ndarray:
        error = x_NX[rows] @ value_Q - y_N[rows]
        return (x_NX[rows].T @ error * np.float32(scale / len(rows))).astype(np.float32)

    def work(transport: Transport) -> np.ndarray:
        agreement = bsp(transport, trainers)
        agreement.start()
        for index in range(steps):
            step = agreement.begin(0, index)
            rows = (step * trainers + transport.rank) * size + np.arange(size)
            agreement.apply(0, step, slope(agreement.replica.value, rows, 1 / trainers))
        agreement.close()
        return agreement.replica.value

    alone = Replica(start_values(), "sgd", RATE)
    for step in range(steps):
        alone.step(slope(alone.value, step * trainers * size + np.arange(trainers * size), 1.0))
    found = run_logical(trainers, work, patience=20)
    assert all(np.array_equal(value, found[0]) for value in found)
    assert np.allclose(found[0], alone.value, rtol=2e-5, atol=2e-5) and not np.allclose(alone.value, start_values())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("counts", [(5,), (4, 4), (3, 0, 7), (2, 6, 6, 1, 5)])
def test_bsp_steps_by_the_sum_in_rank_order_and_all_end_together(counts: tuple[int, ...], kind: Any) -> None:
    def work(transport: Transport) -> tuple[Replica, np.ndarray | None, dict[str, Any]]:
        agreement = bsp(transport, len(counts), kind)
        agreement.start()
        steps = train(agreement, transport.rank, range(counts[transport.rank]), rough)
        assert steps == list(range(counts[transport.rank]))
        agreement.close()
        return agreement.replica, agreement.gather_result(), agreement.metrics()

    expected = stepped(kind, summed(counts, rough))
    found = run_logical(len(counts), work, patience=20)
    for replica, _, _ in found:
        assert np.array_equal(replica.value, expected.value) and replica.count == max(counts)
        assert all(np.array_equal(replica.state[name], expected.state[name]) for name in expected.state)
    assert [model is not None for _, model, _ in found] == [True] + [False] * (len(counts) - 1)
    assert merged([metrics for _, _, metrics in found])["steps"] == max(counts)


@pytest.mark.parametrize("how", ["bsp", "m-of-n"])
def test_trainers_settle_after_different_numbers_of_batches(how: str) -> None:
    """Three times; the numbers of a trainer's batches go on, and steps are those of all together."""
    rounds = [(2, 3, 1), (3, 2, 2), (0, 1, 2)]
    firsts = np.cumsum([0, *map(max, rounds)]).tolist()

    def work(transport: Transport) -> list[np.ndarray]:
        rank, index, seen = transport.rank, 0, []
        agreement: Any = bsp(transport, 3) if how == "bsp" else served(transport, 3, [3], how)
        agreement.start()
        for first, counts in zip(firsts, rounds, strict=False):
            for step in range(first, first + (counts[rank] if rank < 3 else 0)):
                assert agreement.begin(0, index) == step
                agreement.apply(0, step, rough(rank, step))
                index += 1
            agreement.quiesce()
            seen.append((agreement.replica.value if rank < 3 else agreement.state_dict()["value"]).copy())
            transport.barrier()
        agreement.close()
        return seen

    sums = [total for first, counts in zip(firsts, rounds, strict=False) for total in summed(counts, rough, first)]
    expected = [stepped("sgd", sums[:passed]).value for passed in firsts[1:]]
    for seen in run_logical(3 if how == "bsp" else 4, work, patience=20):
        assert np.array_equal(seen, expected)


def test_bsp_refuses_replicas_that_differ() -> None:
    def work(transport: Transport) -> None:
        agreement = bsp(transport, 2)
        agreement.replica.value[3] += transport.rank
        agreement.start()

    with pytest.raises(JobError, match="start from different dense parameters"):
        run_logical(2, work, patience=20)


@pytest.mark.parametrize("trainers", [2, 3, 5])
def test_bytes_of_a_bsp_step(trainers: int) -> None:
    """Each sends what it does not own of its gradient, and its own slice of the sum to all others."""

    def work(transport: Transport) -> list[tuple[int, int]]:
        agreement, counted = bsp(transport, trainers), []
        agreement.start()
        for index in range(2):
            counted.append(kinds_sent(transport.counters))
            agreement.apply(0, agreement.begin(0, index), gradient(transport.rank, index))
            transport.barrier()
        return counted

    barrier = [2 * (trainers - 1) if rank == 0 else 2 for rank in range(trainers)]
    for rank, ((dense, control), (dense_2, control_2)) in enumerate(run_logical(trainers, work, patience=20)):
        own = SIZE * (rank + 1) // trainers - SIZE * rank // trainers
        assert dense_2 - dense == 4 * (SIZE - own + (trainers - 1) * own)
        messages = (trainers - 1) * (overhead(2) + 1 + overhead(1))
        assert control_2 - control == messages + barrier[rank] // 2 * overhead(0)


# As they come


@pytest.mark.parametrize("servers", [[3], [0], [3, 4], [1, 3]])
@pytest.mark.parametrize("workers", [1, 3])
def test_async_loses_no_gradient(servers: list[int], workers: int) -> None:
    """Whole numbers and SGD: the end is exactly start - rate * sum of all gradients, whoever raced."""
    batches = 12

    def work(transport: Transport) -> tuple[np.ndarray, dict[str, Any]]:
        agreement = served(transport, 3, servers, "async")
        agreement.start()

        def worker(number: int) -> None:
            for index in range(number, batches, workers):
                own = gradient(transport.rank, index)
                agreement.apply(number, agreement.begin(number, index), own)
                own[:] = np.nan  # is the worker's again

        if transport.rank < 3:
            each(worker, workers)
        agreement.close()
        return agreement.replica.value, agreement.metrics()

    found = run_logical(max(3, *[rank + 1 for rank in servers]), work, patience=20)
    total = sum(gradient(rank, index) for rank in range(3) for index in range(batches))
    assert all(np.array_equal(value, start_values() - RATE * total) for value, _ in found[:3])
    metrics = merged([metrics for _, metrics in found])
    assert metrics["steps"] == 3 * batches == sum(metrics["overtaken"].values())


def each(work: Callable[[int], None], workers: int) -> None:
    """work(number) on so many threads."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(workers) as pool:
        for future in [pool.submit(work, number) for number in range(workers)]:
            future.result()


def clocked(transport: Transport, trainers: int, bound: int | None) -> tuple[RowClient, ClockedRows]:
    """A row for each trainer, on the last host."""
    optimizer = RowOptimizer(1, "sgd", 1.0)
    bounds = [0] * transport.hosts + [trainers]
    block = TrainedBlock(np.zeros((trainers if transport.rank == transport.hosts - 1 else 0, 1), np.float32), optimizer)
    server = RowServer(transport, {"rows": block}, bound=bound, trainers=range(trainers))
    server.start()
    client = RowClient(server, bounds)
    return client, ClockedRows(client)


@given(st.integers(0, 3), st.sampled_from([[3], [0], [2, 3]]), st.data())
@settings(deadline=None, max_examples=15)
def test_no_read_is_staler_than_the_bound(bound: int, servers: list[int], data: st.DataObject) -> None:
    """Each trainer's gradients add 1 to a number, and a row, of its own; two rounds of different numbers of batches."""
    trainers = 3
    plan = [[data.draw(st.lists(st.integers(0, 2), max_size=6)) for _ in range(trainers)] for _ in range(2)]
    base = max(len(delays) for delays in plan[0])
    every = BatchRows.of(np.arange(trainers), np.arange(trainers + 1))

    def check(rank: int, number: int, place: int, seen: np.ndarray) -> None:
        for other, delays in enumerate(plan[number]):
            before = len(plan[0][other]) if number else 0
            assert seen[other] >= before + min(len(delays), max(0, place - bound))
        assert seen[rank] == (len(plan[0][rank]) if number else 0) + place

    def trainer(transport: Transport, agreement: ServedGradients, access: ClockedRows) -> None:
        rank, index = transport.rank, 0
        own_Q, own_PW = np.zeros(SIZE, np.float32), np.zeros((trainers, 1), np.float32)
        own_Q[rank], own_PW[rank] = -1 / RATE, -1
        for number, round_plan in enumerate(plan):
            for place, delay in enumerate(round_plan[rank]):
                step = agreement.begin(0, index)
                assert step == place + (base if number else 0)
                check(rank, number, place, agreement.replica.value[:trainers] - start_values()[:trainers])
                time.sleep(delay / 1000)
                check(rank, number, place, access.pool(every, step)[:, 0])
                access.apply_pooled(every, own_PW, step)
                agreement.apply(0, step, own_Q)
                index += 1
            if number == 0:
                access.quiesce()
                agreement.quiesce()
        access.close()

    def work(transport: Transport) -> tuple[np.ndarray, dict[str, Any], dict[str, Any]]:
        client, access = clocked(transport, trainers, bound)
        agreement = served(transport, trainers, servers, "bounded", bound)
        agreement.start()
        if transport.rank < trainers:
            trainer(transport, agreement, access)
        else:
            agreement.quiesce()
        agreement.close()
        client.close()
        return agreement.replica.value, agreement.metrics(), client.server.metrics()

    found = run_logical(trainers + 1, work, patience=20)
    counts = [sum(len(round_plan[rank]) for round_plan in plan) for rank in range(trainers)]
    for value, _, _ in found[:trainers]:
        assert (value - start_values())[:trainers].tolist() == counts
    metrics = merged([metrics for _, metrics, _ in found])
    assert metrics["steps"] == sum(counts) == sum(metrics["staleness"].values())
    assert all(int(late) <= bound for late in metrics["staleness"])
    assert all(int(late) <= bound for late in found[-1][2]["staleness"])


@pytest.mark.parametrize("kind", KINDS)
def test_synchronous_rows_go_on_after_rounds_of_different_lengths(kind: Any) -> None:
    """`ClockedRows` with bound 0 in step, beside bsp: each reads the table after the steps before, whoever had them."""
    rounds, optimizer = [(2, 3, 1), (3, 2, 2), (0, 1, 2)], RowOptimizer(2, kind, RATE)
    firsts = np.cumsum([0, *map(max, rounds)]).tolist()
    every = BatchRows.of(np.arange(4), np.arange(5))
    expected = np.zeros((4, optimizer.num_columns), np.float32)
    tables = []
    for first, counts in zip(firsts, rounds, strict=False):
        for step in range(first, first + max(counts)):
            tables.append(expected[:, :2].copy())
            own = [rough(rank, step)[:8].reshape(4, 2) for rank in range(3) if step < first + counts[rank]]
            optimizer.step(expected, np.arange(4), sum(own[1:], own[0]))

    def work(transport: Transport) -> np.ndarray:
        rank, index = transport.rank, 0
        bounds = [0, 1, 3, 4]
        block = SynchronousBlock(
            np.zeros((bounds[rank + 1] - bounds[rank], optimizer.num_columns), np.float32), optimizer
        )
        server = RowServer(transport, {"rows": block}, bound=0, in_step=True)
        server.start()
        agreement, access = bsp(transport, 3), ClockedRows(RowClient(server, bounds))
        agreement.start()
        for first, counts in zip(firsts, rounds, strict=False):
            for step in range(first, first + counts[rank]):
                assert agreement.begin(0, index) == step
                assert np.array_equal(access.pool(every, step), tables[step])
                access.apply_pooled(every, rough(rank, step)[:8].reshape(4, 2), step)
                agreement.apply(0, step, gradient(rank, step))
                index += 1
            access.quiesce()
            agreement.quiesce()
        access.close()
        agreement.close()
        access.client.close()
        return block.table[:, :2].copy()

    assert np.array_equal(np.concatenate(run_logical(3, work, patience=20)), expected[:, :2])


def test_names_make_agreements() -> None:
    def work(transport: Transport) -> list[Any]:
        made = [
            make_gradients(parse_click_sync(name), transport, Replica(start_values(), "sgd"), range(4), [1, 0])  # type: ignore[arg-type]
            for name in ("bsp", "async", "bounded:3", "m-of-n:2", "m-of-n")
        ]
        assert isinstance(made[0], SummedGradients)
        found = []
        for agreement in made[1:]:
            assert isinstance(agreement, ServedGradients)
            assert agreement.servers == ((1,) if agreement in made[3:] else (0, 1))
            rule: Any = agreement.server and agreement.server.rule
            found.append(rule and (rule.needed if isinstance(rule, FirstGradients) else rule.clocks.bound))
        return found

    assert run_logical(2, work) == [[None, 3, None, None], [None, 3, 2, 3]]
    with pytest.raises(InputError, match="m-of-n:5 takes 5 gradients a step, of 4 trainers"):
        needed_of(MOfN(5), 4)
    assert needed_of(MOfN(), 1) == 1


@pytest.mark.parametrize("servers", [[2], [0], [2, 3], [0, 1, 2]])
@pytest.mark.parametrize("how", ["async", "bounded"])
def test_bytes_of_a_served_step(servers: list[int], how: str) -> None:
    """A trainer's gradient leaves it but for what its own host serves, and the parameters come."""

    def work(transport: Transport) -> list[tuple[int, int]]:
        agreement, counted = served(transport, 2, servers, how, 1 if how == "bounded" else None), []
        agreement.start()
        if transport.rank < 2:
            for index in range(2):
                counted.append((kinds_sent(transport.counters)[0], transport.counters.messages_sent["push"]))
                agreement.apply(0, agreement.begin(0, index), gradient(transport.rank, index))
            counted.append((kinds_sent(transport.counters)[0], transport.counters.messages_sent["push"]))
        agreement.close()
        return counted

    found = run_logical(max(2, servers[-1] + 1), work, patience=20)
    for rank in range(2):
        if rank in servers:  # what it serves to the other trainer is not of its own steps
            continue
        (_, _), (dense_1, gave_1), (dense_2, gave_2) = found[rank]
        assert dense_2 - dense_1 == 4 * SIZE and gave_2 - gave_1 == len(servers)


# Checkpoints, and what goes wrong


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", [([2], [2]), ([2, 3], [1]), ([0], [1, 2, 3])])
def test_servers_go_on_from_their_memories(layout: tuple[list[int], list[int]], kind: Any) -> None:
    """A run of 3 + 4 batches, the second part with other servers, is a run of 7."""
    how = "m-of-n" if len(layout[0]) == len(layout[1]) == 1 else "async"

    def part(batches: range, servers: list[int], memories: Sequence[dict[str, np.ndarray]], value: np.ndarray) -> Any:
        def work(transport: Transport) -> tuple[np.ndarray, dict[str, np.ndarray]]:
            agreement = served(transport, 2, servers, how, kind=kind)
            agreement.replica.value[:] = value
            if memories:
                agreement.load_state_dict(memories)
            agreement.start()
            for index in batches:
                if transport.rank == index % 2 or how == "m-of-n":
                    agreement.apply(0, agreement.begin(0, index), gradient(transport.rank, index))
                if how == "async":
                    agreement.quiesce()  # one after the other
            if how == "m-of-n":
                agreement.quiesce()
            memory = agreement.state_dict()
            agreement.close()
            return agreement.replica.value, memory

        def host(transport: Transport) -> tuple[np.ndarray, dict[str, np.ndarray]]:
            if transport.rank < 2:
                return work(transport)
            agreement = served(transport, 2, servers, how, kind=kind)
            if memories:
                agreement.load_state_dict(memories)
            agreement.start()
            for _ in batches if how == "async" else [0]:
                agreement.quiesce()
            agreement.close()
            return agreement.replica.value, agreement.state_dict()

        return run_logical(4, host, patience=20)

    first = part(range(3), layout[0], [], start_values())
    second = part(range(3, 7), layout[1], [memory for _, memory in first], first[0][0])
    whole = part(range(7), layout[0], [], start_values())
    assert np.array_equal(second[0][0], whole[0][0]) and not np.array_equal(first[0][0], whole[0][0])


def test_memories_of_another_model_are_refused() -> None:
    def work(transport: Transport) -> None:
        agreement = served(transport, 1, [0], "async", kind="adam")
        agreement.load_state_dict([{"value": np.zeros(SIZE, np.float32), "count": np.array([3])}])

    with pytest.raises(FormatError, match="0 numbers 'mean' of the servers of dense parameters, not 11"):
        run_logical(1, work, patience=20)


@pytest.mark.parametrize("how", ["bsp", "m-of-n", "bounded", "async"])
def test_a_trainer_that_dies_ends_the_others(how: str) -> None:
    """In good time: nobody waits for the patience of 600 s."""
    ended: dict[int, BaseException] = {}

    def work(transport: Transport) -> None:
        rank = transport.rank
        agreement: DenseAgreement = bsp(transport, 3) if how == "bsp" else served(transport, 3, [3], how, 2)
        agreement.start()
        try:
            if rank == 3:
                agreement.close()
            for index in range(10**6):
                if rank == 1 and index == 3:
                    raise RuntimeError("the machine is gone")
                train(agreement, rank, range(index, index + 1), gradient)
        except Exception as error:
            ended[rank] = error
            raise

    started = time.monotonic()
    with pytest.raises(RuntimeError, match="the machine is gone"):
        run_logical(3 if how == "bsp" else 4, work, patience=600)
    assert time.monotonic() - started < 300
    assert all(isinstance(error, HostError) for rank, error in ended.items() if rank != 1) and len(ended) >= 3


def test_a_server_says_what_it_cannot_take() -> None:
    def work(transport: Transport) -> None:
        agreement = served(transport, 2, [0], "m-of-n")
        agreement.start()
        if transport.rank == 1:
            agreement.apply(0, 0, np.zeros(SIZE - 1, np.float32))
            with pytest.raises(InputError, match="rank 0 says: Rank 1 sent 1 arrays; a push has one, of 11 parameters"):
                agreement.begin(0, 0)
            assert agreement._receive_all(0) == 0
            transport.send(0, [Part("control", np.array([99]))], "nonsense", "gradients?")
            with pytest.raises(HostError, match="are no request"):
                agreement._receive_all(0)
        agreement.close()

    run_logical(2, work, patience=20)


def test_an_answer_does_not_change_on_its_way() -> None:
    """It is heard after a gradient has stepped the parameters."""

    def work(transport: Transport) -> None:
        agreement = served(transport, 1, [0], "async")
        agreement.start()
        agreement._send(Request("pull", 0, clock=0))
        agreement.apply(0, 0, gradient(0, 0))
        agreement._receive_all(0)
        assert np.array_equal(agreement.replica.value, start_values())
        agreement.close()
        assert np.array_equal(agreement.replica.value, start_values() - RATE * gradient(0, 0))

    run_logical(1, work, patience=20)


def test_a_server_that_nobody_leaves_says_so() -> None:
    def work(transport: Transport) -> None:
        agreement = served(transport, 2, [0], "bounded", 0)
        agreement.start()
        if transport.rank == 0:
            assert agreement.server is not None
            agreement.server.patience = 0.05
            agreement.apply(0, agreement.begin(0, 0), gradient(0, 0))
            with pytest.raises(HostError, match=r"waited 0\.05 s for trainers that are behind"):
                agreement.begin(0, 1)
            with pytest.raises(HostError, match="not every trainer has finished"):
                agreement.server.close(timeout=0.05)
            agreement.server.patience = 20
        transport.barrier()
        agreement.close()

    run_logical(2, work, patience=20)
