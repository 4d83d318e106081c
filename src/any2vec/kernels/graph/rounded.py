"""Sums and means of neighbors' rows that are kept in 16 or 8 bits, as float32: half or a quarter of the bytes to read.

Letters: F nodes that aggregate, S edges, M nodes that have rows, D columns.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import fast_jit
from any2vec.kernels.common.prefetch import prefetch_row

_AHEAD = 8
_16 = np.uint32(16)


@fast_jit
def _float(code: np.uint16) -> np.float32:
    """A bfloat16: the upper half of the float32."""
    return np.uint32(np.uint32(code) << _16).view(np.float32)


@fast_jit
def aggregate_halves(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, x_MD: np.ndarray, mean: bool, out_FD: np.ndarray
) -> None:
    """As `aggregate_rows`, of bfloat16, whose bits x holds as uint16; out float32."""
    dim = x_MD.shape[1]
    for i in range(stop_F1.size - 1):
        start, stop = stop_F1[i], stop_F1[i + 1]
        for d in range(dim):
            out_FD[i, d] = 0
        j = start
        while j + 4 <= stop:
            for ahead in range(j + _AHEAD, min(j + _AHEAD + 4, neighbor_S.size)):
                prefetch_row(x_MD, neighbor_S[ahead])
            a, b, c, e = neighbor_S[j], neighbor_S[j + 1], neighbor_S[j + 2], neighbor_S[j + 3]
            for d in range(dim):
                out_FD[i, d] += (_float(x_MD[a, d]) + _float(x_MD[b, d])) + (_float(x_MD[c, d]) + _float(x_MD[e, d]))
            j += 4
        while j < stop:
            a = neighbor_S[j]
            for d in range(dim):
                out_FD[i, d] += _float(x_MD[a, d])
            j += 1
        if mean and stop > start:
            share = np.float32(1) / np.float32(stop - start)
            for d in range(dim):
                out_FD[i, d] *= share


@fast_jit
def aggregate_codes(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, x_MD: np.ndarray, scale_M: np.ndarray, mean: bool, out_FD: np.ndarray
) -> None:
    """As `aggregate_rows`, of rows that are scale, float32 (M,), times their codes x, int8; out float32."""
    dim = x_MD.shape[1]
    for i in range(stop_F1.size - 1):
        start, stop = stop_F1[i], stop_F1[i + 1]
        for d in range(dim):
            out_FD[i, d] = 0
        j = start
        while j + 4 <= stop:
            for ahead in range(j + _AHEAD, min(j + _AHEAD + 4, neighbor_S.size)):
                prefetch_row(x_MD, neighbor_S[ahead])
            a, b, c, e = neighbor_S[j], neighbor_S[j + 1], neighbor_S[j + 2], neighbor_S[j + 3]
            at_a, at_b, at_c, at_e = scale_M[a], scale_M[b], scale_M[c], scale_M[e]
            for d in range(dim):
                out_FD[i, d] += (at_a * np.float32(x_MD[a, d]) + at_b * np.float32(x_MD[b, d])) + (
                    at_c * np.float32(x_MD[c, d]) + at_e * np.float32(x_MD[e, d])
                )
            j += 4
        while j < stop:
            a = neighbor_S[j]
            at_a = scale_M[a]
            for d in range(dim):
                out_FD[i, d] += at_a * np.float32(x_MD[a, d])
            j += 1
        if mean and stop > start:
            share = np.float32(1) / np.float32(stop - start)
            for d in range(dim):
                out_FD[i, d] *= share
