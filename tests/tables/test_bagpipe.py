"""A cache of trained rows that knows ahead: the tables are those of synchronous training, bit by bit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.cluster.link import LinkModel
from any2vec.cluster.message import overhead
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.errors import HostError, InputError
from any2vec.plan.lookahead.exact import Clean, StepPlan, plan_steps
from any2vec.plan.sharding.sharding import contiguous_bounds
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.cache import lookahead_rows as bagpipe_rows
from any2vec.tables.cache import lookahead_threads as bagpipe_workers
from any2vec.tables.cache.lookahead_rows import LookaheadRows
from any2vec.tables.cache.lookahead_threads import StepThread, WriteBackThread
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.row_table import MemoryRows, PooledTable
from any2vec.tables.server.blocks.trained_block import StoredBlock, SynchronousBlock
from any2vec.tables.server.client import RowClient
from any2vec.tables.server.clients.pulled_rows import ClockedRows
from any2vec.tables.server.server import RowServer
from marks import uint64_wraps

pytestmark = uint64_wraps

ROWS, WIDTH, STEPS = 60, 3, 30


class Job(NamedTuple):
    """What is trained: batches of all trainers, and who has the rows."""

    batches: list[list[BatchRows]]
    """trainer -> step"""
    optimizer: RowOptimizer
    trainers: int
    servers: int = 0
    """hosts that have all rows and train nothing; 0: trainers have them"""
    look_ahead: int = 5
    clean_share: float = 0.25
    capacity: int | None = None
    ahead: int = 4

    @property
    def bounds(self) -> list[int]:
        if not self.servers:
            return list(contiguous_bounds(ROWS, self.trainers))
        return [0] * self.trainers + list(contiguous_bounds(ROWS, self.servers))

    def ids(self, trainer: int, step: int) -> np.ndarray:
        return self.batches[trainer][step].row_U


def batch(rng: np.random.Generator, bags: int) -> BatchRows:
    """Zipf-like, so that some rows come in every step and some once; ids twice in a bag, and empty bags."""
    weights = 1 / np.arange(1, ROWS + 1)
    counts = rng.integers(0, 4, bags)
    ids = rng.choice(ROWS, counts.sum(), p=weights / weights.sum())
    return BatchRows.of(ids.astype(np.int64), np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))


EMPTY = BatchRows.of(np.empty(0, np.int64), np.zeros(1, np.int64))


def job(kind: Any = "adagrad", trainers: int = 2, seed: int = 0, steps: int = STEPS, **options: Any) -> Job:
    """The last trainer's chunk is shorter."""
    rng = np.random.default_rng(seed)
    batches = [[batch(rng, 6) for _ in range(steps)] for _ in range(trainers)]
    if trainers > 1:
        batches[-1][-4:] = [EMPTY] * 4
    return Job(batches, RowOptimizer(WIDTH, kind, rate=0.1), trainers, **options)


def start_table(optimizer: RowOptimizer) -> np.ndarray:
    table = np.zeros((ROWS, optimizer.num_columns), np.float32)
    table[:, :WIDTH] = np.random.default_rng(7).normal(size=(ROWS, WIDTH)).astype(np.float32)
    return table


def gradient(pooled_PW: np.ndarray, trainer: int, step: int) -> np.ndarray:
    """It depends on what was read, so a stale row shows."""
    noise = np.random.default_rng((trainer, step)).normal(size=pooled_PW.shape).astype(np.float32)
    return np.float32(0.3) * pooled_PW + noise


def train(access: PooledTable, job: Job, trainer: int, pause: Callable[[int], None] = lambda step: None) -> None:
    """The trainer's own batches; one with a shorter chunk ends earlier."""
    own = job.batches[trainer]
    last = max((step for step, rows in enumerate(own) if rows is not EMPTY), default=-1)
    for step in range(last + 1):
        pooled = access.pool(own[step], step)
        pause(step)
        access.apply_pooled(own[step], gradient(pooled, trainer, step), step)
    access.close()


def in_step(job: Job) -> np.ndarray:
    """The table, float32 (V, C), after synchronous training without a cache."""

    def host(transport: Transport) -> np.ndarray:
        table = start_table(job.optimizer)[slice(*job.bounds[transport.rank : transport.rank + 2])].copy()
        blocks = {"rows": SynchronousBlock(table, job.optimizer)}
        server = RowServer(transport, blocks, bound=0, in_step=True, trainers=range(job.trainers))
        server.start()
        client = RowClient(server, job.bounds)
        if transport.rank < job.trainers:
            train(ClockedRows(client), job, transport.rank)
        client.close()
        return table

    return np.concatenate(run_logical(job.trainers + job.servers, host, patience=30.0))


class Watched(StoredBlock):
    """A server's block that gives nobody a row of which some trainer has a changed copy.

    A trainer that does not write a row back drops its copy when the row leaves its cache; the one that does, when its
    push is here.
    """

    def __init__(self, table_BC: np.ndarray, optimizer: RowOptimizer, first: int, changed: list[set[int]]) -> None:
        super().__init__(table_BC, optimizer)
        self.first = first
        self.changed = changed
        """by trainer: rows of which its cache has a changed copy; of all blocks"""

    def read(self, slot_K: np.ndarray) -> np.ndarray:
        wanted = set((slot_K + self.first).tolist())
        for trainer, rows in enumerate(self.changed):
            if rows & wanted:
                raise InputError(f"rows {sorted(rows & wanted)} are asked for, and trainer {trainer} has changed them")
        return super().read(slot_K)

    def push(self, trainer: int, clock: int, slot_K: np.ndarray, value_KD: np.ndarray, is_delta: bool) -> None:
        super().push(trainer, clock, slot_K, value_KD, is_delta)
        self.changed[trainer].difference_update((slot_K + self.first).tolist())


class Measured(LookaheadRows):
    """Tells which rows it changes, and has."""

    changed: set[int]
    stands: dict[int, int]
    """slot -> changed row"""

    def _apply(self, row_K: np.ndarray, slot_K: np.ndarray, gradient_KW: np.ndarray) -> None:
        self._announce(row_K, slot_K)
        super()._apply(row_K, slot_K, gradient_KW)

    def _put(self, row_M: np.ndarray, slot_M: np.ndarray, row_MC: np.ndarray) -> None:
        self._announce(row_M, slot_M)
        super()._put(row_M, slot_M, row_MC)

    def _step_rows(self, plan: StepPlan, gradient_UW: np.ndarray) -> None:
        stands = self.stands | dict(zip(plan.slot_U.tolist(), plan.row_U.tolist(), strict=True))
        lost = {stands[slot] for slot in plan.lost_slot_K.tolist() if slot in stands}
        super()._step_rows(plan, gradient_UW)
        self.changed.difference_update(lost)

    def _announce(self, row_K: np.ndarray, slot_K: np.ndarray) -> None:
        self.changed.update(row_K.tolist())
        self.stands.update(zip(slot_K.tolist(), row_K.tolist(), strict=True))


def announce_cleans(access: Measured, changed: set[int]) -> None:
    """Rows of a clean that others write back count as changed no more."""
    access.changed, access.stands = changed, {}
    begin = access._write_back.clean

    def reported(clean: Clean) -> None:
        changed.difference_update(clean.row_E[~access._write_back.is_writer(clean)].tolist())
        for slot in clean.slot_E.tolist():
            access.stands.pop(slot, None)
        begin(clean)

    access._write_back.clean = reported  # type: ignore[method-assign]


class Ran(NamedTuple):
    table: np.ndarray
    metrics: list[dict[str, Any]]
    bytes: list[dict[str, int]]


def bagpipe(
    job: Job, delay: Callable[[int, int], float] | None = None, link: LinkModel | None = None,
) -> Ran:  # fmt: skip
    """With a cache; delay(rank, number of the order): seconds that a trainer's writing back takes longer."""
    changed: list[set[int]] = [set() for _ in range(job.trainers)]

    def host(transport: Transport) -> tuple[np.ndarray, dict[str, Any]]:
        rank = transport.rank
        low, high = job.bounds[rank : rank + 2]
        block = Watched(start_table(job.optimizer)[low:high].copy(), job.optimizer, low, changed)
        server = RowServer(transport, {"rows": block}, trainers=range(job.trainers))
        server.start()
        client = RowClient(server, job.bounds)
        metrics: dict[str, Any] = {}
        if rank < job.trainers:
            access = Measured(
                client, "rows", job.optimizer, job.ids, len(job.batches[0]), trainers=job.trainers,
                look_ahead=job.look_ahead, capacity=job.capacity, clean_share=job.clean_share, ahead=job.ahead,
            )  # fmt: skip
            announce_cleans(access, changed[rank])
            if delay is not None:
                slow_down(access._write_back, rank, delay)
            rng = np.random.default_rng(rank)

            def pause(step: int) -> None:
                if delay is not None:
                    time.sleep(float(rng.exponential(0.0005)))

            train(access, job, rank, pause)
            metrics = access.metrics()
        client.close()
        return block.table, metrics | {"bytes": transport.counters.bytes_by_phase()}

    found = run_logical(job.trainers + job.servers, host, link, patience=30.0)
    metrics = [metrics for _, metrics in found]
    return Ran(np.concatenate([table for table, _ in found]), metrics, [one.pop("bytes") for one in metrics])


def slow_down(write_back: WriteBackThread, rank: int, delay: Callable[[int, int], float]) -> None:
    carry_out, number = write_back._carry_out, iter(range(10**9))

    def slowly(*order: Any) -> None:
        time.sleep(delay(rank, next(number)))
        carry_out(*order)

    write_back._carry_out = slowly  # type: ignore[method-assign]


def assert_equal(ran: Ran, job: Job) -> None:
    want = in_step(job)
    assert not np.array_equal(want, start_table(job.optimizer))
    np.testing.assert_array_equal(ran.table.view(np.uint32), want.view(np.uint32))


@pytest.mark.parametrize("kind", ["sgd", "adagrad", "adam"])
@pytest.mark.parametrize(("trainers", "servers"), [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 2)])
def test_tables_are_those_of_synchronous_training(kind: Any, trainers: int, servers: int) -> None:
    one = job(kind, trainers, servers=servers)
    assert_equal(bagpipe(one), one)


@pytest.mark.parametrize("kind", ["sgd", "adagrad", "adam"])
def test_one_trainer_makes_what_a_table_of_its_own_would(kind: Any) -> None:
    one = job(kind, 1)
    table = start_table(one.optimizer)
    train(MemoryRows(table, one.optimizer), one, 0)
    np.testing.assert_array_equal(bagpipe(one).table.view(np.uint32), table.view(np.uint32))


@pytest.mark.parametrize("look_ahead", [1, 2, 10, 200])
@pytest.mark.parametrize("clean_share", [0.0, 0.25, 1.0])
def test_any_look_ahead_and_any_pace_of_cleaning(look_ahead: int, clean_share: float) -> None:
    one = job(look_ahead=look_ahead, clean_share=clean_share, seed=look_ahead)
    assert_equal(bagpipe(one), one)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("servers", [0, 1])
def test_late_acknowledgements_lose_nothing(seed: int, servers: int) -> None:
    """Each trainer's writing back takes its own time, much longer than a step; rows are fetched again soon."""
    one = job("adam", 2 + seed % 2, seed, servers=servers, look_ahead=1 + seed % 3, clean_share=0.5, ahead=1 + seed)
    times = np.random.default_rng(seed).exponential(0.004, (4, 200))
    assert_equal(bagpipe(one, lambda rank, number: float(times[rank, number])), one)


def test_without_the_gate_a_changed_row_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the watched server would notice."""
    monkeypatch.setattr(WriteBackThread, "await_clean", lambda self, number: None)
    one = job("sgd", 2, look_ahead=1, clean_share=0.0)
    with pytest.raises((HostError, InputError), match="has changed them"):
        bagpipe(one, lambda rank, number: 0.01)


def test_rows_of_the_tail_are_trained() -> None:
    """Trainer r alone uses row 10 + 20 r + step, once; row 0 comes in every step. One SGD step each."""
    steps = 15

    def rows_of(trainer: int, step: int) -> BatchRows:
        return BatchRows.of(np.array([0, 10 + 20 * trainer + step]), np.array([0, 1, 2]))

    batches = [[rows_of(trainer, step) for step in range(steps)] for trainer in range(2)]
    one = Job(batches, RowOptimizer(WIDTH, "sgd", rate=0.5), 2, look_ahead=4)
    ran = bagpipe(one)
    start = start_table(one.optimizer)
    for trainer in range(2):
        for step in range(steps):
            row = 10 + 20 * trainer + step
            change = np.float32(0.5) * gradient(np.stack([start[0], start[row]]), trainer, step)[1]
            np.testing.assert_array_equal(ran.table[row], start[row] - change)
    assert_equal(ran, one)
    # 1 row is new in the first step, 2 of the tail in each; nobody but its trainer fetches or writes one.
    assert [metrics["fetched_rows"] for metrics in ran.metrics] == [1 + steps] * 2
    assert sum(metrics["written_rows"] for metrics in ran.metrics) == 1 + 2 * steps
    assert ran.metrics[0]["never_share"] == 2 * steps / (3 * steps)


def at_steps(uses: dict[int, list[list[int]]], steps: int, trainers: int = 2, **options: Any) -> Job:
    """uses: row -> by trainer the steps that use it."""
    found: list[list[BatchRows]] = []
    for trainer in range(trainers):
        found.append([])
        for step in range(steps):
            rows = np.array([row for row, when in uses.items() if step in when[trainer]], np.int64)
            found[-1].append(BatchRows.of(rows, np.arange(len(rows) + 1)))
    return Job(found, RowOptimizer(WIDTH, "adagrad"), trainers, **options)


@pytest.mark.parametrize("distance", [3, 4, 5])
@pytest.mark.parametrize("who", [(0, 0), (0, 1), (1, 0)])
def test_a_row_that_comes_again_after_l_or_more_steps(distance: int, who: tuple[int, int]) -> None:
    """L is 4: the row is held, or just held, or just not; the other trainer's rows come in each step."""
    again = {5: [[], []]}
    for at, trainer in zip((1, 1 + distance, 1 + 2 * distance), (*who, who[0]), strict=True):
        again[5][trainer].append(at)
    one = at_steps(again | {0: [list(range(15))] * 2}, 15, look_ahead=4, clean_share=0.25)
    ran = bagpipe(one, lambda rank, number: 0.003)
    assert_equal(ran, one)
    # The first trainer fetches it, from whom it moves to the next; or each use stands alone.
    fetches = (*who, who[0]) if distance > 4 else who[:1]
    mine = [fetches.count(trainer) for trainer in range(2)]
    assert [metrics["fetched_rows"] - 1 for metrics in ran.metrics] == mine


def test_a_row_of_both_in_one_step_and_of_one_in_the_next() -> None:
    uses = {3: [[2, 3], [2]], 4: [[2], [2, 3]], 5: [[2, 9], [3]], 6: [[0], [9]], 0: [list(range(10))] * 2}
    one = at_steps(uses, 10, look_ahead=3)
    assert_equal(bagpipe(one), one)


def test_a_trainer_without_any_batch_takes_part() -> None:
    one = job(trainers=2)
    one.batches[1][:] = [EMPTY] * STEPS
    assert_equal(bagpipe(one), one)


@pytest.mark.parametrize("trainers", [1, 2, 3])
def test_a_small_cache_keeps_less_and_makes_the_same(trainers: int) -> None:
    one = job("adam", trainers, seed=3, look_ahead=20)
    both = [set[int]() for _ in range(STEPS)]
    for step in range(STEPS):
        for trainer in range(trainers):
            both[step] |= set(one.ids(trainer, step).tolist())
    capacity = max(len(both[step] | both[step + 1]) for step in range(STEPS - 1))
    small, large = (bagpipe(one._replace(capacity=size), lambda rank, number: 0.001) for size in (capacity, None))
    assert_equal(small, one)
    assert_equal(large, one)
    tight, wide = small.metrics[0], large.metrics[0]
    assert tight["most_rows_held"] <= capacity < wide["most_rows_held"]
    assert tight["look_ahead_mean"] < wide["look_ahead_mean"] == 20
    assert tight["fetched_share"] > wide["fetched_share"]


@pytest.mark.parametrize("trainers", [2, 3])
def test_gradients_and_rows_travel_without_ids(trainers: int) -> None:
    """Each trainer sends those that its plan tells of; nobody anything of rows that stay with their trainer."""
    one = job("adagrad", trainers, servers=1)
    ran = bagpipe(one)
    for trainer, (counted, metrics) in enumerate(zip(ran.bytes[:trainers], ran.metrics[:trainers], strict=True)):
        plans = list(plan_steps(one.ids, STEPS, trainers, trainer, one.look_ahead, ROWS, one.clean_share))
        for phase, is_always in (("now", True), ("later", False)):
            due = 0
            for plan in plans:
                exchange = getattr(plan, phase)
                for peer in {*range(trainers)} - {trainer}:
                    gradients, rows = len(exchange.give_TJ[peer]), len(exchange.send_TM[peer])
                    due += 4 * (WIDTH * gradients + (WIDTH + 1) * rows)
                    due += overhead(2) if is_always or gradients + rows else 0
            assert counted[phase] == due
        assert metrics["fetched_rows"] == sum(len(plan.fetch_row_K) for plan in plans)
        assert metrics["now_share"] + metrics["later_share"] + metrics["never_share"] == pytest.approx(1)
        assert 0 < metrics["moved_share"] < metrics["now_share"] + metrics["later_share"]


GRADIENT, WHOLE = 4 * WIDTH, 4 * (WIDTH + 1)
"""bytes; adagrad has one number of state"""


def sent(ran: Ran, phase: str, steps: int) -> list[int]:
    """Bytes of gradients and rows that each trainer has sent, without the heads of messages: of NOW there is one to
    each other trainer in each step, of LATER one where there is something."""
    trainers = sum("steps" in metrics for metrics in ran.metrics)
    now = [counted.get("now", 0) - steps * (trainers - 1) * overhead(2) for counted in ran.bytes[:trainers]]
    later = [counted.get("later", 0) for counted in ran.bytes[:trainers]]
    return now if phase == "now" else [count % overhead(2) for count in later]


@pytest.mark.parametrize(("phase", "distance"), [("now", 1), ("later", 2), ("later", 4)])
def test_a_row_that_two_use_by_turns_moves_to_and_fro(phase: str, distance: int) -> None:
    """0, 1, 0: two moves, one fetch, and it is written by rank 0, though rank 1 owns it."""
    one = at_steps({45: [[1, 1 + 2 * distance], [1 + distance]]}, 12, look_ahead=4)
    ran = bagpipe(one, lambda rank, number: 0.003)
    assert_equal(ran, one)
    other = {"now": "later", "later": "now"}[phase]
    assert sent(ran, phase, 12) == [WHOLE, WHOLE] and sent(ran, other, 12) == [0, 0]
    assert (
        [metrics["fetched_rows"] for metrics in ran.metrics]
        == [metrics["written_rows"] for metrics in ran.metrics]
        == [1, 0]
    )
    assert ran.metrics[0]["moved_share"] == ran.metrics[0][f"{phase}_share"] == pytest.approx(2 / 3)


def test_a_row_of_one_becomes_one_of_all_and_one_of_one_again() -> None:
    """Used by 0, both, both, 1, both. It moves to rank 1 later; both send gradients; rank 0 alone does, for only rank 1
    uses it next; it moves back now; and rank 1 sends gradients to rank 0, which owns it."""
    one = at_steps({5: [[1, 3, 5, 8], [3, 5, 7, 8]]}, 12, look_ahead=4)
    ran = bagpipe(one)
    assert_equal(ran, one)
    assert sent(ran, "later", 12) == [WHOLE + GRADIENT + GRADIENT, GRADIENT + GRADIENT]
    assert sent(ran, "now", 12) == [0, WHOLE]
    assert (
        [metrics["fetched_rows"] for metrics in ran.metrics]
        == [metrics["written_rows"] for metrics in ran.metrics]
        == [1, 0]
    )


def test_of_three_trainers_all_have_a_row_that_two_use() -> None:
    """Row 50, of rank 2: 0 alone, 1 and 2, 2 alone, 0 and 1, 1 alone. It moves to both others; their gradients go to
    rank 2; it moves to both others; their gradients go to rank 1. Row 10, of rank 0: 1 and 2 use it once."""
    uses = {50: [[0, 6], [2, 6, 8], [2, 4]], 10: [[], [5], [5]]}
    one = at_steps(uses, 10, trainers=3, look_ahead=4)
    ran = bagpipe(one)
    assert_equal(ran, one)
    assert sent(ran, "now", 10) == [0, 0, 0]
    assert sent(ran, "later", 10) == [2 * WHOLE + GRADIENT, GRADIENT + GRADIENT, 2 * WHOLE + GRADIENT]
    assert [metrics["fetched_rows"] for metrics in ran.metrics] == [2, 1, 1]
    assert [metrics["written_rows"] for metrics in ran.metrics] == [1, 1, 0]


def test_a_small_cache_drops_rows_of_one_trainer() -> None:
    """Rank 0 alone has row 45, of rank 1, for step 8; steps 4 and 5 need 8 rows: it leaves, and is fetched again."""
    uses = {45: [[1, 8], []]} | {row: [[4 + row % 2], []] for row in range(8)}
    one = at_steps(uses, 12, look_ahead=10)
    for capacity, times in ((8, 2), (40, 1)):
        ran = bagpipe(one._replace(capacity=capacity), lambda rank, number: 0.003)
        assert_equal(ran, one)
        assert ran.metrics[0]["most_rows_held"] <= capacity
        fetched, written = ([metrics[f"{what}_rows"] for metrics in ran.metrics] for what in ("fetched", "written"))
        assert fetched == written == [8 + times, 0]


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 10**6), st.sampled_from(["sgd", "adagrad", "adam"]), st.integers(1, 3),
    st.sampled_from([1, 2, 4, 30]), st.booleans(), st.booleans(),
)  # fmt: skip
def test_any_schedule(seed: int, kind: str, trainers: int, look_ahead: int, is_tight: bool, is_served: bool) -> None:
    """Few rows, so that they go to and fro at every distance."""
    rng = np.random.default_rng(seed)
    uses = {
        row: [np.flatnonzero(rng.random(12) < share).tolist() for share in rng.choice([0.0, 0.1, 0.4], trainers)]
        for row in rng.choice(ROWS, 8, replace=False).tolist()
    }
    one = at_steps(uses, 12, trainers, look_ahead=look_ahead, servers=int(is_served))
    one = one._replace(optimizer=RowOptimizer(WIDTH, kind, rate=0.1), capacity=8 if is_tight else None)  # type: ignore[arg-type]
    want = in_step(one)
    np.testing.assert_array_equal(bagpipe(one).table.view(np.uint32), want.view(np.uint32))


def test_what_can_wait_leaves_with_the_next_step() -> None:
    """Dense gradients, which trainers exchange between two steps, find the line free."""
    one = job("sgd", 2)

    def host(transport: Transport) -> list[tuple[int, int, int]]:
        access, found = access_of(transport, one), []

        def sent() -> int:
            return int(transport.counters.bytes_by_phase().get("later", 0))

        for step, rows in enumerate(one.batches[transport.rank]):
            before = sent()
            pooled = access.pool(rows, step)
            reading = sent()
            access.apply_pooled(rows, gradient(pooled, transport.rank, step), step)
            found.append((before, reading, sent()))
        access.close()
        access._write_back._client.close()
        return found

    for found in run_logical(2, host, patience=30.0):
        assert all(pushed == reading for _, reading, pushed in found)
        assert found[0][1] == 0 and sum(reading > before for before, reading, _ in found) > len(found) // 2


def test_what_is_written_back_travels_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two rows each."""
    monkeypatch.setattr(bagpipe_workers, "_PIECE", 2 * 4 * (WIDTH + 1))
    one = job("adagrad", 2, servers=1, clean_share=1.0)
    assert_equal(bagpipe(one), one)


def test_a_flush_in_the_middle_writes_all_that_has_changed() -> None:
    """After a flush the servers have what synchronous training has after so many steps, though rank 1 takes its time;
    then training goes on."""
    one, at = job("adam", 2, seed=5, look_ahead=12), 13
    cut = one._replace(batches=[batches[:at] for batches in one.batches])
    want, seen = in_step(cut), {}
    barrier = threading.Barrier(2, timeout=30)

    def host(transport: Transport) -> np.ndarray:
        rank = transport.rank
        low, high = one.bounds[rank : rank + 2]
        block = StoredBlock(start_table(one.optimizer)[low:high].copy(), one.optimizer)
        server = RowServer(transport, {"rows": block})
        server.start()
        client = RowClient(server, one.bounds)
        access = LookaheadRows(client, "rows", one.optimizer, one.ids, STEPS, trainers=2, look_ahead=one.look_ahead)

        slow_down(access._write_back, rank, lambda rank, number: 0.02 * rank)
        for step in range(STEPS):
            if step == at:
                access.flush()
                written = access.metrics()["written_rows"]
                access.flush()
                assert access.metrics()["written_rows"] == written > 0
                seen[rank] = client.pull({"rows": np.arange(ROWS)})["rows"]
                barrier.wait()
            pooled = access.pool(one.batches[rank][step], step)
            access.apply_pooled(one.batches[rank][step], gradient(pooled, rank, step), step)
        access.close()
        client.close()
        return block.table

    table = np.concatenate(run_logical(2, host, patience=30.0))
    for rank in range(2):
        np.testing.assert_array_equal(seen[rank].view(np.uint32), want.view(np.uint32))
    np.testing.assert_array_equal(table.view(np.uint32), in_step(one).view(np.uint32))


def test_training_goes_on_at_a_later_step() -> None:
    """The first steps of one access, the others of another, as after a checkpoint."""
    one, at = job("adam", 2, seed=8), 11
    one.batches[1][-4:] = [batch(np.random.default_rng(1), 6) for _ in range(4)]

    def host(transport: Transport) -> np.ndarray:
        rank = transport.rank
        low, high = one.bounds[rank : rank + 2]
        block = StoredBlock(start_table(one.optimizer)[low:high].copy(), one.optimizer)
        server = RowServer(transport, {"rows": block})
        server.start()
        client = RowClient(server, one.bounds)
        for first, stop, workers in ((0, at, (1, 2)), (at, STEPS, (3, 4))):
            access = LookaheadRows(
                client,
                "rows",
                one.optimizer,
                one.ids,
                stop,
                trainers=2,
                look_ahead=4,
                first_step=first,
                workers=workers,
            )
            for step in range(first, stop):
                pooled = access.pool(one.batches[rank][step], step)
                access.apply_pooled(one.batches[rank][step], gradient(pooled, rank, step), step)
            access.close()
        client.close()
        return block.table

    table = np.concatenate(run_logical(2, host, patience=30.0))
    np.testing.assert_array_equal(table.view(np.uint32), in_step(one).view(np.uint32))


def test_no_acknowledgement_is_left_for_the_next_access() -> None:
    """It would take one for that of a clean of its own, and fetch a row that nobody has written yet."""
    one = job("sgd", 2, look_ahead=2, clean_share=0.0)

    def host(transport: Transport) -> None:
        access = access_of(transport, one)
        train(access, one, transport.rank)
        assert access._write_back._begun > 10
        with pytest.raises(HostError, match="wait"):
            transport.recv(1 - transport.rank, bagpipe_workers.ACK, bagpipe_workers.ACK, timeout=0.05)

    run_logical(2, host, patience=30.0)


# What goes wrong


def access_of(transport: Transport, one: Job, **options: Any) -> LookaheadRows:
    low, high = one.bounds[transport.rank : transport.rank + 2]
    block = StoredBlock(start_table(one.optimizer)[low:high].copy(), one.optimizer)
    server = RowServer(transport, {"rows": block})
    server.start()
    client = RowClient(server, one.bounds)
    return LookaheadRows(
        client, "rows", one.optimizer, one.ids, len(one.batches[0]), trainers=one.trainers,
        **{"look_ahead": one.look_ahead, **options},
    )  # fmt: skip


@pytest.mark.parametrize("who", [0, 1])
def test_a_lost_trainer_is_reported_of(who: int) -> None:
    one, reported = job(trainers=3, steps=60), []

    def host(transport: Transport) -> None:
        access = access_of(transport, one)
        try:
            for step in range(50):
                if step == 7 and transport.rank == who:
                    raise RuntimeError("the machine burns")
                rows = one.batches[transport.rank][step]
                access.apply_pooled(rows, gradient(access.pool(rows, step), transport.rank, step), step)
        except HostError as error:
            reported.append(str(error))
            raise
        finally:
            access.close(HostError("over"))

    with pytest.raises(RuntimeError, match="the machine burns"):
        run_logical(3, host, patience=20.0)
    assert len(reported) == 2 and all(f"host {who} " in text for text in reported)


def test_a_server_that_refuses_what_is_written_back_is_reported_of() -> None:
    one = job("sgd", 1, look_ahead=1, clean_share=0.0)

    def host(transport: Transport) -> None:
        access = access_of(transport, one)

        def refuse(*order: Any) -> None:
            raise InputError("no such row")

        access._write_back._carry_out = refuse  # type: ignore[method-assign]
        try:
            train(access, one, 0)
        finally:
            access.close(HostError("over"))

    with pytest.raises(HostError, match="Rank 0 could not write rows back: no such row"):
        run_logical(1, host, patience=20.0)


def test_batches_must_be_those_that_were_reported_ahead() -> None:
    one = job("sgd", 1)

    def host(transport: Transport) -> None:
        access, rows = access_of(transport, one), one.batches[0]
        with pytest.raises(InputError, match=r"Gradients of a step are pushed"):
            access.apply_pooled(rows[0], np.zeros((6, WIDTH), np.float32), 0)
        access.apply_pooled(rows[0], gradient(access.pool(rows[0], 0), 0, 0), 0)
        with pytest.raises(InputError, match=f"batch has not the {len(rows[1].row_U)} rows .* for step 1"):
            access.pool(rows[2], 2)
        with pytest.raises(InputError, match="ends before step 2, of which rank 0 has a batch"):
            access.close()
        access.close(HostError("over"))

    run_logical(1, host, patience=20.0)


def test_a_cache_that_is_too_small_is_refused_before_a_row_is_changed() -> None:
    one = job("sgd", 1)

    def host(transport: Transport) -> None:
        access = access_of(transport, one, capacity=3)
        for _ in range(2):  # it is said as often as somebody asks
            with pytest.raises(InputError, match="A cache of 3 rows is too small"):
                access.pool(one.batches[0][0], 0)
        access.close(HostError("over"))

    run_logical(1, host, patience=20.0)


def test_trainers_that_see_other_batches_are_reported_of() -> None:
    """Rank 1 believes that rank 0 has other rows."""
    one = job("sgd", 2)

    def host(transport: Transport) -> None:
        seen = one
        if transport.rank == 1:
            seen = one._replace(batches=[job("sgd", 2, seed=99).batches[0], one.batches[1]])
        access = access_of(transport, seen)
        try:
            train(access, one, transport.rank)
        finally:
            access.close(HostError("over"))

    with pytest.raises(HostError, match="do not see the same batches"):
        run_logical(2, host, patience=20.0)


def test_what_an_order_raises_is_said_as_often_as_somebody_waits() -> None:
    def fail() -> None:
        raise InputError("no such row")

    step_thread = StepThread(0, 20.0)
    step_thread.start()
    step_thread.begin(fail)
    for _ in range(2):
        with pytest.raises(InputError, match="no such row"):
            step_thread.wait()
    step_thread.close(patience=20.0)


def test_who_has_ended_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads are gone, that at hand with its order done, and whoever still asks for something is told so."""
    monkeypatch.setattr(bagpipe_rows, "LEAVE", 20.0)
    one = job("sgd", 1, look_ahead=1, clean_share=0.0)

    def host(transport: Transport) -> None:
        access = access_of(transport, one)
        slow_down(access._write_back, 0, lambda rank, order: 0.1)
        for step, rows in enumerate(one.batches[0][:4]):
            access.apply_pooled(rows, gradient(access.pool(rows, step), 0, step), step)
        access.close(HostError("over"))
        workers = access._fetcher, access._step_thread, access._write_back
        assert not any(thread.is_alive() for worker in workers for thread in worker._threads)
        none = np.empty(0, np.int64)
        with pytest.raises(HostError, match="Rank 0 has ended its training"):
            access._write_back.write(none, none)

    run_logical(1, host, patience=20.0)
