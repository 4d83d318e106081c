"""Skip-gram with negative sampling over pairs whose order is free, on a table of which a part is in memory.

A row of the table has an item's input vector and, behind it, its output vector: row s of the table is rows 2 s and
2 s + 1 of `half_HD`. A block of E pairs has E input rows X (items of the context), E output rows Y (centers), and K
negatives N that it shares:

    G     = N X'             dot products with the negatives; y[e] . x[e] are the positives
    dN    = B X              B[k, e] = - rate share w[e, k] sigmoid(G), 0 where the negative is the center itself
    dY[e] = a[e] x[e]        a = rate (1 - sigmoid(y[e] . x[e]))
    dX    = B' N + a[e] y[e]

with share = num_negatives / K. A negative is drawn from those rows that are there: a partition, then a row of it. Its
weight w is that of the pair's input partition with its own (plan/order/shares.py), which is 1 where all rows are
there.

Legend: M pairs, H partitions that are there, V rows of the whole table, D dim, P dim padded, B blocks of a chunk,
E pairs of a block, K shared negatives, N places of the map of `mark_rows`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from any2vec.kernels.common.alias import draw_alias
from any2vec.kernels.common.jit import fast_jit, jit
from any2vec.kernels.common.prefetch import prefetch_row
from any2vec.kernels.common.rng import draw
from any2vec.kernels.common.scalar import log_loss, rate_at
from any2vec.kernels.common.tiles import dot_rows, fours, mix_rows, mix_rows_across
from any2vec.kernels.common.vectors import local_rows, padded
from any2vec.kernels.rows.rows import give_rows, take_partners, take_rows
from any2vec.kernels.skipgram.blocks import MARKS, damping, fast_sigmoid, mark_rows
from any2vec.kernels.text.windows import gather_windows

PAIRS = 32
"""pairs of a block"""
MOST_SHARED = 1024
"""K at most; a block has so many counters of two draws each"""
_BLOCKS = 64
"""blocks whose negatives are drawn together"""


class Noise(NamedTuple):
    """Where negatives come from while some partitions are there."""

    threshold_V: np.ndarray
    """uint32: alias tables of the rows' noise, each partition's own, by row of the whole table"""
    alias_V: np.ndarray
    """int32: these count from the partition's first row"""
    threshold_H: np.ndarray
    """uint32: alias table of the partitions' noise"""
    alias_H: np.ndarray
    """int32"""
    first_row_H: np.ndarray
    """int64: row of the whole table at which each partition begins"""
    size_H: np.ndarray
    """int64: its rows"""
    first_slot_H: np.ndarray
    """int64: the slot at which it begins in memory"""
    held_B: np.ndarray
    """int32: which of the H partitions a block of memory has"""
    block_rows: int
    """slots of a block of memory"""
    weight_HH: np.ndarray
    """float32: what a negative of partition k counts to a pair whose input is of partition i"""


@jit
def list_pairs(
    tokens: np.ndarray, start: int, stop: int, offset: int, keep_V: np.ndarray, token_key: np.uint64, window: int,
    row_V: np.ndarray, pair_M2: np.ndarray,
) -> int:  # fmt: skip
    """Write the (context, center) pairs of the centers in tokens[start:stop], in order; returns how many.

    Arguments and windows as in `gather_windows`; row_V int32: what is written of each item; pair_M2 int32
    (2 * window * (stop - start) or more, 2).
    """
    chunk = 2048
    capacity = chunk + 2 * window + 2
    row_M, left_M, right_M = np.empty(capacity, np.int32), np.empty(capacity, np.int32), np.empty(capacity, np.int32)
    position_M = np.empty(capacity, np.int64)
    size = 0
    for piece in range(start, stop, chunk):
        first, last, _ = gather_windows(
            tokens, piece, min(stop, piece + chunk), offset, keep_V, token_key, window,
            row_M, left_M, right_M, position_M,
        )  # fmt: skip
        for center in range(first, last):
            own = row_V[row_M[center]]
            for entry in range(left_M[center], right_M[center]):
                if entry != center:
                    pair_M2[size, 0], pair_M2[size, 1] = row_V[row_M[entry]], own
                    size += 1
    return size


@jit
def _draw_negatives(key: np.uint64, position: int, noise: Noise, negative_K: np.ndarray, part_K: np.ndarray) -> None:
    """Half rows of the negatives of the block at a position, and which partition each is of: draws 2 (1024 p + k)
    and the one behind it."""
    for k in range(negative_K.size):
        counter = np.uint64(2) * (np.uint64(position) * np.uint64(MOST_SHARED) + np.uint64(k))
        part = draw_alias(draw(key, counter), noise.threshold_H, noise.alias_H)
        first, size = noise.first_row_H[part], noise.size_H[part]
        row = draw_alias(
            draw(key, counter + np.uint64(1)),
            noise.threshold_V[first : first + size], noise.alias_V[first : first + size],
        )  # fmt: skip
        negative_K[k] = 2 * (noise.first_slot_H[part] + row) + 1
        part_K[k] = part


@fast_jit
def _coefficients(
    output_E: np.ndarray, pairs: int, negative_K: np.ndarray, weight_KE: np.ndarray, wide: int, mark_N: np.ndarray,
    g_KE: np.ndarray,
) -> None:  # fmt: skip
    """Turn G into B in place; weight_KE is rate share w, 0 where the negative is the center itself."""
    mark_rows(output_E[:pairs], 1, mark_N)
    for k in range(negative_K.size):
        g_E, weight_E = g_KE[k], weight_KE[k]
        if mark_N[negative_K[k] & (MARKS - 1)]:
            for e in range(pairs):
                if negative_K[k] == output_E[e]:
                    weight_E[e] = np.float32(0)
        for e in range(wide):
            g_E[e] = -weight_E[e] * fast_sigmoid(g_E[e])
    mark_rows(output_E[:pairs], 0, mark_N)


@fast_jit
def _curvatures(
    pairs: int, rate: float, weight_KE: np.ndarray, norm_x: np.ndarray, norm_y: np.ndarray, norm_n: np.ndarray,
    curve_x: np.ndarray, curve_y: np.ndarray, curve_n: np.ndarray,
) -> None:  # fmt: skip
    """Bounds of the loss's curvature along the rows; see `damping`."""
    quarter = np.float32(0.25)
    for e in range(pairs):
        curve_x[e] = rate * quarter * norm_y[e]
        curve_y[e] = rate * quarter * norm_x[e]
    for k in range(norm_n.size):
        total, weight_E, norm = np.float32(0), weight_KE[k], norm_n[k]
        for e in range(pairs):
            curve_x[e] += quarter * weight_E[e] * norm
            total += weight_E[e] * norm_x[e]
        curve_n[k] = quarter * total


@fast_jit
def _pull_positives(
    pairs: int, dim: int, rate: float, dot_E: np.ndarray, y_EP: np.ndarray, dx_EP: np.ndarray, factor_E: np.ndarray
) -> None:
    """dx[e] += a y[e], and a into the factor of dy[e] = a x[e]; a = rate (1 - sigmoid(dot[e]))."""
    for e in range(pairs):
        a = rate * fast_sigmoid(-dot_E[e])
        factor_E[e] *= a
        for q in range(dim):
            dx_EP[e, q] += a * y_EP[e, q]


@fast_jit
def _loss(pairs: int, rate: float, dot_E: np.ndarray, weight_KE: np.ndarray, g_KE: np.ndarray) -> float:
    """Sum of -log sigmoid(positive) - share sum_k w log sigmoid(-negative)."""
    loss = 0.0
    for e in range(pairs):
        loss += log_loss(dot_E[e])
        for k in range(weight_KE.shape[0]):
            if weight_KE[k, e] > 0:
                loss += np.float64(weight_KE[k, e] / rate) * log_loss(-g_KE[k, e])
    return loss


@fast_jit
def train_pairs(
    slot_M2: np.ndarray, start: int, stop: int, before: int, key: np.uint64, noise: Noise, half_HD: np.ndarray,
    num_negatives: int, lr_zero: float, lr_step: float, loss_every: int, num_shared: int,
) -> tuple[float, int]:  # fmt: skip
    """Train pairs [start, stop) of slot_M2, int32: slot of the context, slot of the center.

    Args:
        before: pairs of the epoch before slot_M2[0]: pair m has position before + m, of which its draws and its rate
            depend, as those of its block do on the block's first pair. Blocks are cut from `start` on.
        key: uint64, the stream PURPOSE_NEGATIVE of the epoch.
        half_HD: float32, the table in memory as rows of dim numbers.
        num_shared: K, a multiple of 4 up to 1024.
        lr_zero, lr_step: rate at position 0, and its change per pair; above 0 all through.
        loss_every: the loss is measured before the update, in one block of so many.

    Returns (loss_sum float64, loss_examples int64). Several threads are Hogwild.
    """
    dim, width = half_HD.shape[1], padded(half_HD.shape[1])
    wide, most_n = padded(PAIRS), padded(num_shared)
    input_BE, output_BE = np.zeros((_BLOCKS, PAIRS), np.int32), np.zeros((_BLOCKS, PAIRS), np.int32)
    negative_BK, part_BK = np.zeros((_BLOCKS, num_shared), np.int32), np.zeros((_BLOCKS, num_shared), np.int32)
    x_EP, y_EP, dx_EP = local_rows(wide, width), local_rows(wide, width), local_rows(wide, width)
    n_KP, dn_KP = local_rows(num_shared, width), local_rows(num_shared, width)
    g_KE, weight_KE = local_rows(num_shared, wide), local_rows(num_shared, wide)
    dot_E, part_E = np.zeros(wide, np.float32), np.zeros(wide, np.int32)
    norm_x, norm_y, norm_n = np.zeros(wide, np.float32), np.zeros(wide, np.float32), np.zeros(most_n, np.float32)
    curve_x, curve_y, curve_n = np.zeros(wide, np.float32), np.zeros(wide, np.float32), np.zeros(most_n, np.float32)
    factor_x, factor_y, factor_n = np.zeros(wide, np.float32), np.zeros(wide, np.float32), np.zeros(most_n, np.float32)
    scratch = np.zeros(max(wide, most_n), np.int32)
    mark_N = np.zeros(MARKS, np.uint8)
    share = np.float32(num_negatives) / np.float32(num_shared)
    loss_sum, examples = 0.0, 0
    for first in range(start, stop, _BLOCKS * PAIRS):
        blocks = (min(stop, first + _BLOCKS * PAIRS) - first + PAIRS - 1) // PAIRS
        for b in range(blocks):
            _draw_negatives(key, before + first + b * PAIRS, noise, negative_BK[b], part_BK[b])
            for e in range(min(PAIRS, stop - first - b * PAIRS)):
                m = first + b * PAIRS + e
                input_BE[b, e], output_BE[b, e] = 2 * slot_M2[m, 0], 2 * slot_M2[m, 1] + 1
        for b in range(blocks):
            at = first + b * PAIRS
            pairs = min(PAIRS, stop - at)
            if b + 1 < blocks:
                for e in range(min(PAIRS, stop - at - PAIRS)):
                    prefetch_row(half_HD, input_BE[b + 1, e])
                    prefetch_row(half_HD, output_BE[b + 1, e])
                for k in range(num_shared):
                    prefetch_row(half_HD, negative_BK[b + 1, k])
            input_E, output_E, negative_K = input_BE[b, :pairs], output_BE[b, :pairs], negative_BK[b]
            take_rows(half_HD, input_E, x_EP, norm_x)
            take_partners(half_HD, output_E, y_EP, norm_y, x_EP, dot_E)
            take_rows(half_HD, negative_K, n_KP, norm_n)
            dot_rows(n_KP, x_EP, g_KE, num_shared, fours(pairs))
            rate = rate_at(before + at, lr_zero, lr_step)
            for e in range(pairs):
                part_E[e] = noise.held_B[(input_E[e] >> 1) // noise.block_rows]
            for k in range(num_shared):
                part = part_BK[b, k]
                for e in range(pairs):
                    weight_KE[k, e] = rate * share * noise.weight_HH[part_E[e], part]
            is_measured = loss_every > 0 and ((before + at) // PAIRS) % loss_every == 0
            if is_measured:
                for k in range(num_shared):
                    for e in range(pairs):
                        if negative_K[k] == output_E[e]:
                            weight_KE[k, e] = np.float32(0)
                loss_sum += _loss(pairs, rate, dot_E, weight_KE, g_KE)
                examples += pairs
            _coefficients(output_E, pairs, negative_K, weight_KE, padded(pairs), mark_N, g_KE)
            _curvatures(pairs, rate, weight_KE, norm_x, norm_y, norm_n[:num_shared], curve_x, curve_y, curve_n)
            damping(input_E, curve_x, factor_x, scratch)
            damping(output_E, curve_y, factor_y, scratch)
            damping(negative_K, curve_n, factor_n, scratch)
            mix_rows(g_KE, n_KP, dx_EP, num_shared, fours(pairs))
            mix_rows_across(g_KE, x_EP, dn_KP, pairs, num_shared)
            _pull_positives(pairs, dim, rate, dot_E, y_EP, dx_EP, factor_y)
            give_rows(dx_EP, factor_x, input_E, half_HD)
            give_rows(x_EP, factor_y, output_E, half_HD)
            give_rows(dn_KP, factor_n, negative_K, half_HD)
    return loss_sum, examples
