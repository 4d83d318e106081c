"""A table on disk in partitions: read and written past the page cache, and never torn.

Each partition is a file. A write makes a file of the partition's next version beside the one that counts; `commit`
brings what was written to the disk and then replaces the one small file that names the versions that count, with what
the caller wants to remember of that moment. So a store that is killed anywhere, in the middle of a write or of a
commit, opens as it was at a commit, and every partition is checked against its digest when it is read.

Where several hosts share a table, each has a store of the partitions that it holds. They commit together: each brings
to the disk what it is to remember, and an index beside the one that counts; when all have, that index takes its place.
A host that is killed between the two finds both, and the hosts agree which of them they all have.

Legend: V rows of the table, R rows of a partition, C columns (values and their optimizer's state).
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xxhash

from any2vec.checks import parse_json
from any2vec.data.io.direct import aligned_rows, padded, read_pages, synced, write_pages
from any2vec.data.io.folder_lock import FolderLock
from any2vec.data.io.storage import FileCheck, atomic_file, atomic_folder, fsync_path, storage_errors
from any2vec.errors import FormatError, StorageError

STORE_FORMAT = "any2vec-partitions"
_VERSION = 1
_INDEX = "meta.json"
_NEXT = "next.json"
"""the index of a commit that all hosts have to make ready before it counts"""
_FILES = ("part-*", "dense.*")


class Partition(NamedTuple):
    """The version of a partition that counts."""

    version: int
    digest: str
    """XXH3 of its bytes, 128 bits, hexadecimal"""


class Dense(NamedTuple):
    """The file of arrays that stand beside the table, as it counts; version 0: there is none."""

    version: int = 0
    digest: str = ""
    """XXH3 of its bytes, 128 bits, hexadecimal"""


class PartitionStore:
    """The partitions of one table, and small arrays that belong to the same moment (dense parameters).

    Threads may read while another writes other partitions, or commits what was written before.

    Use `create` or `open`. Counts: `loads` and `stores` of partitions, `bytes_read` and `bytes_written`.
    """

    def __init__(self, folder: Path, index: dict[str, Any], lock: FolderLock) -> None:
        self.folder = folder
        self.columns: int = index["columns"]
        self.bounds: list[int] = index["bounds"]
        """partition p has the rows [bounds[p], bounds[p + 1])"""
        self.note: dict[str, Any] = index["note"]
        """what the last commit remembered"""
        self.loads = self.stores = self.bytes_read = self.bytes_written = 0
        self.together: Callable[[], None] | None = None
        """returns when all hosts have made a commit ready; None: there is this store alone"""
        self._settled = _partitions(index)
        self._current = list(self._settled)
        self._dense = Dense(*index["dense"])
        self._lock = lock
        self._counts = threading.Lock()

    @staticmethod
    def create(
        folder: Path | str, bounds: Sequence[int], columns: int, fill: Callable[[int, np.ndarray], None],
        overwrite: bool = False, note: dict[str, Any] | None = None, own: Collection[int] | None = None,
    ) -> PartitionStore:  # fmt: skip
        """A new store, of which nothing is seen before it is whole.

        Args:
            bounds: p + 1 ascending rows, from 0 to V.
            fill: writes the first values of a partition: (its number, float32 (R, C), zeros).
            own: partitions that it has; the others are elsewhere. None: all.

        Raises:
            StorageError: the folder is taken or cannot be written, or the disk is full.
        """
        with atomic_folder(folder, overwrite, STORE_FORMAT) as made:
            found: list[Partition | None] = []
            for number, (first, stop) in enumerate(pairwise(bounds)):
                if own is not None and number not in own:
                    found.append(None)
                    continue
                row_RC = aligned_rows(stop - first, columns)
                fill(number, row_RC)
                found.append(Partition(0, _digest(row_RC)))
                with storage_errors(made):
                    write_pages(made / _name(number, 0), row_RC)
            _write_index(made / _INDEX, list(map(int, bounds)), columns, found, Dense(), note or {})
        return PartitionStore.open(folder)

    @staticmethod
    def open(folder: Path | str, takes_next: bool = False) -> PartitionStore:
        """The store as its last commit left it; what was written later is removed.

        Args:
            takes_next: a commit that was made ready counts (`next_note`), for other hosts have made it.

        Raises:
            FormatError: there is no store, it is of another version, or files are missing or cut.
            StorageError: another process has it open.
        """
        store = PartitionStore.open_as_it_is(folder)
        try:
            if takes_next:
                with storage_errors(store.folder):
                    (store.folder / _NEXT).replace(store.folder / _INDEX)
                    fsync_path(store.folder)
                store = PartitionStore(store.folder, read_index(store.folder), store._lock)
            problems = [text for number in range(store.num_partitions) if (text := store._short(number))]
            if problems:
                raise FormatError(f"The store {folder} is damaged: {'; '.join(problems)}.")
            store._sweep()
        except BaseException:
            store.close()
            raise
        return store

    @staticmethod
    def open_as_it_is(folder: Path | str) -> PartitionStore:
        """The same for who only looks: files may be missing or cut, and nothing is removed.

        Raises:
            FormatError: there is no store, it is of another version, or its index is damaged.
            StorageError: another process has it open.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise FormatError(f"{folder} is no store of partitions: there is no such folder.")
        lock = FolderLock(folder, "The store")
        try:
            lock.acquire()
            return PartitionStore(folder, read_index(folder), lock)  # by now nobody else commits
        except BaseException:
            lock.release()
            raise

    @property
    def num_partitions(self) -> int:
        return len(self.bounds) - 1

    @property
    def num_rows(self) -> int:
        return self.bounds[-1]

    def rows_of(self, number: int) -> int:
        """R of a partition."""
        return self.bounds[number + 1] - self.bounds[number]

    def largest(self) -> int:
        """R of the largest partition."""
        return max(self.rows_of(number) for number in range(self.num_partitions))

    def has(self, number: int) -> bool:
        """Whether the store holds a partition."""
        return self._current[number] is not None

    def drop(self, number: int) -> None:
        """Let go of a partition that is elsewhere now; the last commit still has it.

        Raises:
            StorageError: the disk cannot be written.
        """
        before, self._current[number] = self._current[number], None
        if before is not None and before != self._settled[number]:
            with storage_errors(self.folder):
                (self.folder / _name(number, before.version)).unlink(missing_ok=True)

    def read(self, number: int, row_RC: np.ndarray) -> None:
        """Read a partition into an array that `aligned_rows` made, of its size or the largest one's.

        Raises:
            FormatError: the file is cut, or its bytes are not those that were written.
            StorageError: it cannot be read.
        """
        found = self._current[number]
        assert found is not None, f"the store {self.folder} does not hold partition {number}"
        size = self._read(number, found, row_RC)
        with self._counts:
            self.bytes_read += size
            self.loads += 1

    def write(self, number: int, row_RC: np.ndarray) -> None:
        """Write a partition, float32 (R or more, C) from `aligned_rows`; it counts once it is committed.

        Raises:
            StorageError: the disk is full, or cannot be written; the store is as it was.
        """
        own_RC = row_RC[: self.rows_of(number)]
        before = self._current[number]
        versions = (found.version for found in (before, self._settled[number]) if found is not None)
        after = Partition(max(versions, default=0) + 1, _digest(own_RC))
        path = self.folder / _name(number, after.version)
        with storage_errors(path):
            try:
                size = write_pages(path, own_RC)
            except OSError:
                path.unlink(missing_ok=True)
                raise
        self._current[number] = after
        if before is not None and before != self._settled[number]:
            (self.folder / _name(number, before.version)).unlink(missing_ok=True)
        self.stores += 1
        self.bytes_written += size

    def commit(self, note: dict[str, Any], dense: Mapping[str, np.ndarray] | None = None) -> None:
        """Make all that was written count, and remember a note and arrays with it, instead of those before.

        Raises:
            StorageError: the disk is full, or cannot be written; the store is as it was at the last commit.
        """
        changed = [number for number in range(self.num_partitions) if self._current[number] != self._settled[number]]
        before, after = self._dense, Dense()
        with storage_errors(self.folder):
            for number in changed:
                if (found := self._current[number]) is not None:
                    synced(self.folder / _name(number, found.version))
            if dense:
                after = _write_dense(self.folder, before.version + 1, dense)
            fsync_path(self.folder)
        index = self.folder / (_INDEX if self.together is None else _NEXT)
        _write_index(index, self.bounds, self.columns, self._current, after, note)
        if self.together is not None:
            self.together()
            with storage_errors(self.folder):
                index.replace(self.folder / _INDEX)
                fsync_path(self.folder)
        former, self._settled, self._dense, self.note = self._settled, list(self._current), after, note
        for number in changed:
            gone = former[number]
            if gone is not None:
                (self.folder / _name(number, gone.version)).unlink(missing_ok=True)
        (self.folder / _dense_name(before.version)).unlink(missing_ok=True)

    def dense(self) -> dict[str, np.ndarray]:
        """The arrays of the last commit.

        Raises:
            FormatError: their file is missing, or its bytes are not those that were written.
            StorageError: it cannot be read.
        """
        return _read_dense(self.folder, self._dense) if self._dense.version else {}

    def check(self) -> Iterator[str]:
        """What is wrong, one sentence each: every file that counts is read."""
        return (found.problem for found in self.check_files() if found.problem)

    def check_files(self) -> Iterator[FileCheck]:
        """What is wrong with each file of the last commit; then what was written and never committed."""
        row_RC = aligned_rows(self.largest(), self.columns)
        for number, found in enumerate(self._settled):
            if found is None:
                continue
            text = self._short(number)
            problem = (
                f"The store {self.folder} is damaged: {text}." if text else _said(self._read, number, found, row_RC)
            )
            yield self._looked_at(_name(number, found.version), problem)
        if self._dense.version:
            yield self._looked_at(_dense_name(self._dense.version), _said(self.dense))
        counting = self._counting()
        for path in sorted(self.folder.iterdir()):
            if path.name not in counting | {_INDEX, _NEXT}:
                yield FileCheck(path.name, path.stat().st_size, is_counted=False)

    def close(self) -> None:
        """Others may open it now; what was not committed is lost."""
        self._lock.release()

    def _short(self, number: int) -> str:
        """What is wrong with a partition's file, as far as its size says; "" if nothing."""
        found = self._settled[number]
        if found is None:
            return ""
        path = self.folder / _name(number, found.version)
        wanted = padded(4 * self.rows_of(number) * self.columns)
        if not path.is_file():
            return f"partition {number} ({path.name}) is missing"
        size = path.stat().st_size
        return "" if size == wanted else f"partition {number} ({path.name}) has {size:,} bytes, not {wanted:,}"

    def _read(self, number: int, partition: Partition, row_RC: np.ndarray) -> int:
        """Bytes read."""
        path = self.folder / _name(number, partition.version)
        own_RC = row_RC[: self.rows_of(number)]
        with storage_errors(path):
            size = read_pages(path, own_RC)
        if _digest(own_RC) != partition.digest:
            raise FormatError(
                f"Partition {number} of the store {self.folder} is damaged: its bytes are not those that were written."
            )
        return size

    def _looked_at(self, name: str, problem: str) -> FileCheck:
        path = self.folder / name
        return FileCheck(name, path.stat().st_size if path.is_file() else 0, problem)

    def _counting(self) -> set[str]:
        """Names of the files of the last commit."""
        names = {_name(number, found.version) for number, found in enumerate(self._settled) if found is not None}
        return names | {_dense_name(self._dense.version)}

    def forget_uncommitted(self) -> None:
        """Give back the room of what was written behind the last commit, as far as the disk lets: it is full."""
        with suppress(OSError):
            self._sweep()

    def _sweep(self) -> None:
        """Remove what was written and never committed, or was replaced."""
        counting = self._counting()
        for path in (path for files in _FILES for path in self.folder.glob(files)):
            if path.name not in counting:
                path.unlink(missing_ok=True)
        (self.folder / _NEXT).unlink(missing_ok=True)


def check_store(folder: Path) -> Iterator[FileCheck]:
    """What is wrong with each file of a store; all is read, nothing changed.

    Raises:
        StorageError: another process has it open.
    """
    try:
        store = PartitionStore.open_as_it_is(folder)
    except FormatError as error:
        yield FileCheck(_INDEX, 0, str(error))
        return
    try:
        yield FileCheck(_INDEX, (folder / _INDEX).stat().st_size)
        yield from store.check_files()
    finally:
        store.close()


def _said(look: Callable[..., object], *arguments: object) -> str:
    """What a look at a file finds wrong; "" if nothing."""
    try:
        look(*arguments)
    except (FormatError, StorageError) as error:
        return str(error)
    return ""


def next_note(folder: Path) -> dict[str, Any] | None:
    """The note of a commit that a host has made ready, and that may count or not; None: there is none.

    Raises:
        FormatError: its index is damaged.
    """
    return dict(read_index(folder, _NEXT)["note"]) if (folder / _NEXT).exists() else None


def read_index(folder: Path, name: str = _INDEX) -> dict[str, Any]:
    """What a store says of itself.

    Raises:
        FormatError: it is none, of another version, or damaged.
    """
    path = folder / name
    try:
        index = parse_json(path.read_text(encoding="utf-8"))
        if index["format"] != STORE_FORMAT:
            raise FormatError(f"{folder} is no store of partitions: {path.name} says {index['format']!r}.")
        if index["version"] != _VERSION:
            raise FormatError(
                f"The store {folder} has version {index['version']}, this any2vec reads version {_VERSION}; "
                "read it with the any2vec that wrote it."
            )
        bounds, count, _ = index["bounds"], len(index["partitions"]), Dense(*index["dense"])
        is_sound = len(bounds) == count + 1 and bounds[0] == 0 and all(low <= high for low, high in pairwise(bounds))
        if not is_sound or index["digest"] != _index_digest(index):
            raise FormatError(f"The store {folder} is damaged: {path.name} is not what was written.")
    except FormatError:
        raise
    except FileNotFoundError:
        raise FormatError(f"{folder} is no store of partitions: it has no {name}.") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"The store {folder} is damaged: {path.name} cannot be read ({error}).") from error
    return dict(index)


def _write_dense(folder: Path, version: int, dense: Mapping[str, np.ndarray]) -> Dense:
    packed = io.BytesIO()
    np.savez(packed, **{name: np.ascontiguousarray(array) for name, array in dense.items()})  # type: ignore[arg-type]
    path = folder / _dense_name(version)
    path.write_bytes(packed.getbuffer())
    synced(path)
    return Dense(version, xxhash.xxh3_128_hexdigest(packed.getbuffer()))


def _read_dense(folder: Path, found: Dense) -> dict[str, np.ndarray]:
    path = folder / _dense_name(found.version)
    if not path.is_file():
        raise FormatError(f"The store {folder} is damaged: {path.name} is missing.")
    with storage_errors(path):
        packed = path.read_bytes()
    if xxhash.xxh3_128_hexdigest(packed) != found.digest:
        raise FormatError(f"{path.name} of the store {folder} is damaged: its bytes are not those that were written.")
    with np.load(io.BytesIO(packed)) as arrays:
        return dict(arrays)


def _partitions(index: Mapping[str, Any]) -> list[Partition | None]:
    return [None if found is None else Partition(*found) for found in index["partitions"]]


def _write_index(
    path: Path, bounds: list[int], columns: int, partitions: Sequence[Partition | None], dense: Dense,
    note: dict[str, Any],
) -> None:  # fmt: skip
    index: dict[str, Any] = {
        "format": STORE_FORMAT, "version": _VERSION, "columns": columns, "bounds": bounds, "dense": list(dense),
        "partitions": [None if found is None else list(found) for found in partitions], "note": note,
    }  # fmt: skip
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(index | {"digest": _index_digest(index)}), encoding="utf-8")


def _index_digest(index: dict[str, Any]) -> str:
    text = json.dumps({name: value for name, value in index.items() if name != "digest"}, sort_keys=True)
    return xxhash.xxh3_128_hexdigest(text.encode())


def _dense_name(version: int) -> str:
    return f"dense.{version}"


def _name(number: int, version: int) -> str:
    return f"part-{number:05}.{version}"


def _digest(row_RC: np.ndarray) -> str:
    return xxhash.xxh3_128_hexdigest(row_RC.data.cast("B")) if row_RC.size else ""
