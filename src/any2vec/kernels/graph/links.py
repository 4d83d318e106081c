"""Pairs of nodes that are no edge, and pairs that stand on one walk.

A draw depends on (key, item) alone. Letters: N nodes, E entries of the adjacency, I items, K pairs of each, L slots.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import below, draw

TRIES = 16
"""draws of a pair before one that is an edge is taken as it is"""
_32 = np.uint64(32)
_LOW32 = np.uint64(0xFFFFFFFF)


@jit
def draw_node(bits: np.uint64, num_nodes: int, threshold_N: np.ndarray, alias_N: np.ndarray) -> np.int64:
    """A node from 64 random bits: by the alias table, or, where that is (0,), each alike."""
    node = below(bits >> _32, num_nodes)
    if threshold_N.size > 0 and (bits & _LOW32) >= np.uint64(threshold_N[node]):
        return np.int64(alias_N[node])
    return node


@jit
def are_linked(indptr: np.ndarray, indices: np.ndarray, row: int, column: int) -> bool:
    """Whether a row, ascending, holds a column. O(log degree)."""
    low, high = indptr[row], indptr[row + 1]
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < column:
            low = middle + 1
        else:
            high = middle
    return low < indptr[row + 1] and indices[low] == column


@jit
def find_linked(
    indptr: np.ndarray, indices: np.ndarray, row_K: np.ndarray, column_K: np.ndarray, is_linked_K: np.ndarray
) -> None:
    """Write, of each pair, whether its row, ascending, holds its column; row, column: integers (K,)."""
    for k in range(row_K.size):
        is_linked_K[k] = are_linked(indptr, indices, row_K[k], column_K[k])


@jit
def draw_pairs(
    indptr: np.ndarray, indices: np.ndarray, threshold_N: np.ndarray, alias_N: np.ndarray, key: np.uint64,
    item_I: np.ndarray, src_IK: np.ndarray, dst_IK: np.ndarray,
) -> None:  # fmt: skip
    """Write K pairs for each item, both ends drawn by themselves: neither the same node nor an edge from src to dst.

    indptr int64 (N + 1,), indices int32 (E,): in-neighbors, rows ascending. threshold uint32, alias int32: (N,), or
    (0,) for draws that are uniform. item int64, 0 or more; src, dst int64.
    """
    num_nodes = indptr.size - 1
    for i in range(item_I.size):
        own = draw(key, np.uint64(item_I[i]))
        for j in range(src_IK.shape[1]):
            for attempt in range(TRIES):
                place = np.uint64(2 * (j * TRIES + attempt))
                src = draw_node(draw(own, place), num_nodes, threshold_N, alias_N)
                dst = draw_node(draw(own, place + np.uint64(1)), num_nodes, threshold_N, alias_N)
                src_IK[i, j], dst_IK[i, j] = src, dst
                if src != dst and not are_linked(indptr, indices, dst, src):
                    break


@jit
def draw_ends(
    indptr: np.ndarray, indices: np.ndarray, num_src: int, src_threshold: np.ndarray, src_alias: np.ndarray,
    dst_threshold: np.ndarray, dst_alias: np.ndarray, key: np.uint64, first: int, is_src_given: bool,
    is_one_type: bool, src_K: np.ndarray, dst_K: np.ndarray,
) -> None:  # fmt: skip
    """Write pairs, each of its item `first` + k: no edges from src to dst; of one type, not the same node either.

    As `draw_pairs` with K = 1, but ends have types and alias tables of their own, and sources may be given. indptr
    int64 (targets + 1,), indices int32: in-neighbors, rows ascending. Tables: (0,) for draws that are uniform.
    """
    num_dst = indptr.size - 1
    for k in range(src_K.size):
        own, given = draw(key, np.uint64(first + k)), src_K[k]
        for attempt in range(TRIES):
            place = np.uint64(2 * attempt)
            src = given
            if not is_src_given:
                src = draw_node(draw(own, place), num_src, src_threshold, src_alias)
            dst = draw_node(draw(own, place + np.uint64(1)), num_dst, dst_threshold, dst_alias)
            src_K[k], dst_K[k] = src, dst
            if not (is_one_type and src == dst) and not are_linked(indptr, indices, dst, src):
                break


@jit
def draw_nodes(threshold_N: np.ndarray, alias_N: np.ndarray, key: np.uint64, node_K: np.ndarray) -> None:
    """Write nodes int64 (K,), drawn by the alias table."""
    for j in range(node_K.size):
        node_K[j] = draw_node(draw(key, np.uint64(j)), threshold_N.size, threshold_N, alias_N)


@jit
def choose_partners(walk_IL: np.ndarray, key: np.uint64, first: int, src_I: np.ndarray, dst_I: np.ndarray) -> None:
    """Of each walk the node where it starts, and one of those behind it, each place alike; -1 of a walk of one node.

    walk int32 (I, L): nodes, and -1 behind them; first: number of the first walk; src, dst int64.
    """
    for i in range(walk_IL.shape[0]):
        steps = 0
        while steps + 1 < walk_IL.shape[1] and walk_IL[i, steps + 1] >= 0:
            steps += 1
        src_I[i], dst_I[i] = walk_IL[i, 0], -1
        if steps > 0:
            dst_I[i] = walk_IL[i, 1 + below(draw(key, np.uint64(first + i)) >> _32, steps)]
