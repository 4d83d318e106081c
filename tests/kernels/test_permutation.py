"""The permutation that needs no memory: its plain twin, its inverse, no two alike, and no pattern left."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.kernels.common.permutation import bits_of, permute, shuffle_rows, unpermute
from marks import uint64_wraps
from naive.common import permutation as naive

pytestmark = uint64_wraps


def all_of(n: int, key: int) -> np.ndarray:
    found_N = np.empty(n, np.int64)
    permute(np.arange(n), n, np.uint64(key), found_N)
    return found_N


@settings(deadline=None, max_examples=60)
@given(n=st.integers(1, 700), key=st.integers(0, 2**64 - 1))
def test_it_is_a_permutation_that_equals_its_twin(n: int, key: int) -> None:
    found_N = all_of(n, key)
    assert sorted(found_N.tolist()) == list(range(n))
    assert found_N.tolist() == [naive.permuted(number, n, key) for number in range(n)]
    back_N = np.empty(n, np.int64)
    unpermute(found_N, n, np.uint64(key), back_N)
    assert np.array_equal(back_N, np.arange(n))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 1 << 20, (1 << 20) + 1, (1 << 31) - 1])
def test_bits(n: int) -> None:
    assert bits_of(n) == max(1, (n - 1).bit_length())


@pytest.mark.parametrize("n", [1000, 100_003, 1 << 17])
def test_no_pattern_is_left(n: int) -> None:
    """Neither of place (correlation of ranks, neighbors) nor of the low bit; keys differ in nearly all places."""
    found_N = all_of(n, 5)
    share = 5 / np.sqrt(n)
    assert abs(np.corrcoef(np.arange(n), found_N)[0, 1]) < share
    assert abs(np.corrcoef(found_N[1:], found_N[:-1])[0, 1]) < share
    assert abs((found_N % 2 == np.arange(n) % 2).mean() - 0.5) < share
    assert (found_N == all_of(n, 6)).mean() < 0.01 and (found_N == np.arange(n)).mean() < 0.01


def test_small_orders_are_all_drawn() -> None:
    """Of the 24 orders of four each comes about as often as any."""
    counts: dict[tuple[int, ...], int] = {}
    rng = np.random.default_rng(1)
    for key in rng.integers(0, 2**63, 2400):
        counts[order] = counts.get(order := tuple(all_of(4, int(key)).tolist()), 0) + 1
    assert len(counts) == 24 and max(counts.values()) < 250


def test_rows_keep_together() -> None:
    row_MC = np.arange(300, dtype=np.int32).reshape(100, 3)
    found_MC = np.empty_like(row_MC)
    shuffle_rows(row_MC, np.uint64(9), found_MC)
    assert np.array_equal(found_MC[:, 0], row_MC[all_of(100, 9), 0]) and (np.diff(found_MC, axis=1) == 1).all()
