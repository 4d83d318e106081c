"""Plain twin of `any2vec.kernels.graph.rounded`: rows are rounded one number at a time, and summed in float64; and of
the sums of rows and features of edges.

Legend: F nodes that aggregate, M nodes that have rows, D columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, frexp, ldexp

import numpy as np


def to_bfloat16(value: float) -> float:
    """The nearest number with 8 significant bits, ties to the even one; of normal numbers."""
    share, power = frexp(value)
    scaled = ldexp(share, 8)
    low = floor(scaled)
    rest = scaled - low
    up = rest > 0.5 or (rest == 0.5 and low % 2 == 1)
    return ldexp(low + up, power - 8)


def to_codes(row: Sequence[float]) -> list[float]:
    """A row as whole numbers, from -127 to 127, times its largest over 127."""
    scale = max(map(abs, row), default=0.0) / 127
    return [scale * round(value / scale) if scale else 0.0 for value in row]


def aggregated(edges: Sequence[Sequence[int]], rows_MD: np.ndarray, mean: bool) -> np.ndarray:
    """float64 (F, D): sums, or means, of neighbors' rows; edges: in-neighbors by node."""
    out_FD = np.zeros((len(edges), rows_MD.shape[1]))
    for node, neighbors in enumerate(edges):
        for other in neighbors:
            out_FD[node] += rows_MD[other] / (len(neighbors) if mean else 1)
    return out_FD


def edge_relu_sums(
    edges: Sequence[Sequence[tuple[int, int]]], rows_MD: np.ndarray, edge_SD: np.ndarray, weight_S: Sequence[float]
) -> np.ndarray:
    """float64 (F, D): sums of max(0, row + edge) times the edge's weight; edges: (in-neighbor, edge) by node."""
    out_FD = np.zeros((len(edges), rows_MD.shape[1]))
    for node, incoming in enumerate(edges):
        for other, edge in incoming:
            for column in range(rows_MD.shape[1]):
                out_FD[node, column] += weight_S[edge] * max(0.0, rows_MD[other, column] + edge_SD[edge, column])
    return out_FD
