"""Which rows a piece of work reads and writes, found without touching them: the inspection pass of GraphAny2Vec.

Each kernel here walks the same windows and the same counter-based draws as the training kernel beside it, and puts a
mark on each row instead (Gill et al. 2021, "Distributed Training of Embeddings using Graph Analytics", section 4).

Legend: V rows, M kept tokens of a chunk, B blocks of a chunk, K negatives of a block or pair.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.alias import draw_alias
from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import draw
from any2vec.kernels.skipgram.blocks import cut_blocks
from any2vec.kernels.text.windows import gather_windows

_CHUNK = 2048


@jit
def trace_block(
    tokens: np.ndarray, start: int, stop: int, offset: int, keep_V: np.ndarray, token_key: np.uint64,
    negative_key: np.uint64, threshold_V: np.ndarray, alias_V: np.ndarray, window: int, block: int, most: int,
    num_shared: int, input_V: np.ndarray, output_V: np.ndarray,
) -> None:  # fmt: skip
    """Rows of `train_skipgram_block` and `train_cbow_block`; most: centers of one of their blocks at most.

    input_V, output_V: uint8 (V,), 1 is put where a row of that table is read or written. Other arguments as there.
    """
    chunk = max(1, 2048 // block) * block
    capacity = chunk + 2 * window + 2
    row_M, left_M, right_M = np.empty(capacity, np.int32), np.empty(capacity, np.int32), np.empty(capacity, np.int32)
    position_M = np.empty(capacity, np.int64)
    begin_B, end_B = np.empty(chunk + 1, np.int64), np.empty(chunk + 1, np.int64)
    negative_BK = np.empty((chunk + 1, num_shared), np.int32)
    for piece in range(start, stop, chunk):
        first, last, _ = gather_windows(
            tokens, piece, min(stop, piece + chunk), offset, keep_V, token_key, window,
            row_M, left_M, right_M, position_M,
        )  # fmt: skip
        num_blocks = cut_blocks(
            position_M, first, last, block, most, negative_key, threshold_V, alias_V, begin_B, end_B, negative_BK
        )
        for b in range(num_blocks):
            low, high = begin_B[b], end_B[b]
            for center in range(begin_B[b], end_B[b]):
                low, high = min(low, left_M[center]), max(high, right_M[center])
                output_V[row_M[center]] = 1
            for entry in range(low, high):
                input_V[row_M[entry]] = 1
            for k in range(num_shared):
                output_V[negative_BK[b, k]] = 1


@jit
def trace_classic(
    tokens: np.ndarray, start: int, stop: int, offset: int, keep_V: np.ndarray, token_key: np.uint64,
    negative_key: np.uint64, threshold_V: np.ndarray, alias_V: np.ndarray, window: int, num_negatives: int,
    is_cbow: bool, input_V: np.ndarray, output_V: np.ndarray,
) -> None:  # fmt: skip
    """Rows of `train_skipgram_classic` and `train_cbow_classic`; marks as `trace_block`."""
    size = _CHUNK + 2 * window + 1
    row_M, left_M, right_M = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
    position_M = np.empty(size, np.int64)
    for begin in range(start, stop, _CHUNK):
        first, last, _ = gather_windows(
            tokens, begin, min(begin + _CHUNK, stop), offset, keep_V, token_key, window,
            row_M, left_M, right_M, position_M,
        )  # fmt: skip
        for j in range(first, last):
            if right_M[j] - left_M[j] < 2:
                continue
            output_V[row_M[j]] = 1
            for i in range(left_M[j], right_M[j]):
                if i == j:
                    continue
                input_V[row_M[i]] = 1
                slot = i - j + window - (1 if i > j else 0)
                counter = np.uint64(position_M[j] * 2 * window + slot) * np.uint64(num_negatives)
                for k in range(0 if is_cbow else num_negatives):
                    output_V[draw_alias(draw(negative_key, counter + np.uint64(k)), threshold_V, alias_V)] = 1
            counter = np.uint64(position_M[j]) * np.uint64(num_negatives)
            for k in range(num_negatives if is_cbow else 0):
                output_V[draw_alias(draw(negative_key, counter + np.uint64(k)), threshold_V, alias_V)] = 1


@jit
def trace_hierarchical(
    tokens: np.ndarray, start: int, stop: int, offset: int, keep_V: np.ndarray, token_key: np.uint64,
    code_offset: np.ndarray, points: np.ndarray, window: int, input_V: np.ndarray, output_V: np.ndarray,
) -> None:  # fmt: skip
    """Rows of `train_skipgram_hierarchical` and `train_cbow_hierarchical`; marks as `trace_block`."""
    size = _CHUNK + 2 * window + 1
    row_M, left_M, right_M = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
    position_M = np.empty(size, np.int64)
    for begin in range(start, stop, _CHUNK):
        first, last, _ = gather_windows(
            tokens, begin, min(begin + _CHUNK, stop), offset, keep_V, token_key, window,
            row_M, left_M, right_M, position_M,
        )  # fmt: skip
        for j in range(first, last):
            if right_M[j] - left_M[j] < 2:
                continue
            for i in range(left_M[j], right_M[j]):
                if i != j:
                    input_V[row_M[i]] = 1
            for n in range(code_offset[row_M[j]], code_offset[row_M[j] + 1]):
                output_V[points[n]] = 1
