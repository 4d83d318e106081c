"""Loops of cutting a graph into parts: parts by hash, what a partition cuts, the graph as METIS reads it.

Letters: N nodes, E entries of the rows, P parts.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.graph.csr import transpose_pattern
from any2vec.kernels.graph.walk_parts import hash_part


@jit
def hash_parts(parts: int, out: np.ndarray) -> None:
    """The part of each node by hash, into out int32 (N,)."""
    for node in range(out.size):
        out[node] = hash_part(node, parts)


@jit
def count_parts(
    indptr: np.ndarray, indices: np.ndarray, part_N: np.ndarray, nodes_P: np.ndarray, entries_P: np.ndarray
) -> tuple[int, int]:
    """Add the nodes and entries of each part to nodes_P and entries_P, int64 (P,).

    Returns (entries whose ends lie in two parts, self-loops).
    """
    cut, loops = 0, 0
    for node in range(part_N.size):
        part = part_N[node]
        nodes_P[part] += 1
        entries_P[part] += indptr[node + 1] - indptr[node]
        for edge in range(indptr[node], indptr[node + 1]):
            cut += part_N[indices[edge]] != part
            loops += indices[edge] == node
    return cut, loops


@jit
def plain_symmetric(indptr: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(indptr int64 (N + 1,), indices int32) of the graph with every edge in both directions and no self-loops."""
    back_indptr, back_indices = transpose_pattern(indptr, indices)
    out_indptr = np.zeros_like(indptr)
    out_indices = np.empty(2 * indices.size, np.int32)
    filled = 0
    for node in range(indptr.size - 1):
        to, back = indptr[node], back_indptr[node]
        while to < indptr[node + 1] or back < back_indptr[node + 1]:
            from_back = to == indptr[node + 1] or (back < back_indptr[node + 1] and back_indices[back] < indices[to])
            found = back_indices[back] if from_back else indices[to]
            if back < back_indptr[node + 1] and back_indices[back] == found:
                back += 1
            if to < indptr[node + 1] and indices[to] == found:
                to += 1
            if found != node:
                out_indices[filled] = found
                filled += 1
        out_indptr[node + 1] = filled
    return out_indptr, out_indices[:filled].copy()
