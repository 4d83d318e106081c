"""Sums, means and maxima of neighbors' rows, graph convolutions, and their gradients.

Letters: F nodes that aggregate, S edges, M nodes that have rows, D columns.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import fast_jit, jit
from any2vec.kernels.common.prefetch import prefetch_read, prefetch_row

_AHEAD, _FAR = 8, 16
_SPREAD, _32 = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
"""neighbors are shared among threads by the high bits of their products: hubs, whose numbers are low, too"""


@fast_jit
def aggregate_rows(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, x_MD: np.ndarray, mean: bool, out_FD: np.ndarray
) -> None:
    """out[i] = sum, or mean, of x[neighbor[j]], j in [stop[i], stop[i + 1]); 0 without neighbors.

    stop int64, neighbor integers; x and out of one float type, C order. Four rows are added up at a time.
    """
    dim = x_MD.shape[1]
    for i in range(stop_F1.size - 1):
        start, stop = stop_F1[i], stop_F1[i + 1]
        for d in range(dim):
            out_FD[i, d] = 0
        j = start
        while j + 4 <= stop:
            for ahead in range(j + _AHEAD, min(j + _AHEAD + 4, neighbor_S.size)):
                prefetch_read(x_MD, neighbor_S[ahead])
            a, b, c, e = neighbor_S[j], neighbor_S[j + 1], neighbor_S[j + 2], neighbor_S[j + 3]
            for d in range(dim):
                out_FD[i, d] += (x_MD[a, d] + x_MD[b, d]) + (x_MD[c, d] + x_MD[e, d])
            j += 4
        while j < stop:
            a = neighbor_S[j]
            for d in range(dim):
                out_FD[i, d] += x_MD[a, d]
            j += 1
        if mean and stop > start:
            share = x_MD.dtype.type(1) / x_MD.dtype.type(stop - start)
            for d in range(dim):
                out_FD[i, d] *= share


@fast_jit
def sum_valued(
    stop_F1: np.ndarray, row_S: np.ndarray, value_S: np.ndarray, x_MD: np.ndarray, out_FD: np.ndarray
) -> None:  # fmt: skip
    """out[i] = sum of value[j] x[row[j]], j in [stop[i], stop[i + 1]): a sparse matrix times x.

    stop int64, row integers; the others of one float type, C order. Eight rows are added up at a time; values of 0,
    which dropout leaves, cost nothing.
    """
    dim = x_MD.shape[1]
    row_8, value_8 = np.empty(8, np.int64), np.empty(8, value_S.dtype)
    for i in range(stop_F1.size - 1):
        for d in range(dim):
            out_FD[i, d] = 0
        found = 0
        for j in range(stop_F1[i], stop_F1[i + 1]):
            if j + _FAR < row_S.size and value_S[j + _FAR] != 0:
                prefetch_read(x_MD, row_S[j + _FAR])
            if value_S[j] == 0:
                continue
            row_8[found], value_8[found] = row_S[j], value_S[j]
            found += 1
            if found == 8:
                _add_eight(row_8, value_8, x_MD, out_FD[i])
                found = 0
        for k in range(found):
            row, value = row_8[k], value_8[k]
            for d in range(dim):
                out_FD[i, d] += value * x_MD[row, d]


@fast_jit
def _add_eight(row_8: np.ndarray, value_8: np.ndarray, x_MD: np.ndarray, out_D: np.ndarray) -> None:
    a, b, c, d, e, f, g, h = row_8[0], row_8[1], row_8[2], row_8[3], row_8[4], row_8[5], row_8[6], row_8[7]
    at_a, at_b, at_c, at_d = value_8[0], value_8[1], value_8[2], value_8[3]
    at_e, at_f, at_g, at_h = value_8[4], value_8[5], value_8[6], value_8[7]
    for k in range(out_D.size):
        first = (at_a * x_MD[a, k] + at_b * x_MD[b, k]) + (at_c * x_MD[c, k] + at_d * x_MD[d, k])
        second = (at_e * x_MD[e, k] + at_f * x_MD[f, k]) + (at_g * x_MD[g, k] + at_h * x_MD[h, k])
        out_D[k] += first + second


@fast_jit
def convolve_rows(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, x_MD: np.ndarray, own_MD: np.ndarray, before_M: np.ndarray,
    own_F: np.ndarray, after_F: np.ndarray, out_FD: np.ndarray,
) -> None:  # fmt: skip
    """out[i] = after[i] (sum of before[n] x[n] over n = neighbor[j], j in [stop[i], stop[i + 1]), + own[i] own_M[i]).

    stop int64, neighbor integers; the others of one float type, C order; own_MD: x, or rows of it. One pass over the
    rows, where sums and products of whole arrays take five.
    """
    dim = x_MD.shape[1]
    for i in range(stop_F1.size - 1):
        start, stop = stop_F1[i], stop_F1[i + 1]
        own, after = own_F[i], after_F[i]
        for d in range(dim):
            out_FD[i, d] = own * own_MD[i, d]
        j = start
        while j + 4 <= stop:
            for ahead in range(j + _AHEAD, min(j + _AHEAD + 4, neighbor_S.size)):
                prefetch_read(x_MD, neighbor_S[ahead])
            a, b, c, e = neighbor_S[j], neighbor_S[j + 1], neighbor_S[j + 2], neighbor_S[j + 3]
            at_a, at_b, at_c, at_e = before_M[a], before_M[b], before_M[c], before_M[e]
            for d in range(dim):
                out_FD[i, d] += (at_a * x_MD[a, d] + at_b * x_MD[b, d]) + (at_c * x_MD[c, d] + at_e * x_MD[e, d])
            j += 4
        while j < stop:
            a = neighbor_S[j]
            at_a = before_M[a]
            for d in range(dim):
                out_FD[i, d] += at_a * x_MD[a, d]
            j += 1
        for d in range(dim):
            out_FD[i, d] *= after


@fast_jit
def spread_rows(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, grad_FD: np.ndarray, mean: bool, part: int, parts: int,
    grad_MD: np.ndarray,
) -> None:  # fmt: skip
    """The gradient of `aggregate_rows`: grad_M[neighbor[j]] += grad_F[i], over the number of neighbors for a mean.

    Of `parts` threads each takes the neighbors that are its own, in the order of one thread: the sums are the same.
    """
    dim = grad_FD.shape[1]
    share_D = np.empty(dim, grad_FD.dtype)
    for i in range(stop_F1.size - 1):
        start, stop = stop_F1[i], stop_F1[i + 1]
        if stop == start:
            continue
        share = grad_FD.dtype.type(1)
        if mean:
            share /= grad_FD.dtype.type(stop - start)
        for d in range(dim):
            share_D[d] = grad_FD[i, d] * share
        for j in range(start, stop):
            node = neighbor_S[j]
            if parts > 1 and ((np.uint64(node) * _SPREAD >> _32) * np.uint64(parts)) >> _32 != np.uint64(part):
                continue
            for d in range(dim):
                grad_MD[node, d] += share_D[d]


@jit
def max_rows(stop_F1: np.ndarray, neighbor_S: np.ndarray, x_MD: np.ndarray, out_FD: np.ndarray) -> None:
    """out[i] = column by column the largest of x[neighbor[j]], j in [stop[i], stop[i + 1]), NaN where one of them is;
    0 without neighbors."""
    for i in range(stop_F1.size - 1):
        start, stop = stop_F1[i], stop_F1[i + 1]
        out_FD[i] = 0
        if stop > start:
            out_FD[i] = x_MD[neighbor_S[start]]
        for j in range(start + 1, stop):
            node = neighbor_S[j]
            if j + _AHEAD < neighbor_S.size:
                prefetch_row(x_MD, neighbor_S[j + _AHEAD])
            for d in range(x_MD.shape[1]):
                value = x_MD[node, d]
                out_FD[i, d] = value if (value > out_FD[i, d]) | np.isnan(value) else out_FD[i, d]


@jit
def spread_max(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, x_MD: np.ndarray, max_FD: np.ndarray, grad_FD: np.ndarray,
    grad_MD: np.ndarray,
) -> None:  # fmt: skip
    """The gradient of `max_rows`, which gave max, added to grad_M: edges that are equally large share it; NaN
    where max is."""
    share_D = np.empty(x_MD.shape[1], x_MD.dtype)
    for i in range(stop_F1.size - 1):
        share_D[:] = 0
        for j in range(stop_F1[i], stop_F1[i + 1]):
            for d in range(share_D.size):
                share_D[d] += 0 if x_MD[neighbor_S[j], d] < max_FD[i, d] else 1
        for d in range(share_D.size):
            share = grad_FD[i, d] / max(share_D[d], x_MD.dtype.type(1))
            share_D[d] = max_FD[i, d] if np.isnan(max_FD[i, d]) else share
        for j in range(stop_F1[i], stop_F1[i + 1]):
            node = neighbor_S[j]
            for d in range(share_D.size):
                grad_MD[node, d] += x_MD.dtype.type(0) if x_MD[node, d] < max_FD[i, d] else share_D[d]


@fast_jit
def sum_edge_rows(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, weight_S: np.ndarray, x_MD: np.ndarray, edge_SD: np.ndarray,
    out_FD: np.ndarray, is_open_SD: np.ndarray,
) -> None:  # fmt: skip
    """out[i] = sum of weight[j] max(0, x[neighbor[j]] + edge[j]), j in [stop[i], stop[i + 1]) (Hu et al. 2020, GINE).

    weight: (0,): all are 1. is_open: bool, whether x[neighbor[j]] + edge[j] > 0, which gradients want; (0, D): nobody
    does. stop int64, neighbor integers; the others of one float type, C order.
    """
    dim, is_weighted = x_MD.shape[1], weight_S.size > 0
    for i in range(stop_F1.size - 1):
        for d in range(dim):
            out_FD[i, d] = 0
        for j in range(stop_F1[i], stop_F1[i + 1]):
            if j + _AHEAD < neighbor_S.size:
                prefetch_row(x_MD, neighbor_S[j + _AHEAD])
            node = neighbor_S[j]
            weight = weight_S[j] if is_weighted else x_MD.dtype.type(1)
            for d in range(dim):
                value = x_MD[node, d] + edge_SD[j, d]
                out_FD[i, d] += x_MD.dtype.type(0) if value <= 0 else weight * value  # what is no number stays none
            if is_open_SD.shape[0] > 0:
                for d in range(dim):
                    is_open_SD[j, d] = x_MD[node, d] + edge_SD[j, d] > 0


@fast_jit
def gate_edge_rows(
    stop_F1: np.ndarray, weight_S: np.ndarray, is_open_SD: np.ndarray, grad_FD: np.ndarray, grad_SD: np.ndarray
) -> None:
    """The gradient of `sum_edge_rows` by edge: grad_S[j] = weight[j] grad_F[i] where it is open, else 0."""
    dim, is_weighted = grad_FD.shape[1], weight_S.size > 0
    for i in range(stop_F1.size - 1):
        for j in range(stop_F1[i], stop_F1[i + 1]):
            weight = weight_S[j] if is_weighted else grad_FD.dtype.type(1)
            for d in range(dim):
                grad_SD[j, d] = weight * grad_FD[i, d] if is_open_SD[j, d] else grad_FD.dtype.type(0)


@fast_jit
def spread_edge_rows(neighbor_S: np.ndarray, grad_SD: np.ndarray, part: int, parts: int, grad_MD: np.ndarray) -> None:
    """grad_M[neighbor[j]] += grad_S[j], by threads as of `spread_rows`."""
    for j in range(grad_SD.shape[0]):
        node = neighbor_S[j]
        if parts > 1 and ((np.uint64(node) * _SPREAD >> _32) * np.uint64(parts)) >> _32 != np.uint64(part):
            continue
        for d in range(grad_SD.shape[1]):
            grad_MD[node, d] += grad_SD[j, d]
