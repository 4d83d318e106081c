"""Triples on disk in p * p buckets: those from partition i to partition j of a table's rows stand together.

On disk, a folder:
    meta.json    {"format": "any2vec-triple-buckets", "version": 1, "parts": {...}, "num_relations": ..., ...}
    counts.npy   int64 (p, p): triples of each bucket
    digests.npy  uint64: XXH3 of each chunk's triples
    triples.bin  int32 (., 3): head row, relation, tail row; bucket after bucket, row-major, each from a new page on

Rows are those of the partitioned table (data/entity_parts.py). A bucket is read in chunks of `CHUNK` triples, past the
page cache, and every chunk is checked against its digest.

Legend: M triples of a piece, p partitions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import xxhash

from any2vec.data.direct import PAGE, aligned_array, forget, read_pages
from any2vec.data.entity_parts import EntityParts
from any2vec.data.storage import FileCheck, atomic_folder, read_meta, storage_errors, write_json
from any2vec.errors import DataError, FormatError, InputError, StorageError

BUCKETS_FORMAT = "any2vec-triple-buckets"
_VERSION = 1
CHUNK = 1 << 14
"""triples that are read at once: 48 pages"""
BLOCK = 1 << 20
"""triples that are sorted in memory at once"""
_TRIPLE = 12
"""bytes"""
_FLUSH = 256 << 20
"""bytes after which what was written is brought to the disk, and out of the page cache"""
_FILE = "triples.bin"

Blocks = Callable[[], Iterable[np.ndarray]]
"""gives pieces of the triples, integers (M, 3): head entity, relation, tail entity; called twice, for the same"""


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
    def parts(self) -> EntityParts: ...

    @property
    def bytes_read(self) -> int: ...

    @property
    def digest(self) -> str:
        """Of what is trained in all epochs."""

    def of(self, epoch: int) -> TripleBuckets:
        """The triples of an epoch; epochs are asked for in order."""


class TripleBuckets:
    """Triples by bucket. Use `create` or `open`; threads may read at once. Counts: `bytes_read`."""

    def __init__(self, folder: Path, parts: EntityParts, num_relations: int, count_PP: np.ndarray, digests: np.ndarray):
        self.folder = folder
        self.parts = parts
        self.num_relations = num_relations
        self.count_PP = count_PP
        """int64 (p, p): triples from partition i to partition j"""
        self.bytes_read = 0
        self._digests = digests
        pages = -(-_TRIPLE * count_PP.ravel() // PAGE)
        self._first_page = np.concatenate([[0], np.cumsum(pages)])
        self._first_chunk = np.concatenate([[0], np.cumsum(-(-count_PP.ravel() // CHUNK))])

    @staticmethod
    def create(
        folder: Path | str, parts: EntityParts, num_relations: int, blocks: Blocks, overwrite: bool = False
    ) -> TripleBuckets:
        """Sort triples into buckets, in two passes over them; nothing is seen before it is whole.

        Args:
            blocks: gives the triples, in the order in which they then stand in their buckets. For a set in memory, or
                memory-mapped: `blocks_of`.

        Memory: O(BLOCK + p * p), and 8 bytes for every CHUNK triples: some 75 MB, also for 10^9 triples, besides the
            pieces that blocks gives.

        Raises:
            DataError: there are no triples, or an entity or relation is out of range.
            StorageError: the folder is taken or cannot be written, or the disk is full.
        """
        count_PP = _counted(parts, num_relations, blocks)
        with atomic_folder(folder, overwrite, BUCKETS_FORMAT) as made:
            with storage_errors(made):
                digests = _Writer(made / _FILE, parts, count_PP).write(blocks)
                np.save(made / "counts.npy", count_PP)
                np.save(made / "digests.npy", digests)
            meta = {
                "format": BUCKETS_FORMAT, "version": _VERSION, "parts": parts.as_dict(), "num_relations": num_relations,
                "chunk": CHUNK, "digest": _digest_of(count_PP, digests),
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
            count_PP, digests = (np.load(folder / f"{name}.npy") for name in ("counts", "digests"))
            parts, num_relations = EntityParts(**meta["parts"]), int(meta["num_relations"])
            is_sound = meta["digest"] == _digest_of(count_PP, digests) and meta["chunk"] == CHUNK
        except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
            raise FormatError(f"The buckets {folder} are damaged ({error}); make them again.") from error
        if not is_sound or count_PP.shape != (parts.partitions, parts.partitions):
            raise FormatError(f"The buckets {folder} are damaged: their index is not what was written.")
        buckets = TripleBuckets(folder, parts, num_relations, count_PP, digests)
        wanted, path = int(buckets._first_page[-1]) * PAGE, folder / _FILE
        size = path.stat().st_size if path.is_file() else 0
        if size != wanted:
            raise FormatError(f"The buckets {folder} are damaged: {_FILE} has {size:,} bytes, not {wanted:,}.")
        return buckets

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
        start = int(self._first_page[bucket]) * PAGE + chunk.number * CHUNK * _TRIPLE
        own_M3 = buffer[: 3 * chunk.size].reshape(-1, 3)
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


def _counted(parts: EntityParts, num_relations: int, blocks: Blocks) -> np.ndarray:
    """The first pass; int64 (p, p)."""
    count_PP = np.zeros(parts.partitions**2, np.int64)
    for triple_M3 in _pieces(blocks):
        relation_M = triple_M3[:, 1]
        if len(relation_M) and not (relation_M.min() >= 0 and relation_M.max() < num_relations):
            wrong = relation_M.min() if relation_M.min() < 0 else relation_M.max()
            raise DataError(f"Relations are numbered from 0 to {num_relations - 1:,}, got {wrong:,}.")
        count_PP += np.bincount(_rows(parts, triple_M3)[1], minlength=len(count_PP))
    if not count_PP.sum():
        raise DataError("There are no triples to sort into buckets; give at least one.")
    return count_PP.reshape(parts.partitions, parts.partitions)


def _rows(parts: EntityParts, triple_M3: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Triples of rows, int32 (M, 3), and the number of each one's bucket."""
    row_M3 = np.empty((len(triple_M3), 3), np.int32)
    row_M3[:, 1] = triple_M3[:, 1]
    part = []
    for column in (0, 2):
        row_M = parts.rows(triple_M3[:, column])
        row_M3[:, column] = row_M
        part.append(parts.part_of(row_M))
    bucket_M = part[0] * parts.partitions + part[1]
    return row_M3, bucket_M.astype(np.uint16) if parts.partitions <= 256 else bucket_M  # NumPy sorts uint16 by digits


def _pieces(blocks: Blocks) -> Iterator[np.ndarray]:
    """Pieces of BLOCK triples at most, whatever the caller's have."""
    for block in blocks():
        block_M3 = np.asarray(block)
        if block_M3.ndim != 2 or block_M3.shape[1] != 3 or block_M3.dtype.kind not in "iu":
            raise InputError(
                f"Blocks of triples are arrays of integers with three columns, got {block_M3.dtype} {block_M3.shape}."
            )
        for start in range(0, len(block_M3), BLOCK):
            yield block_M3[start : start + BLOCK]


class _Writer:
    """The second pass: each block is sorted, and what it has of a bucket is put where that bucket ends so far."""

    def __init__(self, path: Path, parts: EntityParts, count_PP: np.ndarray) -> None:
        self.path, self.parts, self.count_PP = path, parts, count_PP
        pages = -(-_TRIPLE * count_PP.ravel() // PAGE)
        self._start = (np.concatenate([[0], np.cumsum(pages)]) * PAGE).tolist()
        """byte at which each bucket begins, and the file ends"""
        self._done = np.zeros(count_PP.size, np.int64)
        """triples of each bucket that are written"""
        self._first_chunk = np.concatenate([[0], np.cumsum(-(-count_PP.ravel() // CHUNK))])
        self._digests = np.zeros(self._first_chunk[-1], np.uint64)
        self._begun: dict[int, Any] = {}
        """bucket -> the digest of its last chunk, where that is not full"""

    def write(self, blocks: Blocks) -> np.ndarray:
        """The digests of all chunks, uint64."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            os.ftruncate(descriptor, self._start[-1])
            unsynced = 0
            for triple_M3 in _pieces(blocks):
                row_M3, bucket_M = _rows(self.parts, triple_M3)
                order_M = np.argsort(bucket_M, kind="stable")
                row_M3, bucket_M = row_M3[order_M], bucket_M[order_M]
                found, first = np.unique(bucket_M, return_index=True)
                for bucket, start, stop in zip(found.tolist(), first, [*first[1:], len(row_M3)], strict=True):
                    self._append(descriptor, bucket, row_M3[start:stop])
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
        given, at = piece_M3.data.cast("B"), self._start[bucket] + done * _TRIPLE
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
