"""Parts of a graph as graphs of their own: the nodes that walks reach, and the edges among chosen nodes.

Letters: N nodes of the graph, M chosen ones, S edges among them, R walks, L nodes of a walk, T nodes where walks begin.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.prefetch import prefetch_place
from any2vec.kernels.common.rng import below, draw

_AHEAD = 16
_32 = np.uint64(32)


@jit
def walk_from(indptr: np.ndarray, indices: np.ndarray, root_T: np.ndarray, key: np.uint64, walk_RL: np.ndarray) -> None:
    """Walks that begin at any of the roots, each alike, and go to any entry of the row, each alike.

    walk: int32; -1 behind the last node of a walk that ends where a row is empty. What walk r draws depends on (key, r)
    alone. All walks take a step before any takes the next one, so that their cache misses overlap.
    """
    num, length = walk_RL.shape
    for r in range(num):
        chosen = below(draw(draw(key, np.uint64(r)), np.uint64(0)) >> _32, root_T.size)
        walk_RL[r, 0] = root_T[chosen]
    for step in range(1, length):
        for r in range(num):
            node = walk_RL[r, step - 1]
            walk_RL[r, step] = -1
            if node >= 0:
                start = indptr[node]
                degree = indptr[node + 1] - start
                if degree > 0:
                    bits = draw(draw(key, np.uint64(r)), np.uint64(step))
                    walk_RL[r, step] = indices[start + below(bits >> _32, degree)]


@jit
def induce(
    indptr: np.ndarray, indices: np.ndarray, node_M: np.ndarray, base: int, seen_N: np.ndarray, stop_M1: np.ndarray,
    local: np.ndarray, edge: np.ndarray,
) -> int:  # fmt: skip
    """The entries of the nodes' rows that are of the nodes, in their order; returns S.

    seen int32: base + its number of each chosen node, below base of all others. stop int64: the edges of node number m
    are [stop[m], stop[m + 1]). local int32: numbers of the neighbors; edge int64 (0 long: not wanted): places in the
    adjacency; both with a place more than the rows have entries.
    """
    num, with_edges = 0, edge.size > 0
    stop_M1[0] = 0
    for m in range(node_M.size):
        for place in range(indptr[node_M[m]], indptr[node_M[m] + 1]):
            if place + _AHEAD < indices.size:
                prefetch_place(seen_N, indices[place + _AHEAD])
            number = seen_N[indices[place]] - base
            local[num] = number
            if with_edges:
                edge[num] = place
            num += 1 if number >= 0 else 0  # without a branch: whether a neighbor is chosen is hard to foresee
        stop_M1[m + 1] = num
    return num
