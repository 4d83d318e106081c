"""Gradients of trainers meet: all at every step, the first M of N, within a bound of staleness, or as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.cluster.counters import Counters
from any2vec.cluster.message import Part, overhead
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.errors import FormatError, HostError, InputError, JobError
from any2vec.sync.dense import LEFT_OUT, DenseAgreement
from any2vec.sync.first_gradients import FirstGradients
from any2vec.sync.gradient_rule import ACCEPTED, DROPPED, UNKNOWN
from any2vec.sync.served_gradients import ServedGradients, as_they_come, first_of
from any2vec.sync.summed_gradients import SummedGradients
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.clocked_rows import ClockedRows
from any2vec.tables.held_block import HeldBlock
from any2vec.tables.held_rows import HeldRows, HeldRowsTold
from any2vec.tables.remote import RowClient
from any2vec.tables.replica import Replica
from any2vec.tables.row_optimiser import RowOptimiser
from any2vec.tables.server import RowServer
from any2vec.tables.trained_block import TrainedBlock

SIZE = 11
RATE = 0.25  # a power of two: steps of whole numbers are exact
KINDS = ["sgd", "adagrad", "adam"]


def start_values() -> np.ndarray:
    return np.arange(SIZE, dtype=np.float32) - 4


def gradient(rank: int, index: int) -> np.ndarray:
    """Whole numbers, that of each trainer and batch another."""
    return np.random.default_rng((rank, index)).integers(-99, 99, SIZE).astype(np.float32)


def rough(rank: int, index: int) -> np.ndarray:
    """Floats whose sum depends on its order."""
    return (np.random.default_rng((rank, index)).normal(size=SIZE) * 10.0 ** (index % 3)).astype(np.float32)


def train(agreement: DenseAgreement, rank: int, batches: range, make: Callable[[int, int], np.ndarray]) -> list[int]:
    """The steps of a trainer's batches."""
    steps = []
    for index in batches:
        steps.append(agreement.begin(0, index))
        if steps[-1] != LEFT_OUT:
            agreement.apply(0, steps[-1], make(rank, index))
    return steps


def stepped(kind: Any, sums: Sequence[np.ndarray]) -> Replica:
    """A replica that has taken these gradients."""
    replica = Replica(start_values(), kind, RATE)
    for sum_Q in sums:
        replica.step(sum_Q)
    return replica


def summed(counts: Sequence[int], make: Callable[[int, int], np.ndarray], first: int = 0) -> list[np.ndarray]:
    """By step, the sum in rank order over the trainers that still have a batch."""
    sums = []
    for index in range(first, first + max(counts)):
        total = np.zeros(SIZE, np.float32)
        for rank, count in enumerate(counts):
            if index < first + count:
                total = total + make(rank, index)
        sums.append(total)
    return sums


def bsp(transport: Transport, trainers: int, kind: Any = "sgd") -> SummedGradients:
    return SummedGradients(transport, Replica(start_values(), kind, RATE), range(trainers))


def served(
    transport: Transport, trainers: int, servers: Sequence[int], how: str, number: int | None = None, kind: Any = "sgd",
    told: Any = None, **options: Any,
) -> ServedGradients:  # fmt: skip
    """Only the first trainer's replica has the values to start from."""
    replica = Replica(start_values() if transport.rank == 0 else np.zeros(SIZE, np.float32), kind, RATE)
    names = list(range(trainers))
    rule = first_of(names, number or trainers, told) if how == "m-of-n" else as_they_come(names, number)
    return ServedGradients(transport, replica, names, servers, rule, how != "async", **options)


def merged(facts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Facts of all hosts, added up."""
    total: dict[str, Any] = {}
    for found in facts:
        for name, value in found.items():
            if isinstance(value, dict):
                total[name] = {**total.get(name, {}), **value}
            else:
                total[name] = total.get(name, 0) + value
    return total


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
        agreement.finish()
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
        agreement.finish()
        return agreement.replica, agreement.model(), agreement.facts()

    expected = stepped(kind, summed(counts, rough))
    found = run_logical(len(counts), work, patience=20)
    for replica, _, _ in found:
        assert np.array_equal(replica.value, expected.value) and replica.count == max(counts)
        assert all(np.array_equal(replica.state[name], expected.state[name]) for name in expected.state)
    assert [model is not None for _, model, _ in found] == [True] + [False] * (len(counts) - 1)
    assert merged([facts for _, _, facts in found])["steps"] == max(counts)


@pytest.mark.parametrize("how", ["bsp", "m-of-n"])
def test_trainers_settle_after_different_numbers_of_batches(how: str) -> None:
    """Three times; the numbers of their batches go on, and steps are those of all together."""
    rounds = [(2, 3, 1), (3, 2, 2), (0, 1, 2)]

    def work(transport: Transport) -> tuple[np.ndarray, list[np.ndarray]]:
        rank = transport.rank
        agreement: DenseAgreement = bsp(transport, 3) if how == "bsp" else served(transport, 3, [3], "m-of-n")
        agreement.start()
        done, seen = 0, []
        for number, counts in enumerate(rounds):
            passed = sum(max(before) for before in rounds[:number])
            for place in range(counts[rank]):
                step = agreement.begin(0, done + place)
                assert step == passed + place
                agreement.apply(0, step, rough(rank, step))
            done += counts[rank]
            agreement.settle()
            seen.append(agreement.replica.value.copy())  # type: ignore[attr-defined]
        agreement.finish()
        return agreement.replica.value, seen  # type: ignore[attr-defined]

    def host(transport: Transport) -> Any:
        if transport.rank < 3:
            return work(transport)
        agreement = served(transport, 3, [3], "m-of-n")
        agreement.start()
        states = []
        for _ in rounds:
            agreement.settle()
            states.append(agreement.memory["value"])
            transport.recv(0, channel="script")
        agreement.finish()
        return states

    def trainer(transport: Transport) -> Any:
        return host(transport)

    sums, passed, expected = [], 0, []
    for counts in rounds:
        sums += summed(counts, rough, passed)
        passed += max(counts)
        expected.append(stepped("sgd", sums).value)

    def with_word(transport: Transport) -> Any:
        if transport.rank == 0 and how == "m-of-n":
            for _ in rounds:
                transport.send(3, (), "go", "script")
        return trainer(transport)

    found = run_logical(3 if how == "bsp" else 4, with_word, patience=20)
    for value, seen in found[:3]:
        assert np.array_equal(value, expected[-1])
        assert all(np.array_equal(one, other) for one, other in zip(seen, expected, strict=True))


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
            counted.append(_kinds(transport.counters))
            agreement.apply(0, agreement.begin(0, index), gradient(transport.rank, index))
            transport.barrier()
        return counted

    barrier = [2 * (trainers - 1) if rank == 0 else 2 for rank in range(trainers)]
    for rank, ((dense, control), (dense_2, control_2)) in enumerate(run_logical(trainers, work, patience=20)):
        own = SIZE * (rank + 1) // trainers - SIZE * rank // trainers
        assert dense_2 - dense == 4 * (SIZE - own + (trainers - 1) * own)
        messages = (trainers - 1) * (overhead(2) + 1 + overhead(1))
        assert control_2 - control == messages + barrier[rank] // 2 * overhead(0)


def _kinds(counters: Counters) -> tuple[int, int]:
    kinds = counters.bytes_by_kind()
    return kinds["dense"], kinds["control"]


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

    def tell(self, step: int, trainers: Sequence[int]) -> None:
        assert step == len(self.steps)
        self.steps.append(list(trainers))

    def settle(self) -> None:
        """Nothing is on its way."""


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
        agreement.finish()
        return agreement.facts(), agreement.replica.value

    def conductor(transport: Transport) -> tuple[dict[str, Any], np.ndarray]:
        agreement = served(transport, trainers, [trainers], "m-of-n", needed, told=noted)
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
        agreement.finish()
        return agreement.facts(), agreement.memory["value"]

    def host(transport: Transport) -> Any:
        return trainer(transport) if transport.rank < trainers else conductor(transport)

    found = run_logical(trainers + 1, host, patience=20)
    return oracle, found, noted


def check(oracle: Oracle, found: list[Any], noted: Noted) -> None:
    assert oracle.gave == {}
    facts = merged([facts for facts, _ in found])
    for name, counts in (("accepted", oracle.accepted), ("dropped", oracle.dropped), ("left_out", oracle.left_out)):
        told = facts.get(name, {})
        assert [told.get(str(rank), 0) for rank in range(oracle.trainers)] == counts
    assert facts["steps"] == oracle.step and noted.steps == oracle.counted
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
    facts = merged([facts for facts, _ in found])
    assert facts["examples_dropped"] == 100 + 101 + 102  # of trainer 2 batches 0 and 1, of trainer 1 batch 2


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
        elif transport.rank < 2:
            transport.recv(2, channel="script")
            assert train(agreement, transport.rank, range(40), gradient) == list(range(40))
            transport.send(2, (), "done", "script")
        agreement.finish()
        return agreement.facts() | {"value": agreement.replica.value} if transport.rank < 3 else agreement.facts()

    found = run_logical(4, work, patience=20)
    expected = start_values()
    for step in range(40):
        expected -= RATE * np.float32(1.5) * (gradient(0, step) + gradient(1, step))
    assert all(np.array_equal(facts.pop("value"), expected) for facts in found[:3])
    facts = merged(found)
    assert facts["steps"] == 40 and facts["accepted"] == {"0": 40, "1": 40, "2": 0}
    assert facts["dropped"] == {"0": 0, "1": 0, "2": 1} and facts["left_out"] == {"0": 0, "1": 0, "2": 39}
    assert facts["examples_dropped"] == 400 and facts["wait_seconds"] >= 0


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
        agreement.finish()
        return agreement.replica.value, agreement.model()

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


def whole_table(optimiser: RowOptimiser) -> np.ndarray:
    table_VC = np.zeros((ROWS, optimiser.num_columns), np.float32)
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


def held_servers(
    transport: Transport, trainers: int, needed: int, center: int, optimiser: RowOptimiser
) -> tuple[HeldBlock, RowServer, list[int]]:
    """Two hosts own the rows, those behind the trainers; the block is empty elsewhere."""
    bounds = [0] * (trainers + 1) + [ROWS // 2] + [ROWS] * (transport.hosts - trainers - 1)
    low, high = bounds[transport.rank : transport.rank + 2]
    block = HeldBlock(whole_table(optimiser)[low:high].copy(), optimiser, trainers / needed)
    server = RowServer(transport, {"rows": block}, bound=0, trainers=[center])
    block.applied = partial(server.tick, trainer=center)
    server.start()
    return block, server, bounds


def row_sum(
    optimiser: RowOptimiser, table_VC: np.ndarray, pushes: Sequence[tuple[BatchRows, np.ndarray]], scale: float
) -> None:
    """One step by the sum of the pushes in their order, row by row, as plainly as it can be said."""
    total: dict[int, np.ndarray] = {}
    for rows, gradient_PW in pushes:
        for row, own in zip(rows.row_U.tolist(), rows.gradients(gradient_PW), strict=True):
            total[row] = total[row] + own if row in total else own
    slot_U = np.array(sorted(total), np.int64)
    if len(slot_U):
        optimiser.step(table_VC, slot_U, np.stack([total[row] for row in slot_U.tolist()]) * np.float32(scale))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_n_of_n_are_those_of_one_table(kind: Any) -> None:
    """Trainers with 4, 2 and 5 batches; what each reads is the table after the steps before."""
    counts, optimiser = (4, 2, 5), RowOptimiser(WIDTH, kind, RATE)
    trainers, center = 3, 5
    expected, tables = whole_table(optimiser), []
    for index in range(5):
        tables.append(expected.copy())
        pushes = [(batch(r, index), bag_gradient(r, index, False)) for r, count in enumerate(counts) if index < count]
        row_sum(optimiser, expected, pushes, 1.0)

    def work(transport: Transport) -> np.ndarray:
        block, server, bounds = held_servers(transport, trainers, trainers, center, optimiser)
        told = HeldRowsTold(RowClient(server, bounds, lane=9))
        client = RowClient(server, bounds)
        agreement, access = served(transport, trainers, [center], "m-of-n", told=told), HeldRows(client)
        agreement.start()
        if transport.rank < trainers:
            for index in range(counts[transport.rank]):
                step, rows = agreement.begin(0, index), batch(transport.rank, index)
                pooled = access.pooled(rows, step)
                assert np.array_equal(pooled, rows.pool(tables[step][rows.row_U], WIDTH))
                access.push(rows, step, bag_gradient(transport.rank, index, False))
                agreement.apply(0, step, gradient(transport.rank, index))
            access.finish()
        agreement.finish()
        client.leave()
        return block.table

    found = run_logical(6, work, patience=20)
    assert np.array_equal(np.concatenate(found), expected)


@given(st.data())
@settings(deadline=None, max_examples=25)
def test_rows_count_with_the_gradients_of_their_step(data: st.DataObject) -> None:
    """3 of 4 trainers, any schedule: one conductor says who begins, pushes, or gives; rows are the oracle's."""
    trainers, needed, batches, center, conductor = 4, 3, 4, 6, 7
    optimiser = RowOptimiser(WIDTH, "sgd", RATE)
    script = drawn(data, Oracle(trainers, needed, batches), 1)
    oracle, expected = Oracle(trainers, needed, batches), whole_table(optimiser)
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
            access.pooled(rows, step)
            access.push(rows, step, bag_gradient(transport.rank, index))
            transport.send(conductor, (), "told", "told")
            transport.recv(conductor, channel="script")
            agreement.apply(0, step, gradient(transport.rank, index))
            transport.send(conductor, (), "told", "told")
        access.finish()

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
                    row_sum(optimiser, expected, pushes, trainers / needed)
            transport.send(rank, (), "go", "script")
            transport.recv(rank, channel="told")

    def work(transport: Transport) -> tuple[np.ndarray, dict[int, int]]:
        block, server, bounds = held_servers(transport, trainers, needed, center, optimiser)
        client = RowClient(server, bounds)
        if transport.rank == conductor:
            conduct_all(transport)
        else:
            told = HeldRowsTold(RowClient(server, bounds, lane=9))
            agreement = served(transport, trainers, [center], "m-of-n", needed, told=told)
            agreement.start()
            if transport.rank < trainers:
                trainer(transport, HeldRows(client), agreement)
            agreement.finish()
        client.leave()
        return block.table, dict(block.dropped)

    found = run_logical(8, work, patience=20)
    assert oracle.step == batches
    assert np.array_equal(np.concatenate([table for table, _ in found]), expected)
    for _, dropped in found:
        assert all(count <= oracle.dropped[rank] for rank, count in dropped.items())


def test_a_held_block_refuses_what_cannot_be() -> None:
    optimiser = RowOptimiser(WIDTH, "sgd", 1.0)
    block = HeldBlock(whole_table(optimiser), optimiser)
    two, ones = np.array([2, 5]), np.ones((2, WIDTH), np.float32)
    block.push(1, 0, two, ones, True)
    with pytest.raises(InputError, match="Rank 1 pushed twice in step 0"):
        block.push(1, 0, two, ones, True)
    with pytest.raises(InputError, match="Step 1 was decided where step 0 was to be"):
        block.accept(1, [1])
    for slots, values, is_delta in ((two[::-1], ones, True), (two, ones[:1], True), (two, ones, False)):
        with pytest.raises(InputError, match="takes those of 2 ascending rows"):
            block.push(0, 0, slots, values, is_delta)
    with pytest.raises(InputError, match="Operation 7"):
        block.call(7, 0, [])
    block.push(0, 0, two, 8 * ones, True)
    block.accept(0, [1])
    block.push(2, 0, two, 32 * ones, True)  # late
    block.accept(1, [])
    assert np.array_equal(block.table[two], whole_table(optimiser)[two] - 1) and block.dropped == {0: 1, 2: 1}
    assert block.version_B.sum() == 2


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
        agreement.finish()
        return agreement.replica.value, agreement.facts()

    found = run_logical(max(3, *[rank + 1 for rank in servers]), work, patience=20)
    total = sum(gradient(rank, index) for rank in range(3) for index in range(batches))
    assert all(np.array_equal(value, start_values() - RATE * total) for value, _ in found[:3])
    facts = merged([facts for _, facts in found])
    assert facts["steps"] == 3 * batches == sum(facts["overtaken"].values())


def each(work: Callable[[int], None], workers: int) -> None:
    """work(number) on so many threads."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(workers) as pool:
        for future in [pool.submit(work, number) for number in range(workers)]:
            future.result()


def clocked(transport: Transport, trainers: int, bound: int | None) -> tuple[RowClient, ClockedRows]:
    """A row for each trainer, on the last host."""
    optimiser = RowOptimiser(1, "sgd", 1.0)
    bounds = [0] * transport.hosts + [trainers]
    block = TrainedBlock(np.zeros((trainers if transport.rank == transport.hosts - 1 else 0, 1), np.float32), optimiser)
    server = RowServer(transport, {"rows": block}, bound=bound, trainers=range(trainers))
    server.start()
    client = RowClient(server, bounds)
    return client, ClockedRows(client)


@given(st.integers(0, 3), st.sampled_from([[3], [0], [2, 3]]), st.data())
@settings(deadline=None, max_examples=25)
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
                check(rank, number, place, access.pooled(every, step)[:, 0])
                access.push(every, step, own_PW)
                agreement.apply(0, step, own_Q)
                index += 1
            if number == 0:
                access.flush()
                agreement.settle()
        access.finish()

    def work(transport: Transport) -> tuple[np.ndarray, dict[str, Any], dict[str, Any]]:
        client, access = clocked(transport, trainers, bound)
        agreement = served(transport, trainers, servers, "bounded", bound)
        agreement.start()
        if transport.rank < trainers:
            trainer(transport, agreement, access)
        else:
            agreement.settle()
        agreement.finish()
        client.leave()
        return agreement.replica.value, agreement.facts(), client.server.facts()

    found = run_logical(trainers + 1, work, patience=20)
    counts = [sum(len(round_plan[rank]) for round_plan in plan) for rank in range(trainers)]
    for value, _, _ in found[:trainers]:
        assert (value - start_values())[:trainers].tolist() == counts
    facts = merged([facts for _, facts, _ in found])
    assert facts["steps"] == sum(counts) == sum(facts["staleness"].values())
    assert all(int(late) <= bound for late in facts["staleness"])
    assert all(int(late) <= bound for late in found[-1][2]["staleness"])


@pytest.mark.parametrize("servers", [[2], [0], [2, 3], [0, 1, 2]])
@pytest.mark.parametrize("how", ["async", "bounded"])
def test_bytes_of_a_served_step(servers: list[int], how: str) -> None:
    """A trainer's gradient leaves it but for what its own host serves, and the parameters come."""

    def work(transport: Transport) -> list[tuple[int, int]]:
        agreement, counted = served(transport, 2, servers, how, 1 if how == "bounded" else None), []
        agreement.start()
        if transport.rank < 2:
            for index in range(2):
                counted.append((_kinds(transport.counters)[0], transport.counters.messages_sent["give"]))
                agreement.apply(0, agreement.begin(0, index), gradient(transport.rank, index))
            counted.append((_kinds(transport.counters)[0], transport.counters.messages_sent["give"]))
        agreement.finish()
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
                agreement.recall(memories)
            agreement.start()
            for index in batches:
                if transport.rank == index % 2 or how == "m-of-n":
                    agreement.apply(0, agreement.begin(0, index), gradient(transport.rank, index))
                if how == "async":
                    agreement.settle()  # one after the other
            if how == "m-of-n":
                agreement.settle()
            memory = agreement.memory
            agreement.finish()
            return agreement.replica.value, memory

        def host(transport: Transport) -> tuple[np.ndarray, dict[str, np.ndarray]]:
            if transport.rank < 2:
                return work(transport)
            agreement = served(transport, 2, servers, how, kind=kind)
            if memories:
                agreement.recall(memories)
            agreement.start()
            for _ in batches if how == "async" else [0]:
                agreement.settle()
            agreement.finish()
            return agreement.replica.value, agreement.memory

        return run_logical(4, host, patience=20)

    first = part(range(3), layout[0], [], start_values())
    second = part(range(3, 7), layout[1], [memory for _, memory in first], first[0][0])
    whole = part(range(7), layout[0], [], start_values())
    assert np.array_equal(second[0][0], whole[0][0]) and not np.array_equal(first[0][0], whole[0][0])


def test_memories_of_another_model_are_refused() -> None:
    def work(transport: Transport) -> None:
        agreement = served(transport, 1, [0], "async", kind="adam")
        agreement.recall([{"value": np.zeros(SIZE, np.float32), "count": np.array([3])}])

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
                agreement.finish()
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
            with pytest.raises(InputError, match="rank 0 says: Rank 1 sent 1 arrays; give has one, of 11 parameters"):
                agreement.begin(0, 0)
            assert agreement._hear_all(0) == 0
            transport.send(0, [Part("control", np.array([99]))], "nonsense", "gradients?")
            with pytest.raises(InputError, match="are no request for dense parameters"):
                agreement._hear_all(0)
        agreement.finish()

    run_logical(2, work, patience=20)


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
                agreement.server.join(0.05)
            agreement.server.patience = 20
        transport.barrier()
        agreement.finish()

    run_logical(2, work, patience=20)
