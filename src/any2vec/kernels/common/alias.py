"""Alias tables: a draw from any discrete distribution with one 64-bit word and at most two reads.

Walker 1977, "An efficient method for generating discrete random variables with general distributions"; the tables are
built in linear time as in Vose 1991, "A linear algorithm for generating random numbers with a given distribution".
A column keeps its own outcome when 32 random bits are below `threshold`, and gives `alias` otherwise; a column that is
all its own has `alias` equal to itself, so the bound of 2**32 - 1 costs nothing.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit

_32 = np.uint64(32)
_LOW32 = np.uint64(0xFFFFFFFF)
_TWO32 = 4294967296.0
_FULL = np.uint32(0xFFFFFFFF)


@jit
def fill_alias(
    weights: np.ndarray,
    start: int,
    stop: int,
    share: np.ndarray,
    work: np.ndarray,
    threshold: np.ndarray,
    alias: np.ndarray,
) -> None:
    """Build the table of weights[start:stop] into the same places; `alias` counts from `start`.

    weights: float (E,), finite, >= 0, with a positive sum over the row. share: float64 (M,) and work: int32 (M,) are
    scratch for M >= stop - start. threshold: uint32 (E,), alias: int32 (E,) are written in [start, stop).
    """
    n = stop - start
    total = 0.0
    for i in range(n):
        total += np.float64(weights[start + i])
    small = 0  # columns below the mean are stacked from the left of `work`, the others from its right
    large = n
    for i in range(n):
        share[i] = np.float64(weights[start + i]) / total * n
        if share[i] < 1.0:
            work[small] = i
            small += 1
        else:
            large -= 1
            work[large] = i
    while small > 0 and large < n:
        small -= 1
        poor = work[small]
        rich = work[large]
        threshold[start + poor] = np.uint32(min(share[poor] * _TWO32, 4294967295.0))
        alias[start + poor] = rich
        share[rich] = (share[rich] + share[poor]) - 1.0
        if share[rich] < 1.0:
            large += 1
            work[small] = rich
            small += 1
    # What is left on either stack is a full column, up to rounding.
    for k in range(small):
        threshold[start + work[k]] = _FULL
        alias[start + work[k]] = work[k]
    for k in range(large, n):
        threshold[start + work[k]] = _FULL
        alias[start + work[k]] = work[k]


@jit
def build_alias(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Table of one distribution: weights float64 (V,), finite, >= 0, positive sum, V < 2**31.

    Returns (threshold uint32 (V,), alias int32 (V,)). O(V) time and memory; deterministic.
    """
    n = weights.size
    threshold = np.empty(n, np.uint32)
    alias = np.empty(n, np.int32)
    fill_alias(weights, 0, n, np.empty(n, np.float64), np.empty(n, np.int32), threshold, alias)
    return threshold, alias


@jit
def draw_alias(bits64: np.uint64, threshold: np.ndarray, alias: np.ndarray) -> np.int64:
    """An outcome in [0, V) as int64 from 64 random bits: the high 32 choose the column, the low 32 toss its coin."""
    column = np.int64(((bits64 >> _32) * np.uint64(threshold.size)) >> _32)
    if (bits64 & _LOW32) < np.uint64(threshold[column]):
        return column
    return np.int64(alias[column])


@jit
def build_row_alias(indptr: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One table per row of a CSR: indptr int64 (N + 1,), weights float32 (E,), each > 0.

    Returns (threshold uint32 (E,), alias int32 (E,)), alias counting from the start of its row. O(E).
    """
    widest = 1
    for row in range(indptr.size - 1):
        widest = max(widest, indptr[row + 1] - indptr[row])
    threshold = np.empty(weights.size, np.uint32)
    alias = np.empty(weights.size, np.int32)
    share = np.empty(widest, np.float64)
    work = np.empty(widest, np.int32)
    for row in range(indptr.size - 1):
        fill_alias(weights, indptr[row], indptr[row + 1], share, work, threshold, alias)
    return threshold, alias
