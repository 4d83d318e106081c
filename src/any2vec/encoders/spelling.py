"""Words as the symbols that a character model reads: their UTF-8 bytes, forwards or backwards, then END.

Legend: U words, S symbols of the longest (END too), T levels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from any2vec.data.vocab.vocabulary import Keys

END = 256
SYMBOLS = 257
MOST_BYTES = 64
"""of a longer word the first ones are read"""
READINGS = {"forward": (False,), "backward": (True,), "both": (False, True)}
"""which ways a word is read; True: backwards"""
_NONE = -1


def spell(keys: Keys) -> tuple[np.ndarray, np.ndarray]:
    """(symbols int16 (U, S), -1 behind END; their number int64 (U,)), forwards."""
    sizes = np.minimum(np.diff(keys.offsets), MOST_BYTES)
    column = np.arange(int(sizes.max(initial=0)) + 1)
    place_US = np.minimum(keys.offsets[:-1, None] + column, max(len(keys.arena) - 1, 0))
    symbol_US = np.full((len(keys), len(column)), END, np.int16)
    if len(keys.arena):
        symbol_US = np.where(column < sizes[:, None], keys.arena[place_US].astype(np.int16), END).astype(np.int16)
    symbol_US[column > sizes[:, None]] = _NONE
    return symbol_US, sizes + 1


def backwards(symbol_US: np.ndarray, size_U: np.ndarray) -> np.ndarray:
    """The same words with their bytes in reverse, END last as before."""
    column = np.arange(symbol_US.shape[1])
    place_US = size_U[:, None] - 2 - column
    return np.where(place_US >= 0, np.take_along_axis(symbol_US, np.maximum(place_US, 0), axis=1), symbol_US)


@dataclass(frozen=True)
class Level:
    """Prefixes of one length, each once."""

    symbol_N: np.ndarray
    """int64: their last symbol"""
    parent_N: np.ndarray
    """int64: which of the prefixes one shorter, among those that go on, each one continues"""
    inner_P: np.ndarray
    """int64: those among them that go on, ascending"""
    whole_W: np.ndarray
    """int64: those that are whole words, one for each word"""
    word_W: np.ndarray
    """int64: which ones"""


def tries(symbol_US: np.ndarray, size_U: np.ndarray, reading: str) -> list[list[Level]]:
    """What each way of a reading reads: prefixes of the words, and of the words backwards."""
    return [
        prefixes(backwards(symbol_US, size_U) if is_backward else symbol_US, size_U)
        for is_backward in READINGS[reading]
    ]


def prefixes(symbol_US: np.ndarray, size_U: np.ndarray) -> list[Level]:
    """The distinct prefixes of words by length: what words begin with alike is read once, and so are equal words."""
    order = np.lexsort(symbol_US.T[::-1])
    symbol_US, size_U = symbol_US[order], size_U[order]
    differs = symbol_US[1:] != symbol_US[:-1]
    alike_U = np.zeros(len(order), np.int64)  # symbols that a word has in common with the one before
    alike_U[1:] = np.where(differs.any(axis=1), differs.argmax(axis=1), symbol_US.shape[1])
    found = []
    before_U = np.zeros(len(order), np.int64)  # each word's prefix of the level before, among those that go on
    for length in range(1, symbol_US.shape[1] + 1):
        active = np.flatnonzero(size_U >= length)
        is_new = alike_U[active] < length
        is_new[:1] = True
        first = active[is_new]
        node_A = np.cumsum(is_new) - 1
        is_inner, is_end = size_U[first] > length, size_U[active] == length
        inner_P, whole_W = np.flatnonzero(is_inner), node_A[is_end]
        found.append(
            Level(
                symbol_US[first, length - 1].astype(np.int64), before_U[first], inner_P, whole_W, order[active[is_end]]
            )
        )
        rank_N = np.cumsum(is_inner) - 1
        before_U[active] = rank_N[node_A]
    return found
