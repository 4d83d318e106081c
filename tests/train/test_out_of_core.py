"""Training with a part of the table in memory: the same numbers as with all of it, killed or not; errors heard."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any2vec.data.partitions import buckets as triple_buckets
from any2vec.data.partitions.buckets import TripleBuckets, blocks_of
from any2vec.data.partitions.row_partitions import RowPartitions
from any2vec.errors import FormatError, InputError, Interrupted, StorageError
from any2vec.plan.order.bucket_orders import ORDERS, beta_swaps, make_order
from any2vec.plan.order.buffer import block_rows
from any2vec.plan.order.buffer_walk import BufferWalk, Position
from any2vec.sampling.triple_windows import Ahead, TripleWindows
from any2vec.tables.disk.partition_buffer import PartitionBuffer
from any2vec.tables.disk.partition_store import PartitionStore
from any2vec.testing.toy_table import COLUMNS, count, graph, make, mingle, table
from any2vec.train.out_of_core.pipeline import Stage
from any2vec.train.out_of_core.run import Batch, OutOfCoreOptions, OutOfCoreRun, Place
from marks import needs_linux, uint64_wraps
from out_of_core_toy import OPTIONS, train

pytestmark = [needs_linux, uint64_wraps]
ENTITIES, TRIPLES = 300, 1500


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triple_buckets, "CHUNK", 1024)


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    make(tmp_path, graph(ENTITIES, TRIPLES), ENTITIES, 6)
    return tmp_path


def in_memory(folder: Path, order: str, capacity: int, epochs: int, compute: Any) -> np.ndarray:
    """The same batches on one plain array of all rows; float32 (V, C)."""
    store, buckets = PartitionStore.open(folder / "table"), TripleBuckets.open(folder / "triples")
    store.close()
    table_VC, bounds, rows = table(folder), buckets.parts.bounds, block_rows(store.largest(), 4 * COLUMNS)
    walk = BufferWalk(order=order, partitions=store.num_partitions, capacity=capacity, epochs=epochs, seed=3)
    for work in TripleWindows(buckets, walk, rows, OPTIONS.seed, OPTIONS.window):
        window = work.payload
        first_row = {block: int(bounds[part]) for part, block in window.turn.held}
        resident = [(int(bounds[part]), int(bounds[part + 1])) for part, _ in window.turn.held]
        row_M3 = window.slot_M3.astype(np.int64)
        for column in (0, 2):
            block_M, offset_M = np.divmod(row_M3[:, column], rows)
            row_M3[:, column] = [first_row[block] for block in block_M] + offset_M
        for start in range(0, len(row_M3), OPTIONS.batch_size):
            place = Place(window.turn.epoch, window.before + start)
            compute(Batch(table_VC, row_M3[start : start + OPTIONS.batch_size], resident, place))
    return table_VC


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("partitions", "capacity"), [(1, 1), (4, 2), (6, 3), (9, 4)])
def test_sums_are_those_of_all_triples(order: str, partitions: int, capacity: int, tmp_path: Path) -> None:
    """Each triple once an epoch, and no row's change is lost on its way to the disk and back."""
    triple_M3 = graph(ENTITIES, TRIPLES)
    make(tmp_path, triple_M3, ENTITIES, partitions)
    report = train(tmp_path, order, capacity)
    expected_VC = np.zeros((ENTITIES, COLUMNS))
    row_V = RowPartitions(ENTITIES, partitions, seed=7).rows(np.arange(ENTITIES))
    np.add.at(expected_VC[:, 0], row_V[triple_M3[:, 0]], 2 * (1 + triple_M3[:, 1]))
    np.add.at(expected_VC[:, 1], row_V[triple_M3[:, 2]], 2)
    expected_VC[:, 2] = np.arange(ENTITIES)
    assert np.array_equal(table(tmp_path), expected_VC)
    first, second = (make_order(order, partitions, capacity, seed=3, epoch=epoch) for epoch in range(2))
    assert report.buffer.loads == first.loads + second.swaps and report.buffer.commits == 1
    if order != "comet":  # some of its states train nothing, and what has not changed is not written
        assert report.buffer.stores == report.buffer.loads
    assert report.buffer.bytes_read == 4096 * -(-12 * -(-ENTITIES // partitions) // 4096) * report.buffer.loads


@pytest.mark.parametrize("order", ORDERS)
def test_out_of_core_is_bit_for_bit_what_is_trained_in_memory(order: str, toy: Path) -> None:
    """With a learner whose result depends on the order of triples and on which row it draws."""
    expected_VC = in_memory(toy, order, 3, 2, mingle)
    train(toy, order, 3, compute=mingle)
    assert np.array_equal(table(toy), expected_VC)


def own_threads() -> list[str]:
    """Threads of a run that still live."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith(("partition-", "triple-", "stage-"))]


def await_end() -> None:
    deadline = time.monotonic() + 20
    while own_threads() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not own_threads()


class KilledError(Exception):
    pass


@pytest.mark.parametrize("order", ["beta", "comet", "hilbert", "random"])
def test_a_run_that_is_killed_goes_on_and_ends_the_same(order: str, toy: Path, tmp_path: Path) -> None:
    """Commits at every third window; ended by an error at several places, each time without another commit."""
    expected_VC = in_memory(toy, order, 3, 2, mingle)
    reported: list[Position] = []
    stops = iter((7, 2, 11, 5))

    def killing() -> Any:
        left = next(stops, 10**9)

        def report(work: Any, results: list[Any]) -> None:
            nonlocal left
            left -= 1
            reported.append(work.payload.position)
            if left < 0:
                raise KilledError

        return report

    windows = iter(range(10**9))
    for _ in range(4):
        with pytest.raises(KilledError):
            train(toy, order, 3, compute=mingle, report=killing(), is_due=lambda position: next(windows) % 3 == 2)
    train(toy, order, 3, compute=mingle, report=killing(), is_due=lambda position: next(windows) % 3 == 2)
    assert np.array_equal(table(toy), expected_VC)
    assert len(reported) > len(set(reported))  # some windows were trained again


def test_a_stop_commits_where_it_is(toy: Path) -> None:
    expected_VC = in_memory(toy, "beta", 3, 2, mingle)
    reported: list[Position] = []

    def report(work: Any, results: list[Any]) -> None:
        reported.append(work.payload.position)
        if len(reported) == 5:
            raise Interrupted("Stopped.")

    with pytest.raises(Interrupted):
        train(toy, "beta", 3, compute=mingle, report=report, dense=lambda: {"sum": np.arange(3.0)})
    store = PartitionStore.open(toy / "table")
    assert store.note["position"] == list(reported[-1]) and store.dense()["sum"].tolist() == [0, 1, 2]
    store.close()
    train(toy, "beta", 3, compute=mingle, report=report)
    assert len(reported) == len(set(reported)) and np.array_equal(table(toy), expected_VC)


def test_more_epochs_may_follow(toy: Path) -> None:
    expected_VC = in_memory(toy, "beta", 3, 3, mingle)
    train(toy, "beta", 3, epochs=1, compute=mingle)
    report = train(toy, "beta", 3, epochs=1, compute=mingle)
    assert report.buffer.loads == 0  # there is nothing left to do
    train(toy, "beta", 3, epochs=3, compute=mingle)
    assert np.array_equal(table(toy), expected_VC)


@pytest.mark.parametrize("change", [{"order": "hilbert"}, {"capacity": 4}, {"batch_size": 41}, {"seed": 2}])
def test_a_run_goes_on_with_its_own_settings(change: dict[str, Any], toy: Path) -> None:
    train(toy, "beta", 3, epochs=1)
    name, value = next(iter(change.items()))
    options = OutOfCoreOptions(**{"batch_size": 40, "window": 100, "commit_seconds": 1e9} | change) if (
        name in ("batch_size", "seed")
    ) else OPTIONS  # fmt: skip
    with pytest.raises(InputError, match=f"belongs to a run with {name} .*, got {value}"):
        train(toy, change.get("order", "beta"), change.get("capacity", 3), options=options)


def test_table_triples_and_order_belong_together(toy: Path) -> None:
    store = PartitionStore.open(toy / "table")
    buckets = TripleBuckets.create(toy / "b", RowPartitions(ENTITIES, 5), 4, blocks_of(*graph(ENTITIES, 50).T))
    walk = BufferWalk(order="beta", partitions=6, capacity=3, epochs=1)
    with pytest.raises(InputError, match=r"has 6 partitions of 300 rows, the triples .* are for 5 of 300"):
        OutOfCoreRun(store, buckets, walk, count)
    store.close()


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_do_each_batch_once_within_the_bound(threads: int, toy: Path) -> None:
    """Each under a lock, for the sums here are no single instruction."""
    lock = threading.Lock()

    def locked(batch: Batch) -> int:
        with lock:
            return count(batch)

    received: list[int] = []
    options = OutOfCoreOptions(batch_size=40, window=300, threads=threads, staleness_bound=4, commit_seconds=0)
    report = train(
        toy, "comet", 4, compute=locked, options=options, report=lambda work, results: received.extend(results)
    )
    assert sum(received) == 2 * TRIPLES and table(toy)[:, 1].sum() == 2 * TRIPLES
    assert max(report.staleness) < 4 and sum(report.staleness.values()) == len(received)
    assert report.buffer.commits > 10


def test_stages_have_threads_of_their_own(toy: Path) -> None:
    """What is read is changed later by another thread; the sums lose what came between, which a bound of 1 forbids."""

    def read(batch: Batch) -> tuple[Batch, np.ndarray]:
        return batch, batch.table_SC[batch.slot_M3[:, 2], 1]

    def change(found: tuple[Batch, np.ndarray]) -> None:
        batch, value_M = found
        for slot, value in zip(batch.slot_M3[:, 2].tolist(), value_M, strict=True):
            batch.table_SC[slot, 1] = value + 1

    def sums(bound: int) -> tuple[float, int]:
        options = OutOfCoreOptions(batch_size=1, window=100, staleness_bound=bound, commit_seconds=1e9)
        before = table(toy)[:, 1].sum()
        epochs = PartitionStore.open(toy / "table")
        first = epochs.note.get("position", [0])[0]
        epochs.close()
        report = train(toy, "beta", 3, first + 1, compute=[Stage(read), Stage(change)], options=options)
        return table(toy)[:, 1].sum() - before, max(report.staleness)

    assert sums(1) == (TRIPLES, 0)
    found, stale = sums(16)
    assert found <= TRIPLES and 0 < stale < 16


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_blocks_beside_the_buffer_change_nothing_but_time(ahead: int, toy: Path) -> None:
    expected_VC = in_memory(toy, "comet", 4, 2, mingle)
    train(toy, "comet", 4, compute=mingle, ahead=ahead)
    assert np.array_equal(table(toy), expected_VC)


class Slow:
    """A store whose reads and writes are held up at random, and watched."""

    def __init__(self, store: PartitionStore, monkeypatch: pytest.MonkeyPatch, delays: tuple[float, float]) -> None:
        self.written: set[int] = set()
        self.under_way: list[int] = []
        self.read_while_written = self.waited_for_write = 0
        rng = np.random.default_rng(1)
        read, write = store.read, store.write

        def slow_read(number: int, row_RC: np.ndarray) -> None:
            self.read_while_written += number in self.under_way
            time.sleep(rng.random() * delays[0])
            read(number, row_RC)

        def slow_write(number: int, row_RC: np.ndarray) -> None:
            self.under_way.append(number)
            time.sleep(rng.random() * delays[1])
            write(number, row_RC)
            self.under_way.remove(number)
            self.written.add(number)

        monkeypatch.setattr(store, "read", slow_read)
        monkeypatch.setattr(store, "write", slow_write)


def trained(folder: Path, store: PartitionStore, order: str, capacity: int, **more: Any) -> Any:
    buckets = TripleBuckets.open(folder / "triples")
    walk = BufferWalk(order=order, partitions=store.num_partitions, capacity=capacity, epochs=2, seed=3)
    return OutOfCoreRun(store, buckets, walk, mingle, OPTIONS, **more).run()


@pytest.mark.parametrize("delays", [(0.0, 0.02), (0.02, 0.0), (0.01, 0.01)])
@pytest.mark.parametrize("order", ["random", "comet"])
def test_partitions_that_come_back_wait_until_they_are_written(
    delays: tuple[float, float], order: str, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected_VC = in_memory(toy, order, 2 if order == "random" else 4, 2, mingle)
    store = PartitionStore.open(toy / "table")
    slow = Slow(store, monkeypatch, delays)
    report = trained(toy, store, order, 2 if order == "random" else 4)
    store.close()
    assert slow.read_while_written == 0 and np.array_equal(table(toy), expected_VC)
    assert report.buffer.seconds_waited > 0


def test_reading_goes_on_while_a_state_is_trained(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the second state is trained the third's partition is read, and the first's written."""
    store = PartitionStore.open(toy / "table")
    slow = Slow(store, monkeypatch, (0.0, 0.0))
    turns = list(BufferWalk(order="beta", partitions=6, capacity=3, epochs=1))
    with PartitionBuffer(store, turns, 5) as buffer:
        for turn in turns[:2]:
            assert buffer.advance() == turn
            buffer.mark()
        deadline = time.monotonic() + 20
        wanted = (turns[1].leaving[0].part, turns[2].entering[0].part)
        while not (wanted[0] in slow.written and wanted[1] in buffer._ready) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert wanted[0] in slow.written and wanted[1] in buffer._ready
        assert buffer.first_slot_P[wanted[0]] == -1 == buffer.first_slot_P[wanted[1]]
        assert [bool(first >= 0) for first in buffer.first_slot_P] == [part in turns[1].block_of for part in range(6)]
    store.close()
    assert not own_threads()


def test_slots_are_those_of_the_partitions(toy: Path) -> None:
    """The last column has each row's own number."""
    store = PartitionStore.open(toy / "table")
    turns = BufferWalk(order="hilbert", partitions=6, capacity=2, epochs=1)
    with PartitionBuffer(store, turns, turns.blocks) as buffer:
        assert buffer.table_SC.ctypes.data % 4096 == 0 and 12 * buffer.block_rows % 4096 == 0
        for turn in buffer.turns():
            for (part, _), (first, stop) in zip(turn.held, buffer.resident, strict=True):
                expected = np.arange(store.bounds[part], store.bounds[part + 1])
                assert first == buffer.first_slot_P[part]
                assert np.array_equal(buffer.table_SC[first:stop, 2], expected)
        assert buffer.counts.stores == 0 and buffer.counts.seconds_waited >= 0  # nothing has changed
    store.close()


def full(*arguments: Any) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_ends_the_run_and_leaves_its_last_commit(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected_VC = in_memory(toy, "beta", 3, 2, mingle)
    done = 0

    def fill_the_disk(work: Any, results: list[Any]) -> None:
        nonlocal done
        done += 1
        if done == 10:
            patch.setattr(os, "pwritev", full)

    store = PartitionStore.open(toy / "table")
    with monkeypatch.context() as patch, pytest.raises(StorageError, match="the disk is full"):
        trained(toy, store, "beta", 3, report=fill_the_disk, is_due=lambda position: done == 6)
    store.close()
    assert not own_threads()
    again = PartitionStore.open(toy / "table")
    assert not list(again.check()) and "position" in again.note
    trained(toy, again, "beta", 3)
    again.close()
    assert np.array_equal(table(toy), expected_VC)


def test_damage_is_reported_to_whoever_trains(toy: Path) -> None:
    path = next((toy / "table").glob("part-00003.*"))
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"Partition 3 of the store .* is damaged"):
        train(toy, "beta", 3)
    path = toy / "triples" / "triples.bin"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"(Bucket \(0, 0\) of|Partition 3)"):
        train(toy, "beta", 3)


def test_a_disk_that_does_not_answer_is_reported(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = PartitionStore.open(toy / "table")
    monkeypatch.setattr(store, "read", lambda *arguments: time.sleep(0.6))
    with pytest.raises(StorageError, match=r"has not read partitions for 0\.2 s"):
        trained(toy, store, "beta", 3, patience=0.2)
    store.close()
    await_end()  # once the disk answers


def test_what_compute_raises_ends_the_run(toy: Path) -> None:
    def fail(batch: Batch) -> None:
        raise ZeroDivisionError("of a learner")

    with pytest.raises(ZeroDivisionError, match="of a learner"):
        train(toy, "beta", 3, compute=fail)
    assert not own_threads()


def windows_of(folder: Path, **more: Any) -> Iterator[Any]:
    buckets = TripleBuckets.open(folder / "triples")
    walk = BufferWalk(order="beta", partitions=6, capacity=3, epochs=2, seed=3)
    return (work.payload for work in TripleWindows(buckets, walk, 128, **{"seed": 1, "window": 300} | more))


def test_windows_are_shuffled_anew_in_each_epoch_and_mix_buckets(toy: Path) -> None:
    first = [window for window in windows_of(toy) if window.turn.epoch == 0]
    again = [window for window in windows_of(toy) if window.turn.epoch == 0]
    assert all(np.array_equal(one.slot_M3, other.slot_M3) for one, other in zip(first, again, strict=True))
    other = [window for window in windows_of(toy, seed=2) if window.turn.epoch == 0]
    assert not np.array_equal(first[0].slot_M3, other[0].slot_M3)
    assert [window.before for window in first] == [
        sum(len(one.slot_M3) for one in first[:number]) for number in range(len(first))
    ]
    assert sum(len(window.slot_M3) for window in first) == TRIPLES
    blocks = [(head // 128, tail // 128) for head, _, tail in first[0].slot_M3[:40].tolist()]
    assert len(set(blocks)) > 3  # a batch has triples of many buckets
    assert sum(window.ends_turn for window in first) == 1 + beta_swaps(6, 3)


def test_the_same_state_is_trained_in_another_order_in_another_epoch(toy: Path) -> None:
    """Other triples in the first window, for chunks are permuted, and others side by side in it."""
    buckets = TripleBuckets.open(toy / "triples")
    turn = next(iter(BufferWalk(order="beta", partitions=6, capacity=3, epochs=1)))

    class OneState:
        epochs, start = 2, Position()

        def __init__(self, epoch: int) -> None:
            self.epoch = epoch

        def __iter__(self) -> Iterator[Any]:
            yield replace(turn, epoch=self.epoch)

    one, other = (
        [work.payload.slot_M3 for work in TripleWindows(buckets, OneState(epoch), 1024, window=100)] for epoch in (0, 1)
    )
    together = [np.unique(np.concatenate(found), axis=0) for found in (one, other)]
    assert np.array_equal(*together) and len(one) > 2
    assert set(map(tuple, one[0].tolist())) != set(map(tuple, other[0].tolist()))
    blocks = [tuple(pair) for pair in np.unique(one[0][:, ::2] // 1024, axis=0).tolist()]
    first = [(turn.block_of[i], turn.block_of[j]) for i, j in turn.buckets[: len(blocks)]]
    assert sorted(blocks) != sorted(first)


def test_triples_that_do_not_come_are_reported() -> None:
    def never() -> Iterator[Any]:
        time.sleep(0.5)
        yield

    with Ahead(never(), 0.1) as windows, pytest.raises(StorageError, match=r"No triples were read for 0\.1 s"):
        next(iter(windows))
    await_end()


def test_a_thread_ends_though_nobody_takes_its_windows(toy: Path) -> None:
    with Ahead(windows_of(toy), 20) as windows:
        next(iter(windows))
        assert own_threads() == ["triple-reader"]
    assert not own_threads()
