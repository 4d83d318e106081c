"""How often two words stand near each other: a stretch of tokens becomes packed keys, which are sorted and summed.

A key is one pair and what it counts for: (row * V + other row) << 8 | part << 7 | weight. So sorting the keys alone
brings equal pairs together, and no second array need be moved.

Legend: T types of the corpus, V vocabulary, W window, B keys of a buffer, N pairs of a run, 2 the two parts.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import draw
from any2vec.kernels.text.windows import FAR

LARGEST_WINDOW = 127
LARGEST_VOCABULARY = 1 << 28
PART_POSITIONS = 1024
"""neighboring positions of the stream that fall into the same of the two parts"""

_LOW32 = np.uint64(0xFFFFFFFF)
_WEIGHT = np.uint64(LARGEST_WINDOW)
_7, _8, _ONE = np.uint64(7), np.uint64(8), np.uint64(1)


@jit
def gather_pairs(
    tokens: np.ndarray,
    start: int,
    stop: int,
    offset: int,
    row_T: np.ndarray,
    keep_V: np.ndarray,
    key: np.uint64,
    near_W: np.ndarray,
    where_W: np.ndarray,
    key_B: np.ndarray,
) -> tuple[int, int]:
    """Put the pairs of kept tokens of `tokens[start:stop]` into key_B, as far as they fit; (next position, keys).

    tokens int32 (P,), -1 ends a sentence; row_T int32 (T,), the row of a type or -1, which vanishes; offset is the
    global position of tokens[0]; keep_V and key are those of `gather_windows`, so that the tokens which a trainer keeps
    are kept. Two kept tokens d places apart (at most W, in one sentence, no more than FAR positions) count W + 1 - d in
    both directions: W times the chance that a window drawn from 1..W reaches so far.
    near_W int32 and where_W int64 hold the last kept tokens, the newest first, and what of them is of an older sentence
    is -1: they carry a sentence over from one call to the next.
    """
    window, rows = near_W.size, np.uint64(keep_V.size)
    size, position = 0, start
    while position < stop and size + 2 * window <= key_B.size:
        token = tokens[position]
        at = offset + position
        position += 1
        if token < 0:
            near_W[:] = -1
            continue
        row = row_T[token]
        if row < 0 or (draw(key, np.uint64(at)) & _LOW32) >= keep_V[row]:
            continue
        one = np.uint64(row)
        part = (np.uint64(at // PART_POSITIONS) & _ONE) << _7
        for d in range(window):
            if near_W[d] < 0 or at - where_W[d] > FAR:
                break
            other = np.uint64(near_W[d])
            weight = part | np.uint64(window - d)
            key_B[size] = (one * rows + other) << _8 | weight
            key_B[size + 1] = (other * rows + one) << _8 | weight
            size += 2
        for d in range(window - 1, 0, -1):
            near_W[d] = near_W[d - 1]
            where_W[d] = where_W[d - 1]
        near_W[0] = row
        where_W[0] = at
    return position, size


@jit
def sum_sorted(key_B: np.ndarray, pair_N: np.ndarray, weight_N2: np.ndarray) -> int:
    """Sum the weights of equal pairs of sorted keys, by part; how many pairs there are.

    pair_N uint64 (row * V + other row, ascending) and weight_N2 int64 have room for as many as there are keys.
    """
    size = 0
    for b in range(key_B.size):
        pair = key_B[b] >> _8
        if size == 0 or pair_N[size - 1] != pair:
            pair_N[size] = pair
            weight_N2[size] = 0
            size += 1
        weight_N2[size - 1, np.int64((key_B[b] >> _7) & _ONE)] += np.int64(key_B[b] & _WEIGHT)
    return size


@jit
def merge_sorted(
    pair_A: np.ndarray, weight_A2: np.ndarray, pair_B: np.ndarray, weight_B2: np.ndarray, pair_N: np.ndarray,
    weight_N2: np.ndarray,
) -> int:  # fmt: skip
    """Merge two runs of ascending pairs into one, adding what both have; its length, at most A + B."""
    a = b = size = 0
    while a < pair_A.size or b < pair_B.size:
        from_a = b == pair_B.size or (a < pair_A.size and pair_A[a] <= pair_B[b])
        from_b = a == pair_A.size or (b < pair_B.size and pair_B[b] <= pair_A[a])
        weight_N2[size] = 0
        if from_a:
            pair_N[size] = pair_A[a]
            for part in range(weight_N2.shape[1]):
                weight_N2[size, part] += weight_A2[a, part]
            a += 1
        if from_b:
            pair_N[size] = pair_B[b]
            for part in range(weight_N2.shape[1]):
                weight_N2[size, part] += weight_B2[b, part]
            b += 1
        size += 1
    return size
