"""Attention over neighbors: softmax of edges' scores at each node that aggregates, weighted sums, and their gradients.

Arithmetic is exact IEEE in the order of the edges: the same bits from run to run. A node's own number among its
neighbors is its self-loop; the others may each stand for several (`share`), as a sample of neighbors does for all.

Letters: F nodes that aggregate, S edges, M nodes that have rows, H heads, C columns of a head, D = H C.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.prefetch import prefetch_row

_AHEAD = 8


@jit
def add_self_loops(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, num: int, out_stop_F1: np.ndarray, out_neighbor: np.ndarray
) -> None:
    """The edges without self-loops, and one behind the others of each of the first `num` nodes.

    out_stop int64 (F + 1,), out_neighbor integers with room for S + num.
    """
    filled = 0
    out_stop_F1[0] = 0
    for i in range(stop_F1.size - 1):
        for j in range(stop_F1[i], stop_F1[i + 1]):
            if neighbor_S[j] != i:
                out_neighbor[filled] = neighbor_S[j]
                filled += 1
        if i < num:
            out_neighbor[filled] = i
            filled += 1
        out_stop_F1[i + 1] = filled


@jit
def weigh_sums(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, share_F: np.ndarray, source_MH: np.ndarray, target_FH: np.ndarray,
    slope: float, weight_SH: np.ndarray,
) -> None:  # fmt: skip
    """weight[j] = softmax over the edges j of node i of leaky(source[neighbor[j]] + target[i]) (GAT, equation 3).

    share: how many neighbors each one but the self-loop stands for, > 0; (0,): one. Floats of one type, C order.
    """
    slope = source_MH.dtype.type(slope)
    for i in range(stop_F1.size - 1):
        for j in range(stop_F1[i], stop_F1[i + 1]):
            node = neighbor_S[j]
            for h in range(source_MH.shape[1]):
                value = source_MH[node, h] + target_FH[i, h]
                weight_SH[j, h] = value if value > 0 else slope * value
        _softmax(stop_F1[i], stop_F1[i + 1], neighbor_S, i, share_F, weight_SH)


@jit
def weigh_sums_gradient(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, source_MH: np.ndarray, target_FH: np.ndarray, slope: float,
    weight_SH: np.ndarray, grad_SH: np.ndarray, grad_source_MH: np.ndarray, grad_target_FH: np.ndarray,
) -> None:  # fmt: skip
    """The gradient of `weigh_sums`, whose weights these are, added to grad_source and grad_target."""
    heads = source_MH.shape[1]
    slope = source_MH.dtype.type(slope)
    mean_H = np.empty(heads, source_MH.dtype)
    for i in range(stop_F1.size - 1):
        _mean_gradient(stop_F1[i], stop_F1[i + 1], weight_SH, grad_SH, mean_H)
        for j in range(stop_F1[i], stop_F1[i + 1]):
            node = neighbor_S[j]
            for h in range(heads):
                change = weight_SH[j, h] * (grad_SH[j, h] - mean_H[h])
                if source_MH[node, h] + target_FH[i, h] <= 0:
                    change *= slope
                grad_source_MH[node, h] += change
                grad_target_FH[i, h] += change


@jit
def weigh_pairs(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, share_F: np.ndarray, source_MD: np.ndarray, target_FD: np.ndarray,
    attention_D: np.ndarray, slope: float, weight_SH: np.ndarray,
) -> None:  # fmt: skip
    """weight[j] = softmax over the edges j of node i of attention . leaky(source[neighbor[j]] + target[i]), by head
    (GATv2, equation 7). share: as of `weigh_sums`.
    """
    dim, heads = source_MD.shape[1], weight_SH.shape[1]
    slope = source_MD.dtype.type(slope)
    part_D = np.empty(dim, source_MD.dtype)
    for i in range(stop_F1.size - 1):
        for j in range(stop_F1[i], stop_F1[i + 1]):
            node = neighbor_S[j]
            if j + _AHEAD < neighbor_S.size:
                prefetch_row(source_MD, neighbor_S[j + _AHEAD])
            for d in range(dim):
                value = source_MD[node, d] + target_FD[i, d]
                part_D[d] = attention_D[d] * (value if value > 0 else slope * value)
            _fold(part_D, dim // heads, weight_SH[j])
        _softmax(stop_F1[i], stop_F1[i + 1], neighbor_S, i, share_F, weight_SH)


@jit
def weigh_pairs_gradient(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, source_MD: np.ndarray, target_FD: np.ndarray,
    attention_D: np.ndarray, slope: float, weight_SH: np.ndarray, grad_SH: np.ndarray, grad_source_MD: np.ndarray,
    grad_target_FD: np.ndarray, grad_attention_D: np.ndarray,
) -> None:  # fmt: skip
    """The gradient of `weigh_pairs`, whose weights these are, added to the three; that of attention: float64."""
    dim, heads = source_MD.shape[1], weight_SH.shape[1]
    width = dim // heads
    slope = source_MD.dtype.type(slope)
    mean_H = np.empty(heads, source_MD.dtype)
    change_D, attended_D = np.empty(dim, source_MD.dtype), np.empty(dim, source_MD.dtype)
    for i in range(stop_F1.size - 1):
        _mean_gradient(stop_F1[i], stop_F1[i + 1], weight_SH, grad_SH, mean_H)
        attended_D[:] = 0
        for j in range(stop_F1[i], stop_F1[i + 1]):
            node = neighbor_S[j]
            if j + _AHEAD < neighbor_S.size:
                prefetch_row(source_MD, neighbor_S[j + _AHEAD])
                prefetch_row(grad_source_MD, neighbor_S[j + _AHEAD])
            for h in range(heads):
                change_D[h * width : (h + 1) * width] = weight_SH[j, h] * (grad_SH[j, h] - mean_H[h])
            for d in range(dim):
                value = source_MD[node, d] + target_FD[i, d]
                factor = change_D[d] if value > 0 else slope * change_D[d]
                attended_D[d] += factor * value
                change_D[d] = factor * attention_D[d]
            for d in range(dim):
                grad_source_MD[node, d] += change_D[d]
            for d in range(dim):
                grad_target_FD[i, d] += change_D[d]
        for d in range(dim):
            grad_attention_D[d] += attended_D[d]


@jit
def sum_weighted(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, weight_SH: np.ndarray, x_MD: np.ndarray, out_FD: np.ndarray
) -> None:
    """out[i] = sum of weight[j] x[neighbor[j]] over the edges j of node i, head by head; 0 without any."""
    heads = weight_SH.shape[1]
    width = x_MD.shape[1] // heads
    for i in range(stop_F1.size - 1):
        out_FD[i] = 0
        for j in range(stop_F1[i], stop_F1[i + 1]):
            node = neighbor_S[j]
            if j + _AHEAD < neighbor_S.size:
                prefetch_row(x_MD, neighbor_S[j + _AHEAD])
            for h in range(heads):
                weight = weight_SH[j, h]
                for d in range(h * width, (h + 1) * width):
                    out_FD[i, d] += weight * x_MD[node, d]


@jit
def sum_weighted_gradient(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, weight_SH: np.ndarray, x_MD: np.ndarray, grad_FD: np.ndarray,
    grad_weight_SH: np.ndarray, grad_x_MD: np.ndarray,
) -> None:  # fmt: skip
    """The gradient of `sum_weighted`: that of the weights is written, that of x is added."""
    dim, heads = x_MD.shape[1], weight_SH.shape[1]
    width = dim // heads
    part_D = np.empty(dim, x_MD.dtype)
    for i in range(stop_F1.size - 1):
        for j in range(stop_F1[i], stop_F1[i + 1]):
            node = neighbor_S[j]
            if j + _AHEAD < neighbor_S.size:
                prefetch_row(x_MD, neighbor_S[j + _AHEAD])
                prefetch_row(grad_x_MD, neighbor_S[j + _AHEAD])
            for d in range(dim):
                part_D[d] = grad_FD[i, d] * x_MD[node, d]
            _fold(part_D, width, grad_weight_SH[j])
            for h in range(heads):
                weight = weight_SH[j, h]
                for d in range(h * width, (h + 1) * width):
                    grad_x_MD[node, d] += weight * grad_FD[i, d]


@jit
def _softmax(
    start: int, stop: int, neighbor_S: np.ndarray, own: int, share_F: np.ndarray, weight_SH: np.ndarray
) -> None:
    """Of the scores of one node's edges, in place."""
    one = weight_SH.dtype.type(1)
    share = one if share_F.size == 0 else share_F[own]
    for h in range(weight_SH.shape[1]):
        top, total = -np.inf, weight_SH.dtype.type(0)
        for j in range(start, stop):
            top = max(top, weight_SH[j, h])
        for j in range(start, stop):
            weight_SH[j, h] = np.exp(weight_SH[j, h] - weight_SH.dtype.type(top)) * (
                one if neighbor_S[j] == own else share
            )
            total += weight_SH[j, h]
        for j in range(start, stop):
            weight_SH[j, h] /= total


@jit
def _mean_gradient(start: int, stop: int, weight_SH: np.ndarray, grad_SH: np.ndarray, mean_H: np.ndarray) -> None:
    """What the softmax takes off the gradient of each of one node's edges: mean = sum of weight times grad."""
    mean_H[:] = 0
    for j in range(start, stop):
        for h in range(mean_H.size):
            mean_H[h] += weight_SH[j, h] * grad_SH[j, h]


@jit
def _fold(part_D: np.ndarray, width: int, out_H: np.ndarray) -> None:
    """out[h] = sum of part[h width : (h + 1) width], always in the same order; part is used up."""
    for h in range(out_H.size):
        first, left = h * width, width
        while left > 1:
            half = left // 2
            for d in range(first, first + half):
                part_D[d] += part_D[d + left - half]
            left -= half
        out_H[h] = part_D[first]


@jit
def add_edge_loops(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, num: int, out_stop_F1: np.ndarray, out_neighbor: np.ndarray,
    out_place: np.ndarray,
) -> None:  # fmt: skip
    """As `add_self_loops`; out_place int64: where each edge stood, S + i the loop of node i."""
    filled = 0
    out_stop_F1[0] = 0
    for i in range(stop_F1.size - 1):
        for j in range(stop_F1[i], stop_F1[i + 1]):
            if neighbor_S[j] != i:
                out_neighbor[filled], out_place[filled] = neighbor_S[j], j
                filled += 1
        if i < num:
            out_neighbor[filled], out_place[filled] = i, neighbor_S.size + i
            filled += 1
        out_stop_F1[i + 1] = filled


@jit
def weigh_edge_sums(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, share_F: np.ndarray, source_MH: np.ndarray, target_FH: np.ndarray,
    edge_SH: np.ndarray, slope: float, weight_SH: np.ndarray,
) -> None:  # fmt: skip
    """As `weigh_sums`, of leaky(source[neighbor[j]] + target[i] + edge[j])."""
    slope = source_MH.dtype.type(slope)
    for i in range(stop_F1.size - 1):
        for j in range(stop_F1[i], stop_F1[i + 1]):
            node = neighbor_S[j]
            for h in range(source_MH.shape[1]):
                value = source_MH[node, h] + target_FH[i, h] + edge_SH[j, h]
                weight_SH[j, h] = value if value > 0 else slope * value
        _softmax(stop_F1[i], stop_F1[i + 1], neighbor_S, i, share_F, weight_SH)


@jit
def weigh_edge_sums_gradient(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, source_MH: np.ndarray, target_FH: np.ndarray, edge_SH: np.ndarray,
    slope: float, weight_SH: np.ndarray, grad_SH: np.ndarray, grad_source_MH: np.ndarray, grad_target_FH: np.ndarray,
    grad_edge_SH: np.ndarray,
) -> None:  # fmt: skip
    """The gradient of `weigh_edge_sums`: that of the edges is written, those of the others are added."""
    heads = source_MH.shape[1]
    slope = source_MH.dtype.type(slope)
    mean_H = np.empty(heads, source_MH.dtype)
    for i in range(stop_F1.size - 1):
        _mean_gradient(stop_F1[i], stop_F1[i + 1], weight_SH, grad_SH, mean_H)
        for j in range(stop_F1[i], stop_F1[i + 1]):
            node = neighbor_S[j]
            for h in range(heads):
                change = weight_SH[j, h] * (grad_SH[j, h] - mean_H[h])
                if source_MH[node, h] + target_FH[i, h] + edge_SH[j, h] <= 0:
                    change *= slope
                grad_source_MH[node, h] += change
                grad_target_FH[i, h] += change
                grad_edge_SH[j, h] = change


@jit
def weigh_edge_pairs(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, share_F: np.ndarray, source_MD: np.ndarray, target_FD: np.ndarray,
    edge_SD: np.ndarray, attention_D: np.ndarray, slope: float, weight_SH: np.ndarray,
) -> None:  # fmt: skip
    """As `weigh_pairs`, of attention . leaky(source[neighbor[j]] + target[i] + edge[j])."""
    dim, heads = source_MD.shape[1], weight_SH.shape[1]
    slope = source_MD.dtype.type(slope)
    part_D = np.empty(dim, source_MD.dtype)
    for i in range(stop_F1.size - 1):
        for j in range(stop_F1[i], stop_F1[i + 1]):
            node = neighbor_S[j]
            if j + _AHEAD < neighbor_S.size:
                prefetch_row(source_MD, neighbor_S[j + _AHEAD])
            for d in range(dim):
                value = source_MD[node, d] + target_FD[i, d] + edge_SD[j, d]
                part_D[d] = attention_D[d] * (value if value > 0 else slope * value)
            _fold(part_D, dim // heads, weight_SH[j])
        _softmax(stop_F1[i], stop_F1[i + 1], neighbor_S, i, share_F, weight_SH)


@jit
def weigh_edge_pairs_gradient(
    stop_F1: np.ndarray, neighbor_S: np.ndarray, source_MD: np.ndarray, target_FD: np.ndarray, edge_SD: np.ndarray,
    attention_D: np.ndarray, slope: float, weight_SH: np.ndarray, grad_SH: np.ndarray, grad_source_MD: np.ndarray,
    grad_target_FD: np.ndarray, grad_edge_SD: np.ndarray, grad_attention_D: np.ndarray,
) -> None:  # fmt: skip
    """The gradient of `weigh_edge_pairs`: that of the edges is written, the others are added; attention: float64."""
    dim, heads = source_MD.shape[1], weight_SH.shape[1]
    width = dim // heads
    slope = source_MD.dtype.type(slope)
    mean_H = np.empty(heads, source_MD.dtype)
    attended_D = np.empty(dim, source_MD.dtype)
    for i in range(stop_F1.size - 1):
        _mean_gradient(stop_F1[i], stop_F1[i + 1], weight_SH, grad_SH, mean_H)
        attended_D[:] = 0
        for j in range(stop_F1[i], stop_F1[i + 1]):
            node, change_D = neighbor_S[j], grad_edge_SD[j]
            if j + _AHEAD < neighbor_S.size:
                prefetch_row(source_MD, neighbor_S[j + _AHEAD])
                prefetch_row(grad_source_MD, neighbor_S[j + _AHEAD])
            for h in range(heads):
                change_D[h * width : (h + 1) * width] = weight_SH[j, h] * (grad_SH[j, h] - mean_H[h])
            for d in range(dim):
                value = source_MD[node, d] + target_FD[i, d] + edge_SD[j, d]
                factor = change_D[d] if value > 0 else slope * change_D[d]
                attended_D[d] += factor * value
                change_D[d] = factor * attention_D[d]
            for d in range(dim):
                grad_source_MD[node, d] += change_D[d]
            for d in range(dim):
                grad_target_FD[i, d] += change_D[d]
        for d in range(dim):
            grad_attention_D[d] += attended_D[d]
