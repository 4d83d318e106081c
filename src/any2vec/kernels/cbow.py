"""CBOW with negative sampling, by blocks of neighbouring centre words that share their negatives.

A block of E centres has C input rows X, E context means H and Y = E + K output rows (its centres, then K shared
negatives):

    H  = P X              P[e, c] = 1 / (contexts of e) where c is one of them
    G  = Y H'             the diagonal above holds the positives, the rows below the negatives
    dH = rate A' Y        A[e, e] = 1 - sigmoid(G), A[k, e] = - share sigmoid(G), 0 elsewhere
    dY = rate A H
    dX = B' dH            B[e, c] = 1 where P is not 0: the whole step goes to each context (word2vec's cbow_mean = 1)

with share = num_negatives / K, and 0 where the negative is the centre itself.

Legend: V vocabulary, D dim, M kept tokens of a chunk, B blocks of a chunk, C input rows, E centres, Y output rows,
K shared negatives.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.blocks import MAX_CENTRES, add_rows, cut_blocks, fast_sigmoid, load_rows, prefetch_block
from any2vec.kernels.jit import fast_jit
from any2vec.kernels.scalar import log_loss, rate_at
from any2vec.kernels.windows import gather_windows


@fast_jit
def _mean_contexts(begin, end, low, left_M, right_M, x_CD, h_ED):
    """h[e] = mean of the context rows of centre e; 0 without a context."""
    for e in range(end - begin):
        left, right, own = left_M[begin + e] - low, right_M[begin + e] - low, begin + e - low
        for q in range(x_CD.shape[1]):
            h_ED[e, q] = -x_CD[own, q]
        for c in range(left, right):
            for q in range(x_CD.shape[1]):
                h_ED[e, q] += x_CD[c, q]
        scale = np.float32(1) / np.float32(max(1, right - left - 1))
        for q in range(x_CD.shape[1]):
            h_ED[e, q] *= scale


@fast_jit
def _spread_steps(begin, end, low, left_M, right_M, dh_ED, dx_CD):
    """dx[c] = sum of dh[e] over the centres e that have c as a context."""
    for c in range(dx_CD.shape[0]):
        for q in range(dx_CD.shape[1]):
            dx_CD[c, q] = np.float32(0)
    for e in range(end - begin):
        for c in range(left_M[begin + e] - low, right_M[begin + e] - low):
            if c != begin + e - low:
                for q in range(dx_CD.shape[1]):
                    dx_CD[c, q] += dh_ED[e, q]


@fast_jit
def _coefficients(begin, end, row_M, left_M, right_M, negative_K, rate, share, g_N, g_YE):
    """Turn G into rate A in place; see the head of this file. g_N is the same memory as g_YE."""
    for i in range(g_N.size):
        g_N[i] = -rate * fast_sigmoid(g_N[i])
    centres = end - begin
    for e in range(centres):
        own = rate + g_YE[e, e]
        for other in range(centres):
            g_YE[e, other] = np.float32(0)
        g_YE[e, e] = own
    for i in range(centres * centres, g_N.size):
        g_N[i] *= share
    for e in range(centres):
        if right_M[begin + e] - left_M[begin + e] == 1:
            for y in range(centres + negative_K.size):
                g_YE[y, e] = np.float32(0)
        for k in range(negative_K.size):
            if negative_K[k] == row_M[begin + e]:
                g_YE[centres + k, e] = np.float32(0)


@fast_jit
def _block_loss(begin, end, row_M, left_M, right_M, negative_K, share, g_YE):
    """(sum, examples): -log sigmoid(positive) - share * sum_k log sigmoid(-negative) over centres with a context."""
    loss, examples = 0.0, 0
    for e in range(end - begin):
        if right_M[begin + e] - left_M[begin + e] > 1:
            examples += 1
            loss += log_loss(g_YE[e, e])
            for k in range(negative_K.size):
                if negative_K[k] != row_M[begin + e]:
                    loss += np.float64(share) * log_loss(-g_YE[end - begin + k, e])
    return loss, examples


@fast_jit
def train_cbow_block(
    tokens, start, stop, offset, keep_V, token_key, negative_key, threshold_V, alias_V, input_VD, output_VD,
    window, num_negatives, lr_from, lr_to, loss_every, block, num_shared,
):  # fmt: skip
    """Train the centres of tokens[start:stop]; arguments, result and promises as in `train_skipgram_block`."""
    chunk = max(1, 2048 // block) * block
    capacity = chunk + 2 * window + 2
    row_M, left_M, right_M = np.empty(capacity, np.int32), np.empty(capacity, np.int32), np.empty(capacity, np.int32)
    position_M = np.empty(capacity, np.int64)
    begin_B, end_B = np.empty(chunk + 1, np.int64), np.empty(chunk + 1, np.int64)
    negative_BK = np.empty((chunk + 1, num_shared), np.int32)
    dim = input_VD.shape[1]
    most_x, most_y = MAX_CENTRES + 2 * window, MAX_CENTRES + num_shared
    x_flat, h_flat = np.empty(most_x * dim, np.float32), np.empty(MAX_CENTRES * dim, np.float32)
    dh_flat = np.empty(MAX_CENTRES * dim, np.float32)
    y_flat, dy_flat = np.empty(most_y * dim, np.float32), np.empty(most_y * dim, np.float32)
    norm_N = np.empty(most_x + most_y, np.float32)
    one_Y = np.ones(most_x + most_y, np.float32)
    g_flat = np.empty(most_y * MAX_CENTRES, np.float32)
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
            x_CD = x_flat[: num_x * dim].reshape(num_x, dim)
            h_ED, dh_ED = h_flat[: centres * dim].reshape(centres, dim), dh_flat[: centres * dim].reshape(centres, dim)
            y_YD, dy_YD = y_flat[: num_y * dim].reshape(num_y, dim), dy_flat[: num_y * dim].reshape(num_y, dim)
            g_N = g_flat[: num_y * centres]
            g_YE = g_N.reshape(num_y, centres)
            load_rows(input_VD, row_M, low, high, x_CD, norm_N, 0)
            load_rows(output_VD, row_M, begin, end, y_YD, norm_N, 0)
            load_rows(output_VD, negative_K, 0, num_shared, y_YD, norm_N, centres)
            _mean_contexts(begin, end, low, left_M, right_M, x_CD, h_ED)
            np.dot(y_YD, h_ED.T, g_YE)
            if loss_every > 0 and (position_M[begin] // block) % loss_every == 0:
                loss, examples = _block_loss(begin, end, row_M, left_M, right_M, negative_K, share, g_YE)
                loss_sum += loss
                loss_examples += examples
            rate = rate_at(position_M[begin] - offset, start, stop, lr_from, lr_to)
            _coefficients(begin, end, row_M, left_M, right_M, negative_K, rate, share, g_N, g_YE)
            np.dot(g_YE.T, y_YD, dh_ED)
            np.dot(g_YE, h_ED, dy_YD)
            _spread_steps(begin, end, low, left_M, right_M, dh_ED, x_CD)
            add_rows(x_CD, one_Y, 0, row_M, low, high, input_VD)
            add_rows(dy_YD, one_Y, 0, row_M, begin, end, output_VD)
            add_rows(dy_YD, one_Y, centres, negative_K, 0, num_shared, output_VD)
    return items, loss_sum, loss_examples
