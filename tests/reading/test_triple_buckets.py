"""Triples in buckets on disk: each once, where it belongs, in whatever pieces they come; damage and bad input told."""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any2vec.data.partitions import buckets as triple_buckets
from any2vec.data.partitions.buckets import TripleBuckets, blocks_of, chunk_buffer
from any2vec.data.partitions.row_partitions import RowPartitions
from any2vec.errors import DataError, FormatError, InputError, StorageError
from any2vec.testing.toy_table import graph
from marks import needs_linux, uint64_wraps

pytestmark = [needs_linux, uint64_wraps]
ENTITIES, TRIPLES = 500, 3000


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets of several chunks, and blocks that end within buckets; a chunk is whole pages, as it must be."""
    monkeypatch.setattr(triple_buckets, "CHUNK", 1024)
    monkeypatch.setattr(triple_buckets, "BLOCK", 700)


def create(folder: Path, partitions: int = 3, triple_M3: np.ndarray | None = None, **more: Any) -> TripleBuckets:
    triple_M3 = graph(ENTITIES, TRIPLES) if triple_M3 is None else triple_M3
    return TripleBuckets.create(folder, RowPartitions(ENTITIES, partitions, 7), 4, blocks_of(*triple_M3.T), **more)


def content(buckets: TripleBuckets, i: int, j: int) -> list[tuple[int, ...]]:
    """A bucket's triples, of entities."""
    buffer = chunk_buffer()
    found = []
    for chunk in buckets.chunks([(i, j)]):
        row_M3 = buckets.read(chunk, buffer).astype(np.int64)
        for column in (0, 2):
            row_M3[:, column] = buckets.parts.entities(row_M3[:, column])
        found += [tuple(triple) for triple in row_M3.tolist()]
    return found


@pytest.mark.parametrize("partitions", [1, 2, 3, 20])
def test_every_triple_stands_once_in_its_bucket(partitions: int, tmp_path: Path) -> None:
    triple_M3 = graph(ENTITIES, TRIPLES)
    buckets = create(tmp_path / "b", partitions)
    parts = RowPartitions(ENTITIES, partitions, 7)
    part_ME = [parts.part_of(parts.rows(triple_M3[:, column])) for column in (0, 2)]
    for i, j in product(range(partitions), repeat=2):
        expected_M3 = triple_M3[(part_ME[0] == i) & (part_ME[1] == j)]  # in the order in which they were given
        assert content(buckets, i, j) == [tuple(triple) for triple in expected_M3.tolist()]
        assert buckets.count_PP[i, j] == len(expected_M3)
    assert buckets.num_triples == TRIPLES and not list(buckets.check())
    assert buckets.num_bytes == (tmp_path / "b" / "triples.bin").stat().st_size
    if partitions == 1:
        assert len(list(buckets.chunks([(0, 0)]))) == 3


def test_pieces_do_not_matter(tmp_path: Path) -> None:
    triple_M3 = graph(ENTITIES, TRIPLES)
    create(tmp_path / "one")
    cuts = [0, 1, 1, 900, 2999, TRIPLES]
    pieces = [triple_M3[first:stop] for first, stop in pairwise(cuts)]
    TripleBuckets.create(tmp_path / "other", RowPartitions(ENTITIES, 3, 7), 4, lambda: iter(pieces))
    for name in ("triples.bin", "counts.npy", "digests.npy", "meta.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_edges_have_one_relation(tmp_path: Path) -> None:
    triple_M3 = graph(ENTITIES, 50)
    blocks = blocks_of(triple_M3[:, 0].astype(np.int32), None, triple_M3[:, 2].astype(np.int32))
    buckets = TripleBuckets.create(tmp_path / "b", RowPartitions(ENTITIES, 2), 1, blocks)
    found = Counter(triple for i, j in product(range(2), repeat=2) for triple in content(buckets, i, j))
    assert found == Counter((head, 0, tail) for head, _, tail in triple_M3.tolist())


def test_parts_are_random_samples_of_equal_size() -> None:
    parts = RowPartitions(1003, 4, seed=2)
    row_M = parts.rows(np.arange(1003))
    assert sorted(row_M.tolist()) == list(range(1003)) and np.array_equal(parts.entities(row_M), np.arange(1003))
    sizes = np.bincount(parts.part_of(row_M))
    assert parts.bounds.tolist() == [0, 250, 501, 752, 1003] and sizes.tolist() == np.diff(parts.bounds).tolist()
    assert 80 < (parts.part_of(row_M[:500]) < 2).sum() / 500 * 200 < 120  # the first half is spread over all
    assert RowPartitions(**parts.as_dict()) == parts
    assert not np.array_equal(RowPartitions(1003, 4, seed=3).rows(np.arange(1003)), row_M)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((0, -1), "Entities are numbered from 0 to 499, got -1"),
        ((2, 500), "Entities are numbered from 0 to 499, got 500"),
        ((1, 4), "Relations are numbered from 0 to 3, got 4"),
        ((1, -1), "Relations are numbered from 0 to 3, got -1"),
    ],
)
def test_rows_out_of_range_are_reported(change: tuple[int, int], said: str, tmp_path: Path) -> None:
    triple_M3 = graph(ENTITIES, 100)
    triple_M3[60, change[0]] = change[1]
    with pytest.raises(DataError, match=said):
        create(tmp_path / "b", triple_M3=triple_M3)
    assert not list(tmp_path.iterdir())


def test_blocks_that_are_none_are_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no triples"):
        create(tmp_path / "b", triple_M3=graph(ENTITIES, 0))
    parts = RowPartitions(ENTITIES, 2)
    with pytest.raises(InputError, match=r"three columns, got float64 \(5, 3\)"):
        TripleBuckets.create(tmp_path / "b", parts, 4, lambda: [np.zeros((5, 3))])
    once = iter([graph(ENTITIES, 100)])
    with pytest.raises(InputError, match="not the same at the second call"):
        TripleBuckets.create(tmp_path / "b", parts, 4, lambda: once)
    sizes = iter([50, 60])
    with pytest.raises(InputError, match="not the same at the second call"):
        TripleBuckets.create(tmp_path / "b", parts, 4, lambda: [graph(ENTITIES, next(sizes))])
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(StorageError, match="the disk is full"):
            create(tmp_path / "b")
    assert not list(tmp_path.iterdir())


def harm(name: str, how: Callable[[Path], object]) -> Callable[[Path], None]:
    return lambda folder: (how(folder / name), None)[1]


def say(**change: Any) -> Callable[[Path], object]:
    return lambda path: path.write_text(json.dumps(json.loads(path.read_text()) | change))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (harm("triples.bin", Path.unlink), r"triples\.bin has 0 bytes, not"),
        (harm("triples.bin", lambda path: os.truncate(path, 4096)), r"triples\.bin has 4,096 bytes, not"),
        (harm("counts.npy", lambda path: os.truncate(path, 30)), "damaged"),
        (harm("counts.npy", lambda path: np.save(path, np.zeros((3, 3), np.int64))), "not what was written"),
        (harm("digests.npy", Path.unlink), "damaged"),
        (harm("meta.json", Path.unlink), r"its meta\.json cannot be read"),
        (harm("meta.json", lambda path: os.truncate(path, 9)), r"meta\.json cannot be read"),
        (harm("meta.json", say(version=9)), "triple-buckets version 9; this any2vec reads up to 1"),
        (harm("meta.json", say(format="any2vec-corpus")), "is not a folder of triples in buckets"),
    ],
)
def test_damaged_buckets_are_not_opened(damage: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    create(tmp_path / "b")
    damage(tmp_path / "b")
    with pytest.raises(FormatError, match=said):
        TripleBuckets.open(tmp_path / "b")


def test_a_changed_byte_is_found(tmp_path: Path) -> None:
    buckets = create(tmp_path / "b", 1)
    path = tmp_path / "b" / "triples.bin"
    data = bytearray(path.read_bytes())
    data[1024 * 12 + 5] ^= 1  # of the second chunk
    path.write_bytes(data)
    assert [text.split(":")[0] for text in buckets.check()] == [
        f"Bucket (0, 0) of {path} is damaged from triple 1,024 on"
    ]
