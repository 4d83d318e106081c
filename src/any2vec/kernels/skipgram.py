"""Skip-gram with negative sampling, by blocks of neighbouring centre words that share their negatives.

A block of E centres has C input rows X (the kept tokens from its first context to its last) and Y = E + K output rows
(its centres, then K shared negatives). Three small matrix products train it:

    G  = Y X'             all dot products: a band of positives above, negatives below
    dX = rate diag(w) A' Y    A[e, c] = (1 - sigmoid(G)) / w[c] on the band and 0 beside it,
    dY = rate A diag(w) X     A[k, c] = -sigmoid(G) for a negative

where w[c] = pairs[c] * num_negatives / K. So each positive pair counts exactly once, and each input row meets
each shared negative once, weighted by how often the pairs of that row would have drawn it (a pair whose centre is the
negative itself does not count). Shared negatives for a group of inputs are the idea of Ji et al. 2016,
"Parallelizing Word2Vec in Shared and Distributed Memory"; blocks over neighbouring centres, exact positives and the
weights are ours.

Legend: V vocabulary, D dim, M kept tokens of a chunk, B blocks of a chunk, C input rows, E centres, Y output rows,
K shared negatives.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.blocks import (
    MAX_CENTRES, add_rows, cut_blocks, damping, fast_sigmoid, load_rows, prefetch_block, scale_rows, square_norms,
)  # fmt: skip
from any2vec.kernels.jit import fast_jit, jit
from any2vec.kernels.scalar import log_loss, rate_at
from any2vec.kernels.windows import gather_windows


@jit
def _count_meetings(begin, end, row_M, left_M, right_M, entry, negative):
    """How many pairs (entry, centre) of a block may draw `negative`: those whose centre is another word."""
    pairs = 0
    for centre in range(begin, end):
        if left_M[centre] <= entry < right_M[centre] and centre != entry and row_M[centre] != negative:
            pairs += 1
    return pairs


@fast_jit
def _count_pairs(begin, end, low, left_M, right_M, pairs_C):
    """pairs[c] = how many centres of the block have local row c as a context."""
    for c in range(pairs_C.size):
        pairs_C[c] = np.float32(0)
    for centre in range(begin, end):
        for c in range(left_M[centre] - low, right_M[centre] - low):
            pairs_C[c] += np.float32(1)
        pairs_C[centre - low] -= np.float32(1)


@fast_jit
def _coefficients(begin, end, low, row_M, left_M, right_M, negative_K, weight_C, pairs_C, band_N, above_N, below_N, g_YC):
    """Turn G into A in place; see the head of this file. above_N (E C) and below_N (K C) are its two parts, flat."""
    centres, columns = end - begin, g_YC.shape[1]
    for i in range(below_N.size):
        below_N[i] = -fast_sigmoid(below_N[i])
    size = 0
    for e in range(centres):
        for c in range(left_M[begin + e] - low, right_M[begin + e] - low):
            band_N[size] = -g_YC[e, c]
            size += 1
    for i in range(size):
        band_N[i] = fast_sigmoid(band_N[i])
    for i in range(above_N.size):
        above_N[i] = np.float32(0)
    size = 0
    for e in range(centres):
        for c in range(left_M[begin + e] - low, right_M[begin + e] - low):
            g_YC[e, c] = band_N[size] / weight_C[c]
            size += 1
        g_YC[e, begin + e - low] = np.float32(0)
    for k in range(negative_K.size):
        for centre in range(begin, end):
            if row_M[centre] == negative_K[k]:
                for c in range(columns):
                    if pairs_C[c] > 0:
                        pairs = _count_meetings(begin, end, row_M, left_M, right_M, low + c, negative_K[k])
                        g_YC[centres + k, c] *= np.float32(pairs) / pairs_C[c]
                break


@fast_jit
def _curvatures(begin, end, low, left_M, right_M, num_shared, share, rate, pairs_C, norm_C, norm_Y, curve_C, curve_Y):
    """How much the loss may curve along each row of the block; see `damping`."""
    centres = end - begin
    quarter = rate * np.float32(0.25)
    negatives, inputs = np.float32(0), np.float32(0)
    for k in range(num_shared):
        negatives += norm_Y[centres + k]
    for c in range(curve_C.size):
        curve_C[c] = quarter * share * pairs_C[c] * negatives
        inputs += pairs_C[c] * norm_C[c]
    for k in range(num_shared):
        curve_Y[centres + k] = quarter * share * inputs
    for e in range(centres):
        total = np.float32(0)
        for c in range(left_M[begin + e] - low, right_M[begin + e] - low):
            curve_C[c] += quarter * norm_Y[e]
            total += norm_C[c]
        own = begin + e - low
        curve_C[own] -= quarter * norm_Y[e]
        curve_Y[e] = quarter * (total - norm_C[own])


@fast_jit
def _block_loss(begin, end, low, row_M, left_M, right_M, negative_K, share, g_YC):
    """(sum, examples) of the loss of a block: -log sigmoid(positive) - share * sum_k log sigmoid(-negative)."""
    loss, examples = 0.0, 0
    for e in range(end - begin):
        for c in range(left_M[begin + e] - low, right_M[begin + e] - low):
            if c != begin + e - low:
                loss += log_loss(g_YC[e, c])
                examples += 1
    for k in range(negative_K.size):
        for c in range(g_YC.shape[1]):
            pairs = _count_meetings(begin, end, row_M, left_M, right_M, low + c, negative_K[k])
            if pairs > 0:
                loss += np.float64(share) * pairs * log_loss(-g_YC[end - begin + k, c])
    return loss, examples


@fast_jit
def train_skipgram_block(
    tokens, start, stop, offset, keep_V, token_key, negative_key, threshold_V, alias_V, input_VD, output_VD,
    window, num_negatives, lr_from, lr_to, loss_every, block, num_shared,
):  # fmt: skip
    """Train the centres of tokens[start:stop]; see kernels/classic.py for the arguments that both forms share.

    block: positions of the stream that make one block; num_shared: K, negatives that a block shares. Both change
    the result, `start` and `stop` do not as long as they are multiples of `block` (with offset). Losses are measured
    before the update, in one block of every `loss_every`. Returns (items int64, loss_sum float64, loss_examples
    int64). Not safe for any other writer of the two tables to be exact: several threads are Hogwild.
    """
    chunk = max(1, 2048 // block) * block
    capacity = chunk + 2 * window + 2
    row_M, left_M, right_M = np.empty(capacity, np.int32), np.empty(capacity, np.int32), np.empty(capacity, np.int32)
    position_M = np.empty(capacity, np.int64)
    begin_B, end_B = np.empty(chunk + 1, np.int64), np.empty(chunk + 1, np.int64)
    negative_BK = np.empty((chunk + 1, num_shared), np.int32)
    dim = input_VD.shape[1]
    most_x, most_y = MAX_CENTRES + 2 * window, MAX_CENTRES + num_shared
    x_flat, dx_flat = np.empty(most_x * dim, np.float32), np.empty(most_x * dim, np.float32)
    y_flat, dy_flat = np.empty(most_y * dim, np.float32), np.empty(most_y * dim, np.float32)
    g_flat = np.empty(most_x * most_y, np.float32)
    pairs_C, weight_C, norm_C = np.empty(most_x, np.float32), np.empty(most_x, np.float32), np.empty(most_x, np.float32)
    curve_C, factor_C = np.empty(most_x, np.float32), np.empty(most_x, np.float32)
    norm_Y, curve_Y, factor_Y = np.empty(most_y, np.float32), np.empty(most_y, np.float32), np.empty(most_y, np.float32)
    band_N = np.empty(MAX_CENTRES * (2 * window + 1), np.float32)
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
            num_x, num_y = high - low, end - begin + num_shared
            x_CD, dx_CD = x_flat[: num_x * dim].reshape(num_x, dim), dx_flat[: num_x * dim].reshape(num_x, dim)
            y_YD, dy_YD = y_flat[: num_y * dim].reshape(num_y, dim), dy_flat[: num_y * dim].reshape(num_y, dim)
            g_N = g_flat[: num_y * num_x]
            g_YC = g_N.reshape(num_y, num_x)
            load_rows(input_VD, row_M, low, high, x_CD, 0)
            load_rows(output_VD, row_M, begin, end, y_YD, 0)
            load_rows(output_VD, negative_K, 0, num_shared, y_YD, end - begin)
            np.dot(y_YD, x_CD.T, g_YC)
            if loss_every > 0 and (position_M[begin] // block) % loss_every == 0:
                loss, examples = _block_loss(begin, end, low, row_M, left_M, right_M, negative_K, share, g_YC)
                loss_sum += loss
                loss_examples += examples
            rate = rate_at(position_M[begin] - offset, start, stop, lr_from, lr_to)
            _count_pairs(begin, end, low, left_M, right_M, pairs_C[:num_x])
            for c in range(num_x):
                weight_C[c] = share * pairs_C[c]
            _coefficients(
                begin, end, low, row_M, left_M, right_M, negative_K, weight_C, pairs_C,
                band_N, g_N[: (end - begin) * num_x], g_N[(end - begin) * num_x :], g_YC,
            )  # fmt: skip
            square_norms(x_CD, norm_C[:num_x])
            square_norms(y_YD, norm_Y[:num_y])
            _curvatures(
                begin, end, low, left_M, right_M, num_shared, share, rate,
                pairs_C, norm_C, norm_Y, curve_C[:num_x], curve_Y[:num_y],
            )  # fmt: skip
            damping(row_M, low, high, curve_C, factor_C)
            damping(row_M, begin, end, curve_Y, factor_Y)
            damping(negative_K, 0, num_shared, curve_Y[end - begin :], factor_Y[end - begin :])
            np.dot(g_YC.T, y_YD, dx_CD)
            for c in range(num_x):
                weight_C[c] *= rate
                factor_C[c] *= weight_C[c]
            scale_rows(x_CD, weight_C)
            np.dot(g_YC, x_CD, dy_YD)
            add_rows(dx_CD, factor_C, 0, row_M, low, high, input_VD)
            add_rows(dy_YD, factor_Y, 0, row_M, begin, end, output_VD)
            add_rows(dy_YD, factor_Y, end - begin, negative_K, 0, num_shared, output_VD)
    return items, loss_sum, loss_examples
