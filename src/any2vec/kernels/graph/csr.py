"""Edges become compressed sparse rows by counting sorts: linear time, no comparison, no 8-byte index arrays.

Letters: N nodes, E edges as given, M edges after both directions were made.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.grouping import cut_by
from any2vec.kernels.common.jit import jit


@jit
def count_ends(
    src_E: np.ndarray, dst_E: np.ndarray, is_directed: bool, indptr: np.ndarray, indptr_in: np.ndarray
) -> None:
    """Add to indptr[v + 1] the entries that row v will hold, to indptr_in[v + 1] those that point to it.

    Both int64 (N + 1,), zeros on entry; equal when undirected, as each edge but a self-loop then makes two entries.
    """
    for edge in range(src_E.size):
        src, dst = src_E[edge], dst_E[edge]
        indptr[src + 1] += 1
        indptr_in[dst + 1] += 1
        if not is_directed and src != dst:
            indptr[dst + 1] += 1
            indptr_in[src + 1] += 1


@jit
def transpose_pattern(indptr: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The transposed pattern: (indptr int64 (N + 1,), indices int32 (M,)), rows ascending. No duplicates needed."""
    out_indptr = np.zeros_like(indptr)
    cut_by(indices, out_indptr)
    out_indices = np.empty_like(indices)
    place = out_indptr[:-1].copy()
    for node in range(indptr.size - 1):
        for edge in range(indptr[node], indptr[node + 1]):
            out_indices[place[indices[edge]]] = node
            place[indices[edge]] += 1
    return out_indptr, out_indices


@jit
def scatter(
    src_E: np.ndarray,
    dst_E: np.ndarray,
    weights_E: np.ndarray,
    is_directed: bool,
    indptr: np.ndarray,
    heads_M: np.ndarray,
    weights_M: np.ndarray,
) -> None:
    """Put every entry into the row of its *target*, ordered as the edges came: heads_M[place] is its source.

    indptr: int64 (N + 1,) of the transposed graph. weights may be (0,): nothing is moved. Followed by `gather`, which
    transposes back, this is a radix sort by (source, target).
    """
    place = indptr[:-1].copy()
    is_weighted = weights_M.size > 0
    for edge in range(src_E.size):
        src, dst = src_E[edge], dst_E[edge]
        heads_M[place[dst]] = src
        if is_weighted:
            weights_M[place[dst]] = weights_E[edge]
        place[dst] += 1
        if not is_directed and src != dst:
            heads_M[place[src]] = dst
            if is_weighted:
                weights_M[place[src]] = weights_E[edge]
            place[src] += 1


@jit
def gather(
    indptr_in: np.ndarray,
    heads_M: np.ndarray,
    weights_in: np.ndarray,
    indptr: np.ndarray,
    indices_M: np.ndarray,
    weights_M: np.ndarray,
) -> None:
    """Transpose once more: rows come out ascending, duplicates side by side in the order in which the edges came."""
    place = indptr[:-1].copy()
    is_weighted = weights_M.size > 0
    for dst in range(indptr_in.size - 1):
        for entry in range(indptr_in[dst], indptr_in[dst + 1]):
            src = heads_M[entry]
            indices_M[place[src]] = dst
            if is_weighted:
                weights_M[place[src]] = weights_in[entry]
            place[src] += 1


@jit
def merge_duplicates(indptr: np.ndarray, indices_M: np.ndarray, weights_M: np.ndarray) -> tuple[int, int]:
    """Merge equal neighbors in place, adding their weights in float64; indptr is rewritten.

    Returns (entries left, self-loops).
    """
    is_weighted = weights_M.size > 0
    filled, loops = 0, 0
    entry = indptr[0]
    for node in range(indptr.size - 1):
        stop = indptr[node + 1]
        while entry < stop:
            found = indices_M[entry]
            total = 0.0
            while entry < stop and indices_M[entry] == found:
                if is_weighted:
                    total += np.float64(weights_M[entry])
                entry += 1
            if found == node:
                loops += 1
            indices_M[filled] = found
            if is_weighted:
                weights_M[filled] = total
            filled += 1
        indptr[node + 1] = filled
    return filled, loops


@jit
def renumber(
    indptr: np.ndarray, indices: np.ndarray, weights: np.ndarray, order_N: np.ndarray, place_N: np.ndarray,
    out_indptr: np.ndarray, out_indices: np.ndarray, out_weights: np.ndarray,
) -> None:  # fmt: skip
    """The graph whose node p is order[p]; place: its inverse. Rows ascend.

    out_indptr: int64 (N + 1,), zeros on entry; out_indices int32 (M,); weights (M,), or (0,).
    """
    for place in range(order_N.size):
        node, first = order_N[place], out_indptr[place]
        start, stop = indptr[node], indptr[node + 1]
        out_indptr[place + 1] = first + stop - start
        part = out_indices[first : first + stop - start]
        for entry in range(start, stop):
            part[entry - start] = place_N[indices[entry]]
        if weights.size:
            sorted_by = np.argsort(part)
            part[:] = part[sorted_by]
            out_weights[first : first + stop - start] = weights[start:stop][sorted_by]
        else:
            part.sort()
