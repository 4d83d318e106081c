"""Features on disk: the rows are those of the file, whatever stands in memory, and what is read is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any2vec.data.attributed.features import FeatureRows
from any2vec.data.attributed.row_file import RowFile
from any2vec.data.io.array_file import ArrayFile
from any2vec.data.io.direct import PAGE
from any2vec.errors import FormatError
from any2vec.models.networks.features import CachedFeatures, highest, num_targets
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
    assert features.moved == (0, 0)
    features.take(np.array([11, 0, 0]))
    assert features.moved == (1, PAGE)
    features.take(np.array([1000, 1, 2]))  # two of them in one page
    assert features.moved == (4, 3 * PAGE)
    features.take(np.array([3, 1000]))  # the first lies across two pages
    assert features.moved == (6, 6 * PAGE)
    lru = CachedFeatures(RowFile(file.path, np.dtype(np.float32), NODES, 256), scales, 3, "lru")
    for ids, missed in (([1, 2, 3], 3), ([2, 3], 3), ([4], 4), ([2, 3, 4], 4), ([1], 5)):
        assert np.array_equal(lru.take(np.array(ids)), rows[ids]) and lru.moved.rows_missed == missed
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


def test_scores_are_who_may_ask() -> None:
    csr = Csr(np.array([0, 2, 3, 5]), np.array([1, 2, 2, 0, 2], np.int32), np.empty(0, np.float32))
    assert num_targets(csr).tolist() == [1, 1, 3]
    assert highest(np.array([5, 9, 9, 1, 9]), 2).tolist() == [1, 2]
