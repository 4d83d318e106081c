"""Skip-gram and CBOW with negative sampling, one pair after the other: the reference that faster kernels answer to.

Mikolov et al. 2013, "Distributed representations of words and phrases and their compositionality", equation 4, with
the roles of the authors' word2vec: the context word's input row predicts the center word's output row. The sigmoid is
exact, no table; every component stays within `scalar.BOUND`, which rules out NaN for any learning rate.

Legend: P tokens of the stream, V rows, D dim, K negatives, M entries of a chunk.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.alias import draw_alias
from any2vec.kernels.common.jit import fast_jit, jit
from any2vec.kernels.common.prefetch import prefetch_row
from any2vec.kernels.common.rng import draw
from any2vec.kernels.common.scalar import bounded, log_loss, rate_at, sigmoid
from any2vec.kernels.skipgram.places import Places, place_inputs, place_outputs
from any2vec.kernels.text.windows import gather_windows

_CHUNK = 2048
"""Positions gathered at a time; a size of scratch, without any effect on the results."""


@fast_jit
def step_pair(x_D: np.ndarray, output_D: np.ndarray, error_D: np.ndarray, label: float, lr: float) -> np.float32:
    """One positive or negative pair: adds the pair's step for the input row to error_D, and updates output_D in place.

    x_D, output_D, error_D float32 (D,); label float32, 1 or 0; lr float32. Returns the dot product (float32) before
    the update.
    """
    dot = np.float32(0.0)
    for d in range(x_D.size):
        dot += x_D[d] * output_D[d]
    step = (label - sigmoid(dot)) * lr
    for d in range(x_D.size):
        error_D[d] += step * output_D[d]
        output_D[d] = bounded(output_D[d] + step * x_D[d])
    return dot


@jit
def draw_negatives(
    counter: np.uint64,
    negative_key: np.uint64,
    threshold_V: np.ndarray,
    alias_V: np.ndarray,
    output_VD: np.ndarray,
    negative_K: np.ndarray,
    places: Places | None = None,
) -> None:
    """Fill negative_K int32 (K,): negative k is drawn at `counter + k` (uint64) of stream `negative_key`.

    With places they are those of the drawn rows in the output table.
    """
    for k in range(negative_K.size):
        row = draw_alias(draw(negative_key, counter + np.uint64(k)), threshold_V, alias_V)
        if places is not None:
            row = np.int64(places.output_V[row])
        negative_K[k] = row
        prefetch_row(output_VD, row)


@fast_jit
def step_example(
    x_D: np.ndarray,
    center: int,
    negative_K: np.ndarray,
    output_VD: np.ndarray,
    lr: float,
    is_measured: bool,
    error_D: np.ndarray,
) -> float:
    """One positive example and its negatives, in order; a negative that is the center itself is passed over.

    error_D receives the whole step of x_D. Returns the loss (float64) where is_measured, each dot product taken just
    before its own update; else 0.
    """
    for d in range(error_D.size):
        error_D[d] = np.float32(0.0)
    dot = step_pair(x_D, output_VD[center], error_D, np.float32(1.0), lr)
    loss = log_loss(dot) if is_measured else 0.0
    for row in negative_K:
        if row != center:
            dot = step_pair(x_D, output_VD[row], error_D, np.float32(0.0), lr)
            if is_measured:
                loss += log_loss(-dot)
    return loss


@jit
def add_bounded(row_D: np.ndarray, step_D: np.ndarray) -> None:
    """row_D += step_D, every component kept within BOUND; both float32 (D,)."""
    for d in range(row_D.size):
        row_D[d] = bounded(row_D[d] + step_D[d])


@fast_jit
def train_skipgram_classic(
    tokens: np.ndarray, start: int, stop: int, offset: int, keep_V: np.ndarray, token_key: np.uint64,
    negative_key: np.uint64, threshold_V: np.ndarray, alias_V: np.ndarray, input_VD: np.ndarray,
    output_VD: np.ndarray,
    window: int, num_negatives: int, lr_zero: float, lr_step: float, loss_every: int,
    places: Places | None = None,
) -> tuple[int, float, int]:  # fmt: skip
    """Train on the centers of tokens[start:stop]: each (context, center) pair takes one positive and K negative steps.

    tokens int32 (P,), start, stop int64, offset int64: global position of tokens[0]; keep_V uint64 (V,), token_key
    uint64: see `gather_windows`; negative_key uint64: stream PURPOSE_NEGATIVE of this epoch; threshold_V uint32 (V,),
    alias_V int32 (V,): the noise distribution; input_VD, output_VD float32 (V, D), C order, distinct, updated in
    place, finite and within BOUND; window, num_negatives >= 1; lr_zero, lr_step float64: see `rate_at`; loss_every
    int64: the loss is summed over centers whose global position is a multiple of it, never for 0; places: where rows
    lie, if tables do not hold all.

    Negative k of the context at distance -window..-1, 1..window (slot 0..2 * window - 1) of the center at global
    position p is draw (p * 2 * window + slot) * num_negatives + k: no two pairs of an epoch share a draw, and the
    draws do not depend on where the stream is cut. The distance is counted in kept tokens.

    Returns (items int64: in-vocabulary tokens before subsampling, loss_sum float64: -log s(x.center) - sum of
    log s(-x.negative), loss_examples int64: pairs measured). Deterministic on one thread. Memory O(window + dim).
    """
    size = _CHUNK + 2 * window + 1
    row_M, left_M, right_M = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
    position_M = np.empty(size, np.int64)
    error_D = np.empty(input_VD.shape[1], np.float32)
    negative_K = np.empty(num_negatives, np.int32)
    slot_M = row_M
    if places is not None:
        slot_M = np.empty(size, np.int32)
    items, loss_sum, loss_examples = 0, 0.0, 0
    for begin in range(start, stop, _CHUNK):
        first, last, counted = gather_windows(
            tokens, begin, min(begin + _CHUNK, stop), offset, keep_V, token_key, window,
            row_M, left_M, right_M, position_M,
        )  # fmt: skip
        items += counted
        if places is not None:
            place_inputs(places, first, last, left_M, right_M, row_M, slot_M)
            place_outputs(places, first, last, row_M)
        for j in range(first, last):
            position = position_M[j]
            lr = rate_at(position, lr_zero, lr_step)
            is_measured = loss_every > 0 and position % loss_every == 0
            for i in range(left_M[j], right_M[j]):
                if i == j:
                    continue
                slot = i - j + window - (1 if i > j else 0)
                counter = np.uint64(position * 2 * window + slot) * np.uint64(num_negatives)
                draw_negatives(counter, negative_key, threshold_V, alias_V, output_VD, negative_K, places)
                x_D = input_VD[slot_M[i]]
                loss = step_example(x_D, row_M[j], negative_K, output_VD, lr, is_measured, error_D)
                add_bounded(x_D, error_D)
                if is_measured:
                    loss_sum += loss
                    loss_examples += 1
    return items, loss_sum, loss_examples


@fast_jit
def train_cbow_classic(
    tokens: np.ndarray, start: int, stop: int, offset: int, keep_V: np.ndarray, token_key: np.uint64,
    negative_key: np.uint64, threshold_V: np.ndarray, alias_V: np.ndarray, input_VD: np.ndarray,
    output_VD: np.ndarray,
    window: int, num_negatives: int, lr_zero: float, lr_step: float, loss_every: int,
    places: Places | None = None,
) -> tuple[int, float, int]:  # fmt: skip
    """Train on the centers of tokens[start:stop]: the mean of the context's input rows takes one positive and K
    negative steps, and the whole step is added to each of those rows (word2vec's and gensim's cbow_mean = 1).

    Arguments and results as `train_skipgram_classic`; a positive example is a center with at least one context word.
    Negative k of the center at global position p is draw p * num_negatives + k.
    """
    size = _CHUNK + 2 * window + 1
    row_M, left_M, right_M = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
    position_M = np.empty(size, np.int64)
    mean_D, error_D = np.empty(input_VD.shape[1], np.float32), np.empty(input_VD.shape[1], np.float32)
    negative_K = np.empty(num_negatives, np.int32)
    slot_M = row_M
    if places is not None:
        slot_M = np.empty(size, np.int32)
    items, loss_sum, loss_examples = 0, 0.0, 0
    for begin in range(start, stop, _CHUNK):
        first, last, counted = gather_windows(
            tokens, begin, min(begin + _CHUNK, stop), offset, keep_V, token_key, window,
            row_M, left_M, right_M, position_M,
        )  # fmt: skip
        items += counted
        if places is not None:
            place_inputs(places, first, last, left_M, right_M, row_M, slot_M)
            place_outputs(places, first, last, row_M)
        for j in range(first, last):
            left, right = left_M[j], right_M[j]
            if right - left < 2:
                continue
            position = position_M[j]
            is_measured = loss_every > 0 and position % loss_every == 0
            lr = rate_at(position, lr_zero, lr_step)
            counter = np.uint64(position) * np.uint64(num_negatives)
            draw_negatives(counter, negative_key, threshold_V, alias_V, output_VD, negative_K, places)
            average_context(slot_M, left, right, j, input_VD, mean_D)
            loss = step_example(mean_D, row_M[j], negative_K, output_VD, lr, is_measured, error_D)
            for i in range(left, right):
                if i != j:
                    add_bounded(input_VD[slot_M[i]], error_D)
            if is_measured:
                loss_sum += loss
                loss_examples += 1
    return items, loss_sum, loss_examples


@jit
def average_context(
    row_M: np.ndarray, left: int, right: int, center: int, input_VD: np.ndarray, mean_D: np.ndarray
) -> None:
    """mean_D (float32 (D,)) becomes the mean of the input rows of entries [left, right) without `center`."""
    for d in range(mean_D.size):
        mean_D[d] = np.float32(0.0)
    for i in range(left, right):
        if i != center:
            x_D = input_VD[row_M[i]]
            for d in range(mean_D.size):
                mean_D[d] += x_D[d]
    share = np.float32(1.0) / np.float32(right - left - 1)
    for d in range(mean_D.size):
        mean_D[d] *= share
