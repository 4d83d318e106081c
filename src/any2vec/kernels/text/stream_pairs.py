"""Weights of pairs of words in a table of fixed size: one entry for both directions, found by hash.

A pair is known by the births of its two rows, (larger + 1) << 32 | (smaller + 1), so never 0: a row that gets another
word begins with no pairs.

Legend: B keys of a buffer, V vocabulary, S slots, R rows and H cells of the sketch, N pairs.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import mix64
from any2vec.kernels.common.sketch import least_cell
from any2vec.kernels.text.pair_counts import LARGEST_WINDOW

_WEIGHT = np.uint64(LARGEST_WINDOW)
_ZERO, _ONE, _8, _32 = np.uint64(0), np.uint64(1), np.uint64(8), np.uint64(32)


@jit
def add_pairs(
    key_B: np.ndarray,
    start: int,
    stop: int,
    birth_V: np.ndarray,
    unit: float,
    most: int,
    pair_S: np.ndarray,
    weight_S: np.ndarray,
    sum_V: np.ndarray,
    cell_RH: np.ndarray,
    salt: np.uint64,
    size: int,
) -> tuple[int, int, float]:
    """Add the pairs of key_B[start:stop], those of `gather_pairs`, each times `unit`.

    Returns (next key, pairs in the table, weight that was added).

    Of the two directions only the first is read. pair_S uint64 (0: an empty slot), weight_S float64; sum_V float64, the
    marginals of rows. A pair that is new to the table begins with what the sketch float64 (R, H) says of it. Stops
    before a new pair when the table has `most`.
    """
    rows, mask = np.uint64(birth_V.size), np.uint64(pair_S.size - 1)
    b, added = start, 0.0
    while b < stop:
        both, weight = key_B[b] >> _8, unit * np.float64(key_B[b] & _WEIGHT)
        row, other = np.int64(both // rows), np.int64(both % rows)
        one, two = np.uint64(birth_V[row] + 1), np.uint64(birth_V[other] + 1)
        pair = (max(one, two) << _32) | min(one, two)
        slot = mix64(pair) & mask
        while pair_S[slot] != _ZERO and pair_S[slot] != pair:
            slot = (slot + _ONE) & mask
        if pair_S[slot] == _ZERO:
            if size >= most:
                break
            pair_S[slot] = pair
            weight_S[slot] = least_cell(cell_RH, pair ^ salt)
            size += 1
        weight_S[slot] += weight
        added += weight
        sum_V[row] += weight
        sum_V[other] += weight
        b += 2
    return b, size, added


@jit
def put_pairs(pair_N: np.ndarray, weight_N: np.ndarray, pair_S: np.ndarray, weight_S: np.ndarray) -> None:
    """Put pairs that are new to the table into it."""
    mask = np.uint64(pair_S.size - 1)
    for n in range(pair_N.size):
        slot = mix64(pair_N[n]) & mask
        while pair_S[slot] != _ZERO:
            slot = (slot + _ONE) & mask
        pair_S[slot] = pair_N[n]
        weight_S[slot] = weight_N[n]
