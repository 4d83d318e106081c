"""Texts in Arrow's layout (bytes one behind another, and offsets) become hashed rows, or tags for a table of values.

Letters: D bytes of data, N texts. A text's hash depends on its bytes alone, not on file format, column or machine.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import mix64
from any2vec.kernels.text.tokens import keep_bytes, load_eight

_TOP = np.uint64(1 << 63)
_ZERO, _ONE, _3, _7 = (np.uint64(value) for value in (0, 1, 3, 7))


@jit
def hash_rows(data_D: np.ndarray, offset_N1: np.ndarray, counts_V: np.ndarray, row_N: np.ndarray) -> None:
    """row_N int32 (N,) = 0 for an empty text, else 2 + hash mod (V - 2); counts_V int64 (V,), V >= 3, counts the rows.

    data_D uint8; text n is data_D[offset_N1[n] : offset_N1[n + 1]], offset_N1 int64 (N + 1,). The hash: h = mix64(bytes
    in the text), then h = mix64(h ^ c) for each 8 bytes c (the first one lowest, the last ones padded with 0).
    """
    buckets = np.uint64(counts_V.size - 2)
    for text in range(row_N.size):
        at, stop = offset_N1[text], offset_N1[text + 1]
        row = np.int64(0)
        if stop > at:
            code = mix64(np.uint64(stop - at))
            while at < stop:
                eight = _ZERO
                for byte in range(min(8, stop - at)):
                    eight |= np.uint64(data_D[at + byte]) << np.uint64(8 * byte)
                code = mix64(code ^ eight)
                at += 8
            row = 2 + np.int64(code % buckets)
        row_N[text] = row
        counts_V[row] += 1


@jit
def tag_texts(
    block_D: np.ndarray, offset_N1: np.ndarray, tags_N: np.ndarray, begins_N: np.ndarray, lengths_N: np.ndarray
) -> int:
    """The entries that `tokens.encode_words` reads, of texts; an empty text has tag 0. Returns the texts done.

    block_D uint8: 8-byte aligned, at least 16 bytes more than the texts, a multiple of 8 long; offset_N1 int64 (N + 1,)
    into it; tags_N uint64, begins_N int64, lengths_N int32 are written. Stops early at a text with a NUL byte.
    """
    words_8 = block_D.view(np.uint64)
    for text in range(tags_N.size):
        begin, length = offset_N1[text], offset_N1[text + 1] - offset_N1[text]
        for byte in range(length):
            if block_D[begin + byte] == 0:
                return text
        at, size = np.uint64(begin), np.uint64(length)
        last = size >> _3
        tag = keep_bytes(load_eight(words_8, at + (last << _3)), size & _7)
        if last != _ZERO:
            tag ^= size
            for chunk in range(last):
                tag = mix64(tag ^ load_eight(words_8, at + (np.uint64(chunk) << _3)))
            tag |= _TOP
        tags_N[text] = tag
        begins_N[text] = begin
        lengths_N[text] = length
    return tags_N.size
