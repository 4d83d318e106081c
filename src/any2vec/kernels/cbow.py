"""CBOW with negative sampling, by blocks of neighbouring centre words that share their negatives.

A block of E centres has C input rows X, E context means H, its centres' output rows Y and K shared negatives N:

    H  = P X              P[e, c] = 1 / (contexts of e) where c is one of them
    G  = N H'             dot products with the negatives; y[e] . h[e] are the positives
    dN = B H              B = - rate share sigmoid(G), 0 where the negative is the centre itself
    dY[e] = a[e] h[e]     a = rate (1 - sigmoid(y[e] . h[e]))
    dH = B' N + a[e] y[e]
    dX = Q' dH            Q[e, c] = 1 where P is not 0: the whole step goes to each context (word2vec's cbow_mean = 1)

with share = num_negatives / K.

Legend: V vocabulary, D dim, M kept tokens of a chunk, B blocks of a chunk, C input rows, E centres, K shared
negatives, Y = E + K output rows (centres, then negatives).
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.blocks import (
    MAX_CENTRES,
    add_rows,
    count_pairs,
    cut_blocks,
    damping,
    fast_sigmoid,
    input_curvatures,
    load_rows,
    prefetch_block,
)  # fmt: skip
from any2vec.kernels.jit import fast_jit
from any2vec.kernels.scalar import log_loss, rate_at
from any2vec.kernels.tiles import dot_rows, fours, mix_rows, mix_rows_across, padded
from any2vec.kernels.windows import gather_windows


@fast_jit
def _mean_contexts(
    begin: int, end: int, low: int, left_M: np.ndarray, right_M: np.ndarray, x_CD: np.ndarray, h_ED: np.ndarray
) -> None:
    """h[e] = mean of the context rows of centre e; 0 without a context."""
    for e in range(end - begin):
        left, right, own = left_M[begin + e] - low, right_M[begin + e] - low, begin + e - low
        for q in range(x_CD.shape[1]):
            h_ED[e, q] = -x_CD[own, q]
        for c in range(left, right):
            for q in range(x_CD.shape[1]):
                h_ED[e, q] += x_CD[c, q]
        scale = np.float32(1) / np.float32(right - left - 1) if right - left > 1 else np.float32(0)
        for q in range(x_CD.shape[1]):
            h_ED[e, q] *= scale


@fast_jit
def _spread_steps(
    begin: int,
    end: int,
    low: int,
    high: int,
    left_M: np.ndarray,
    right_M: np.ndarray,
    dh_ED: np.ndarray,
    dx_CD: np.ndarray,
) -> None:
    """dx[c] = sum of dh[e] over the centres e that have c as a context."""
    for c in range(high - low):
        for q in range(dx_CD.shape[1]):
            dx_CD[c, q] = np.float32(0)
    for e in range(end - begin):
        for c in range(left_M[begin + e] - low, right_M[begin + e] - low):
            if c != begin + e - low:
                for q in range(dx_CD.shape[1]):
                    dx_CD[c, q] += dh_ED[e, q]


@fast_jit
def _positives(centres: int, y_YD: np.ndarray, h_ED: np.ndarray, dot_E: np.ndarray) -> None:
    """dot[e] = y[e] . h[e]"""
    for e in range(centres):
        total = np.float32(0)
        for q in range(h_ED.shape[1]):
            total += y_YD[e, q] * h_ED[e, q]
        dot_E[e] = total


@fast_jit
def _pull_positives(
    begin: int,
    centres: int,
    left_M: np.ndarray,
    right_M: np.ndarray,
    rate: float,
    dot_E: np.ndarray,
    y_YD: np.ndarray,
    h_ED: np.ndarray,
    dh_ED: np.ndarray,
    dy_YD: np.ndarray,
) -> None:
    """dy[e] = a h[e] and dh[e] += a y[e], a = rate (1 - sigmoid(dot[e])), nothing without a context."""
    for e in range(centres):
        has_context = right_M[begin + e] - left_M[begin + e] > 1
        a = rate * fast_sigmoid(-dot_E[e]) if has_context else np.float32(0)
        for q in range(h_ED.shape[1]):
            dy_YD[e, q] = a * h_ED[e, q]
        for q in range(h_ED.shape[1]):
            dh_ED[e, q] += a * y_YD[e, q]


@fast_jit
def _coefficients(
    begin: int,
    centres: int,
    row_M: np.ndarray,
    left_M: np.ndarray,
    right_M: np.ndarray,
    negative_K: np.ndarray,
    push: float,
    wide: int,
    g_KE: np.ndarray,
) -> None:
    """Turn G into B in place, push = -rate share; the first `wide` columns are written."""
    for k in range(negative_K.size):
        g_E = g_KE[k]
        for e in range(wide):
            g_E[e] = push * fast_sigmoid(g_E[e])
    for e in range(centres):
        if right_M[begin + e] - left_M[begin + e] == 1:
            for k in range(negative_K.size):
                g_KE[k, e] = np.float32(0)
    for k in range(negative_K.size):
        for e in range(centres):
            if negative_K[k] == row_M[begin + e]:
                g_KE[k, e] = np.float32(0)


@fast_jit
def _output_curvatures(centres: int, share: float, rate: float, h_ED: np.ndarray, curve_Y: np.ndarray) -> None:
    """Bound of the loss's curvature along each output row; see `damping`."""
    total = np.float32(0)
    for e in range(centres):
        norm = np.float32(0)
        for q in range(h_ED.shape[1]):
            norm += h_ED[e, q] * h_ED[e, q]
        curve_Y[e] = rate * np.float32(0.25) * norm
        total += norm
    for y in range(centres, curve_Y.size):
        curve_Y[y] = rate * np.float32(0.25) * share * total


@fast_jit
def _block_loss(
    begin: int,
    centres: int,
    row_M: np.ndarray,
    left_M: np.ndarray,
    right_M: np.ndarray,
    negative_K: np.ndarray,
    share: float,
    dot_E: np.ndarray,
    g_KE: np.ndarray,
) -> tuple[float, int]:
    """(sum, examples): -log sigmoid(positive) - share * sum_k log sigmoid(-negative) over centres with a context."""
    loss, examples = 0.0, 0
    for e in range(centres):
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
    window: int, num_negatives: int, lr_from: float, lr_to: float, loss_every: int, block: int, num_shared: int,
) -> tuple[int, float, int]:  # fmt: skip
    """Train the centres of tokens[start:stop]; arguments, result and promises as in `train_skipgram_block`."""
    chunk = max(1, 2048 // block) * block
    capacity = chunk + 2 * window + 2
    row_M, left_M, right_M = np.empty(capacity, np.int32), np.empty(capacity, np.int32), np.empty(capacity, np.int32)
    position_M = np.empty(capacity, np.int64)
    begin_B, end_B = np.empty(chunk + 1, np.int64), np.empty(chunk + 1, np.int64)
    negative_BK = np.empty((chunk + 1, num_shared), np.int32)
    width = padded(input_VD.shape[1])
    most_x, most_e = padded(MAX_CENTRES + 2 * window), padded(MAX_CENTRES)
    most_y = padded(MAX_CENTRES + num_shared) + 16
    id_C = np.zeros(max(most_x, most_y), np.int32)
    x_CP, h_EP = np.zeros((most_x, width), np.float32), np.zeros((most_e, width), np.float32)
    dx_CP, dh_EP = np.zeros((most_x, width), np.float32), np.zeros((most_e, width), np.float32)
    y_EP, dy_EP = np.zeros((most_e, width), np.float32), np.zeros((most_e, width), np.float32)
    n_KP, dn_KP = np.zeros((num_shared, width), np.float32), np.zeros((num_shared, width), np.float32)
    g_KE, dot_E = np.zeros((num_shared, most_e), np.float32), np.zeros(most_e, np.float32)
    pairs_C, norm_C = np.zeros(most_x + 1, np.float32), np.zeros(most_x, np.float32)
    curve_C, factor_C = np.zeros(most_x, np.float32), np.zeros(most_x, np.float32)
    norm_Y, curve_Y, factor_Y = np.zeros(most_y, np.float32), np.zeros(most_y, np.float32), np.zeros(most_y, np.float32)
    share = np.float32(num_negatives) / np.float32(num_shared)
    items, loss_sum, loss_examples = 0, 0.0, 0
    for piece in range(start, stop, chunk):
        first, last, seen = gather_windows(
            tokens, piece, min(stop, piece + chunk), offset, keep_V, token_key, window,
            row_M, left_M, right_M, position_M,
        )  # fmt: skip
        items += seen
        num_blocks = cut_blocks(
            position_M, first, last, block, negative_key, threshold_V, alias_V, begin_B, end_B, negative_BK
        )
        for b in range(num_blocks):
            begin, end, negative_K = begin_B[b], end_B[b], negative_BK[b]
            low, high = begin, end
            for centre in range(begin, end):
                low, high = min(low, left_M[centre]), max(high, right_M[centre])
            if b + 1 < num_blocks:
                prefetch_block(input_VD, output_VD, row_M, right_M, high, end, end_B[b + 1], negative_BK[b + 1])
            centres, num_x, num_y = end - begin, high - low, end - begin + num_shared
            load_rows(input_VD, row_M, low, high, x_CP, norm_C, 0)
            load_rows(output_VD, row_M, begin, end, y_EP, norm_Y, 0)
            load_rows(output_VD, negative_K, 0, num_shared, n_KP, norm_Y[centres:], 0)
            _mean_contexts(begin, end, low, left_M, right_M, x_CP, h_EP)
            _positives(centres, y_EP, h_EP, dot_E)
            dot_rows(n_KP, h_EP, g_KE, num_shared, fours(centres))
            if loss_every > 0 and (position_M[begin] // block) % loss_every == 0:
                loss, examples = _block_loss(begin, centres, row_M, left_M, right_M, negative_K, share, dot_E, g_KE)
                loss_sum += loss
                loss_examples += examples
            rate = rate_at(position_M[begin] - offset, start, stop, lr_from, lr_to)
            count_pairs(begin, end, low, left_M, right_M, num_x, pairs_C)
            input_curvatures(begin, end, low, left_M, right_M, share, rate, pairs_C, norm_Y[:num_y], curve_C[:num_x])
            _output_curvatures(centres, share, rate, h_EP, curve_Y[:num_y])
            damping(row_M[low:high], curve_C, factor_C, id_C)
            damping(row_M[begin:end], curve_Y, factor_Y, id_C)
            damping(negative_K, curve_Y[centres:], factor_Y[centres:], id_C)
            _coefficients(begin, centres, row_M, left_M, right_M, negative_K, -rate * share, padded(centres), g_KE)
            mix_rows(g_KE, n_KP, dh_EP, num_shared, fours(centres))
            mix_rows_across(g_KE, h_EP, dn_KP, centres, num_shared)
            _pull_positives(begin, centres, left_M, right_M, rate, dot_E, y_EP, h_EP, dh_EP, dy_EP)
            _spread_steps(begin, end, low, high, left_M, right_M, dh_EP, dx_CP)
            add_rows(dx_CP, factor_C, 0, row_M, low, high, input_VD)
            add_rows(dy_EP, factor_Y, 0, row_M, begin, end, output_VD)
            add_rows(dn_KP, factor_Y[centres:], 0, negative_K, 0, num_shared, output_VD)
    return items, loss_sum, loss_examples
