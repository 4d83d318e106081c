"""The first M of N gradients of a step count: every schedule against an oracle, and rows that count with them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.cluster.message import Part
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.errors import HostError, InputError
from any2vec.sync.base.dense import DenseAgreement
from any2vec.sync.drivers.served_gradients import ServedGradients
from any2vec.sync.rules.gradient_rules import ACCEPTED, DROPPED, UNKNOWN, FirstGradients
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.replica import Replica
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.row_table import PooledTable
from any2vec.tables.server.blocks.trained_block import HeldBlock, SynchronousBlock
from any2vec.tables.server.client import RowClient
from any2vec.tables.server.clients.pulled_rows import ClockedRows, HeldRows, HeldRowsNotices
from any2vec.tables.server.server import RowServer
from any2vec.types import LEFT_OUT
from gradient_cases import (
    KINDS,
    RATE,
    bsp,
    gradient,
    merged,
    rough,
    served,
    start_values,
    stepped,
    summed,
    train,
)

# The first M of N: every schedule against an oracle


class Oracle:
    """The same rule, as plainly as it can be said; trainers are told what to do one after the other."""

    def __init__(self, trainers: int, needed: int, batches: int) -> None:
        self.trainers, self.needed, self.batches = trainers, needed, batches
        self.value = start_values()
        self.step = 0
        self.index = [0] * trainers
        self.holds: list[int | None] = [None] * trainers
        """the step of the gradient that a trainer is at"""
        self.gave: dict[int, np.ndarray] = {}
        self.accepted, self.dropped, self.left_out = ([0] * trainers for _ in range(3))
        self.counted: list[list[int]] = []

    def done(self, rank: int) -> bool:
        return self.index[rank] == self.batches and self.holds[rank] is None

    def free(self) -> list[int]:
        """Who can do something."""
        can = [r for r in range(self.trainers) if self.holds[r] is not None or self.index[r] <= self.step]
        return [r for r in can if not self.done(r)]

    def move(self, rank: int) -> None:
        """The trainer gives its gradient if it has one, else begins its next batch."""
        if self.holds[rank] is None:
            late = self.step > self.index[rank]
            self.holds[rank] = None if late else self.step
            self.left_out[rank] += late
            self.index[rank] += 1
            return
        if self.holds[rank] == self.step:
            self.gave[rank] = gradient(rank, self.index[rank] - 1)
        else:
            self.dropped[rank] += 1
        self.holds[rank] = None
        if len(self.gave) == self.needed:
            total = sum(self.gave.values()) * np.float32(self.trainers / self.needed)
            self.value = (self.value - RATE * total).astype(np.float32)
            for one in self.gave:
                self.accepted[one] += 1
            self.counted.append(sorted(self.gave))
            self.gave = {}
            self.step += 1


def drawn(data: st.DataObject, oracle: Oracle, extra: int = 0) -> list[int]:
    """Who does something next, until all is done; `extra` more things to do with a gradient before it is given."""
    script, ahead = [], [extra] * oracle.trainers
    while free := oracle.free():
        rank = data.draw(st.sampled_from(free))
        script.append(rank)
        if oracle.holds[rank] is not None and ahead[rank]:
            ahead[rank] -= 1
        else:
            oracle.move(rank)
            ahead[rank] = extra
    return script


class Noted:
    """Notes who was accepted."""

    def __init__(self) -> None:
        self.steps: list[list[int]] = []

    def notify(self, step: int, trainers: Sequence[int]) -> None:
        assert step == len(self.steps)
        self.steps.append(list(trainers))


def conduct(trainers: int, needed: int, batches: int, script: Sequence[int]) -> tuple[Oracle, list[Any], Noted]:
    """Trainers do one thing at a time, in the order of the script; then all finish."""
    oracle, noted = Oracle(trainers, needed, batches), Noted()

    def trainer(transport: Transport) -> tuple[dict[str, Any], np.ndarray]:
        agreement = served(transport, trainers, [trainers], "m-of-n", needed, examples=lambda index: 100 + index)
        agreement.start()
        index, step = 0, LEFT_OUT
        while transport.recv(trainers, channel="script").phase == "go":
            if step == LEFT_OUT:
                step = agreement.begin(0, index)
                phase = "late" if step == LEFT_OUT else str(step)
                transport.send(trainers, [Part("dense", agreement.replica.value.copy())], phase, "told")
                index += 1
            else:
                agreement.apply(0, step, gradient(transport.rank, index - 1))
                step = LEFT_OUT
                transport.send(trainers, (), "gave", "told")
        agreement.close()
        return agreement.metrics(), agreement.replica.value

    def conductor(transport: Transport) -> tuple[dict[str, Any], np.ndarray]:
        agreement = served(transport, trainers, [trainers], "m-of-n", needed, on_held=noted)
        agreement.start()
        for rank in script:
            oracle.move(rank)
            transport.send(rank, (), "go", "script")
            message = transport.recv(rank, channel="told")
            if message.phase == "gave":
                assert oracle.holds[rank] is None
            elif oracle.holds[rank] is None:
                assert message.phase == "late"
            else:
                assert message.phase == str(oracle.step) and np.array_equal(message.parts[0].array, oracle.value)
        for rank in range(trainers):
            transport.send(rank, (), "end", "script")
        agreement.close()
        return agreement.metrics(), agreement.state_dict()["value"]

    def host(transport: Transport) -> Any:
        return trainer(transport) if transport.rank < trainers else conductor(transport)

    found = run_logical(trainers + 1, host, patience=20)
    return oracle, found, noted


def check(oracle: Oracle, found: list[Any], noted: Noted) -> None:
    assert oracle.gave == {}
    metrics = merged([metrics for metrics, _ in found])
    for name, counts in (("accepted", oracle.accepted), ("dropped", oracle.dropped), ("left_out", oracle.left_out)):
        reported = metrics.get(name, {})
        assert [reported.get(str(rank), 0) for rank in range(oracle.trainers)] == counts
    assert metrics["steps"] == oracle.step and noted.steps == oracle.counted
    for _, value in found:
        assert np.array_equal(value, oracle.value)


@given(st.sampled_from([(2, 1), (3, 2), (4, 2), (4, 3), (3, 3)]), st.data())
@settings(deadline=None, max_examples=40)
def test_first_gradients_of_any_schedule_are_the_oracles(counts: tuple[int, int], data: st.DataObject) -> None:
    """The server hears in the order of sending. All have as many batches, so that none is left with half a step."""
    trainers, needed = counts
    script = drawn(data, Oracle(trainers, needed, 5))
    oracle, found, noted = conduct(trainers, needed, 5, script)
    check(oracle, found, noted)
    assert oracle.step == 5 and sum(oracle.accepted) == needed * 5


def test_a_gradient_two_steps_late_counts_nowhere() -> None:
    """Trainer 2 is stopped with its gradient of step 0 while the others make steps 0 and 1, then is part of step 2.

    In step 2 it comes before trainer 1, whose gradient is dropped then. Without tags the late one would count there.
    """
    script = [2, *[0, 1, 0, 1], *[0, 1, 0, 1], *[0, 1], 2, 2, 2, 2, 0, 1]
    oracle, found, noted = conduct(3, 2, 3, script)
    check(oracle, found, noted)
    assert noted.steps == [[0, 1], [0, 1], [0, 2]]
    assert (oracle.accepted, oracle.dropped, oracle.left_out) == ([3, 2, 1], [0, 1, 1], [0, 0, 1])
    metrics = merged([metrics for metrics, _ in found])
    assert metrics["examples_dropped"] == 100 + 101 + 102  # of trainer 2 batches 0 and 1, of trainer 1 batch 2


def test_a_trainer_that_stands_still_holds_nobody_up() -> None:
    """Trainer 2 begins step 0 and does nothing until the others have made all 40 steps."""

    def work(transport: Transport) -> dict[str, Any]:
        agreement = served(transport, 3, [3], "m-of-n", 2, examples=lambda index: 10)
        agreement.start()
        if transport.rank == 2:
            assert agreement.begin(0, 0) == 0
            for rank in (0, 1):
                transport.send(rank, (), "begun", "script")
            for rank in (0, 1):
                transport.recv(rank, channel="script")
            agreement.apply(0, 0, gradient(2, 0))
            assert train(agreement, 2, range(1, 40), gradient) == [LEFT_OUT] * 39
            assert transport.counters.messages_sent["pull"] == 2  # what is known to be late is not asked for
        elif transport.rank < 2:
            transport.recv(2, channel="script")
            assert train(agreement, transport.rank, range(40), gradient) == list(range(40))
            transport.send(2, (), "done", "script")
        agreement.close()
        return agreement.metrics() | {"value": agreement.replica.value} if transport.rank < 3 else agreement.metrics()

    found = run_logical(4, work, patience=20)
    expected = start_values()
    for step in range(40):
        expected -= RATE * np.float32(1.5) * (gradient(0, step) + gradient(1, step))
    assert all(np.array_equal(metrics.pop("value"), expected) for metrics in found[:3])
    metrics = merged(found)
    assert metrics["steps"] == 40 and metrics["accepted"] == {"0": 40, "1": 40, "2": 0}
    assert metrics["dropped"] == {"0": 0, "1": 0, "2": 1} and metrics["left_out"] == {"0": 0, "1": 0, "2": 39}
    assert metrics["examples_dropped"] == 400 and metrics["wait_seconds"] > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("counts", [(5,), (4, 4), (3, 0, 7), (2, 6, 6, 1, 5)])
@pytest.mark.parametrize("center", ["a host of its own", "a trainer"])
def test_n_of_n_are_the_bits_of_bsp(counts: tuple[int, ...], kind: Any, center: str) -> None:
    trainers = len(counts)
    at = trainers if center == "a host of its own" else trainers - 1

    def work(transport: Transport) -> tuple[np.ndarray, np.ndarray | None]:
        agreement = served(transport, trainers, [at], "m-of-n", kind=kind)
        agreement.start()
        if transport.rank < trainers:
            own = range(counts[transport.rank])
            assert train(agreement, transport.rank, own, rough) == list(own)
        agreement.close()
        return agreement.replica.value, agreement.gather_result()

    expected = stepped(kind, summed(counts, rough)).value
    found = run_logical(max(at + 1, trainers), work, patience=20)
    assert all(np.array_equal(value, expected) for value, _ in found[:trainers])
    assert found[0][1] is not None and all(model is None for _, model in found[1:])


def test_where_fewer_are_left_than_needed_all_of_them_are() -> None:
    """3 of 4, with 1, 2, 3 and 4 batches; sums are scaled by 4 / 3 throughout."""
    rule = FirstGradients(Replica(np.zeros(1, np.float32), "sgd", 1.0), range(4), 3)
    one = np.ones(1, np.float32)
    for rank in (0, 1):
        rule.take(rank, 0, one)
    assert rule.step == 0
    rule.leave(0)  # has given, so it is of the step still
    rule.take(3, 0, one)
    assert rule.step == 1 and [rule.verdict(rank) for rank in range(4)] == [ACCEPTED, ACCEPTED, UNKNOWN, ACCEPTED]
    rule.take(2, 0, one)
    assert rule.verdict(2) == DROPPED and rule.verdict(2) == UNKNOWN
    rule.take(1, 1, one)
    rule.take(2, 1, one)
    assert rule.step == 1
    rule.take(3, 1, one)
    assert rule.step == 2
    rule.leave(1)
    rule.take(2, 2, one)
    assert rule.step == 2
    rule.leave(2)  # of whom it was waited for: two are of the step, one has given
    assert rule.step == 2
    rule.take(3, 2, one)
    rule.take(3, 3, one)
    assert rule.step == 4
    expected = np.float32(0)
    for total in (3, 3, 2, 1):
        expected -= np.float32(total) * np.float32(4 / 3)
    assert rule.replica.value[0] == expected


def test_first_gradients_refuse_what_cannot_be() -> None:
    rule = FirstGradients(Replica(np.zeros(2, np.float32), "sgd", 1.0), range(3), 2)
    rule.take(1, 0, np.ones(2, np.float32))
    with pytest.raises(InputError, match="Rank 1 sent a gradient for step 0; step 0 takes one of each trainer"):
        rule.take(1, 0, np.ones(2, np.float32))
    with pytest.raises(InputError, match="Rank 0 sent a gradient for step 1"):
        rule.take(0, 1, np.ones(2, np.float32))
    with pytest.raises(InputError, match="shape"):
        rule.take(0, 0, np.ones(3, np.float32))
    for needed in (0, 4):
        with pytest.raises(InputError, match=f"from 1 to the number of trainers, 3; got {needed}"):
            FirstGradients(rule.replica, range(3), needed)


# Rows with the first M of N

ROWS, WIDTH = 17, 3


def whole_table(optimizer: RowOptimizer) -> np.ndarray:
    table_VC = np.zeros((ROWS, optimizer.num_columns), np.float32)
    table_VC[:, :WIDTH] = np.random.default_rng(7).integers(-9, 9, (ROWS, WIDTH))
    return table_VC


def batch(rank: int, index: int) -> BatchRows:
    """Bags of no, one or several ids."""
    rng = np.random.default_rng((rank, index, 1))
    count_P = rng.integers(0, 4, 5)
    return BatchRows.of(rng.integers(0, ROWS, count_P.sum()), np.append(0, np.cumsum(count_P)))


def bag_gradient(rank: int, index: int, is_whole: bool = True) -> np.ndarray:
    rng = np.random.default_rng((rank, index, 2))
    return (rng.integers(-9, 9, (5, WIDTH)) if is_whole else rng.normal(size=(5, WIDTH))).astype(np.float32)


def row_bounds(trainers: int, hosts: int) -> list[int]:
    """Two hosts own the rows: those behind the trainers, or the last two where there are not so many."""
    first = min(trainers, hosts - 2)
    return [0] * (first + 1) + [ROWS // 2] + [ROWS] * (hosts - first - 1)


def held_servers(
    transport: Transport, trainers: int, needed: int, center: int, optimizer: RowOptimizer
) -> tuple[HeldBlock, RowServer, list[int]]:
    """The block of a host, empty but for two, its server, started, and who owns what."""
    bounds = row_bounds(trainers, transport.hosts)
    low, high = bounds[transport.rank : transport.rank + 2]
    block = HeldBlock(whole_table(optimizer)[low:high].copy(), optimizer, trainers / needed)
    server = RowServer(transport, {"rows": block}, bound=0, trainers=[center])
    block.applied = partial(server.tick, trainer=center)
    server.start()
    return block, server, bounds


def step_by_sum(
    optimizer: RowOptimizer, table_VC: np.ndarray, pushes: Sequence[tuple[BatchRows, np.ndarray]], scale: float
) -> None:
    """One step by the sum of the pushes in their order, row by row, as plainly as it can be said."""
    total: dict[int, np.ndarray] = {}
    for rows, gradient_PW in pushes:
        for row, own in zip(rows.row_U.tolist(), rows.gradients(gradient_PW), strict=True):
            total[row] = total[row] + own if row in total else own
    slot_U = np.array(sorted(total), np.int64)
    if len(slot_U):
        optimizer.step(table_VC, slot_U, np.stack([total[row] for row in slot_U.tolist()]) * np.float32(scale))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("hosts", "center"), [(6, 5), (4, 0)])
def test_rows_of_n_of_n_are_the_bits_of_synchronous_ones(hosts: int, center: int, kind: Any) -> None:
    """Trainers with 4, 2 and 5 batches; what each reads is the table after the steps before. Roles apart, or shared."""
    counts, optimizer = (4, 2, 5), RowOptimizer(WIDTH, kind, RATE)
    expected, tables = whole_table(optimizer), []
    for index in range(5):
        tables.append(expected.copy())
        pushes = [(batch(r, index), bag_gradient(r, index, False)) for r, count in enumerate(counts) if index < count]
        step_by_sum(optimizer, expected, pushes, 1.0)

    def work(transport: Transport, is_held: bool) -> np.ndarray:
        rank = transport.rank
        access: PooledTable
        agreement: DenseAgreement | None = None
        if is_held:
            block, server, bounds = held_servers(transport, 3, 3, center, optimizer)
            client, on_held = RowClient(server, bounds), HeldRowsNotices(RowClient(server, bounds, worker=9))
            access = HeldRows(client)
            agreement = served(transport, 3, [center], "m-of-n", on_held=on_held)
        else:
            low, high = row_bounds(3, transport.hosts)[rank : rank + 2]
            block = SynchronousBlock(whole_table(optimizer)[low:high].copy(), optimizer)
            server = RowServer(transport, {"rows": block}, bound=0, in_step=True, trainers=range(3))
            server.start()
            client = RowClient(server, row_bounds(3, transport.hosts))
            access = ClockedRows(client)
            agreement = bsp(transport, 3) if rank < 3 else None
        if agreement is not None:
            agreement.start()
        for index in range(counts[rank] if rank < 3 else 0):
            step, rows = agreement.begin(0, index), batch(rank, index)
            assert np.array_equal(access.pool(rows, step), rows.pool(tables[step][rows.row_U], WIDTH))
            access.apply_pooled(rows, bag_gradient(rank, index, False), step)
            agreement.apply(0, step, gradient(rank, index))
        if rank < 3:
            access.close()
        if agreement is not None:
            agreement.close()
        client.close()
        return block.table

    for is_held in (True, False):
        assert np.array_equal(np.concatenate(run_logical(hosts, partial(work, is_held=is_held), patience=20)), expected)


@given(st.data())
@settings(deadline=None, max_examples=25)
def test_rows_count_with_the_gradients_of_their_step(data: st.DataObject) -> None:
    """3 of 4 trainers, any schedule: one conductor says who begins, pushes, or gives; rows are the oracle's."""
    trainers, needed, batches, center, conductor = 4, 3, 4, 6, 7
    optimizer = RowOptimizer(WIDTH, "sgd", RATE)
    script = drawn(data, Oracle(trainers, needed, batches), 1)
    oracle, expected = Oracle(trainers, needed, batches), whole_table(optimizer)
    pushed = [False] * trainers

    def trainer(transport: Transport, access: HeldRows, agreement: ServedGradients) -> None:
        for index in range(batches):
            transport.recv(conductor, channel="script")
            step = agreement.begin(0, index)
            transport.send(conductor, (), "told", "told")
            if step == LEFT_OUT:
                continue
            transport.recv(conductor, channel="script")
            rows = batch(transport.rank, index)
            access.pool(rows, step)
            access.apply_pooled(rows, bag_gradient(transport.rank, index), step)
            transport.send(conductor, (), "told", "told")
            transport.recv(conductor, channel="script")
            agreement.apply(0, step, gradient(transport.rank, index))
            transport.send(conductor, (), "told", "told")
        access.close()

    def conduct_all(transport: Transport) -> None:
        for rank in script:
            if oracle.holds[rank] is not None and not pushed[rank]:
                pushed[rank] = True
            else:
                before = oracle.step
                oracle.move(rank)
                pushed[rank] = False
                if oracle.step > before:
                    pushes = [(batch(r, before), bag_gradient(r, before)) for r in oracle.counted[-1]]
                    step_by_sum(optimizer, expected, pushes, trainers / needed)
            transport.send(rank, (), "go", "script")
            transport.recv(rank, channel="told")

    def work(transport: Transport) -> tuple[np.ndarray, dict[int, int]]:
        block, server, bounds = held_servers(transport, trainers, needed, center, optimizer)
        client = RowClient(server, bounds)
        if transport.rank == conductor:
            conduct_all(transport)
        else:
            on_held = HeldRowsNotices(RowClient(server, bounds, worker=9))
            agreement = served(transport, trainers, [center], "m-of-n", needed, on_held=on_held)
            agreement.start()
            if transport.rank < trainers:
                trainer(transport, HeldRows(client), agreement)
            agreement.close()
        client.close()
        return block.table, dict(block.dropped)

    found = run_logical(8, work, patience=20)
    assert oracle.step == batches
    assert np.array_equal(np.concatenate([table for table, _ in found]), expected)
    for _, dropped in found:
        assert all(count <= oracle.dropped[rank] for rank, count in dropped.items())


def test_a_push_returns_when_its_rows_have_arrived() -> None:
    """The server of the rows is not started before the push has found that it waits."""
    optimizer = RowOptimizer(WIDTH, "sgd", RATE)

    def work(transport: Transport) -> None:
        rank, bounds = transport.rank, [0, 0, ROWS]
        block = HeldBlock(whole_table(optimizer)[: ROWS * rank].copy(), optimizer)
        server = RowServer(transport, {"rows": block}, bound=0, trainers=[1], patience=0.05 if rank == 0 else 20)
        access = HeldRows(RowClient(server, bounds))
        if rank == 0:
            server.start()
            with pytest.raises(HostError, match="sent nothing"):
                access.apply_pooled(batch(0, 0), bag_gradient(0, 0), 0)
            server.patience = 20
        transport.barrier()
        if rank == 1:
            server.start()
        access.client.close()

    run_logical(2, work, patience=20)


def test_a_held_block_refuses_what_cannot_be() -> None:
    optimizer = RowOptimizer(WIDTH, "sgd", 1.0)
    block = HeldBlock(whole_table(optimizer), optimizer)
    two, ones = np.array([2, 5]), np.ones((2, WIDTH), np.float32)
    block.push(1, 0, two, ones, True)
    with pytest.raises(InputError, match="Rank 1 pushed twice in step 0"):
        block.push(1, 0, two, ones, True)
    with pytest.raises(InputError, match="Step 1 was decided where step 0 was to be"):
        block.accept(1, [1])
    for slots, values, is_delta, said in (
        (two[::-1], ones, True, "must be ascending"),
        (two, ones[:1], True, "A push of 2 rows has shape"),
        (two, ones, False, "takes gradients, not values"),
    ):
        with pytest.raises(InputError, match=said):
            block.push(0, 0, slots, values, is_delta)
    with pytest.raises(InputError, match="Operation 7"):
        block.call(7, 0, [])
    block.push(0, 0, two, 8 * ones, True)
    block.accept(0, [1])
    block.push(2, 0, two, 32 * ones, True)  # late
    block.accept(1, [])
    assert np.array_equal(block.table[two], whole_table(optimizer)[two] - 1) and block.dropped == {0: 1, 2: 1}
    assert block.version_B.sum() == 2
