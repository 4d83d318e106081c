"""From a stream of tokens to centers with their context windows: subsampling, window shrinking, sentence ends.

A token's fate (kept or not, how wide its window is) is one draw at its global position, so a stretch of the stream
may be cut anywhere and each piece sees the same windows.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import below, draw

FAR = 10_000
"""positions of the stream beyond which nothing is a context: where almost nothing is kept, the search for `window`
kept neighbors of a piece would otherwise read the whole line, piece after piece"""

_LOW32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


@jit
def _take(
    tokens: np.ndarray,
    begin: int,
    end: int,
    offset: int,
    keep_V: np.ndarray,
    key: np.uint64,
    window: int,
    size: int,
    sentence: int,
    row_M: np.ndarray,
    start_M: np.ndarray,
    reach_M: np.ndarray,
    position_M: np.ndarray,
) -> tuple[int, int, int]:
    """Append the kept tokens of [begin, end). Returns (size, first entry of the sentence at hand, items).

    Whether a token is kept is a coin toss, so there is no branch on it: each token is written, and counted if kept.
    """
    items = 0
    for position in range(begin, end):
        token = tokens[position]
        is_known = (token >= 0) & (token < keep_V.size)
        bits = draw(key, np.uint64(offset + position))
        row_M[size] = token
        start_M[size] = sentence
        reach_M[size] = 1 + below(bits >> _32, window)
        position_M[size] = offset + position
        size += is_known & ((bits & _LOW32) < keep_V[token if is_known else 0])
        items += is_known
        sentence = size if token < 0 else sentence
    return size, sentence, items


@jit
def gather_windows(
    tokens: np.ndarray,
    start: int,
    stop: int,
    offset: int,
    keep_V: np.ndarray,
    key: np.uint64,
    window: int,
    row_M: np.ndarray,
    left_M: np.ndarray,
    right_M: np.ndarray,
    position_M: np.ndarray,
) -> tuple[int, int, int]:
    """Kept tokens of `tokens[start:stop]` (the centers), and up to `window` kept neighbors on both sides.

    tokens int32 (P,), ids ranked by count, -1 ends a sentence, an id >= V is out of the vocabulary and vanishes;
    offset is the global position of tokens[0]; keep_V uint64 (V,) thresholds (2**32 keeps always); key uint64, the
    stream PURPOSE_TOKEN of this epoch. Writes row_M int32, left_M, right_M int32, position_M int64 (M > stop - start +
    2 * window): entry j is a kept token, its context is entries [left, right) without j itself. The window of a
    center is uniform on 1..window (word2vec), measured in kept tokens; it never crosses a sentence end, nor goes
    further than FAR positions.
    Returns (first, last, items): the centers are entries first..last - 1; items counts the in-vocabulary tokens of
    [start, stop) before subsampling.
    """
    begin = start
    before = 0
    while begin > 0 and before < window and start - begin < FAR:
        token = tokens[begin - 1]
        if token < 0:
            break
        begin -= 1
        if token < keep_V.size and (draw(key, np.uint64(offset + begin)) & _LOW32) < keep_V[token]:
            before += 1
    first, sentence, _ = _take(
        tokens, begin, start, offset, keep_V, key, window, 0, 0, row_M, left_M, right_M, position_M
    )
    last, sentence, items = _take(
        tokens, start, stop, offset, keep_V, key, window, first, sentence, row_M, left_M, right_M, position_M
    )
    size, end = last, stop
    while end < min(tokens.size, stop + FAR) and size < last + window and sentence < last and tokens[end] >= 0:
        size, _, _ = _take(
            tokens, end, end + 1, offset, keep_V, key, window, size, sentence, row_M, left_M, right_M, position_M
        )
        end += 1
    # left_M holds where the sentence of an entry starts, right_M how far its window reaches.
    sentence_end = size
    for j in range(size - 1, -1, -1):
        reach, sentence = right_M[j], left_M[j]
        left_M[j] = max(sentence, j - reach)
        right_M[j] = min(sentence_end, j + reach + 1)
        if sentence == j:
            sentence_end = j
        while position_M[j] - position_M[left_M[j]] > FAR:
            left_M[j] += 1
        while position_M[right_M[j] - 1] - position_M[j] > FAR:
            right_M[j] -= 1
    return first, last, items
