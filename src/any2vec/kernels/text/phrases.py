"""Runs of words that may be phrases: each is a pair (left, right), so that counting phrases is counting pairs.

`left` is a token, or the number of a prefix: a token and the connectors behind it (`bank of the`), which is itself the
pair of a shorter prefix and a connector. A table of open addressing, of a power of two, holds the pairs: an entry is
pair + 1, 0 where it is free. Prefixes stand as FIRST_PREFIX + number.

Legend: P tokens (-1 ends a sentence), T types, H slots of a table, B keys of a buffer.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import mix64

FIRST_PREFIX = 1 << 31
_32, _ONE = np.uint64(32), np.uint64(1)


@jit
def _slot(pair: np.uint64, pair_H: np.ndarray) -> np.uint64:
    """Where the table holds a pair, or would."""
    mask = np.uint64(pair_H.size - 1)
    slot = mix64(pair) & mask
    while pair_H[slot] != 0 and pair_H[slot] != pair + _ONE:
        slot = (slot + _ONE) & mask
    return slot


@jit
def put_pairs(pair_N: np.ndarray, value_N: np.ndarray, pair_H: np.ndarray, value_H: np.ndarray) -> None:
    """Put pairs, uint64, and what they stand for, int64, into a table that has room."""
    for n in range(pair_N.size):
        slot = _slot(pair_N[n], pair_H)
        pair_H[slot] = pair_N[n] + _ONE
        value_H[slot] = value_N[n]


@jit
def number_prefixes(
    tokens: np.ndarray, start: int, left: int, is_connector_T: np.ndarray, pair_H: np.ndarray, value_H: np.ndarray,
    pair_N: np.ndarray, size: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Number the prefixes of tokens[start:] as they come, until the table is half full.

    left: what stands before them, -1: nothing; pair_N uint64: the prefixes, `size` of them known. Returns
    (where it stopped, left there, size).
    """
    for position in range(start, tokens.size):
        token = tokens[position]
        if token < 0:
            left = -1
        elif not is_connector_T[token]:
            left = int(token)
        elif left >= 0:
            pair = np.uint64(left) << _32 | np.uint64(token)
            slot = _slot(pair, pair_H)
            if pair_H[slot] == 0:
                if size >= pair_N.size:
                    return position, left, size
                pair_H[slot] = pair + _ONE
                value_H[slot] = FIRST_PREFIX + size
                pair_N[size] = pair
                size += 1
            left = value_H[slot]
    return tokens.size, left, size


@jit
def gather_phrases(
    tokens: np.ndarray, start: int, left: int, is_connector_T: np.ndarray, pair_H: np.ndarray, value_H: np.ndarray,
    key_B: np.ndarray,
) -> tuple[int, int, int]:  # fmt: skip
    """Put the pair of each two neighboring words of tokens[start:] into key_B, connectors between them in `left`.

    The table holds every prefix. Returns (where it stopped, left there, keys).
    """
    size = 0
    for position in range(start, tokens.size):
        token = tokens[position]
        if token < 0:
            left = -1
        elif not is_connector_T[token]:
            if left >= 0:
                if size == key_B.size:
                    return position, left, size
                key_B[size] = np.uint64(left) << _32 | np.uint64(token)
                size += 1
            left = int(token)
        elif left >= 0:
            left = value_H[_slot(np.uint64(left) << _32 | np.uint64(token), pair_H)]
    return tokens.size, left, size


@jit
def join_phrases(
    tokens: np.ndarray, is_connector_T: np.ndarray, pair_H: np.ndarray, value_H: np.ndarray, out: np.ndarray
) -> int:
    """Write tokens with the phrases of the table in the place of their words, int32; returns how many.

    tokens: whole sentences. From left to right: a word that ends a phrase begins no other. The table holds phrases,
    which stand for their own token, and the prefixes of phrases.
    """
    size, begin, left = 0, -1, np.int64(-1)  # tokens[begin:position] may become a phrase; left < 0: no longer
    for position in range(tokens.size):
        token = tokens[position]
        is_word = token >= 0 and not is_connector_T[token]
        if begin < 0 and not is_word:
            out[size] = token
            size += 1
            continue
        if begin >= 0:
            slot = (
                _slot(np.uint64(left) << _32 | np.uint64(token), pair_H) if left >= 0 and token >= 0 else np.uint64(0)
            )
            found = value_H[slot] if left >= 0 and token >= 0 and pair_H[slot] != 0 else np.int64(-1)
            if not is_word and token >= 0:
                left = found
                continue
            if found >= 0:
                out[size] = found
                size += 1
                begin = -1
                continue
            for open_position in range(begin, position):
                out[size] = tokens[open_position]
                size += 1
        if is_word:
            begin, left = position, np.int64(token)
        else:
            out[size] = token
            size += 1
            begin = -1
    if begin >= 0:
        for open_position in range(begin, tokens.size):
            out[size] = tokens[open_position]
            size += 1
    return size
