"""HET: messages, the owner's clock, bound 0 against no cache, interleavings against the bound, threads, bytes."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from benchmarks.clicks.ideal_cache import hottest, ideal_traffic
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.cluster.message import Part
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.errors import HostError, InputError, MessageError
from any2vec.kernels.cache.cached_rows import add_changes, read_cached, take_pending
from any2vec.kernels.common.varint import read_varints, varint_size, write_varints
from any2vec.plan.lookahead.oracle import NEVER
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.cache.versioned_cache import BatchExchange, VersionedCache
from any2vec.tables.cache.versioned_rows import VersionedRows
from any2vec.tables.freshness import Age, allowed_updates
from any2vec.tables.registry import RESIDENCIES
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.row_table import MemoryRows
from any2vec.tables.server.blocks.versioned_block import EXCHANGE, VersionedBlock
from any2vec.tables.server.client import RowClient
from any2vec.tables.server.server import RowServer
from any2vec.tables.server.versioned_message import (
    UNKNOWN,
    Answer,
    RowQuery,
    pack_answer,
    pack_query,
    unpack_answer,
    unpack_query,
)
from naive.rows import cached_rows as naive_rows
from naive.text import varint as naive_varint

ROWS, WIDTH = 40, 3
SGD, ADAGRAD = RowOptimizer(WIDTH, "sgd", rate=1.0), RowOptimizer(WIDTH, "adagrad", rate=0.3)


def ids_of(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def table_of(optimizer: RowOptimizer, rows: int = ROWS, seed: int = 0) -> np.ndarray:
    table = np.random.default_rng(seed).normal(size=(rows, optimizer.num_columns)).astype(np.float32)
    table[:, optimizer.width :] = 0
    return table


class Direct:
    """What VersionedRows needs of a RowClient, for blocks of this process; notes what went over."""

    def __init__(self, blocks: Sequence[VersionedBlock], rank: int = -1) -> None:
        self.blocks = blocks
        self.bounds = np.cumsum([0, *(block.num_rows for block in blocks)])
        self.transport = type("End", (), {"rank": rank})
        self.sent: list[tuple[list[Part], list[Part]]] = []

    def call(self, name: str, operation: int, outgoing: dict[int, list[Part]]) -> dict[int, tuple[Part, ...]]:
        found = {host: tuple(self.blocks[host].call(operation, 0, parts)) for host, parts in outgoing.items()}
        self.sent += [(parts, list(found[host])) for host, parts in outgoing.items()]
        return found


def blocks_of(optimizer: RowOptimizer, cuts: Sequence[int] = (0, ROWS), is_fresh: bool = False) -> list[VersionedBlock]:
    table = table_of(optimizer, cuts[-1])
    return [VersionedBlock(table[low:high].copy(), optimizer, is_fresh) for low, high in itertools.pairwise(cuts)]


POLICIES = RESIDENCIES.names()


class Guesses:
    """In the place of a `NextUseOracle`: next uses that are made up, for no result may depend on them."""

    def __init__(self) -> None:
        self.count = 0

    def next_uses(self, id_U: np.ndarray, expect: Callable[[np.ndarray, int], None]) -> np.ndarray:
        self.count += 1
        expect(np.arange(self.count % 3), self.count)
        step_U = self.count + 1 + (7 * id_U + self.count) % 5
        return np.where(step_U % 4, step_U, NEVER)


def guesses_for(policy: str) -> Any:
    return Guesses() if RESIDENCIES.named(policy).needs_next_uses else None


def worker(blocks: Sequence[VersionedBlock], capacity: int, *bounds: int, **options: Any) -> VersionedRows:
    if options.get("policy") == "static":
        options["kept"] = np.arange(capacity)
    options["oracle"] = guesses_for(options.get("policy", "lru"))
    return VersionedRows(VersionedCache(capacity, blocks[0].optimizer, *bounds, **options), Direct(blocks), "t")  # type: ignore[arg-type]


def batch_of(rng: np.random.Generator, bags: int = 6, rows: int = ROWS) -> BatchRows:
    """Bags of 0 to 3 ids, small ones more often; ids come again."""
    start_P1 = np.concatenate([[0], np.cumsum(rng.integers(0, 4, bags))])
    return BatchRows.of((rows * rng.random(start_P1[-1]) ** 2).astype(np.int64), start_P1)


# ---------------------------------------------------------------------------------------------------------- bytes


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 300)))
def test_varints_are_those_of_the_plain_twin(numbers: list[int]) -> None:
    array = np.array(numbers, np.int64)
    packed, found = np.empty(varint_size(array), np.uint8), np.empty_like(array)
    write_varints(array, packed)
    assert packed.tobytes() == naive_varint.write(numbers)
    assert read_varints(packed, found) and np.array_equal(found, array)
    if len(packed):
        assert not read_varints(packed[:-1], found)
    assert not read_varints(np.append(packed, np.uint8(0)), found)


def test_an_endless_number_is_none() -> None:
    for size in (3, 12):
        packed = np.full(size, 255, np.uint8)
        assert not read_varints(packed, np.empty(1, np.int64))
    assert not read_varints(np.append(packed, np.uint8(0)), np.empty(1, np.int64))


def query_of(**changes: Any) -> RowQuery:
    legal = {
        "pull_bound": 7, "push_N": ids_of(1, 1, 5), "updates_N": ids_of(1, 2, 300), "ask_A": ids_of(0, 5, 9),
        "change_NC": np.arange(9, dtype=np.float32).reshape(3, 3), "known_A": ids_of(UNKNOWN, 0, 1000),
    }  # fmt: skip
    return RowQuery(**(legal | changes))  # type: ignore[arg-type]


def test_queries_and_answers_come_out_as_they_went_in() -> None:
    for makes_fresh, spares_young in itertools.product((False, True), repeat=2):
        query = query_of(makes_fresh=makes_fresh, spares_young=spares_young)
        for old, new in zip(query, unpack_query(pack_query(query), 10, 3), strict=True):
            assert np.array_equal(old, new)
    answer = Answer(np.arange(11) % 3 == 0, ids_of(1, 2, 3, 10**9), np.ones((4, 3), np.float32))
    for old, new in zip(answer, unpack_answer(pack_answer(answer), 11, 3), strict=True):
        assert np.array_equal(old, new)


@pytest.mark.parametrize(
    "changes",
    [
        {"push_N": ids_of(1, 1, 10)}, {"ask_A": ids_of(0, 5, 10)}, {"ask_A": ids_of(0, 5, 5)},
        {"updates_N": ids_of(1, 0, 3)}, {"change_NC": np.ones((3, 4), np.float32)}, {"pull_bound": -1},
        {"change_NC": np.ones((3, 3))}, {"change_NC": np.ones((2, 3), np.float32)},
    ],
)  # fmt: skip
def test_a_query_that_does_not_fit_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(MessageError):
        unpack_query(pack_query(query_of(**changes)), 10, 3)


def test_damaged_parts_are_refused() -> None:
    parts = pack_query(query_of())
    for wrong in (
        parts[:2], [], [parts[1], *parts[1:]],
        [parts[0], Part("ids", parts[1].array[:-1]), parts[2]],
        [parts[0], Part("ids", parts[1].array.astype(np.int64)), parts[2]],
        [Part("control", np.array([0, 2**40, 2**40, 0])), *parts[1:]],
        [parts[0], Part("ids", np.full(200, 255, np.uint8)), parts[2]],
    ):  # fmt: skip
        with pytest.raises(MessageError):
            unpack_query(wrong, 10, 3)
    answer = pack_answer(Answer(np.ones(3, bool), ids_of(1, 2, 3), np.ones((3, 3), np.float32)))
    for parts, asked in ((answer, 2), (answer, 20), (answer[:1], 3), ([answer[0], Part("rows", np.ones((3, 3)))], 3)):
        with pytest.raises(MessageError):
            unpack_answer(parts, asked, 3)


# ---------------------------------------------------------------------------------------------------------- kernels


def test_cached_rows_are_those_of_the_plain_twin() -> None:
    """Sums in float32 and in turn; values keep to the bound, state does not."""
    rng = np.random.default_rng(3)
    base, pending = (rng.normal(scale=9e3, size=(6, 4)).astype(np.float32) for _ in range(2))
    slots, change = ids_of(4, 1, 4), rng.normal(scale=9e3, size=(3, 4)).astype(np.float32)
    expected = base.copy()
    for slot, row in zip(slots, change, strict=True):
        expected[slot] = naive_rows.add(expected[slot], row, 3)
    table = base.copy()
    add_changes(table, slots, change, 3)
    assert np.array_equal(table, expected)
    base[0] = [9e3, 9e3, 9e3, 3e4]
    add_changes(base, ids_of(0), np.full((1, 4), 2e4, np.float32), 3)
    assert base[0].tolist() == [1e4, 1e4, 1e4, 5e4]
    row_NC = np.full((3, 4), 7, np.float32)
    read_cached(base, pending, ids_of(2, -1, 0), 3, row_NC)
    sums = [naive_rows.add(base[slot], pending[slot], 3) for slot in range(6)]
    assert np.array_equal(row_NC, np.stack([sums[2], np.full(4, 7, np.float32), sums[0]]))
    taken, before, left = np.empty((2, 4), np.float32), base.copy(), pending.copy()
    take_pending(base, pending, ids_of(5, 2), 3, taken)
    assert np.array_equal(taken, left[[5, 2]]) and np.array_equal(base[[5, 2]], np.stack([sums[5], sums[2]]))
    assert not pending[[5, 2]].any() and np.array_equal(base[[0, 1, 3, 4]], before[[0, 1, 3, 4]])


# ---------------------------------------------------------------------------------------------------------- the owner


def test_the_owner_takes_pushes_first_and_counts_updates_not_occurrences() -> None:
    block = VersionedBlock(np.zeros((10, 3), np.float32), SGD, is_fresh=True)
    answer = block.exchange(query_of(pull_bound=299))
    assert block.version_B.tolist() == [0, 3, 0, 0, 0, 300, 0, 0, 0, 0]
    assert np.array_equal(block.table[1], [0 + 3, 1 + 4, 2 + 5]) and np.array_equal(block.table[5], [6, 7, 8])
    assert answer.is_sent_A.tolist() == [True, True, False]  # unknown; 300 behind; ahead
    assert answer.version_S.tolist() == [0, 300] and np.array_equal(answer.row_SC, block.table[[0, 5]])
    assert not block.exchange(query_of(pull_bound=180, known_A=ids_of(UNKNOWN, 420, 1000))).is_sent_A[1]
    assert block.metrics() == {"staleness": {"0": 2, "180": 1}}
    young = VersionedBlock(np.zeros((10, 3), np.float32), SGD, is_fresh=True)
    young.exchange(query_of(updates_N=ids_of(1, 2, 30)))
    late = {"pull_bound": 100, "push_N": ids_of(), "updates_N": ids_of(), "change_NC": np.empty((0, 3), np.float32)}
    for spares_young in (False, True):  # 25 of 30 updates are missing
        asked = query_of(**late, known_A=ids_of(UNKNOWN, 5, 1000), spares_young=spares_young)
        assert young.exchange(asked).is_sent_A.tolist() == [True, spares_young, False]


@pytest.mark.parametrize(
    ("bound", "version", "allowed"),
    [
        (0, 1000, 0),
        (7, 0, 7),
        (7, 1000, 7),
        (100, 0, 20),
        (100, 66, 20),
        (100, 200, 60),
        (100, 334, 100),
        (100, -1, 20),
    ],
)
def test_young_rows_may_miss_less_and_none_more_than_the_bound(bound: int, version: int, allowed: int) -> None:
    assert allowed_updates(ids_of(version), bound).tolist() == [allowed]


def test_young_rows_are_pushed_and_fetched_before_the_bound() -> None:
    """One row, two trainers in turn, bound 100: pushes hold 21 updates while the row is young, 101 when it is old; with
    HET's bound, which is the same for all rows, 101 from the first on."""
    for freshness, first in (("het-young", 21), ("het", 101)):
        sizes = push_sizes(freshness, 100, BatchRows.of(ids_of(3), ids_of(0, 1)), steps=600)
        assert sizes[0] == sizes[1] == first and sizes[-1] == 101 and sizes == sorted(sizes)


def test_updates_are_counted_by_occurrence_where_that_is_asked_for() -> None:
    """Row 3 stands in each batch four times, in three bags, row 5 once: with bound 10 it is sent after three batches,
    not after eleven, and the owner's clock goes by occurrences. Rows that pass by count likewise."""
    rows = BatchRows.of(ids_of(3, 5, 3, 3, 3), ids_of(0, 2, 4, 5))
    assert push_sizes("het-occurrences", 10, rows, steps=30) == [12] * 18
    assert push_sizes("het", 10, rows, steps=30) == [11] * 4
    blocks = blocks_of(SGD, is_fresh=True)
    access = worker(blocks, 0, 10, freshness="het-occurrences")
    for step in range(2):
        access.pool(rows, step)
        access.apply_pooled(rows, np.ones((3, WIDTH), np.float32), step)
    access.close()
    assert blocks[0].version_B[[3, 5]].tolist() == [8, 2] and access.metrics()["updates"] == 10


def test_occurrences_that_a_read_misses_are_within_the_bound() -> None:
    """Two trainers in turn, bags that hold ids again and again; each id that is trained is counted plainly beside them.
    Clocks and caches together hold every one, and no read misses more than the bound of what the owner has."""
    pull, push, rng, blocks = 6, 2, np.random.default_rng(11), blocks_of(SGD, is_fresh=True)
    workers = [worker(blocks, ROWS, pull, push, freshness="het-occurrences") for _ in range(2)]
    made, most = np.zeros(ROWS, np.int64), 0
    for step in range(300):
        rows, access = batch_of(rng, bags=9), workers[step % 2]
        access.pool(rows, step)
        kept = np.zeros(ROWS, np.int64)
        for cache in (one.cache for one in workers):
            has_row = cache.residency.owner_K >= 0
            np.add.at(kept, cache.residency.owner_K[has_row], cache.updates_K[has_row])
        assert np.array_equal(made, blocks[0].version_B + kept)
        known_U = access.cache.version_K[access._exchange.slot_U]  # type: ignore[union-attr]
        behind = int((blocks[0].version_B[rows.row_U] - known_U).max(initial=0))
        assert behind <= pull
        most = max(most, behind)
        access.apply_pooled(rows, np.ones((rows.num_bags, WIDTH), np.float32), step)
        np.add.at(made, rows.id_M, 1)
    assert most == pull


def push_sizes(freshness: str, bound: int, rows: BatchRows, steps: int) -> list[int]:
    """By how many updates the first of the rows had grown at its owner, each time that it had: two trainers in turn."""
    blocks = blocks_of(SGD, is_fresh=True)
    workers = [worker(blocks, ROWS, bound, freshness=freshness) for _ in range(2)]
    row, sizes, old = rows.row_U[0], [], 0
    for step in range(steps):
        for access in workers:
            access.pool(rows, step)
            access.apply_pooled(rows, np.ones((rows.num_bags, WIDTH), np.float32), step)
            sizes += [int(size) for size in [blocks[0].version_B[row] - old] if size]
            old = blocks[0].version_B[row]
    return sizes


def test_adagrad_reckons_with_squares_of_others_until_they_meet() -> None:
    """Gradients of 1: alone the sum of squares is 1, 2, 3 ...; with one other trainer it is 1, 3, 5 ... for the steps,
    and what is pushed is still this trainer's own part."""
    for others, sums in ((0, [1, 2, 3]), (1, [1, 3, 5]), (3, [1, 5, 9])):
        blocks = [VersionedBlock(np.zeros((4, WIDTH + 1), np.float32), ADAGRAD)]
        access = worker(blocks, 4, 50, others=others)
        rows = BatchRows.of(ids_of(2), ids_of(0, 1))
        for step in range(3):
            access.pool(rows, step)
            access.apply_pooled(rows, np.ones((1, WIDTH), np.float32), step)
        access.close()
        expected = -sum(ADAGRAD.rate / np.sqrt(total) for total in sums)
        assert np.allclose(blocks[0].table[2], [*[expected] * WIDTH, 3], rtol=1e-5)


def test_the_owner_still_trains_and_stores() -> None:
    block = VersionedBlock(np.zeros((4, 3), np.float32), SGD)
    block.push(0, 0, ids_of(2), np.ones((1, 3), np.float32), False)
    with pytest.raises(InputError, match="Operation 77"):
        block.call(77, 0, [])
    with pytest.raises(MessageError):
        block.call(EXCHANGE, 0, [])
    assert block.version_B.tolist() == [1, 1, 2, 1]


# ---------------------------------------------------------------------------------------------------------- bound 0


def train(
    optimizer: RowOptimizer, capacity: int, bound: int, trainers: int = 2, steps: int = 60, is_flushed: bool = False,
    is_fresh: bool = False, **options: Any,
) -> tuple[np.ndarray, list[np.ndarray]]:  # fmt: skip
    """Trainers take turns; (the table in the end, the sums that each read)."""
    blocks = blocks_of(optimizer, (0, 17, ROWS), is_fresh)
    workers = [worker(blocks, capacity, bound, **options) for _ in range(trainers)]
    rng, read = np.random.default_rng(5), []
    for step in range(steps):
        rows, access = batch_of(rng), workers[step % trainers]
        read.append(access.pool(rows, step))
        access.apply_pooled(rows, np.tanh(read[-1]) + rng.normal(size=read[-1].shape).astype(np.float32), step)
        if is_flushed:
            access.flush()
    for access in workers:
        access.close()
    return np.concatenate([block.table for block in blocks]), read


def train_locally(optimizer: RowOptimizer, steps: int = 60) -> np.ndarray:
    """The same batches in the table itself."""
    access, rng = MemoryRows(table_of(optimizer), optimizer), np.random.default_rng(5)
    for step in range(steps):
        rows = batch_of(rng)
        sums = access.pool(rows, step)
        access.apply_pooled(rows, np.tanh(sums) + rng.normal(size=sums.shape).astype(np.float32), step)
    return access.table


@pytest.mark.parametrize("optimizer", [SGD, ADAGRAD], ids=["sgd", "adagrad"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("trainers", [1, 3])
def test_bound_0_is_no_cache_to_the_last_bit(optimizer: RowOptimizer, policy: str, trainers: int) -> None:
    """Whether all rows fit, few, or none: what is read, and the table."""
    table, read = train(optimizer, 0, 0, trainers)
    for capacity in (5, ROWS):
        other, other_read = train(optimizer, capacity, 0, trainers, policy=policy)
        assert np.array_equal(table, other)
        assert all(np.array_equal(one, two) for one, two in zip(read, other_read, strict=True))


@pytest.mark.parametrize("optimizer", [SGD, ADAGRAD], ids=["sgd", "adagrad"])
@pytest.mark.parametrize("capacity", [0, 5, ROWS])
def test_one_trainer_trains_as_in_the_table_itself(optimizer: RowOptimizer, capacity: int) -> None:
    """To rounding, at every bound: it reads what it has written. The same for two that flush after every step."""
    expected = train_locally(optimizer)
    for bound in (0, 3, 1000):
        assert np.allclose(train(optimizer, capacity, bound, trainers=1)[0], expected, rtol=1e-5, atol=2e-6)
    alternating = train(optimizer, capacity, 0, trainers=2, is_flushed=True)[0]
    assert np.allclose(alternating, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("capacity", [0, 5, ROWS])
def test_fresh_rows_that_are_made_are_those_that_would_be_sent(capacity: int) -> None:
    made: list[int] = []

    def fresh_rows(ids: np.ndarray) -> np.ndarray:
        made.extend(ids.tolist())
        return table_of(ADAGRAD)[ids]

    expected = train(ADAGRAD, capacity, 2)[0]
    assert np.array_equal(train(ADAGRAD, capacity, 2, is_fresh=True, fresh_rows=fresh_rows)[0], expected)
    assert ROWS / 2 < len(set(made)) < len(made)
    made.clear()
    assert np.array_equal(train(ADAGRAD, capacity, 2, is_fresh=False, fresh_rows=fresh_rows)[0], expected)
    assert not made, "the owner's rows were restored"


def test_two_trainers_with_a_bound_learn_something_else() -> None:
    """Or the tests above would pass whatever the bounds did."""
    assert not np.allclose(train(SGD, ROWS, 20)[0], train(SGD, ROWS, 0)[0], rtol=1e-3)


# ---------------------------------------------------------------------------------------------------------- the bound


class Lane:
    """One worker: idle, question on its way, answer on its way, reading; the scheduler moves it on."""

    def __init__(self, trainer: int, cache: VersionedCache) -> None:
        self.trainer, self.cache = trainer, cache
        self.state = "idle"
        self.exchange: BatchExchange
        self.answer: Answer
        self.at_owner: np.ndarray
        """updates that the owner had when it answered"""
        self.own: np.ndarray
        """updates of this trainer at that moment"""


def test_rows_are_read_as_long_as_they_are_young() -> None:
    """Of 40 batches that read the same rows every fifth asks the owner, and only then is another one's change seen."""
    blocks = blocks_of(SGD)
    access, other = worker(blocks, ROWS, 5, policy="lru", freshness="age"), worker(blocks, ROWS, 0, policy="lru")
    rows, asked, seen = BatchRows.of(ids_of(3, 4), ids_of(0, 1, 2)), [], []
    for step in range(40):
        before = len(access.client.sent)  # type: ignore[attr-defined]
        seen.append(float(access.pool(rows, step)[0, 0]))
        asked.append(len(access.client.sent) > before)  # type: ignore[attr-defined]
        access.apply_pooled(rows, np.zeros((2, WIDTH), np.float32), step)
        other.pool(rows, step)
        other.apply_pooled(rows, -np.ones((2, WIDTH), np.float32), step)
    assert 7 <= sum(asked) <= 9 and asked[0]
    assert len(set(seen)) == sum(asked)


@pytest.mark.parametrize("every", [1, 2, 5])
@pytest.mark.parametrize("bound", [0, 3])
def test_an_owner_lacks_no_change_that_is_older_than_the_bound(bound: int, every: int) -> None:
    """Of a cache by age: a row that only every so many batches use, and that is then fetched again, too."""
    blocks = blocks_of(SGD)
    access = worker(blocks, 8, bound, policy="lru", freshness="age")
    start, made = table_of(SGD)[:, 0], np.zeros((40, ROWS))
    for step in range(40):
        rows = BatchRows.of(ids_of(0 if step % every == 0 else 1 + step % 2), ids_of(0, 1))
        access.pool(rows, step)
        owed = made[: max(0, step - bound)].sum(axis=0)  # by the batches before the last `bound` ones
        assert ((blocks[0].table[:, 0] - start).round() >= owed).all()
        access.apply_pooled(rows, -np.ones((1, WIDTH), np.float32), step)
        made[step, rows.row_U] = 1


def test_a_bound_that_is_never_met_remembers_no_more_slots_than_there_are() -> None:
    """Or a cache by age whose rows give way again and again would grow for ever."""
    blocks = blocks_of(SGD)
    access = worker(blocks, 2, 1000, policy="lru", freshness="age")
    for step in range(200):
        rows = BatchRows.of(ids_of(step % ROWS), ids_of(0, 1))
        access.pool(rows, step)
        access.apply_pooled(rows, -np.ones((1, WIDTH), np.float32), step)
    freshness = access.cache.freshness
    assert isinstance(freshness, Age)
    assert sum(len(slot_N) for _, slot_N in freshness._dirty) <= 5
    access.close()
    assert np.array_equal((blocks[0].table - table_of(SGD)).round(), np.full((ROWS, WIDTH), 5))


def test_changes_of_a_cache_by_age_all_arrive() -> None:
    blocks = blocks_of(SGD, (0, 17, ROWS))
    workers = [worker(blocks, 7, 3, policy="lru", freshness="age") for _ in range(2)]
    rng, sums = np.random.default_rng(7), np.zeros(ROWS)
    for step in range(60):
        rows, access = batch_of(rng), workers[step % 2]
        access.pool(rows, step)
        access.apply_pooled(rows, -np.ones((rows.num_bags, WIDTH), np.float32), step)
        np.add.at(sums, rows.id_M, 1)
    for access in workers:
        access.close()
    table = np.concatenate([block.table for block in blocks])
    np.testing.assert_allclose(table[:, 0] - table_of(SGD)[:, 0], sums, atol=1e-3)


def test_a_policy_that_must_look_ahead_is_refused_where_nothing_does() -> None:
    with pytest.raises(InputError, match="must know which rows the batches to come use"):
        VersionedCache(5, SGD, 0, policy="belady")


class Cluster:
    """Trainers, their workers and one owner; messages arrive when the scheduler says so.

    An update of trainer t adds 1 to column t of a row, so a row says how many updates of whom are in it.
    """

    def __init__(
        self, trainers: int, lanes: int, capacity: int, pull: int, push: int, policy: str, makes_fresh: bool = False
    ) -> None:
        self.rows = 9
        self.pull, self.push, self.num_lanes = pull, push, lanes
        optimizer = RowOptimizer(trainers, "sgd", rate=1.0)
        self.block = VersionedBlock(np.full((self.rows, trainers), 100, np.float32), optimizer, is_fresh=True)
        self.makes_fresh = makes_fresh
        caches = [
            VersionedCache(
                capacity,
                optimizer,
                pull,
                push,
                policy,
                self.fresh_rows if makes_fresh else None,
                kept=np.arange(min(capacity, ROWS)) if policy == "static" else None,
                oracle=guesses_for(policy),
            )
            for _ in range(trainers)
        ]
        self.lanes = [Lane(trainer, cache) for trainer, cache in enumerate(caches) for _ in range(lanes)]
        for lane in self.lanes:
            lane.cache.join()
        self.answered: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
        """(trainer, message) -> the rows that it asked about, and the updates that the owner had when it answered"""
        self.done = np.zeros((self.rows, trainers), np.int64)
        """updates that have been made, wherever they are"""

    def fresh_rows(self, ids: np.ndarray) -> np.ndarray:
        return np.full((len(ids), self.done.shape[1]), 100, np.float32)

    def advance(self, lane: Lane, ids: np.ndarray) -> None:
        if lane.state == "idle":
            lane.exchange, lane.state = lane.cache.begin(ids), "asked"
        elif lane.state == "asked":
            exchange = lane.exchange
            lane.answer = self.block.exchange(
                RowQuery(
                    self.pull,
                    exchange.push_N,
                    exchange.updates_N,
                    exchange.change_NC,
                    exchange.ask_A,
                    exchange.known_A,
                    self.makes_fresh,
                )
            )
            self.check_owner(lane)
            lane.state = "answered"
        elif lane.state == "answered" and not lane.exchange.awaited & lane.cache._under_way:
            row_UC = lane.cache.end(lane.exchange, *lane.answer)
            if len(row_UC):
                self.check_read(lane, row_UC)
            lane.state = "reading"
        elif lane.state == "reading":
            change_UC = np.zeros((len(lane.exchange.id_U), self.done.shape[1]), np.float32)
            change_UC[:, lane.trainer] = 1
            self.done[lane.exchange.id_U, lane.trainer] += 1
            lane.cache.change(lane.exchange, change_UC)
            lane.state = "idle"

    def check_owner(self, lane: Lane) -> None:
        """What the owner has not been sent, of each trainer's updates; and what the asker will read."""
        in_table = self.block.table - 100
        missing = self.done - in_table
        assert (missing >= 0).all()
        assert missing.max() <= self.num_lanes * (self.push + self.num_lanes)
        assert np.array_equal(self.block.version_B, in_table.sum(axis=1))
        lane.at_owner = in_table.copy()
        lane.own = self.done[:, lane.trainer].copy()
        self.answered[lane.trainer, lane.exchange.number] = lane.exchange.ask_A, lane.at_owner

    def check_read(self, lane: Lane, row_UC: np.ndarray) -> None:
        """Each row is as its own message found it at the owner, or the newest one that it has waited for."""
        exchange, seen_UC = lane.exchange, row_UC - 100
        others = np.arange(self.done.shape[1]) != lane.trainer
        numbers = [exchange.number, *sorted(exchange.awaited, reverse=True)]
        messages = [self.answered[lane.trainer, number] for number in numbers]
        for id_, seen_C in zip(exchange.id_U, seen_UC, strict=True):
            at_owner = next(at_owner for ask_A, at_owner in messages if id_ in ask_A)
            assert (at_owner[id_] - seen_C)[others].sum() <= self.pull
        if self.num_lanes == 1:
            own_U = lane.own[exchange.id_U]
            assert np.array_equal(seen_UC[:, lane.trainer], own_U), "it does not read what it has written"

    def settle(self) -> None:
        """Let everybody end, and flush."""
        for lane in sorted(self.lanes, key=lambda lane: lane.exchange.number if lane.state != "idle" else 0):
            while lane.state != "idle":
                self.advance(lane, ids_of())
        for lane in self.lanes:
            for step in ("flush", "asked", "answered"):
                if step == "flush":
                    lane.exchange, lane.state = lane.cache.begin_flush(0, lane.cache.capacity), "asked"
                else:
                    self.advance(lane, ids_of())
            lane.state = "idle"


@settings(max_examples=200, deadline=None)
@given(
    trainers=st.integers(1, 3), lanes=st.sampled_from([1, 1, 2]), capacity=st.integers(0, 9), pull=st.integers(0, 4),
    push=st.integers(0, 4), policy=st.sampled_from(POLICIES), seed=st.integers(0, 2**32 - 1),
    order=st.lists(st.integers(0, 5), min_size=20, max_size=250), makes_fresh=st.booleans(),
)  # fmt: skip
def test_no_order_of_messages_breaks_the_bound_or_loses_a_change(
    trainers: int,
    lanes: int,
    capacity: int,
    pull: int,
    push: int,
    policy: str,
    seed: int,
    order: list[int],
    makes_fresh: bool,
) -> None:
    cluster, rng = Cluster(trainers, lanes, capacity, pull, push, policy, makes_fresh), np.random.default_rng(seed)
    for number in order:
        ids = np.flatnonzero(rng.random(cluster.rows) < 0.4)
        cluster.advance(cluster.lanes[number % len(cluster.lanes)], ids)
    cluster.settle()
    assert np.array_equal(cluster.block.table, 100 + cluster.done)
    assert np.array_equal(cluster.block.version_B, cluster.done.sum(axis=1))
    for lane in cluster.lanes:
        residency = lane.cache.residency
        assert not residency.held_K.any() and not lane.cache._flight_K.any() and not lane.cache._under_way
        known = lane.cache.version_K[residency.owner_K >= 0]
        assert (known <= cluster.block.version_B[residency.owner_K[residency.owner_K >= 0]]).all()


def test_with_bound_0_a_read_sees_what_the_owner_had_while_another_worker_pushed_the_row() -> None:
    """Two workers of a trainer. The one's message carries its change of a row that is not of its batch, and until that
    message is answered the other one, who needs the row, does not ask itself."""
    cluster = Cluster(2, 2, 9, 0, 0, "lru")
    first, second, other = cluster.lanes[:3]
    row, another = ids_of(4), ids_of(5)
    for lane, ids, times in ((first, row, 1), (other, row, 5), (other, another, 1)):
        for _ in range(4 * times):
            cluster.advance(lane, ids)
    cluster.advance(first, another)
    assert first.exchange.push_N.tolist() == row.tolist()
    cluster.advance(second, row)
    for lane in (first, first, second, second):  # asked, answered: `check_read` reads on
        cluster.advance(lane, row)
    assert second.state == "reading"
    slot = second.exchange.slot_U[0]
    assert (second.cache.base_KC[slot] - 100).tolist() == [1, 5]


def test_reads_come_as_late_as_the_bounds_allow() -> None:
    """The bound is met: a read misses pull_bound updates that the owner has, and push_bound + 1 that it has not."""
    pull, push = 3, 2
    cluster = Cluster(2, 1, 9, pull, push, "lru")
    first, second = cluster.lanes
    row = ids_of(4)
    gaps, unsent = set(), set()
    for _ in range(4):
        cluster.advance(first, row)
    for _ in range(40):
        for _ in range(4):
            cluster.advance(second, row)
        cluster.advance(first, row)
        cluster.advance(first, row)
        gap = cluster.block.version_B[4] - (first.cache.base_KC[first.exchange.slot_U[0]] - 100).sum()
        gaps.add(int(gap) if not first.answer.is_sent_A[0] else 0)
        unsent.add(int((cluster.done - (cluster.block.table - 100))[4, 1]))
        cluster.advance(first, row)
        cluster.advance(first, row)
    assert max(gaps) == pull and max(unsent) == push + 1


# ---------------------------------------------------------------------------------------------------------- many hosts


def serve(hosts: int, trainers: int, work: Callable[[RowClient], Any], lanes: int = 1) -> list[Any]:
    """`work` on each worker of the first hosts; the others own the rows, or all where there are no others. What the
    owners' tables are in the end."""
    owners = range(trainers, hosts) if hosts > trainers else range(hosts)
    cuts = np.linspace(0, ROWS, len(owners) + 1).astype(int)
    bounds = [0] * owners.start + cuts.tolist()

    def host(transport: Transport) -> Any:
        low, high = bounds[transport.rank : transport.rank + 2]
        block = VersionedBlock(np.zeros((high - low, WIDTH), np.float32), SGD)
        server = RowServer(transport, {"t": block}, trainers=range(trainers))
        server.start()
        clients = [RowClient(server, bounds, worker=lane) for lane in range(lanes)]
        if transport.rank < trainers:
            work(clients)  # type: ignore[arg-type]
        clients[0].close()
        return block.table

    return run_logical(hosts, host, patience=20.0)


@pytest.mark.parametrize("policy", ["lru", "tinylfu"])
def test_threads_of_two_trainers_lose_nothing(policy: str) -> None:
    """3 threads each share a cache of 10 rows; a dedicated server. Whole numbers, so the sums are exact."""
    errors: list[BaseException] = []

    def work(clients: list[RowClient]) -> None:
        cache = VersionedCache(10, SGD, 4, policy=policy, patience=20.0)

        def one(client: RowClient) -> None:
            try:
                rng, access = np.random.default_rng(client.worker), VersionedRows(cache, client, "t")
                for step in range(50):
                    rows = batch_of(rng)
                    access.pool(rows, step)
                    access.apply_pooled(rows, -np.ones((rows.num_bags, WIDTH), np.float32), step)
                access.close()
            except BaseException as error:
                errors.append(error)
                raise

        threads = [threading.Thread(target=one, args=(client,), daemon=True) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not errors

    tables = serve(4, 2, work, lanes=3)
    expected = np.zeros(ROWS)
    for lane in range(3):
        rng = np.random.default_rng(lane)
        for _ in range(50):
            rows = batch_of(rng)
            np.add.at(expected, rows.id_M, 2)  # a change for each bag and occurrence, from both trainers
    assert np.array_equal(np.concatenate(tables[2:]), np.repeat(expected[:, None], WIDTH, axis=1))


def test_trainers_that_own_the_rows() -> None:
    """Turn by turn, so that nobody adds to a row at the same moment; own rows are reached without a message."""
    metrics = {}

    def work(clients: list[RowClient]) -> None:
        client = clients[0]
        rank = client.transport.rank
        access, rng = VersionedRows(VersionedCache(9, SGD, 1), client, "t"), np.random.default_rng(rank)
        for step in range(20):
            for turn in range(2):
                if turn == rank:
                    rows = batch_of(rng)
                    access.pool(rows, step)
                    access.apply_pooled(rows, -np.ones((rows.num_bags, WIDTH), np.float32), step)
                client.transport.barrier()
        for turn in range(2):
            if turn == rank:
                access.close()
            client.transport.barrier()
        counters = client.transport.counters
        metrics[rank] = access.metrics(), sum(v for (kind, _, phase), v in counters.sent.items() if phase == "call")

    tables = serve(2, 2, work)
    expected = np.zeros(ROWS)
    for rank in range(2):
        rng = np.random.default_rng(rank)
        for _ in range(20):
            np.add.at(expected, batch_of(rng).id_M, 1)
    assert np.array_equal(np.concatenate(tables), np.repeat(expected[:, None], WIDTH, axis=1))
    for found, sent in metrics.values():
        up_and_down = sum(found[name] for name in ("rows_up", "rows_down", "metadata_up", "metadata_down"))
        assert 0 < found["own"] < up_and_down and sent > 0


def test_a_worker_whose_message_fails_ends_the_others() -> None:
    class Lost(Direct):
        def call(self, *_: Any) -> Any:
            begun.set()
            asked.wait(20)
            raise HostError("rank 3 is lost")

    begun, asked = threading.Event(), threading.Event()
    blocks = blocks_of(SGD)
    cache = VersionedCache(10, SGD, 1, patience=20.0)
    broken, sound = VersionedRows(cache, Lost(blocks), "t"), VersionedRows(cache, Direct(blocks), "t")  # type: ignore[arg-type]
    rows, said = BatchRows.of(ids_of(1, 2), ids_of(0, 2)), []

    def ask() -> None:
        with pytest.raises(HostError, match="rank 3") as found:
            broken.pool(rows, 0)
        said.append(found)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    assert begun.wait(20)
    threading.Timer(0.05, asked.set).start()
    with pytest.raises(HostError, match="Another worker of this host could not reach the rows: rank 3"):
        sound.pool(rows, 0)
    thread.join(20)
    assert said
    with pytest.raises(HostError, match="rank 3"):
        sound.flush()


def test_a_row_is_in_one_message_at_most() -> None:
    """Its changes wait until the answer about it has come, or the answer could take them back; then they leave."""
    cache = VersionedCache(10, SGD, 5, 0)
    nothing, row = (np.zeros(1, bool), ids_of(), np.empty((0, WIDTH), np.float32)), np.zeros((1, WIDTH), np.float32)
    first = cache.begin(ids_of(1))
    cache.end(first, np.ones(1, bool), ids_of(7), row)
    second = cache.begin(ids_of(1))
    assert second.ask_A.tolist() == [1] and second.known_A.tolist() == [7]
    cache.change(first, row + 3)
    third = cache.begin(ids_of(2))
    assert not len(third.push_N)
    flush = cache.begin_flush(0, 10)
    assert not len(flush.push_N) and flush.awaited == {second.number, third.number}
    assert cache.end(second, *nothing).tolist() == [[3.0] * WIDTH]
    fourth = cache.begin(ids_of(4))
    assert fourth.push_N.tolist() == [1] and fourth.change_NC.tolist() == [[3.0] * WIDTH]
    assert cache.version_K[second.slot_U].tolist() == [8]


def test_a_worker_that_hangs_is_reported_of() -> None:
    cache = VersionedCache(10, SGD, 1, patience=0.05)
    cache.begin(ids_of(1, 2))
    other = cache.begin(ids_of(2, 3))
    assert other.ask_A.tolist() == [3] and other.awaited == {1}
    with pytest.raises(HostError, match=r"waited 0\.05 s"):
        cache.end(other, np.ones(1, bool), ids_of(0), np.zeros((1, WIDTH), np.float32))


# ---------------------------------------------------------------------------------------------------------- counting


def test_what_is_counted_is_what_was_sent() -> None:
    """Three steps by hand. Metadata goes up on a hit, too; a clean row gives way in silence."""
    blocks = blocks_of(SGD)
    access, rows = worker(blocks, 2, 100, policy="lru"), BatchRows.of(ids_of(3, 3, 4), ids_of(0, 2, 3))

    def sizes(number: int) -> tuple[int, int, int, int]:
        query, answer = access.client.sent[number]  # type: ignore[attr-defined]
        return query[1].array.nbytes, query[2].array.nbytes, answer[0].array.nbytes, answer[1].array.nbytes

    access.pool(rows, 0)
    access.apply_pooled(rows, np.ones((2, WIDTH), np.float32), 0)
    access.pool(rows, 1)
    assert sizes(0) == (4, 0, 3, 2 * 4 * WIDTH)  # ids and versions; mask and versions; rows
    assert sizes(1) == (4, 0, 1, 0)  # a hit: as much metadata up, and a mask
    assert (access.cache.updates_K == 1).all(), "one update a batch, though an id came twice"
    access.pool(BatchRows.of(ids_of(7, 8), ids_of(0, 2)), 2)
    assert sizes(2) == (8, 2 * 4 * WIDTH, 3, 2 * 4 * WIDTH)  # two dirty ones give way
    access.pool(rows, 3)
    assert sizes(3) == (4, 0, 3, 2 * 4 * WIDTH)  # 7 and 8 were never changed
    assert access.metrics() == {
        "dirty_evictions": 2, "evictions": 4, "fresh": 0, "hits": 2, "metadata_down": 10,
        "metadata_up": 4 * 3 + 8 + 4 * 32,
        "misses": 6, "own": 0, "passed": 0, "pushes": 2, "refreshes": 0, "rows_down": 6 * 4 * WIDTH,
        "rows_up": 2 * 4 * WIDTH, "shared": 0, "updates": 2,
    }  # fmt: skip


def test_tolerating_writes_saves_what_tolerating_reads_cannot() -> None:
    """The same pull bound with writes that go through at every step pushes every row of every batch."""
    pushes = {}
    for push_bound in (0, 10):
        blocks, rng, reads = blocks_of(SGD), np.random.default_rng(1), 0
        access = worker(blocks, ROWS, 10, push_bound)
        for step in range(50):
            rows = batch_of(rng)
            access.pool(rows, step)
            access.apply_pooled(rows, np.ones((rows.num_bags, WIDTH), np.float32), step)
            reads += len(rows.row_U)
        access.close()
        pushes[push_bound] = access.metrics()["pushes"] / reads
        assert access.metrics()["updates"] == reads
    assert pushes[0] == 1 and pushes[10] < 0.3


@pytest.mark.parametrize(
    ("pull", "push", "makes_fresh"), [(0, 0, False), (2, 2, True), (3, 0, False), (50, 7, False), (50, 7, True)]
)
@pytest.mark.parametrize(("policy", "capacity"), [("tinylfu", ROWS), ("static", ROWS), ("static", 5), ("static", 0)])
def test_a_cache_of_the_right_rows_sends_what_the_ideal_one_does(
    policy: str, capacity: int, pull: int, push: int, makes_fresh: bool
) -> None:
    """Rows and metadata, to the byte."""
    rng, trace = np.random.default_rng(2), []
    blocks = blocks_of(SGD, is_fresh=makes_fresh)
    fresh_rows = table_of(SGD).__getitem__ if makes_fresh else None
    workers = [worker(blocks, capacity, pull, push, fresh_rows=fresh_rows, policy=policy) for _ in range(2)]
    for step in range(160):
        batches = [batch_of(rng, bags=9) for _ in workers]
        for access, rows in zip(workers, batches, strict=True):
            access.pool(rows, step)
            access.apply_pooled(rows, np.ones((rows.num_bags, WIDTH), np.float32), step)
        trace.append([rows.row_U for rows in batches])
    for access in workers:
        access.close()
    found = {name: sum(access.metrics()[name] for access in workers) for name in workers[0].metrics()}
    ideal = ideal_traffic(trace, np.arange(ROWS) < capacity, WIDTH, pull, push, makes_fresh)
    assert ideal.reads == found["updates"] and ideal.pushed == found["pushes"]
    assert ideal.row_bytes == found["rows_up"] + found["rows_down"]
    assert ideal.metadata_bytes == found["metadata_up"] + found["metadata_down"]
    assert ideal.num_bytes == ideal.row_bytes + ideal.metadata_bytes
    none = ideal_traffic(trace, np.zeros(ROWS, bool), WIDTH, pull, push)
    assert none.pulled == none.pushed == none.reads == ideal.reads


def test_the_hottest_rows_are_those_of_most_batches() -> None:
    trace = [[ids_of(1, 4), ids_of(4)], [ids_of(0, 4), ids_of(2, 3)], [ids_of(2), ids_of()]]
    assert np.flatnonzero(hottest(trace, 6, 2)).tolist() == [2, 4]
    assert np.flatnonzero(hottest(trace, 6, 3)).tolist() == [0, 2, 4]
    assert hottest(trace, 6, 0).sum() == 0


# ---------------------------------------------------------------------------------------------------------- refusals


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(InputError, match="moments of adam do not add up"):
        VersionedCache(10, RowOptimizer(WIDTH, "adam"), 1)
    with pytest.raises(InputError, match="pull_bound must be"):
        VersionedCache(10, SGD, -1)
    with pytest.raises(InputError, match="push_bound must be"):
        VersionedCache(10, SGD, 1, -1)
    access = worker(blocks_of(SGD), 4, 1)
    for wrong in (ids_of(ROWS), ids_of(-1, 3)):
        with pytest.raises(InputError, match="ids from 0 to 39; got ids from"):
            access.pool(BatchRows(wrong, ids_of(0, 1), wrong, ids_of(0, 1), wrong, wrong, wrong), 0)
    rows = BatchRows.of(ids_of(1), ids_of(0, 1))
    gradient = np.ones((1, WIDTH), np.float32)
    with pytest.raises(InputError, match="batch that was read last"):
        access.apply_pooled(rows, gradient, 0)
    access.pool(rows, 0)
    access.apply_pooled(rows, gradient, 0)
    with pytest.raises(InputError, match="and come once"):
        access.apply_pooled(rows, gradient, 0)


def test_a_batch_that_is_only_read_is_let_go_of() -> None:
    access = worker(blocks_of(SGD), 2, 5)
    for number in range(6):
        access.pool(BatchRows.of(ids_of(number, number + 10), ids_of(0, 2)), number)
    access.flush()
    metrics = access.metrics()
    assert metrics["evictions"] + metrics["passed"] == 10
    assert not access.cache.residency.held_K.any() and metrics["pushes"] == 0
    assert access.pool(BatchRows.of(ids_of(), ids_of(0, 0)), 9).tolist() == [[0.0] * WIDTH]
