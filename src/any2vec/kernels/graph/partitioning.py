"""Loops of cutting a graph into parts: parts by hash, what a partition cuts, the graph as METIS reads it,
communities.

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
def assign_greedily(
    indptr: np.ndarray, indices: np.ndarray, order_N: np.ndarray, most: int, part_N: np.ndarray, size_P: np.ndarray,
    count_P: np.ndarray, found_P: np.ndarray,
) -> None:  # fmt: skip
    """Each node, in this order, to the part with most neighbors, times the share of the part that is still free.

    Linear deterministic greedy (Stanton and Kliot, KDD 2012, section 4); of equal ones the first that a neighbor has; a
    node none of whose neighbors is in a part with room goes to the first part with room. part int32: -1 of a node that
    is in none yet, else where it was before, which counts until its turn (restreaming: Nishimura and Ugander, KDD
    2013). most: nodes of a part, times the parts N or more. size int64, count and found int32: zeros on entry. O(E).
    """
    first = 0
    for node in order_N:
        num = 0
        for place in range(indptr[node], indptr[node + 1]):
            part = part_N[indices[place]]
            if part >= 0 and indices[place] != node:
                if count_P[part] == 0:
                    found_P[num] = part
                    num += 1
                count_P[part] += 1
        while size_P[first] >= most:
            first += 1
        best, top = first, 0
        for j in range(num):
            part = found_P[j]
            score = count_P[part] * (most - size_P[part])
            count_P[part] = 0
            if score > top:
                best, top = part, score
        part_N[node] = best
        size_P[best] += 1


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


@jit
def propagate_labels(
    indptr: np.ndarray, indices: np.ndarray, order_N: np.ndarray, most: int, label_N: np.ndarray, size_N: np.ndarray,
    count_N: np.ndarray, found: np.ndarray,
) -> int:  # fmt: skip
    """One round: each node takes the label that most of its neighbors have, if fewer than `most` nodes have it.

    Returns how many nodes took another one. Nodes take their turns in `order`, and see what those before took; among
    labels that are equally frequent a node keeps its own, else takes the one that its first neighbor has.

    label_N: int32, changed. size_N: int64, nodes of each label, changed. count_N: int32, zeros on entry and on return.
    found: int32, room for the most neighbors of a node.
    """
    moved = 0
    for node in order_N:
        num = 0
        for entry in range(indptr[node], indptr[node + 1]):
            label = label_N[indices[entry]]
            if indices[entry] == node:
                continue
            if count_N[label] == 0:
                found[num] = label
                num += 1
            count_N[label] += 1
        own = label_N[node]
        best, top = own, count_N[own]
        for place in range(num):
            label = found[place]
            if count_N[label] > top and (label == own or size_N[label] < most):
                best, top = label, count_N[label]
            count_N[label] = 0
        if best != own:
            size_N[own] -= 1
            size_N[best] += 1
            label_N[node] = best
            moved += 1
    return moved
