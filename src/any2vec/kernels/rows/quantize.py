"""Rows in 8 or 16 bits: each has a scale of its own, and whole numbers of it. Rounding is to nearest, ties to even.

Legend: K rows, D dim.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from any2vec.kernels.common.addresses import numbers_at, rows_at
from any2vec.kernels.common.jit import jit


@jit
def quantize_rows(rows_KD: np.ndarray, most: int, scale_K: np.ndarray, code_KD: np.ndarray) -> None:
    """code = round(row / scale), scale = largest |number| of the row / most; so |row - scale code| <= scale / 2.

    rows_KD float32 (K, D), finite; most: 127 for int8 codes, 32,767 for int16; scale_K float32 (K,); a row of zeros
    has scale 0.
    """
    for k in range(rows_KD.shape[0]):
        top = np.float32(0)
        for d in range(rows_KD.shape[1]):
            top = max(top, abs(rows_KD[k, d]))
        scale = top / np.float32(most)
        scale_K[k] = scale
        inverse = np.float32(1) / scale if scale > 0 else np.float32(0)
        if not inverse < np.inf:  # a scale so small that it has no inverse: the row is as good as zero
            scale_K[k], inverse = np.float32(0), np.float32(0)
        for d in range(rows_KD.shape[1]):
            code_KD[k, d] = np.rint(rows_KD[k, d] * inverse)


@jit
def restore_rows(scale_K: np.ndarray, code_KD: np.ndarray, rows_KD: np.ndarray) -> None:
    """rows = scale code; float32."""
    for k in range(code_KD.shape[0]):
        for d in range(code_KD.shape[1]):
            rows_KD[k, d] = scale_K[k] * np.float32(code_KD[k, d])


@jit
def restore_lists(
    scales_H: np.ndarray, codes_H: np.ndarray, size_H: np.ndarray, like: np.integer[Any], rows_KD: np.ndarray
) -> None:
    """`restore_rows` of H lists by address, uint64, one after the other; size_H: rows of each; like: a code."""
    at, dim = 0, rows_KD.shape[1]
    for h in range(size_H.size):
        size = size_H[h]
        if size > 0:
            scale_K = numbers_at(scales_H[h], np.float32(0), size)
            restore_rows(scale_K, rows_at(codes_H[h], like, size, dim), rows_KD[at : at + size])
            at += size
