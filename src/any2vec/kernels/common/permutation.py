"""A seeded permutation of [0, n) that needs no memory: any place of it, and of its inverse, can be asked for alone.

A Feistel network over the bits of a number (Luby and Rackoff 1988), its round function the draw of
kernels/common/rng.py; what falls outside [0, n) goes through it again (cycle walking: Black and Rogaway 2002, "Ciphers
with arbitrary finite domains"), less than twice on average.

Letters: M numbers, C columns.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import draw

ROUNDS = 6


@jit
def bits_of(n: int) -> np.int64:
    """Bits that numbers below n need, 1 at least."""
    bits = 1
    while (1 << bits) < n:
        bits += 1
    return np.int64(bits)


@jit
def _halves(bits: int) -> tuple[np.uint64, np.uint64, np.uint64]:
    """(bits of the lower half of a number, its mask, the mask of the upper half)."""
    low_bits, one = np.uint64(bits // 2), np.uint64(1)
    return low_bits, (one << low_bits) - one, (one << (np.uint64(bits) - low_bits)) - one


@jit
def permuted(number: int, n: int, bits: int, key: np.uint64) -> np.int64:
    """Where the permutation `key` of [0, n) sends a number; bits: `bits_of(n)`."""
    low_bits, low_mask, high_mask = _halves(bits)
    found = np.uint64(number)
    while True:
        low, high = found & low_mask, found >> low_bits
        for r in range(ROUNDS // 2):
            high ^= draw(key, low * np.uint64(ROUNDS) + np.uint64(2 * r)) & high_mask
            low ^= draw(key, high * np.uint64(ROUNDS) + np.uint64(2 * r + 1)) & low_mask
        found = (high << low_bits) | low
        if found < np.uint64(n):
            return np.int64(found)


@jit
def unpermuted(number: int, n: int, bits: int, key: np.uint64) -> np.int64:
    """The inverse of `permuted`."""
    low_bits, low_mask, high_mask = _halves(bits)
    found = np.uint64(number)
    while True:
        low, high = found & low_mask, found >> low_bits
        for back in range(ROUNDS // 2):
            r = ROUNDS // 2 - 1 - back
            low ^= draw(key, high * np.uint64(ROUNDS) + np.uint64(2 * r + 1)) & low_mask
            high ^= draw(key, low * np.uint64(ROUNDS) + np.uint64(2 * r)) & high_mask
        found = (high << low_bits) | low
        if found < np.uint64(n):
            return np.int64(found)


@jit
def permute(number_M: np.ndarray, n: int, key: np.uint64, found_M: np.ndarray) -> None:
    """found[m] = where number[m], in [0, n), is sent; integers, either may be the other."""
    bits = bits_of(n)
    for m in range(number_M.size):
        found_M[m] = permuted(number_M[m], n, bits, key)


@jit
def unpermute(number_M: np.ndarray, n: int, key: np.uint64, found_M: np.ndarray) -> None:
    """The inverse of `permute`."""
    bits = bits_of(n)
    for m in range(number_M.size):
        found_M[m] = unpermuted(number_M[m], n, bits, key)


@jit
def shuffle_rows(row_MC: np.ndarray, key: np.uint64, found_MC: np.ndarray) -> None:
    """found[m] = row[where m is sent], all rows in another order."""
    size, columns = row_MC.shape
    bits = bits_of(size)
    for m in range(size):
        place = permuted(m, size, bits, key)
        for column in range(columns):
            found_MC[m, column] = row_MC[place, column]
