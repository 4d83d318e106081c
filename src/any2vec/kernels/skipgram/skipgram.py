"""Skip-gram with negative sampling, by blocks of neighboring center words that share their negatives.

A block of E centers has C input rows X (the kept tokens from its first context to its last) and Y = E + K output rows
(its centers, then K shared negatives). Three small matrix products train it:

    G  = Y X'             all dot products: a band of positives above, negatives below
    dX = A' Y             A[e, c] = rate (1 - sigmoid(G)) on the band and 0 beside it,
    dY = A X              A[k, c] = -rate w[c] sigmoid(G) for a negative

where w[c] = pairs[c] * num_negatives / K. So each positive pair counts exactly once, and each input row meets
each shared negative once, weighted by how often the pairs of that row would have drawn it (a pair whose center is the
negative itself does not count). Shared negatives for a group of inputs are the idea of Ji et al. 2016,
"Parallelizing Word2Vec in Shared and Distributed Memory"; blocks over neighboring centers, exact positives and the
weights are ours.

With n-grams (`Subwords`) an input row is the mean of a word's own row and of its n-grams' rows: each distinct word of a
chunk is composed once, its blocks train the composed rows, and what a word's row has changed by is added to all rows
that it is the mean of, as fastText does pair by pair.

Legend: V vocabulary, D dim, P dim padded, M kept tokens of a chunk, U distinct words of a chunk, B blocks of a chunk, C
input rows, E centers, Y output rows, K shared negatives, N places of the map of `mark_rows`.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import fast_jit, jit
from any2vec.kernels.common.scalar import log_loss, rate_at
from any2vec.kernels.common.tiles import dot_rows, fours, mix_rows, mix_rows_across
from any2vec.kernels.common.vectors import local_rows, padded
from any2vec.kernels.rows.rows import give_rows, take_rows
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
from any2vec.kernels.skipgram.subwords import MOST_GRAMS, Subwords, compose_words, find_slots, spread_changes
from any2vec.kernels.text.windows import gather_windows

CHUNK = 2048
"""positions whose windows are gathered together, and whose words are composed of n-grams once, about"""
MAX_CENTERS = 24
"""centers of one block at most; more kept tokens of the same stretch are shared out over several blocks"""


@jit
def _count_positives(
    begin: int, end: int, row_M: np.ndarray, left_M: np.ndarray, right_M: np.ndarray, entry: int, negative: int
) -> int:
    """How many pairs (entry, center) of a block may draw `negative`: those whose center is another word."""
    pairs = 0
    for center in range(begin, end):
        if left_M[center] <= entry < right_M[center] and center != entry and row_M[center] != negative:
            pairs += 1
    return pairs


@jit
def _without_positives(
    begin: int,
    end: int,
    low: int,
    row_M: np.ndarray,
    left_M: np.ndarray,
    right_M: np.ndarray,
    negative: int,
    once: float,
    weight_C: np.ndarray,
    own_C: np.ndarray,
) -> bool:
    """own = weight less `once` for each pair whose center is `negative` itself. Returns whether there is any."""
    met = False
    for center in range(begin, end):
        if row_M[center] == negative:
            if not met:
                own_C[:] = weight_C
            met = True
            for c in range(left_M[center] - low, right_M[center] - low):
                if c != center - low:
                    own_C[c] -= once
    return met


@fast_jit
def _coefficients(
    begin: int,
    end: int,
    low: int,
    row_M: np.ndarray,
    left_M: np.ndarray,
    right_M: np.ndarray,
    negative_K: np.ndarray,
    rate: float,
    once: float,
    weight_C: np.ndarray,
    own_C: np.ndarray,
    lane_C: np.ndarray,
    wide: int,
    mark_N: np.ndarray,
    g_YC: np.ndarray,
) -> None:
    """Turn G into A in place; see the head of this file. lane_C[c] = c; the first `wide` columns are written.

    once = rate * num_negatives / K, what one pair adds to weight_C; own_C is scratch of its size.
    """
    centers = end - begin
    mark_rows(row_M[begin:end], 1, mark_N)
    for e in range(centers):
        g_C = g_YC[e]
        left, right = np.float32(left_M[begin + e] - low), np.float32(right_M[begin + e] - low)
        own = np.float32(begin + e - low)
        for c in range(wide):
            is_context = (lane_C[c] >= left) & (lane_C[c] < right) & (lane_C[c] != own)
            value = rate * fast_sigmoid(-g_C[c])
            g_C[c] = value if is_context else np.float32(0)
    for k in range(negative_K.size):
        g_C, w_C = g_YC[centers + k], weight_C
        if mark_N[negative_K[k] & (MARKS - 1)] and _without_positives(
            begin, end, low, row_M, left_M, right_M, negative_K[k], once, weight_C, own_C
        ):
            w_C = own_C
        for c in range(wide):
            g_C[c] = -w_C[c] * fast_sigmoid(g_C[c])
    mark_rows(row_M[begin:end], 0, mark_N)


@fast_jit
def _output_curvatures(
    begin: int,
    end: int,
    low: int,
    left_M: np.ndarray,
    right_M: np.ndarray,
    share: float,
    rate: float,
    pairs_C: np.ndarray,
    norm_C: np.ndarray,
    sum_C: np.ndarray,
    curve_Y: np.ndarray,
) -> None:
    """Bound of the loss's curvature along each output row; see `damping`. sum_C (C + 1,) takes running sums."""
    centers, columns = end - begin, pairs_C.size
    quarter = rate * np.float32(0.25)
    inputs = np.float32(0)
    sum_C[0] = np.float32(0)
    for c in range(columns):
        inputs += pairs_C[c] * norm_C[c]
        sum_C[c + 1] = sum_C[c] + norm_C[c]
    for e in range(centers):
        own = begin + e - low
        curve_Y[e] = quarter * (sum_C[right_M[begin + e] - low] - sum_C[left_M[begin + e] - low] - norm_C[own])
    for y in range(centers, curve_Y.size):
        curve_Y[y] = quarter * share * inputs


@fast_jit
def _block_loss(
    begin: int,
    end: int,
    low: int,
    columns: int,
    row_M: np.ndarray,
    left_M: np.ndarray,
    right_M: np.ndarray,
    negative_K: np.ndarray,
    share: float,
    g_YC: np.ndarray,
) -> tuple[float, int]:
    """(sum, examples) of the loss of a block: -log sigmoid(positive) - share * sum_k log sigmoid(-negative)."""
    loss, examples = 0.0, 0
    for e in range(end - begin):
        for c in range(left_M[begin + e] - low, right_M[begin + e] - low):
            if c != begin + e - low:
                loss += log_loss(g_YC[e, c])
                examples += 1
    for k in range(negative_K.size):
        for c in range(columns):
            pairs = _count_positives(begin, end, row_M, left_M, right_M, low + c, negative_K[k])
            if pairs > 0:
                loss += np.float64(share) * pairs * log_loss(-g_YC[end - begin + k, c])
    return loss, examples


@fast_jit
def train_skipgram_block(
    tokens: np.ndarray, start: int, stop: int, offset: int, keep_V: np.ndarray, token_key: np.uint64,
    negative_key: np.uint64, threshold_V: np.ndarray, alias_V: np.ndarray, input_VD: np.ndarray,
    output_VD: np.ndarray,
    window: int, num_negatives: int, lr_zero: float, lr_step: float, loss_every: int, block: int, num_shared: int,
    places: Places | None = None, subwords: Subwords | None = None,
) -> tuple[int, float, int]:  # fmt: skip
    """Train the centers of tokens[start:stop]; see kernels/skipgram/classic.py for the arguments that both forms share.

    block: positions of the stream that make one block; num_shared: K, negatives that a block shares, a
    multiple of 4 up to 1024. Both change
    the result, `start` and `stop` do not as long as they are multiples of `block` (with offset). Losses are measured
    before the update, in one block of every `loss_every`. places: where rows lie, if tables do not hold all. subwords:
    input rows are composed of these, chunk by chunk, so that `start` changes the result, too. Returns (items int64,
    loss_sum float64, loss_examples int64). Not safe for
    any other writer of the two tables to be exact: several threads are Hogwild.
    """
    chunk = max(1, CHUNK // block) * block
    capacity = chunk + 2 * window + 2
    row_M, left_M, right_M = np.empty(capacity, np.int32), np.empty(capacity, np.int32), np.empty(capacity, np.int32)
    position_M = np.empty(capacity, np.int64)
    begin_B, end_B = np.empty(chunk + 1, np.int64), np.empty(chunk + 1, np.int64)
    negative_BK = np.empty((chunk + 1, num_shared), np.int32)
    width = padded(input_VD.shape[1])
    most_x, most_y = padded(MAX_CENTERS + 2 * window), padded(MAX_CENTERS + num_shared) + 16
    most = max(most_x, most_y)
    x_CP, dx_CP = local_rows(most_x, width), local_rows(most_x, width)
    y_YP, dy_YP = local_rows(most_y, width), local_rows(most_y, width)
    g_YC = local_rows(most_y, most_x)
    lane_C, own_C, id_C = np.arange(most_x).astype(np.float32), np.zeros(most_x, np.float32), np.zeros(most, np.int32)
    pairs_C, weight_C, norm_C = (
        np.zeros(most_x + 1, np.float32),
        np.zeros(most_x, np.float32),
        np.zeros(most_x, np.float32),
    )
    sum_C, curve_C, factor_C = (
        np.zeros(most_x + 1, np.float32),
        np.zeros(most_x, np.float32),
        np.zeros(most_x, np.float32),
    )
    norm_Y, curve_Y, factor_Y = np.zeros(most_y, np.float32), np.zeros(most_y, np.float32), np.zeros(most_y, np.float32)
    mark_N = np.zeros(MARKS, np.uint8)
    share = np.float32(num_negatives) / np.float32(num_shared)
    slot_M, x_VD = row_M, input_VD
    if places is not None:
        slot_M = np.empty(capacity, np.int32)
    if subwords is not None:
        slot_M, word_U, first_U1 = (
            np.empty(capacity, np.int32), np.empty(capacity, np.int32), np.empty(capacity + 1, np.int64)
        )  # fmt: skip
        places_T = 8 * CHUNK
        while places_T < 2 * capacity:  # a block is a whole walk, however long
            places_T *= 2
        place_T, gram_N = np.empty(places_T, np.int32), np.empty(capacity * MOST_GRAMS, np.int32)
        x_VD = np.empty((capacity, input_VD.shape[1]), np.float32)
        was_UD = np.empty((capacity, input_VD.shape[1]), np.float32)
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
        if subwords is not None:
            low, high = first, last
            for center in range(first, last):
                low, high = min(low, left_M[center]), max(high, right_M[center])
            words = find_slots(row_M, low, high, place_T, slot_M, word_U)
            compose_words(subwords, input_VD, word_U[:words], gram_N, first_U1, x_VD, was_UD)
        for b in range(num_blocks):
            begin, end, negative_K = begin_B[b], end_B[b], negative_BK[b]
            low, high = begin, end
            for center in range(begin, end):
                low, high = min(low, left_M[center]), max(high, right_M[center])
            if b + 1 < num_blocks:
                prefetch_block(x_VD, slot_M, output_VD, row_M, right_M, high, end, end_B[b + 1], negative_BK[b + 1])
            num_x, num_y = high - low, end - begin + num_shared
            take_rows(x_VD, slot_M[low:high], x_CP, norm_C)
            take_rows(output_VD, row_M[begin:end], y_YP, norm_Y)
            take_rows(output_VD, negative_K, y_YP[end - begin :], norm_Y[end - begin :])
            dot_rows(y_YP, x_CP, g_YC, fours(num_y), fours(num_x))
            if loss_every > 0 and (position_M[begin] // block) % loss_every == 0:
                loss, examples = _block_loss(begin, end, low, num_x, row_M, left_M, right_M, negative_K, share, g_YC)
                loss_sum += loss
                loss_examples += examples
            rate = rate_at(position_M[begin], lr_zero, lr_step)
            wide = padded(num_x)
            count_pairs(begin, end, low, left_M, right_M, num_x, pairs_C)
            for c in range(wide):
                weight_C[c] = rate * share * pairs_C[c]
            _coefficients(
                begin, end, low, row_M, left_M, right_M, negative_K, rate, rate * share, weight_C, own_C, lane_C, wide,
                mark_N, g_YC,
            )  # fmt: skip
            input_curvatures(begin, end, low, left_M, right_M, share, rate, pairs_C, norm_Y[:num_y], curve_C[:num_x])
            _output_curvatures(
                begin, end, low, left_M, right_M, share, rate, pairs_C[:num_x], norm_C, sum_C, curve_Y[:num_y]
            )
            damping(slot_M[low:high], curve_C, factor_C, id_C)
            damping(row_M[begin:end], curve_Y, factor_Y, id_C)
            damping(negative_K, curve_Y[end - begin :], factor_Y[end - begin :], id_C)
            mix_rows(g_YC, y_YP, dx_CP, num_y, fours(num_x))
            mix_rows_across(g_YC, x_CP, dy_YP, num_x, fours(num_y))
            give_rows(dx_CP, factor_C, slot_M[low:high], x_VD)
            give_rows(dy_YP, factor_Y, row_M[begin:end], output_VD)
            give_rows(dy_YP[end - begin :], factor_Y[end - begin :], negative_K, output_VD)
        if subwords is not None:
            spread_changes(subwords, input_VD, word_U[:words], gram_N, first_U1, was_UD, x_VD)
    return items, loss_sum, loss_examples
