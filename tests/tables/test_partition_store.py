"""Partitions on disk: what was committed is what is read, wherever the process is killed, and damage is told."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any2vec.data.io import direct
from any2vec.data.io.direct import aligned_rows
from any2vec.data.io.folder_lock import FolderLock
from any2vec.errors import FormatError, StorageError
from any2vec.tables.disk import partition_store
from any2vec.tables.disk.partition_store import PartitionStore
from marks import needs_linux

pytestmark = needs_linux
BOUNDS, COLUMNS = [0, 300, 700, 701, 1000], 5
"""the third partition is smaller than a page"""


def values(number: int, step: int) -> np.ndarray:
    """What partition `number` holds after so many steps."""
    rows = BOUNDS[number + 1] - BOUNDS[number]
    return np.random.default_rng((number, step)).normal(size=(rows, COLUMNS)).astype(np.float32)


def fill(number: int, row_RC: np.ndarray) -> None:
    row_RC[:] = values(number, 0)


def create(folder: Path, **options: Any) -> PartitionStore:
    return PartitionStore.create(folder, BOUNDS, COLUMNS, fill, note={"step": 0}, **options)


def content(store: PartitionStore) -> list[np.ndarray]:
    buffer = aligned_rows(store.largest(), COLUMNS)
    found = []
    for number in range(store.num_partitions):
        store.read(number, buffer)
        found.append(buffer[: store.rows_of(number)].copy())
    return found


def put(store: PartitionStore, number: int, step: int) -> None:
    buffer = aligned_rows(store.largest(), COLUMNS)
    buffer[: store.rows_of(number)] = values(number, step)
    store.write(number, buffer)


def test_partitions_are_as_they_were_written(tmp_path: Path) -> None:
    store = create(tmp_path / "store")
    assert store.num_rows == 1000 and [store.rows_of(number) for number in range(4)] == [300, 400, 1, 299]
    assert all(np.array_equal(found, values(number, 0)) for number, found in enumerate(content(store)))
    put(store, 1, 1)
    put(store, 1, 2)
    assert np.array_equal(content(store)[1], values(1, 2))  # before it is committed, too
    pages = [2, 2, 1, 2]  # of 300, 400, 1 and 299 rows of 20 bytes
    assert (store.loads, store.stores) == (8, 2)
    assert store.bytes_read == 2 * 4096 * sum(pages) and store.bytes_written == 2 * 4096 * pages[1]
    store.commit({"step": 2})
    store.close()
    again = PartitionStore.open(tmp_path / "store")
    assert again.note == {"step": 2} and np.array_equal(content(again)[1], values(1, 2)) and not list(again.check())
    assert len(list((tmp_path / "store").glob("part-*"))) == 4


def test_what_was_not_committed_is_gone(tmp_path: Path) -> None:
    store = create(tmp_path / "store")
    put(store, 0, 1)
    store.close()
    again = PartitionStore.open(tmp_path / "store")
    assert np.array_equal(content(again)[0], values(0, 0)) and again.note == {"step": 0}


def test_what_was_not_committed_gives_its_room_back(tmp_path: Path) -> None:
    store = create(tmp_path / "store")
    before = sorted(path.name for path in (tmp_path / "store").iterdir())
    put(store, 0, 1)
    put(store, 2, 1)
    assert len(list((tmp_path / "store").glob("part-*"))) == 6
    store.forget_uncommitted()
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == before
    store.close()
    assert np.array_equal(content(PartitionStore.open(tmp_path / "store"))[0], values(0, 0))


SCRIPT = [(0,), (1, 3), (0, 1, 2), (2,), (3, 0)]
"""partitions that are written before each commit"""


def work(folder: Path) -> None:
    store = PartitionStore.open(folder)
    for step, numbers in enumerate(SCRIPT, 1):
        for number in numbers:
            put(store, number, step - 1 if step > 1 else 9)  # is written again, as a partition that comes back
            put(store, number, step)
        store.commit({"step": step}, {"step": np.full(3, step)} if step != 4 else None)


def killed_at(point: int, folder: Path, task: Callable[[Path], None]) -> bool:
    """Do the task in a process that ends, like one that is killed, at the so-manyth call that changes the disk.

    False where it has ended before.
    """
    child = os.fork()
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, 77), status
        return status == 77
    try:
        left = point

        def dying(call: Callable[..., Any]) -> Callable[..., Any]:
            def called(*arguments: Any, **options: Any) -> Any:
                nonlocal left
                left -= 1
                if left < 0:
                    os._exit(77)
                return call(*arguments, **options)

            return called

        direct.PIECE = 4096  # type: ignore[misc]
        for name in ("open", "pwritev", "fsync", "close"):
            setattr(os, name, dying(getattr(os, name)))
        for name in ("unlink", "replace", "rename", "write_text", "write_bytes"):
            setattr(Path, name, dying(getattr(Path, name)))
        task(folder)
        os._exit(0)
    except BaseException:  # whatever it is: the parent must not run on twice
        import traceback

        traceback.print_exc()
        os._exit(1)


@pytest.mark.slow
def test_a_store_that_is_killed_anywhere_is_as_at_a_commit(tmp_path: Path) -> None:
    """At every single call that changes the disk; afterwards the work goes on."""
    points = 0
    while True:
        folder = tmp_path / f"store{points}"
        create(folder).close()
        was_killed = killed_at(points, folder, work)
        store = PartitionStore.open(folder)
        last = dict.fromkeys(range(4), 0)
        for step, numbers in enumerate(SCRIPT[: store.note["step"]], 1):
            last |= dict.fromkeys(numbers, step)
        assert all(np.array_equal(found, values(number, last[number])) for number, found in enumerate(content(store)))
        assert not list(store.check()) and len(list(folder.glob("part-*"))) == 4
        has_dense = store.note["step"] not in (0, 4)
        assert [array.tolist() for array in store.dense().values()] == has_dense * [3 * [store.note["step"]]]
        assert len(list(folder.glob("dense.*"))) == has_dense
        put(store, 2, 50)
        store.commit({"step": 50})
        store.close()
        if not was_killed:
            break
        points += 1
    assert points > 60


def test_what_a_commit_counts_is_on_the_disk_before_its_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the index could reach it first when the power fails."""
    store = create(tmp_path / "store")
    put(store, 1, 1)
    put(store, 3, 1)
    events: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def seen_fsync(descriptor: int) -> None:
        events.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    def seen_replace(path: Path, target: Path) -> Path:
        events.append("index")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(Path, "replace", seen_replace)
    store.commit({}, {"step": np.zeros(1)})
    before, after = events[: events.index("index")], events[events.index("index") + 1 :]
    assert {"part-00001.1", "part-00003.1", "dense.1", "store"} <= set(before)
    assert any(name.endswith(".tmp") for name in before) and after == ["store"]


def test_a_store_that_is_killed_while_it_is_made_is_none(tmp_path: Path) -> None:
    for point in range(0, 40, 3):
        folder = tmp_path / f"store{point}"
        if killed_at(point, folder, lambda folder: create(folder).close()) and not folder.exists():
            continue
        assert PartitionStore.open(folder).note == {"step": 0}


def test_a_full_disk_leaves_the_store_intact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = create(tmp_path / "store")

    def full(*arguments: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    put(store, 0, 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        with pytest.raises(StorageError, match=r"part-00001\.1: the disk is full"):
            put(store, 1, 1)
    assert np.array_equal(content(store)[1], values(1, 0)) and len(list((tmp_path / "store").glob("part-*"))) == 5
    store.commit({"step": 1})
    assert np.array_equal(content(store)[0], values(0, 1))


def damage(name: str, how: Callable[[Path], object]) -> Callable[[Path], None]:
    return lambda folder: (how(folder / name), None)[1]


def flip(path: Path, place: int = 1000) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (damage("part-00001.0", Path.unlink), r"partition 1 \(part-00001\.0\) is missing"),
        (damage("part-00001.0", lambda path: os.truncate(path, 4096)), r"part-00001\.0\) has 4,096 bytes, not 8,192"),
        (damage("meta.json", Path.unlink), "it has no meta.json"),
        (damage("meta.json", lambda path: os.truncate(path, 50)), "meta.json cannot be read"),
        (damage("meta.json", lambda path: path.write_text(path.read_text().replace("300", "301"))), "not what was"),
        (
            damage("meta.json", lambda path: path.write_text(path.read_text().replace('"version": 1', '"version": 9'))),
            "has version 9, this any2vec reads version 1",
        ),
        (
            damage("meta.json", lambda path: path.write_text('{"format": "any2vec-corpus"}')),
            "is no store of partitions: meta.json says 'any2vec-corpus'",
        ),
    ],
)
def test_a_damaged_store_is_not_opened(harm: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    create(tmp_path / "store").close()
    harm(tmp_path / "store")
    with pytest.raises(FormatError, match=said):
        PartitionStore.open(tmp_path / "store")


def test_a_changed_byte_is_found(tmp_path: Path) -> None:
    create(tmp_path / "store").close()
    flip(tmp_path / "store" / "part-00003.0")
    store = PartitionStore.open(tmp_path / "store")
    assert [text.split(":")[0] for text in store.check()] == [
        f"Partition 3 of the store {tmp_path / 'store'} is damaged"
    ]
    with pytest.raises(FormatError, match="its bytes are not those that were written"):
        store.read(3, aligned_rows(400, COLUMNS))


def test_arrays_beside_the_table_are_those_of_the_commit(tmp_path: Path) -> None:
    store = create(tmp_path / "store")
    assert store.dense() == {}
    weight = np.random.default_rng(1).normal(size=(3, 2)).astype(np.float32)
    store.commit({}, {"weight": weight, "step": np.int64(7)})
    store.commit({}, {"weight": 2 * weight})
    store.close()
    again = PartitionStore.open(tmp_path / "store")
    assert list(again.dense()) == ["weight"] and np.array_equal(again.dense()["weight"], 2 * weight)
    flip(tmp_path / "store" / "dense.2", 200)
    with pytest.raises(FormatError, match=r"dense\.2 of the store .* is damaged"):
        again.dense()
    assert len(list(again.check())) == 1
    (tmp_path / "store" / "dense.2").unlink()
    with pytest.raises(FormatError, match=r"dense\.2 is missing"):
        again.dense()


def test_one_process_has_it_open(tmp_path: Path) -> None:
    store = create(tmp_path / "store")
    with pytest.raises(StorageError, match=f"in use by process {os.getpid()};"):
        PartitionStore.open(tmp_path / "store")
    store.close()
    PartitionStore.open(tmp_path / "store").close()


def test_a_store_is_not_written_over(tmp_path: Path) -> None:
    create(tmp_path / "store").close()
    with pytest.raises(StorageError, match="exists"):
        create(tmp_path / "store")
    create(tmp_path / "store", overwrite=True).close()


def test_the_index_is_read_when_nobody_else_can_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(tmp_path / "store").close()
    read = partition_store.read_index

    def while_locked(folder: Path) -> dict[str, Any]:
        with pytest.raises(StorageError, match="in use"):
            FolderLock(folder, "The store").acquire()
        return read(folder)

    monkeypatch.setattr(partition_store, "read_index", while_locked)
    PartitionStore.open(tmp_path / "store").close()


def test_a_store_that_cannot_be_opened_is_not_kept_from_others(tmp_path: Path) -> None:
    create(tmp_path / "store").close()
    for damaged in (next((tmp_path / "store").glob("part-*")), tmp_path / "store" / "meta.json"):
        damaged.write_bytes(b"")
        with pytest.raises(FormatError):
            PartitionStore.open(tmp_path / "store")
        with FolderLock(tmp_path / "store", "The store"):
            pass
