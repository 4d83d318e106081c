"""Communities of a graph by label propagation, and a graph whose nodes are renumbered.

Letters: N nodes, M entries.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit


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
