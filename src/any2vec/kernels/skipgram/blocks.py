"""Blocks: what is kept of a short stretch of the stream, trained together on shared negatives.

Legend: V vocabulary, D dim, M kept tokens of a chunk, B blocks of a chunk, C input rows of a block, Y its output rows,
K shared negatives, N whatever number of places.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.alias import draw_alias
from any2vec.kernels.common.jit import fast_jit, jit
from any2vec.kernels.common.prefetch import prefetch_row
from any2vec.kernels.common.rng import draw
from any2vec.kernels.common.vectors import padded

MARKS = 1024
"""places of the map that tells which negatives may be a center of the block; see `mark_rows`"""

STEP = np.float32(2)
"""curvature that one step of a row may meet; see `damping`"""


@jit
def cut_blocks(
    position_M: np.ndarray,
    first: int,
    last: int,
    block: int,
    most: int,
    negative_key: np.uint64,
    threshold_V: np.ndarray,
    alias_V: np.ndarray,
    begin_B: np.ndarray,
    end_B: np.ndarray,
    negative_BK: np.ndarray,
) -> int:
    """Cut the centers first..last - 1 into blocks and draw each block's negatives. Returns the number of blocks.

    A block is what is kept of `block` consecutive positions of the stream (global ones, so that a cut of the work
    elsewhere changes nothing), shared out so that none holds more than `most`. Writes begin_B, end_B int64 and
    negative_BK int32 (B, K). Negative k of a block is draw 1024 p + k of its stream, p the position of its first
    center.
    """
    size = 0
    entry = first
    while entry < last:
        stretch = position_M[entry] // block
        border = (stretch + 1) * block
        stop = entry
        while stop < last and position_M[stop] < border:
            stop += 1
        pieces = (stop - entry + most - 1) // most
        for piece in range(pieces):
            begin_B[size] = entry + (stop - entry) * piece // pieces
            end_B[size] = entry + (stop - entry) * (piece + 1) // pieces
            counter = np.uint64(position_M[begin_B[size]]) * np.uint64(1024)
            for k in range(negative_BK.shape[1]):
                negative_BK[size, k] = draw_alias(draw(negative_key, counter + np.uint64(k)), threshold_V, alias_V)
            size += 1
        entry = stop
    return size


@jit
def prefetch_block(
    input_VD: np.ndarray,
    slot_M: np.ndarray,
    output_VD: np.ndarray,
    row_M: np.ndarray,
    right_M: np.ndarray,
    known: int,
    begin: int,
    end: int,
    negative_K: np.ndarray,
) -> None:
    """Fetch the rows of the block of centers begin..end - 1: inputs from entry `known` on, centers, negatives."""
    for j in range(known, right_M[end - 1]):
        prefetch_row(input_VD, slot_M[j])
    for j in range(begin, end):
        prefetch_row(output_VD, row_M[j])
    for k in range(negative_K.size):
        prefetch_row(output_VD, negative_K[k])


@jit
def mark_rows(ids: np.ndarray, mark: int, mark_N: np.ndarray) -> None:
    """Put `mark` on each id's place of mark_N, uint8 (MARKS,): a row whose place is 0 is surely none of them."""
    for j in range(ids.size):
        mark_N[ids[j] & (MARKS - 1)] = mark


@jit
def fast_sigmoid(x: float) -> np.float32:
    """1 / (1 + exp(-x)) of a float32, absolute error below 4e-6, without a table or a branch.

    Lambert's continued fraction of tanh(z), z = x / 2, cut after nine terms and clamped at |z| = 8, so that a loop
    over it runs in vector registers.
    """
    half, one = np.float32(0.5), np.float32(1)
    z = min(max(x * half, np.float32(-8)), np.float32(8))
    z2 = z * z
    top = z * (
        np.float32(34459425) + z2 * (np.float32(4729725) + z2 * (np.float32(135135) + z2 * (np.float32(990) + z2)))
    )
    bottom = np.float32(34459425) + z2 * (
        np.float32(16216200) + z2 * (np.float32(945945) + z2 * (np.float32(13860) + np.float32(45) * z2))
    )
    return half + half * min(max(top / bottom, -one), one)


@fast_jit
def damping(id_N: np.ndarray, curvature_N: np.ndarray, factor_N: np.ndarray, scratch_N: np.ndarray) -> None:
    """factor[i] = min(1, STEP / total), total = sum of curvature over all places of the block that hold the same id.

    A block moves a row once, by the sum of what its pairs ask for at the block's start. The loss along that row curves
    by at most rate / 4 sum of weight |partner| ** 2 (the logistic's second derivative is at most 1/4); a gradient step
    descends while that number stays below 2 = STEP, which is where longer steps are cut. Rows that meet many long
    partners, or stand several times in a block, would overshoot without this; nearly all others have factor 1.
    curvature_N and scratch_N, int32, have room to `padded` places.
    """
    wide = padded(id_N.size)
    for i in range(id_N.size):
        scratch_N[i] = id_N[i]
    for i in range(id_N.size, wide):
        scratch_N[i] = -1
    for i in range(id_N.size):
        total = np.float32(0)
        for j in range(wide):
            total += curvature_N[j] if scratch_N[j] == scratch_N[i] else np.float32(0)
        factor_N[i] = min(np.float32(1), STEP / max(total, np.float32(1e-30)))


@fast_jit
def count_pairs(
    begin: int, end: int, low: int, left_M: np.ndarray, right_M: np.ndarray, columns: int, pairs_C: np.ndarray
) -> None:
    """pairs[c] = how many centers of the block have local row c as a context; 0 from `columns` on.

    Steps up and down, then a running sum: adding 1 window by window would wait for each store.
    """
    for c in range(pairs_C.size):
        pairs_C[c] = np.float32(0)
    for center in range(begin, end):
        pairs_C[left_M[center] - low] += np.float32(1)
        pairs_C[right_M[center] - low] -= np.float32(1)
    total = np.float32(0)
    for c in range(columns + 1):
        total += pairs_C[c]
        pairs_C[c] = total
    for c in range(begin - low, end - low):
        pairs_C[c] -= np.float32(1)


@fast_jit
def input_curvatures(
    begin: int,
    end: int,
    low: int,
    left_M: np.ndarray,
    right_M: np.ndarray,
    share: float,
    rate: float,
    pairs_C: np.ndarray,
    norm_Y: np.ndarray,
    curve_C: np.ndarray,
) -> None:
    """Bound of the loss's curvature along each input row of a block; see `damping`.

    rate / 4 times (sum of |y| ** 2 over the centers that have the row as a context, plus share |n| ** 2 for each such
    center and negative). Window sums are steps up and down, then a running sum.
    """
    centers, columns = end - begin, curve_C.size
    negatives = np.float32(0)
    for y in range(centers, norm_Y.size):
        negatives += norm_Y[y]
    for c in range(columns):
        curve_C[c] = np.float32(0)
    for e in range(centers):
        right = right_M[begin + e] - low
        curve_C[left_M[begin + e] - low] += norm_Y[e]
        if right < columns:
            curve_C[right] -= norm_Y[e]
    total = np.float32(0)
    for c in range(columns):
        total += curve_C[c]
        own = norm_Y[c - (begin - low)] if begin - low <= c < end - low else np.float32(0)
        curve_C[c] = rate * np.float32(0.25) * (max(total - own, np.float32(0)) + share * pairs_C[c] * negatives)
