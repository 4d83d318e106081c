"""Plain twins of `any2vec.kernels.skipgram.subwords`, and of skip-gram over words made of n-grams."""

from __future__ import annotations

import numpy as np

from naive.common.pair import bounded
from naive.skipgram.skipgram import train_skipgram_block


def grams(word: str, shortest: int, longest: int) -> list[str]:
    """All runs of `shortest` to `longest` characters of <word>, but for the marks alone."""
    text = f"<{word}>"
    return [
        text[first : first + size]
        for first in range(len(text))
        for size in range(shortest, longest + 1)
        if first + size <= len(text) and not (size == 1 and first in (0, len(text) - 1))
    ]


def bucket(gram: str, buckets: int) -> int:
    """FNV-1a of 32 bits over signed bytes."""
    code = 2166136261
    for byte in gram.encode():
        code ^= byte if byte < 128 else byte | 0xFFFFFF00
        code = code * 16777619 & 0xFFFFFFFF
    return code % buckets


def rows_of(words: list[str], row_of_bucket: np.ndarray, shortest: int, longest: int) -> list[list[int]]:
    """The rows of each word's n-grams."""
    found = [
        [int(row_of_bucket[bucket(gram, len(row_of_bucket))]) for gram in grams(word, shortest, longest)]
        for word in words
    ]
    return [[row for row in rows if row >= 0] for rows in found]


def train_chunks(p, rows: list[list[int]], gram_rows: np.ndarray, chunk: int, train) -> tuple[int, float, int]:
    """Skip-gram on problem `p`, its words composed once a chunk; train(start, stop, composed) trains a chunk."""
    items, loss_sum, examples = 0, 0.0, 0
    for start in range(p.start, p.stop, chunk):
        was = np.array(
            [(p.input_rows[v] + sum(gram_rows[r] for r in own)) / (1 + len(own)) for v, own in enumerate(rows)]
        )
        composed = was.copy()
        result = train(start, min(p.stop, start + chunk), composed)
        items, loss_sum, examples = items + result[0], loss_sum + result[1], examples + result[2]
        for v, own in enumerate(rows):
            p.input_rows[v] = bounded(p.input_rows[v] + composed[v] - was[v])
            for r in own:
                gram_rows[r] = bounded(gram_rows[r] + composed[v] - was[v])
    return items, loss_sum, examples


__all__ = ["bucket", "grams", "rows_of", "train_chunks", "train_skipgram_block"]
