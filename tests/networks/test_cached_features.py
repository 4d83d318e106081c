"""Features on disk: the rows are those of the file, whatever stands in memory, and what is read is counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any2vec.data.attributed.features import FeatureRows
from any2vec.data.attributed.row_file import Reads, RowFile
from any2vec.data.io.array_file import ArrayFile
from any2vec.data.io.direct import PAGE
from any2vec.errors import FormatError, StorageError
from any2vec.models.networks.features import CachedFeatures
from any2vec.models.networks.hot_rows import SCORES, STEPS, Asked, highest, num_targets, reverse_pagerank
from any2vec.tables.disk.trace import Trace
from any2vec.types import Csr

NODES = 5000


def stored(folder: Path, columns: int, dtype: Any) -> tuple[np.ndarray, np.ndarray, RowFile]:
    rng = np.random.default_rng(columns)
    rows = (rng.normal(size=(NODES, columns)) * 50).astype(dtype)
    scales = rng.random(NODES).astype(np.float32) if dtype == np.int8 else np.empty(0, np.float32)
    file = ArrayFile(folder / "features.npy", dtype, (columns,))
    file.append(rows)
    file.close()
    return rows, scales, RowFile(folder / "features.npy", np.dtype(dtype), NODES, columns)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("columns", [1, 17, 128, 1500])
@pytest.mark.parametrize("policy", ["static", "lru", "fifo"])
def test_rows_are_those_of_the_file(tmp_path: Path, dtype: Any, columns: int, policy: str) -> None:
    rows, scales, file = stored(tmp_path, columns, dtype)
    kept = np.array([7, 4999, 0, 300]) if policy == "static" else None
    features = CachedFeatures(file, scales, 4 if kept is not None else 60, policy, kept)
    (tmp_path / "features.npy").unlink()  # what is open outlives its name
    plain, rng = FeatureRows(rows, scales), np.random.default_rng(0)
    for size in (1, 5, 40, 2000, 0):
        ids = rng.integers(0, NODES, size).astype(np.int32)
        assert np.array_equal(features.take(ids), plain.take(ids))
    assert np.array_equal(features.take(np.arange(NODES)), plain.take(np.arange(NODES)))
    assert np.array_equal(features.take(np.array([4999, 0, 4999])), plain.take(np.array([4999, 0, 4999])))
    features.close()


def test_what_is_missed_is_counted_and_read_in_whole_pages_once(tmp_path: Path) -> None:
    rows, scales, file = stored(tmp_path, 256, np.float32)  # 4 rows a page, but for the header
    features = CachedFeatures(file, scales, 2, "static", np.array([10, 11]))
    features.take(np.array([10, 11, 10]))
    assert features.reads == (0, 0)
    features.take(np.array([11, 0, 0]))
    assert features.reads == (1, PAGE)
    features.take(np.array([1000, 1, 2]))  # two of them in one page
    assert features.reads == (4, 3 * PAGE)
    features.take(np.array([3, 1000]))  # the first lies across two pages
    assert features.reads == (6, 6 * PAGE)
    lru = CachedFeatures(RowFile(file.path, np.dtype(np.float32), NODES, 256), scales, 3, "lru")
    for ids, missed in (([1, 2, 3], 3), ([2, 3], 3), ([4], 4), ([2, 3, 4], 4), ([1], 5)):
        assert np.array_equal(lru.take(np.array(ids)), rows[ids]) and lru.reads.missed == missed
    features.close()
    lru.close()


def test_a_file_that_is_cut_is_said(tmp_path: Path) -> None:
    _, scales, file = stored(tmp_path, 64, np.float32)
    with (tmp_path / "features.npy").open("r+b") as opened:
        opened.truncate(100_000)
    features = CachedFeatures(file, scales, 0, "lru")
    assert features.take(np.arange(10)).shape == (10, 64)
    with pytest.raises(FormatError, match=r"features.npy is cut: it ends before byte"):
        features.take(np.array([5, 4000]))
    features.close()


@pytest.mark.parametrize("error", [MemoryError, StorageError])
@pytest.mark.parametrize("policy", ["static", "lru", "lfu", "tinylfu", "fifo", "belady"])
def test_what_a_failed_read_leaves_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, error: type[Exception]
) -> None:
    """Places were given to rows that never came: what asks next reads them, and no place stays held."""
    rows, scales, file = stored(tmp_path, 8, np.float32)
    features = CachedFeatures(file, scales, 50, policy, np.arange(50) if policy == "static" else None)

    def asked(ids: np.ndarray) -> np.ndarray:
        if not features.needs_next_uses:
            return features.take(ids)
        return features.read(ids, features.place(ids, np.arange(len(ids))))[0]

    def fails(*args: Any) -> int:
        raise error("disk or memory")

    assert np.array_equal(asked(np.arange(0, 60, 2)), rows[np.arange(0, 60, 2)])
    with monkeypatch.context() as patch:
        patch.setattr(RowFile, "read", fails)
        with pytest.raises(error, match="disk or memory"):
            asked(np.arange(0, 120, 3))
    assert not features.residency.held_K.any()
    for ids in (np.arange(0, 120, 3), np.arange(100)):
        assert np.array_equal(features.take(ids), rows[ids]) and np.array_equal(asked(ids), rows[ids])
        assert not features.residency.held_K.any()
    features.close()


@pytest.mark.parametrize("policy", ["lru", "belady"])
def test_rows_that_are_placed_and_not_read_yet_are_the_files(tmp_path: Path, policy: str) -> None:
    """Batches are placed and read by another thread than that which evaluates meanwhile."""
    rows, scales, file = stored(tmp_path, 8, np.float32)
    features, ids = CachedFeatures(file, scales, 50, policy), np.arange(0, 80, 2)
    placed = features.place(ids, np.arange(40) if policy == "belady" else None)
    assert placed.is_new_U.all()
    assert np.array_equal(features.take(np.arange(60)), rows[:60])
    assert np.array_equal(features.read(ids, placed)[0], rows[ids])
    features.close()


def test_scores_are_who_may_ask() -> None:
    csr = Csr(np.array([0, 2, 3, 5]), np.array([1, 2, 2, 0, 2], np.int32), np.empty(0, np.float32))
    assert num_targets(csr).tolist() == [1, 1, 3]
    assert highest(np.array([5, 9, 9, 1, 9]), 2).tolist() == [1, 2]


def read_by(features: CachedFeatures, trace: list[np.ndarray], ahead: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(ids, rows) of each batch, planned where the policy asks for it."""
    if not features.needs_next_uses:
        yield from ((ids, features.take(ids)) for ids in trace)
        return
    pytest.importorskip("torch", reason="batches of graph networks need torch")
    from any2vec.models.networks.batches import Drawn, Seeds
    from any2vec.models.networks.stages import BatchRead, planned

    none = np.empty(0, np.int64)
    coming = (
        BatchRead(Drawn(step, Seeds(none, None, 0), ids.astype(np.int32), None, len(ids), 0), none, None, None, Reads())
        for step, ids in enumerate(trace)
    )
    with Trace(1000) as kept:
        for one in planned(coming, features, ahead, kept):
            assert one.placed is not None
            yield one.id_U, features.read(one.id_U, one.placed)[0]


def test_belady_misses_least_and_what_is_not_planned_moves_nothing(tmp_path: Path) -> None:
    """Of a trace that is known to its end; the values are the file's."""
    rows, scales, file = stored(tmp_path, 8, np.float32)
    rng = np.random.default_rng(5)
    trace = [np.unique((rng.random(40) ** 3 * 400).astype(np.int64)) for _ in range(60)]
    counts = np.bincount(np.concatenate(trace), minlength=NODES)
    missed: dict[str, int] = {}
    for policy in ("belady", "lru", "lfu", "tinylfu", "fifo", "static"):
        kept = highest(counts, 50) if policy == "static" else None
        reader = RowFile(file.path, np.dtype(np.float32), NODES, 8)
        features = CachedFeatures(reader, scales, 50, policy, kept)
        for ids, row_UD in read_by(features, trace, len(trace)):
            assert np.array_equal(row_UD, rows[ids])
            before = len(features.residency)
            if policy == "belady":
                counted = features.reads
                assert np.array_equal(features.take(np.array([4000, ids[0]])), rows[[4000, ids[0]]])
                assert len(features.residency) == before and not features.residency.held_K.any()
                features.reads = counted
        missed[policy] = features.reads.missed + (50 if policy == "static" else 0)
        features.close()
    assert min(missed, key=lambda name: missed[name]) == "belady", missed


def test_reverse_pagerank_is_where_walks_to_in_neighbors_are() -> None:
    """Of a graph with a node that nobody asks for, and one without in-neighbors; by powers of the matrix of steps."""
    lists = [[1, 2], [2], [], [0, 2], [3]]
    csr = Csr(
        np.cumsum([0, *map(len, lists)]), np.array([node for nodes in lists for node in nodes], np.int32),
        np.empty(0, np.float32),
    )  # fmt: skip
    step = np.zeros((5, 5))
    for node, nodes in enumerate(lists):
        step[nodes, node] = 1 / max(1, len(nodes))
    for start in (np.ones(5), np.array([0.0, 0, 0, 0, 3])):
        first = start / start.sum()
        expected = np.zeros(5)
        for times in range(STEPS):
            expected += 0.15 * np.linalg.matrix_power(0.85 * step, times) @ first
        expected += np.linalg.matrix_power(0.85 * step, STEPS) @ first
        assert np.allclose(reverse_pagerank(csr, start), expected)
    asked = Asked(csr, np.array([4]), lambda: [np.array([0, 4]), np.array([4])])
    assert SCORES["weighted-reverse-pagerank"](asked).argmax() == 4 and SCORES["reverse-pagerank"](asked).argmax() == 2
    assert SCORES["presampled"](asked).tolist() == [1, 0, 0, 0, 2]
