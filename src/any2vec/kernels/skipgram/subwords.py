"""Vectors of words from the n-grams of their characters: the mean of a word's own row and of its n-grams' rows.

A word stands between `<` and `>`, and its n-grams are runs of `shortest` to `longest` characters (UTF-8 code points)
in that, each hashed to one of H buckets (Bojanowski et al. 2017, "Enriching Word Vectors with Subword Information",
section 3.2; the hash and the order are those of fastText, so that the buckets are, too). Buckets that no word of the
vocabulary has need no row.

Legend: V vocabulary, D dim, H buckets, G rows of n-grams, B bytes of all words, U distinct words of a chunk, M kept
tokens of a chunk, N n-grams of its distinct words.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from any2vec.kernels.common.jit import fast_jit, jit
from any2vec.kernels.common.prefetch import prefetch_row
from any2vec.kernels.common.rng import mix64
from any2vec.kernels.common.scalar import bounded
from any2vec.kernels.rows.row_start import start_rows

MOST_GRAMS = 1024
"""n-grams of one word at most: of a longer word the first ones count"""
_OFFSET, _PRIME, _LOW32 = np.uint64(2166136261), np.uint64(16777619), np.uint64(0xFFFFFFFF)
_SIGN = np.uint64(0xFFFFFF00)
_OPEN, _CLOSE = 60, 62


class Subwords(NamedTuple):
    """Where the n-grams of a vocabulary are."""

    text_B: np.ndarray
    """uint8: the words' bytes"""
    begin_V: np.ndarray
    """int64: where each word begins in them"""
    end_V: np.ndarray
    """int64: where it ends"""
    row_H: np.ndarray
    """int32: the row of each bucket, -1: it has none"""
    gram_GD: np.ndarray
    """float32: the rows of n-grams"""
    shortest: int
    longest: int
    """characters of an n-gram"""


@jit
def _byte(text_B: np.ndarray, begin: int, end: int, place: int) -> int:
    """Byte `place` of `<word>`."""
    if place == 0:
        return _OPEN
    return _CLOSE if place == end - begin + 1 else int(text_B[begin + place - 1])


@jit
def list_buckets(
    text_B: np.ndarray, begin: int, end: int, shortest: int, longest: int, buckets: int, bucket_N: np.ndarray
) -> int:
    """Write the buckets of the n-grams of the word text_B[begin:end], int32 (MOST_GRAMS or more,); returns how many.

    FNV-1a of 32 bits, whose bytes fastText takes as signed numbers; the marks themselves are no n-grams.
    """
    size, length = 0, end - begin + 2
    for first in range(length):
        if (_byte(text_B, begin, end, first) & 0xC0) == 0x80:  # within a character
            continue
        code, stop = _OFFSET, first
        for characters in range(1, longest + 1):
            if stop == length:
                break
            is_within = True
            while is_within:
                value = np.uint64(_byte(text_B, begin, end, stop))
                code = ((code ^ (value | _SIGN if value >= np.uint64(128) else value)) * _PRIME) & _LOW32
                stop += 1
                is_within = stop < length and (_byte(text_B, begin, end, stop) & 0xC0) == 0x80
            if characters >= shortest and not (characters == 1 and (first == 0 or stop == length)):
                if size == MOST_GRAMS:
                    return size
                bucket_N[size] = code % np.uint64(buckets)
                size += 1
    return size


@jit
def mark_buckets(
    text_B: np.ndarray, begin_V: np.ndarray, end_V: np.ndarray, shortest: int, longest: int, mark_H: np.ndarray
) -> None:
    """Put 1 into mark_H, uint8, at the buckets of all words."""
    bucket_N = np.empty(MOST_GRAMS, np.int32)
    for word in range(begin_V.size):
        size = list_buckets(text_B, begin_V[word], end_V[word], shortest, longest, mark_H.size, bucket_N)
        for n in range(size):
            mark_H[bucket_N[n]] = 1


@jit
def _list_rows(subwords: Subwords, word: int, row_N: np.ndarray) -> int:
    """Write the rows of a word's n-grams; returns how many."""
    found = list_buckets(
        subwords.text_B, subwords.begin_V[word], subwords.end_V[word], subwords.shortest, subwords.longest,
        subwords.row_H.size, row_N,
    )  # fmt: skip
    size = 0
    for n in range(found):
        row = subwords.row_H[row_N[n]]
        if row >= 0:
            row_N[size] = row
            size += 1
    return size


@jit
def find_slots(
    row_M: np.ndarray, low: int, high: int, place_T: np.ndarray, slot_M: np.ndarray, word_U: np.ndarray
) -> int:
    """Number the distinct rows among row_M[low:high] as they come: slot_M[low:high] and word_U; returns how many.

    place_T: int32 scratch of a power of two, above twice the entries.
    """
    place_T[:] = -1
    mask, size = np.uint64(place_T.size - 1), 0
    for j in range(low, high):
        place = mix64(np.uint64(row_M[j])) & mask
        while place_T[place] >= 0 and word_U[place_T[place]] != row_M[j]:
            place = (place + np.uint64(1)) & mask
        if place_T[place] < 0:
            place_T[place] = size
            word_U[size] = row_M[j]
            size += 1
        slot_M[j] = place_T[place]
    return size


@fast_jit
def compose_words(
    subwords: Subwords, word_VD: np.ndarray, word_U: np.ndarray, gram_N: np.ndarray, first_U1: np.ndarray,
    x_UD: np.ndarray, copy_UD: np.ndarray,
) -> None:  # fmt: skip
    """x_UD[u] and copy_UD[u] = mean of word_VD[word_U[u]] and its n-grams' rows; lists those rows.

    The rows of u are gram_N[first_U1[u] : first_U1[u + 1]], int32 (MOST_GRAMS a word,).
    """
    dim, words = word_VD.shape[1], word_U.size
    first_U1[0] = 0
    for ahead in range(words + 1):
        if ahead < words:  # its rows are on their way while those of the word before are added up
            first = first_U1[ahead]
            first_U1[ahead + 1] = first + _list_rows(subwords, word_U[ahead], gram_N[first : first + MOST_GRAMS])
            for n in range(first, first_U1[ahead + 1]):
                prefetch_row(subwords.gram_GD, gram_N[n])
            prefetch_row(word_VD, word_U[ahead])
        if ahead == 0:
            continue
        u = ahead - 1
        x_D, own_D = x_UD[u], word_VD[word_U[u]]
        for d in range(dim):
            x_D[d] = own_D[d]
        for n in range(first_U1[u], first_U1[u + 1]):
            row_D = subwords.gram_GD[gram_N[n]]
            for d in range(dim):
                x_D[d] += row_D[d]
        share = np.float32(1) / np.float32(1 + first_U1[u + 1] - first_U1[u])
        for d in range(dim):
            x_D[d] *= share
            copy_UD[u, d] = x_D[d]


@fast_jit
def spread_changes(
    subwords: Subwords, word_VD: np.ndarray, word_U: np.ndarray, gram_N: np.ndarray, first_U1: np.ndarray,
    was_UD: np.ndarray, x_UD: np.ndarray,
) -> None:  # fmt: skip
    """Add x_UD[u] - was_UD[u] to each row that word u is the mean of, within scalar.BOUND: the mean moves by as much.

    x_UD becomes the change.
    """
    dim, words = word_VD.shape[1], word_U.size
    for u in range(words):
        if u + 1 < words:
            for n in range(first_U1[u + 1], first_U1[u + 2]):
                prefetch_row(subwords.gram_GD, gram_N[n])
        x_D, was_D, own_D = x_UD[u], was_UD[u], word_VD[word_U[u]]
        for d in range(dim):
            x_D[d] -= was_D[d]
            own_D[d] = bounded(own_D[d] + x_D[d])
        for n in range(first_U1[u], first_U1[u + 1]):
            row_D = subwords.gram_GD[gram_N[n]]
            for d in range(dim):
                row_D[d] = bounded(row_D[d] + x_D[d])


@jit
def compose_all(subwords: Subwords, word_VD: np.ndarray, rows_N: np.ndarray, x_ND: np.ndarray) -> None:
    """x_ND[n] = the vector of word rows_N[n], int32."""
    gram_N, first_U1 = np.empty(MOST_GRAMS, np.int32), np.empty(2, np.int64)
    for n in range(rows_N.size):
        x_UD = x_ND[n : n + 1]
        compose_words(subwords, word_VD, rows_N[n : n + 1], gram_N, first_U1, x_UD, x_UD)


@jit
def make_words(subwords: Subwords, key: np.uint64, spread: float, x_ND: np.ndarray) -> int:
    """x_ND[n] = the vector of word n from its n-grams alone: the mean of the rows that there are.

    Where none is there, that of the values at which the rows of its buckets would have started (`start_rows` with `key`
    and `spread`, by bucket). Stops at a word without any n-gram; returns how many words are done.
    """
    bucket_N, row_N = np.empty(MOST_GRAMS, np.int32), np.empty(MOST_GRAMS, np.int32)
    dim = x_ND.shape[1]
    start_1D = np.empty((1, dim), np.float32)
    for word in range(x_ND.shape[0]):
        found = list_buckets(
            subwords.text_B, subwords.begin_V[word], subwords.end_V[word], subwords.shortest, subwords.longest,
            subwords.row_H.size, bucket_N,
        )  # fmt: skip
        if found == 0:
            return word
        size = _list_rows(subwords, word, row_N)
        x_D = x_ND[word]
        x_D[:] = 0
        for n in range(size if size else found):
            if size:
                row_D = subwords.gram_GD[row_N[n]]
            else:
                start_rows(start_1D, np.full(1, bucket_N[n], np.int64), dim, key, spread)
                row_D = start_1D[0]
            for d in range(dim):
                x_D[d] += row_D[d]
        share = np.float32(1) / np.float32(size if size else found)
        for d in range(dim):
            x_D[d] *= share
    return x_ND.shape[0]
