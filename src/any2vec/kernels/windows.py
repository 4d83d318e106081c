"""From a stream of tokens to centres with their context windows: subsampling, window shrinking, sentence ends.

A token's fate (kept or not, how wide its window is) is one draw at its global position, so a stretch of the stream
may be cut anywhere and each piece sees the same windows.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.jit import inline_jit, jit
from any2vec.kernels.rng import below, draw

_LOW32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


@inline_jit
def _kept(token, position, keep_V, key):
    return token >= 0 and token < keep_V.size and (draw(key, np.uint64(position)) & _LOW32) < keep_V[token]


@jit
def gather_windows(tokens, start, stop, offset, keep_V, key, window, row_M, left_M, right_M, position_M):
    """Kept tokens of `tokens[start:stop]` (the centres), and up to `window` kept neighbours on both sides.

    tokens int32 (P,), ids ranked by count, -1 ends a sentence, an id >= V is out of the vocabulary and vanishes;
    offset is the global position of tokens[0]; keep_V uint64 (V,) thresholds (2**32 keeps always); key uint64, the
    stream PURPOSE_TOKEN of this epoch. Writes row_M int32, left_M, right_M int32, position_M int64 (M >= stop - start
    + 2 * window): entry j is a kept token, its context is entries [left, right) without j itself. The window of a
    centre is uniform on 1..window (word2vec), measured in kept tokens, and never crosses a sentence end.
    Returns (first, last, items): the centres are entries first..last - 1; items counts the in-vocabulary tokens of
    [start, stop) before subsampling.
    """
    begin = start
    before = 0
    while begin > 0 and before < window:
        token = tokens[begin - 1]
        if token < 0:
            break
        begin -= 1
        if _kept(token, offset + begin, keep_V, key):
            before += 1
    size, sentence, items, first, last, after = 0, 0, 0, -1, -1, 0
    position = begin
    while position < tokens.size:
        if position == start:
            first = size
        if position == stop:
            last = size
        if position >= stop and after >= window:
            break
        token = tokens[position]
        if token < 0:
            for j in range(max(sentence, size - window), size):
                right_M[j] = min(right_M[j], size)
            sentence = size
            if position >= stop:
                break
        elif token < keep_V.size:
            if start <= position < stop:
                items += 1
            bits = draw(key, np.uint64(offset + position))
            if (bits & _LOW32) < keep_V[token]:
                reach = 1 + below(bits >> _32, window)
                row_M[size] = token
                left_M[size] = max(sentence, size - reach)
                right_M[size] = size + reach + 1
                position_M[size] = offset + position
                size += 1
                if position >= stop:
                    after += 1
        position += 1
    for j in range(max(sentence, size - window), size):
        right_M[j] = min(right_M[j], size)
    if first < 0:
        first = size
    if last < 0:
        last = size
    return first, last, items
