"""Triples on disk in p * p buckets: those from partition i to partition j of a table's rows stand together.

On disk, a folder:
    meta.json    {"format": "any2vec-triple-buckets", "version": 1, "parts": {...}, "num_relations": ..., ...}
    counts.npy   int64 (p, p): triples of each bucket
    digests.npy  uint64: XXH3 of each chunk's triples
    triples.bin  int32 (., 3): head row, relation, tail row; bucket after bucket, row-major, each from a new page on

Pairs are triples without a relation: there are 0 of them, and records have two columns, head row and tail row.

Rows are those of the partitioned table (data/partitions/row_partitions.py). A bucket is read in chunks
of `CHUNK` triples, past the page cache, and every chunk is checked against its digest.

Legend: M triples of a piece, p partitions. Arrays of pairs have two columns where a 3 stands.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import xxhash

from any2vec.data.io.direct import PAGE, aligned_array, forget, read_pages
from any2vec.data.io.npy import load_npy
from any2vec.data.io.storage import FileCheck, atomic_folder, read_meta, storage_errors, write_json
from any2vec.data.partitions.row_partitions import RowPartitions
from any2vec.errors import DataError, FormatError, InputError, StorageError
from any2vec.kernels.rows.bucketing import find_buckets, group_buckets

BUCKETS_FORMAT = "any2vec-triple-buckets"
_VERSION = 1
CHUNK = 1 << 14
"""triples that are read at once: 48 pages"""
BLOCK = 1 << 20
"""triples that are sorted in memory at once"""
_FLUSH = 256 << 20
"""bytes after which what was written is brought to the disk, and out of the page cache"""
_FILE = "triples.bin"

Blocks = Callable[[], Iterable[np.ndarray]]
"""gives pieces of the triples, integers (M, 3): head entity, relation, tail entity; called twice, for the same. Of
pairs, integers (M, 2)."""


class Chunk(NamedTuple):
    """A piece of a bucket."""

    head_part: int
    tail_part: int
    number: int
    """within the bucket"""
    size: int
    """triples, 1..CHUNK"""


class Buckets(Protocol):
    """What is trained, by bucket: in each epoch the same triples, or others."""

    @property
    def folder(self) -> Path: ...

    @property
    def parts(self) -> RowPartitions: ...

    @property
    def bytes_read(self) -> int: ...

    @property
    def moves(self) -> int:
        """It grows while triples are read, or made."""

    @property
    def digest(self) -> str:
        """Of what is trained in all epochs."""

    def of(self, epoch: int) -> TripleBuckets:
        """The triples of an epoch; epochs are asked for in order."""


class TripleBuckets:
    """Triples by bucket. Use `create` or `open`; threads may read at once. Counts: `bytes_read`."""

    def __init__(
        self, folder: Path, parts: RowPartitions, num_relations: int, count_PP: np.ndarray, digests: np.ndarray,
        note: dict[str, Any],
    ) -> None:  # fmt: skip
        self.folder = folder
        self.parts = parts
        self.num_relations = num_relations
        self.count_PP = count_PP
        """int64 (p, p): triples from partition i to partition j"""
        self.note = note
        """what its creator stored with it"""
        self.bytes_read = 0
        self._bytes = _bytes_of(num_relations)
        self._digests = digests
        pages = -(-self._bytes * count_PP.ravel() // PAGE)
        self._first_page = np.concatenate([[0], np.cumsum(pages)])
        self._first_chunk = np.concatenate([[0], np.cumsum(-(-count_PP.ravel() // CHUNK))])

    @staticmethod
    def create(
        folder: Path | str, parts: RowPartitions, num_relations: int, blocks: Blocks, overwrite: bool = False,
        note: dict[str, Any] | None = None, are_rows: bool = False,
    ) -> TripleBuckets:  # fmt: skip
        """Sort triples into buckets, in two passes over them; nothing is seen before it is whole.

        Args:
            num_relations: 0: pairs.
            note: JSON-ready; stands in meta.json.
            are_rows: blocks has rows of the table where else it has entities.
            blocks: gives the triples, in the order in which they then stand in their buckets. For a set in memory, or
                memory-mapped: `blocks_of`.

        Memory: O(BLOCK + p * p), and 8 bytes for every CHUNK triples: some 75 MB, also for 10^9 triples, besides the
            pieces that blocks gives.

        Raises:
            DataError: there are no triples, or an entity or relation is out of range.
            StorageError: the folder is taken or cannot be written, or the disk is full.
        """
        given = _Given(parts, num_relations, blocks, are_rows)
        count_PP = given.count()
        with atomic_folder(folder, overwrite, BUCKETS_FORMAT) as made:
            with storage_errors(made):
                digests = _Writer(made / _FILE, given, count_PP).write()
                np.save(made / "counts.npy", count_PP)
                np.save(made / "digests.npy", digests)
            meta = {
                "format": BUCKETS_FORMAT, "version": _VERSION, "parts": parts.as_dict(), "num_relations": num_relations,
                "chunk": CHUNK, "digest": _digest_of(count_PP, digests), "note": note or {},
            }  # fmt: skip
            write_json(made / "meta.json", meta)
        return TripleBuckets.open(folder)

    @staticmethod
    def open(folder: Path | str) -> TripleBuckets:
        """Open a folder of buckets.

        Raises:
            FormatError: it holds none, is of another version, or files are missing, cut or changed.
        """
        folder = Path(folder)
        meta = read_meta(folder, BUCKETS_FORMAT, _VERSION, "a folder of triples in buckets")
        try:
            count_PP, digests = (load_npy(folder / f"{name}.npy") for name in ("counts", "digests"))
            parts, num_relations = RowPartitions(**meta["parts"]), int(meta["num_relations"])
            note = dict(meta.get("note", {}))
            is_sound = meta["digest"] == _digest_of(count_PP, digests) and meta["chunk"] == CHUNK
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FormatError(f"The buckets {folder} are damaged ({error}); make them again.") from error
        if not is_sound or count_PP.shape != (parts.partitions, parts.partitions):
            raise FormatError(f"The buckets {folder} are damaged: their index is not what was written.")
        buckets = TripleBuckets(folder, parts, num_relations, count_PP, digests, note)
        wanted, path = int(buckets._first_page[-1]) * PAGE, folder / _FILE
        size = path.stat().st_size if path.is_file() else 0
        if size != wanted:
            raise FormatError(f"The buckets {folder} are damaged: {_FILE} has {size:,} bytes, not {wanted:,}.")
        return buckets

    @property
    def moves(self) -> int:
        """Bytes read."""
        return self.bytes_read

    def of(self, epoch: int) -> TripleBuckets:
        """These, in every epoch."""
        return self

    @property
    def num_triples(self) -> int:
        return int(self.count_PP.sum())

    @property
    def digest(self) -> str:
        """Of all triples, and of where they stand."""
        return _digest_of(self.count_PP, self._digests)

    @property
    def columns(self) -> int:
        """Of a record: 3, of pairs 2."""
        return self._bytes // 4

    @property
    def num_bytes(self) -> int:
        """Of the triples on disk."""
        return int(self._first_page[-1]) * PAGE

    def chunks(self, buckets: Iterable[tuple[int, int]]) -> Iterator[Chunk]:
        """The chunks of buckets (i, j), in order."""
        for i, j in buckets:
            count = int(self.count_PP[i, j])
            for number in range(-(-count // CHUNK)):
                yield Chunk(i, j, number, min(CHUNK, count - number * CHUNK))

    def read(self, chunk: Chunk, buffer: np.ndarray) -> np.ndarray:
        """Read a chunk into a buffer of `chunk_buffer`; int32 (M, 3), which lies in there.

        Raises:
            FormatError: the file is cut, or its bytes are not those that were written.
            StorageError: it cannot be read.
        """
        bucket = chunk.head_part * self.parts.partitions + chunk.tail_part
        start = int(self._first_page[bucket]) * PAGE + chunk.number * CHUNK * self._bytes
        own_M3 = buffer[: self._bytes // 4 * chunk.size].reshape(chunk.size, -1)
        path = self.folder / _FILE
        with storage_errors(path):
            self.bytes_read += read_pages(path, own_M3, start)
        if xxhash.xxh3_64_intdigest(own_M3.data.cast("B")) != self._digests[self._first_chunk[bucket] + chunk.number]:
            raise FormatError(
                f"Bucket ({chunk.head_part}, {chunk.tail_part}) of {path} is damaged from triple "
                f"{chunk.number * CHUNK:,} on: its bytes are not those that were written."
            )
        return own_M3

    def check(self) -> Iterator[str]:
        """What is wrong, one sentence each: every chunk is read."""
        buffer, size = chunk_buffer(), self.parts.partitions
        for chunk in self.chunks((i, j) for i in range(size) for j in range(size)):
            try:
                self.read(chunk, buffer)
            except (FormatError, StorageError) as error:
                yield str(error)


def check_buckets(folder: Path) -> Iterator[FileCheck]:
    """What is wrong with each file of a folder of buckets; all triples are read."""
    try:
        buckets = TripleBuckets.open(folder)
    except FormatError as error:
        yield FileCheck("meta.json", 0, str(error))
        return
    for name in ("meta.json", "counts.npy", "digests.npy"):
        yield FileCheck(name, (folder / name).stat().st_size)
    problems = list(buckets.check())
    more = f" (and {len(problems) - 1:,} more such)" if len(problems) > 1 else ""
    yield FileCheck(_FILE, buckets.num_bytes, problems[0] + more if problems else "")


def chunk_buffer() -> np.ndarray:
    """Memory for a chunk, int32."""
    return aligned_array(3 * CHUNK, np.int32)


def blocks_of(head_M: np.ndarray, relation_M: np.ndarray | None, tail_M: np.ndarray, size: int = BLOCK) -> Blocks:
    """The pieces of columns, which may be memory-mapped; without relations: edges of one relation, 0."""

    def pieces() -> Iterator[np.ndarray]:
        for start in range(0, len(head_M), size):
            piece = slice(start, start + size)
            found_M3 = np.zeros((len(head_M[piece]), 3), np.int64)
            found_M3[:, 0], found_M3[:, 2] = head_M[piece], tail_M[piece]
            if relation_M is not None:
                found_M3[:, 1] = relation_M[piece]
            yield found_M3

    return pieces


@dataclass(frozen=True)
class _Given:
    """What is to be sorted."""

    parts: RowPartitions
    num_relations: int
    blocks: Blocks
    are_rows: bool

    def count(self) -> np.ndarray:
        """The first pass; int64 (p, p)."""
        count_PP = np.zeros(self.parts.partitions**2, np.int64)
        for _, bucket_M in self.pieces():
            count_PP += np.bincount(bucket_M, minlength=len(count_PP))
        if self.num_relations and not count_PP.sum():  # some part of a stream may well have no pairs
            raise DataError("There are no triples to sort into buckets; give at least one.")
        return count_PP.reshape(self.parts.partitions, self.parts.partitions)

    def pieces(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(triples of rows, int32 (M, 3), and the number of each one's bucket, int32): BLOCK triples at most."""
        columns = _bytes_of(self.num_relations) // 4
        for block in self.blocks():
            block_M3 = np.asarray(block)
            if block_M3.ndim != 2 or block_M3.shape[1] != columns or block_M3.dtype.kind not in "iu":
                raise InputError(
                    f"Blocks of {'triples' if columns == 3 else 'pairs'} are arrays of integers with "
                    f"{'three' if columns == 3 else 'two'} columns, got {block_M3.dtype} {block_M3.shape}."
                )
            for start in range(0, len(block_M3), BLOCK):
                row_M3 = self._rows(block_M3[start : start + BLOCK])
                bucket_M = np.empty(len(row_M3), np.int32)
                find_buckets(row_M3, self.parts.num_entities, self.parts.partitions, bucket_M)
                yield row_M3, bucket_M

    def _rows(self, triple_M3: np.ndarray) -> np.ndarray:
        """int32 (M, 3)"""
        if self.num_relations:
            _check_range("Relations", triple_M3[:, 1], self.num_relations)
        if self.are_rows:
            for column in (0, -1):
                _check_range("Rows", triple_M3[:, column], self.parts.num_entities)
            return np.ascontiguousarray(triple_M3, np.int32)
        row_M3 = np.empty(triple_M3.shape, np.int32)
        row_M3[:, 1] = triple_M3[:, 1]
        for column in (0, -1):
            row_M3[:, column] = self.parts.rows(triple_M3[:, column])
        return row_M3


def _check_range(what: str, number_M: np.ndarray, size: int) -> None:
    """DataError for a number that is not in [0, size)."""
    if len(number_M) and not 0 <= (low := int(number_M.min())) <= (high := int(number_M.max())) < size:
        raise DataError(f"{what} are numbered from 0 to {size - 1:,}, got {low if low < 0 else high:,}.")


def _bytes_of(num_relations: int) -> int:
    """Of a triple on disk, or of a pair."""
    return 12 if num_relations else 8


class _Writer:
    """The second pass: each block is sorted, and what it has of a bucket is put where that bucket ends so far."""

    def __init__(self, path: Path, given: _Given, count_PP: np.ndarray) -> None:
        self.path, self.given, self.count_PP = path, given, count_PP
        self._bytes = _bytes_of(given.num_relations)
        pages = -(-self._bytes * count_PP.ravel() // PAGE)
        self._start = (np.concatenate([[0], np.cumsum(pages)]) * PAGE).tolist()
        """byte at which each bucket begins, and the file ends"""
        self._done = np.zeros(count_PP.size, np.int64)
        """triples of each bucket that are written"""
        self._first_chunk = np.concatenate([[0], np.cumsum(-(-count_PP.ravel() // CHUNK))])
        self._digests = np.zeros(self._first_chunk[-1], np.uint64)
        self._begun: dict[int, Any] = {}
        """bucket -> the digest of its last chunk, where that is not full"""

    def write(self) -> np.ndarray:
        """The digests of all chunks, uint64."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            os.ftruncate(descriptor, self._start[-1])
            unsynced, first_B1 = 0, np.empty(self.count_PP.size + 1, np.int64)
            for given_M3, bucket_M in self.given.pieces():
                row_M3 = np.empty_like(given_M3)
                group_buckets(given_M3, bucket_M, first_B1, row_M3)
                for bucket in np.flatnonzero(np.diff(first_B1)).tolist():
                    self._append(descriptor, bucket, row_M3[first_B1[bucket] : first_B1[bucket + 1]])
                unsynced += row_M3.nbytes
                if unsynced >= _FLUSH:
                    os.fsync(descriptor)
                    forget(descriptor)
                    unsynced = 0
            os.fsync(descriptor)
            forget(descriptor)
        finally:
            os.close(descriptor)
        return self._ended()

    def _append(self, descriptor: int, bucket: int, piece_M3: np.ndarray) -> None:
        done = int(self._done[bucket])
        self._done[bucket] += len(piece_M3)
        if self._done[bucket] > self.count_PP.flat[bucket]:
            raise InputError("The blocks of triples are not the same at the second call; give the same ones again.")
        given, at = piece_M3.data.cast("B"), self._start[bucket] + done * self._bytes
        while given:
            count = os.pwrite(descriptor, given, at)
            given, at = given[count:], at + count
        while len(piece_M3):
            room = CHUNK - done % CHUNK
            own_M3, piece_M3 = piece_M3[:room], piece_M3[room:]
            digest = self._begun.pop(bucket, None) or xxhash.xxh3_64()
            digest.update(own_M3.data.cast("B"))
            done += len(own_M3)
            if done % CHUNK and done < self.count_PP.flat[bucket]:
                self._begun[bucket] = digest
            else:
                self._digests[self._first_chunk[bucket] + (done - 1) // CHUNK] = digest.intdigest()

    def _ended(self) -> np.ndarray:
        if not np.array_equal(self._done, self.count_PP.ravel()):
            raise InputError("The blocks of triples are not the same at the second call; give the same ones again.")
        return self._digests


def _digest_of(count_PP: np.ndarray, digests: np.ndarray) -> str:
    digest = xxhash.xxh3_128(np.ascontiguousarray(count_PP, np.int64).tobytes())
    digest.update(np.ascontiguousarray(digests, np.uint64).tobytes())
    return str(digest.hexdigest())
