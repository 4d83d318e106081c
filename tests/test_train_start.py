"""Start values taken over from given vectors: by key, and only numbers that the kernels can bear."""

from __future__ import annotations

import numpy as np
import pytest

from any2vec import Embeddings, InputError, SkipGram
from any2vec.train.start import carry_over


def given(**changes: np.ndarray) -> Embeddings:
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    return Embeddings(["a", "b"], changes.get("vectors", rows), changes.get("output", -rows), np.array([5, 4]))


def test_rows_go_to_their_keys_and_unknown_keys_are_kept() -> None:
    tables, keys, counts = carry_over(given(), ["b", "c"], np.array([7, 3]), SkipGram(dim=3), seed=1)
    assert keys == ["b", "c", "a"] and counts.tolist() == [11, 3, 5]
    assert tables["input"].rows[[0, 2]].tolist() == [[3, 4, 5], [0, 1, 2]]
    assert tables["output"].rows.tolist() == [[-3, -4, -5], [0, 0, 0], [0, -1, -2]]


@pytest.mark.parametrize("side", ["vectors", "output"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -2e4])
def test_numbers_beyond_the_bound_are_refused(side: str, bad: float) -> None:
    rows = np.zeros((2, 3), np.float32)
    rows[1, 2] = bad
    with pytest.raises(InputError, match="beyond 10000"):
        carry_over(given(**{side: rows}), ["b"], np.array([1]), SkipGram(dim=3), seed=1)
