"""Plain twin of `any2vec.kernels.graph.attention`: one node and one head after the other, in float64.

Legend: F nodes that aggregate, M nodes that have rows, H heads, C columns of a head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Score = Callable[[int, int, int], float]
"""(neighbor, node, head) -> score before the softmax"""


def leaky(values: np.ndarray, slope: float) -> np.ndarray:
    return np.where(values > 0, values, slope * values)


def attended(
    edges: Sequence[Sequence[int]], rows_MHC: np.ndarray, score: Score, share_F: Sequence[float], num_loops: int
) -> np.ndarray:
    """float64 (F, H, C): sums of neighbors' rows by softmax; edges: in-neighbors by node, to which loops are added.

    share: how many nodes a neighbor stands for, a node's own row for one. Loops of the edges give way to the first
    `num_loops` nodes' own.
    """
    out_FHC = np.zeros((len(edges), *rows_MHC.shape[1:]))
    for node, neighbors in enumerate(edges):
        chosen = [(other, share_F[node]) for other in neighbors if other != node]
        chosen += [(node, 1.0)] if node < num_loops else []
        for head in range(rows_MHC.shape[1]):
            parts = [stands * np.exp(score(other, node, head)) for other, stands in chosen]
            for (other, _), part in zip(chosen, parts, strict=True):
                out_FHC[node, head] += part / sum(parts) * rows_MHC[other, head]
    return out_FHC
