"""Skip-gram and CBOW with hierarchical softmax.

Morin and Bengio 2005, "Hierarchical probabilistic neural network language model", in the form of Mikolov et al. 2013,
"Distributed representations of words and phrases and their compositionality", section 2.1: the probability of a
center word is a product of sigmoids along its Huffman code, sign + where the bit is 0.

All contexts of one center meet the same path. So they are taken together, as a mini-batch: context rows and path rows
are copied to small local blocks, all dot products are taken before any update, and each row then takes the sum of
its steps. With one context (and always in CBOW) this is word2vec's own arithmetic.

Legend: P tokens of the stream (alone) or dim padded to lanes (in blocks), V rows, D dim, M entries of a chunk,
C contexts of one center, L length of a code.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import fast_jit, jit
from any2vec.kernels.common.prefetch import prefetch_row
from any2vec.kernels.common.scalar import bounded, log_loss, rate_at, sigmoid
from any2vec.kernels.common.vectors import padded
from any2vec.kernels.skipgram.classic import add_bounded, average_context
from any2vec.kernels.skipgram.places import Places, path_row, place_inputs
from any2vec.kernels.text.windows import gather_windows

_CHUNK = 2048
"""Positions gathered at a time; a size of scratch, without any effect on the results."""


@jit
def longest_code(code_offset: np.ndarray) -> int:
    """The length of the longest code, rounded up to a multiple of 4, at least 4; code_offset int64 (V + 1,)."""
    longest = 1
    for row in range(code_offset.size - 1):
        longest = max(longest, code_offset[row + 1] - code_offset[row])
    return (longest + 3) // 4 * 4


@jit
def prefetch_path(
    code_offset: np.ndarray, points: np.ndarray, row: int, output_VD: np.ndarray, places: Places | None
) -> None:
    """Ask for the output rows on the path of `row`."""
    for n in range(code_offset[row], code_offset[row + 1]):
        prefetch_row(output_VD, path_row(points, n, places))


@jit
def copy_row(row_D: np.ndarray, local_P: np.ndarray) -> None:
    """The head of local_P (float32 (P,)) becomes row_D (float32 (D,))."""
    for d in range(row_D.size):
        local_P[d] = row_D[d]


@jit
def head(flat: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """A contiguous matrix (rows, columns) over the head of a flat scratch array."""
    return flat[: rows * columns].reshape(rows, columns)


@fast_jit
def steps_of_row(bits: np.ndarray, begin: int, lr: float, is_measured: bool, step_L: np.ndarray) -> float:
    """The dot products of one row with its path become steps in place: (1 - bit - s(dot)) * lr.

    Returns the loss (float64) where is_measured, else 0.
    """
    loss = 0.0
    if is_measured:
        for n in range(step_L.size):
            loss += log_loss(-step_L[n] if bits[begin + n] != 0 else step_L[n])
    for n in range(step_L.size):
        step_L[n] = (np.float32(1 - np.int32(bits[begin + n])) - sigmoid(step_L[n])) * lr
    return loss


@fast_jit
def add_scaled(row_D: np.ndarray, step: float, x_P: np.ndarray) -> None:
    """row_D += step * x_P, bounded; float32."""
    for d in range(row_D.size):
        row_D[d] = bounded(row_D[d] + step * x_P[d])


@fast_jit
def dots_of_row(x_P: np.ndarray, y_LP: np.ndarray, length: int, out_L: np.ndarray) -> None:
    """out[n] = x . y[n] for n < length, four at a time; y_LP is padded to a multiple of 4 rows with finite numbers."""
    for n in range(0, length, 4):
        y0_P, y1_P, y2_P, y3_P = y_LP[n], y_LP[n + 1], y_LP[n + 2], y_LP[n + 3]
        s0, s1, s2, s3 = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        for q in range(x_P.size):
            s0 += x_P[q] * y0_P[q]
            s1 += x_P[q] * y1_P[q]
            s2 += x_P[q] * y2_P[q]
            s3 += x_P[q] * y3_P[q]
        out_L[n], out_L[n + 1], out_L[n + 2], out_L[n + 3] = s0, s1, s2, s3


@fast_jit
def add_weighted_rows(weight_L: np.ndarray, y_LP: np.ndarray, length: int, sum_P: np.ndarray) -> None:
    """sum += sum over n < length of weight[n] y[n], four at a time; the padding of weight_L is zero."""
    for n in range(0, length, 4):
        y0_P, y1_P, y2_P, y3_P = y_LP[n], y_LP[n + 1], y_LP[n + 2], y_LP[n + 3]
        w0, w1, w2, w3 = weight_L[n], weight_L[n + 1], weight_L[n + 2], weight_L[n + 3]
        for q in range(sum_P.size):
            sum_P[q] += (w0 * y0_P[q] + w1 * y1_P[q]) + (w2 * y2_P[q] + w3 * y3_P[q])


@fast_jit
def train_skipgram_hierarchical(
    tokens: np.ndarray, start: int, stop: int, offset: int, keep_V: np.ndarray, token_key: np.uint64,
    code_offset: np.ndarray, points: np.ndarray, bits: np.ndarray, input_VD: np.ndarray, output_VD: np.ndarray,
    window: int, lr_zero: float, lr_step: float, loss_every: int, places: Places | None = None,
) -> tuple[int, float, int]:  # fmt: skip
    """Train on the centers of tokens[start:stop]: each context's input row predicts the code of the center word.

    tokens int32 (P,), start, stop int64, offset int64: global position of tokens[0]; keep_V uint64 (V,), token_key
    uint64: see `gather_windows`; code_offset int64 (V + 1,), points int32, bits uint8: see `huffman_codes`; input_VD
    float32 (V, D) and output_VD float32 (at least V - 1, D), C order, distinct, updated in place, finite and within
    BOUND; window; lr_zero, lr_step float64: see `rate_at`; loss_every int64: the
    loss is summed over centers whose global position is a multiple of it, never for 0; places: where rows lie, if
    tables do not hold all.

    Returns (items int64: in-vocabulary tokens before subsampling, loss_sum float64: -log p(center | context) in nats,
    loss_examples int64: pairs measured). Draws nothing. Deterministic on one thread. Memory O((window + longest
    code) * dim).
    """
    size = _CHUNK + 2 * window + 1
    row_M, left_M, right_M = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
    position_M = np.empty(size, np.int64)
    dim, deep, wide = input_VD.shape[1], longest_code(code_offset), 2 * window
    x_flat, dx_flat = np.empty(wide * dim, np.float32), np.empty(wide * dim, np.float32)
    y_flat, dy_flat = np.empty(deep * dim, np.float32), np.empty(deep * dim, np.float32)
    step_flat = np.empty(wide * deep, np.float32)
    slot_M = row_M
    if places is not None:
        slot_M = np.empty(size, np.int32)
    items, loss_sum, loss_examples = 0, 0.0, 0
    for chunk in range(start, stop, _CHUNK):
        first, last, counted = gather_windows(
            tokens, chunk, min(chunk + _CHUNK, stop), offset, keep_V, token_key, window,
            row_M, left_M, right_M, position_M,
        )  # fmt: skip
        items += counted
        if places is not None:
            place_inputs(places, first, last, left_M, right_M, row_M, slot_M)
        for j in range(first, last):
            if j + 1 < last:
                prefetch_path(code_offset, points, row_M[j + 1], output_VD, places)
            left, right = left_M[j], right_M[j]
            if right - left < 2:
                continue
            begin = code_offset[row_M[j]]
            length = code_offset[row_M[j] + 1] - begin
            lr = rate_at(position_M[j], lr_zero, lr_step)
            is_measured = loss_every > 0 and position_M[j] % loss_every == 0
            contexts = right - left - 1
            x_CD, dx_CD = head(x_flat, contexts, dim), head(dx_flat, contexts, dim)
            y_LD, dy_LD = head(y_flat, length, dim), head(dy_flat, length, dim)
            step_CL = head(step_flat, contexts, length)
            for n in range(length):
                copy_row(output_VD[path_row(points, begin + n, places)], y_LD[n])
            for i in range(left, right):
                if i != j:
                    copy_row(input_VD[slot_M[i]], x_CD[i - left - (1 if i > j else 0)])
            np.dot(x_CD, y_LD.T, step_CL)
            for c in range(contexts):
                loss_sum += steps_of_row(bits, begin, lr, is_measured, step_CL[c])
                loss_examples += 1 if is_measured else 0
            np.dot(step_CL, y_LD, dx_CD)
            np.dot(step_CL.T, x_CD, dy_LD)
            for i in range(left, right):
                if i != j:
                    add_bounded(input_VD[slot_M[i]], dx_CD[i - left - (1 if i > j else 0)])
            for n in range(length):
                add_bounded(output_VD[path_row(points, begin + n, places)], dy_LD[n])
    return items, loss_sum, loss_examples


@fast_jit
def train_cbow_hierarchical(
    tokens: np.ndarray, start: int, stop: int, offset: int, keep_V: np.ndarray, token_key: np.uint64,
    code_offset: np.ndarray, points: np.ndarray, bits: np.ndarray, input_VD: np.ndarray, output_VD: np.ndarray,
    window: int, lr_zero: float, lr_step: float, loss_every: int, places: Places | None = None,
) -> tuple[int, float, int]:  # fmt: skip
    """Train on the centers of tokens[start:stop]: the mean of the context's input rows predicts the center's code, and
    the whole step is added to each of those rows (word2vec's and gensim's cbow_mean = 1).

    Arguments and results as `train_skipgram_hierarchical`; a positive example is a center with at least one context
    word.
    """
    size, wide = _CHUNK + 2 * window + 1, padded(input_VD.shape[1])
    row_M, left_M, right_M = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
    position_M = np.empty(size, np.int64)
    deep = longest_code(code_offset)
    y_LP, step_L = np.zeros((deep, wide), np.float32), np.zeros(deep, np.float32)
    mean_P, error_P = np.zeros(wide, np.float32), np.zeros(wide, np.float32)
    mean_D = mean_P[: input_VD.shape[1]]
    slot_M = row_M
    if places is not None:
        slot_M = np.empty(size, np.int32)
    items, loss_sum, loss_examples = 0, 0.0, 0
    for chunk in range(start, stop, _CHUNK):
        first, last, counted = gather_windows(
            tokens, chunk, min(chunk + _CHUNK, stop), offset, keep_V, token_key, window,
            row_M, left_M, right_M, position_M,
        )  # fmt: skip
        items += counted
        if places is not None:
            place_inputs(places, first, last, left_M, right_M, row_M, slot_M)
        for j in range(first, last):
            if j + 1 < last:
                prefetch_path(code_offset, points, row_M[j + 1], output_VD, places)
            left, right = left_M[j], right_M[j]
            if right - left < 2:
                continue
            begin = code_offset[row_M[j]]
            length = code_offset[row_M[j] + 1] - begin
            lr = rate_at(position_M[j], lr_zero, lr_step)
            is_measured = loss_every > 0 and position_M[j] % loss_every == 0
            average_context(slot_M, left, right, j, input_VD, mean_D)
            for n in range(length):
                copy_row(output_VD[path_row(points, begin + n, places)], y_LP[n])
            dots_of_row(mean_P, y_LP, length, step_L)
            loss_sum += steps_of_row(bits, begin, lr, is_measured, step_L[:length])
            for n in range(length, (length + 3) // 4 * 4):
                step_L[n] = np.float32(0)
            error_P[:] = np.float32(0)
            add_weighted_rows(step_L, y_LP, length, error_P)
            loss_examples += 1 if is_measured else 0
            for i in range(left, right):
                if i != j:
                    add_bounded(input_VD[slot_M[i]], error_P)
            for n in range(length):
                add_scaled(output_VD[path_row(points, begin + n, places)], step_L[n], mean_P)
    return items, loss_sum, loss_examples
