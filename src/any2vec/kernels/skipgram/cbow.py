"""CBOW with negative sampling, by blocks of neighboring center words that share their negatives.

A block of E centers has C input rows X, E context means H, its centers' output rows Y and K shared negatives N:

    H  = W X              W[e, c] = 1 / (contexts of e) where c is one of them
    G  = N H'             dot products with the negatives; y[e] . h[e] are the positives
    dN = B H              B = - rate share sigmoid(G), 0 where the negative is the center itself
    dY[e] = a[e] h[e]     a = rate (1 - sigmoid(y[e] . h[e]))
    dH = B' N + a[e] y[e]
    dX = Q' dH            Q[e, c] = 1 where W is not 0: the whole step goes to each context (word2vec's cbow_mean = 1)

with share = num_negatives / K.

Legend: V vocabulary, D dim, P dim padded, M kept tokens of a chunk, B blocks of a chunk, C input rows, E centers,
K shared negatives, Y = E + K output rows (centers, then negatives), N places of the map of `mark_rows`.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import fast_jit, jit
from any2vec.kernels.common.scalar import log_loss, rate_at
from any2vec.kernels.common.tiles import dot_rows, fours, mix_rows, mix_rows_across
from any2vec.kernels.common.vectors import local_rows, padded
from any2vec.kernels.rows.rows import give_rows, take_partners, take_rows
from any2vec.kernels.skipgram.blocks import (
    MARKS,
    count_pairs,
    cut_blocks,
    damping,
    fast_sigmoid,
    input_curvatures,
    mark_rows,
    prefetch_block,
)  # fmt: skip
from any2vec.kernels.skipgram.places import Places, place_inputs, place_negatives, place_outputs
from any2vec.kernels.skipgram.window_sums import spread_windows, sum_windows
from any2vec.kernels.text.windows import gather_windows

MAX_CENTERS = 48
"""centers of one block at most; more kept tokens of the same stretch are shared out over several blocks"""


@jit
def _mean_scales(begin: int, end: int, left_M: np.ndarray, right_M: np.ndarray, scale_E: np.ndarray) -> None:
    """scale[e] = 1 / contexts of center e; 0 without a context."""
    for e in range(end - begin):
        contexts = right_M[begin + e] - left_M[begin + e] - 1
        scale_E[e] = np.float32(1) / np.float32(contexts) if contexts > 0 else np.float32(0)


@fast_jit
def _pull_positives(
    begin: int, centers: int, dim: int, left_M: np.ndarray, right_M: np.ndarray, rate: float, dot_E: np.ndarray,
    y_EP: np.ndarray, dh_EP: np.ndarray, factor_Y: np.ndarray,
) -> None:  # fmt: skip
    """dh[e] += a y[e], and a into the factor of dy[e] = a h[e]; a = rate (1 - sigmoid(dot[e])), 0 without a context."""
    for e in range(centers):
        has_context = right_M[begin + e] - left_M[begin + e] > 1
        a = rate * fast_sigmoid(-dot_E[e]) if has_context else np.float32(0)
        factor_Y[e] *= a
        for q in range(dim):
            dh_EP[e, q] += a * y_EP[e, q]


@fast_jit
def _coefficients(
    begin: int,
    centers: int,
    row_M: np.ndarray,
    left_M: np.ndarray,
    right_M: np.ndarray,
    negative_K: np.ndarray,
    push: float,
    wide: int,
    mark_N: np.ndarray,
    g_KE: np.ndarray,
) -> None:
    """Turn G into B in place, push = -rate share; the first `wide` columns are written."""
    mark_rows(row_M[begin : begin + centers], 1, mark_N)
    for k in range(negative_K.size):
        g_E = g_KE[k]
        for e in range(wide):
            g_E[e] = push * fast_sigmoid(g_E[e])
        if mark_N[negative_K[k] & (MARKS - 1)]:
            for e in range(centers):
                if negative_K[k] == row_M[begin + e]:
                    g_E[e] = np.float32(0)
    mark_rows(row_M[begin : begin + centers], 0, mark_N)
    for e in range(centers):
        if right_M[begin + e] - left_M[begin + e] == 1:
            for k in range(negative_K.size):
                g_KE[k, e] = np.float32(0)


@fast_jit
def _output_curvatures(
    centers: int, dim: int, share: float, rate: float, h_EP: np.ndarray, curve_Y: np.ndarray
) -> None:
    """Bound of the loss's curvature along each output row; see `damping`."""
    total = np.float32(0)
    for e in range(centers):
        norm = np.float32(0)
        for q in range(dim):
            norm += h_EP[e, q] * h_EP[e, q]
        curve_Y[e] = rate * np.float32(0.25) * norm
        total += norm
    for y in range(centers, curve_Y.size):
        curve_Y[y] = rate * np.float32(0.25) * share * total


@fast_jit
def _block_loss(
    begin: int,
    centers: int,
    row_M: np.ndarray,
    left_M: np.ndarray,
    right_M: np.ndarray,
    negative_K: np.ndarray,
    share: float,
    dot_E: np.ndarray,
    g_KE: np.ndarray,
) -> tuple[float, int]:
    """(sum, examples): -log sigmoid(positive) - share * sum_k log sigmoid(-negative) over centers with a context."""
    loss, examples = 0.0, 0
    for e in range(centers):
        if right_M[begin + e] - left_M[begin + e] > 1:
            examples += 1
            loss += log_loss(dot_E[e])
            for k in range(negative_K.size):
                if negative_K[k] != row_M[begin + e]:
                    loss += np.float64(share) * log_loss(-g_KE[k, e])
    return loss, examples


@fast_jit
def train_cbow_block(
    tokens: np.ndarray, start: int, stop: int, offset: int, keep_V: np.ndarray, token_key: np.uint64,
    negative_key: np.uint64, threshold_V: np.ndarray, alias_V: np.ndarray, input_VD: np.ndarray,
    output_VD: np.ndarray,
    window: int, num_negatives: int, lr_zero: float, lr_step: float, loss_every: int, block: int, num_shared: int,
    places: Places | None = None,
) -> tuple[int, float, int]:  # fmt: skip
    """Train the centers of tokens[start:stop]; arguments, result and promises as in `train_skipgram_block`."""
    chunk = max(1, 2048 // block) * block
    capacity = chunk + 2 * window + 2
    row_M, left_M, right_M = np.empty(capacity, np.int32), np.empty(capacity, np.int32), np.empty(capacity, np.int32)
    position_M = np.empty(capacity, np.int64)
    begin_B, end_B = np.empty(chunk + 1, np.int64), np.empty(chunk + 1, np.int64)
    negative_BK = np.empty((chunk + 1, num_shared), np.int32)
    dim, width = input_VD.shape[1], padded(input_VD.shape[1])
    most_x, most_e = padded(MAX_CENTERS + 2 * window), padded(MAX_CENTERS)
    most_y = padded(MAX_CENTERS + num_shared) + 16
    id_C = np.zeros(max(most_x, most_y), np.int32)
    x_CP, h_EP = local_rows(most_x, width), local_rows(most_e, width)
    dx_CP, dh_EP = local_rows(most_x + 1, width), local_rows(most_e, width)
    y_EP = local_rows(most_e, width)
    n_KP, dn_KP = local_rows(num_shared, width), local_rows(num_shared, width)
    scale_E, mark_N = np.zeros(most_e, np.float32), np.zeros(MARKS, np.uint8)
    g_KE, dot_E = local_rows(num_shared, most_e), np.zeros(most_e, np.float32)
    pairs_C, norm_C = np.zeros(most_x + 1, np.float32), np.zeros(most_x, np.float32)
    curve_C, factor_C = np.zeros(most_x, np.float32), np.zeros(most_x, np.float32)
    norm_Y, curve_Y, factor_Y = np.zeros(most_y, np.float32), np.zeros(most_y, np.float32), np.zeros(most_y, np.float32)
    share = np.float32(num_negatives) / np.float32(num_shared)
    slot_M = row_M
    if places is not None:
        slot_M = np.empty(capacity, np.int32)
    items, loss_sum, loss_examples = 0, 0.0, 0
    for piece in range(start, stop, chunk):
        first, last, seen = gather_windows(
            tokens, piece, min(stop, piece + chunk), offset, keep_V, token_key, window,
            row_M, left_M, right_M, position_M,
        )  # fmt: skip
        items += seen
        num_blocks = cut_blocks(
            position_M, first, last, block, MAX_CENTERS, negative_key, threshold_V, alias_V, begin_B, end_B, negative_BK
        )
        if places is not None:
            place_inputs(places, first, last, left_M, right_M, row_M, slot_M)
            place_outputs(places, first, last, row_M)
            place_negatives(places, num_blocks, negative_BK)
        for b in range(num_blocks):
            begin, end, negative_K = begin_B[b], end_B[b], negative_BK[b]
            low, high = begin, end
            for center in range(begin, end):
                low, high = min(low, left_M[center]), max(high, right_M[center])
            if b + 1 < num_blocks:
                prefetch_block(input_VD, slot_M, output_VD, row_M, right_M, high, end, end_B[b + 1], negative_BK[b + 1])
            centers, num_x, num_y = end - begin, high - low, end - begin + num_shared
            take_rows(input_VD, slot_M[low:high], x_CP, norm_C)
            take_rows(output_VD, negative_K, n_KP, norm_Y[centers:])
            left_E, right_E, own = left_M[begin:end], right_M[begin:end], begin - low
            _mean_scales(begin, end, left_M, right_M, scale_E)
            sum_windows(x_CP, left_E, right_E, low, own, scale_E, h_EP, centers)
            take_partners(output_VD, row_M[begin:end], y_EP, norm_Y, h_EP, dot_E)
            dot_rows(n_KP, h_EP, g_KE, num_shared, fours(centers))
            if loss_every > 0 and (position_M[begin] // block) % loss_every == 0:
                loss, examples = _block_loss(begin, centers, row_M, left_M, right_M, negative_K, share, dot_E, g_KE)
                loss_sum += loss
                loss_examples += examples
            rate = rate_at(position_M[begin], lr_zero, lr_step)
            count_pairs(begin, end, low, left_M, right_M, num_x, pairs_C)
            input_curvatures(begin, end, low, left_M, right_M, share, rate, pairs_C, norm_Y[:num_y], curve_C[:num_x])
            _output_curvatures(centers, dim, share, rate, h_EP, curve_Y[:num_y])
            damping(slot_M[low:high], curve_C, factor_C, id_C)
            damping(row_M[begin:end], curve_Y, factor_Y, id_C)
            damping(negative_K, curve_Y[centers:], factor_Y[centers:], id_C)
            _coefficients(
                begin, centers, row_M, left_M, right_M, negative_K, -rate * share, padded(centers), mark_N, g_KE
            )
            mix_rows(g_KE, n_KP, dh_EP, num_shared, fours(centers))
            mix_rows_across(g_KE, h_EP, dn_KP, centers, num_shared)
            _pull_positives(begin, centers, dim, left_M, right_M, rate, dot_E, y_EP, dh_EP, factor_Y)
            spread_windows(dh_EP, left_E, right_E, low, own, dx_CP, centers, num_x)
            give_rows(dx_CP, factor_C, slot_M[low:high], input_VD)
            give_rows(h_EP, factor_Y, row_M[begin:end], output_VD)
            give_rows(dn_KP, factor_Y[centers:], negative_K, output_VD)
    return items, loss_sum, loss_examples
