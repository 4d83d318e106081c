"""Bytes that layers of a graph network need. Arithmetic alone.

Legend: M nodes whose rows a layer reads, F that it answers for, S edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

FLOAT = 4
WORK = 4
"""of the budget of inference, one part in so many, that is left to batches before a layer is kept in memory"""
LEAST_ROWS = 64
"""of a batch that are multiplied by weights: of fewer ones libraries add up products in another order"""

_SORTED = 8
"""numbers of an edge: its node, relation and place, before and after"""


def layer_bytes(
    size_in: int, size_out: int, num_read: int, num_targets: int, num_edges: int, edge_columns: int = 0
) -> int:
    """What a layer makes of its rows, these not counted; edge_columns: numbers that it holds for each edge."""
    narrow = min(size_in, size_out)
    columns = 2 * num_read * narrow + num_targets * (narrow + 2 * size_out)
    return FLOAT * (columns + edge_columns * num_edges)


def relation_columns(size_in: int, size_out: int) -> int:
    """Numbers that a relational layer holds for each edge at most: means and products of groups, and edges sorted."""
    return size_in + size_out + _SORTED


def feature_columns(edge_features: int, projected: int) -> int:
    """Numbers that attention holds for each edge that has features: these, once more with loops, and projected."""
    return 2 * edge_features + projected if edge_features else 0


def gine_columns(edge_features: int, size_in: int) -> int:
    """Numbers that GINE holds for each edge: its features, and these brought to the columns of rows."""
    return edge_features + size_in


def sampled_bytes(num_read: int, num_targets: int, num_edges: int) -> int:
    """Nodes and edges of a batch, as sampling holds them."""
    return 16 * num_edges + 24 * (num_read + num_targets)


def least_inference_bytes(widths: Sequence[int], most_neighbors: int, edge_columns: int = 0) -> int:
    """With which inference works: the node of most neighbors is a batch."""
    read = LEAST_ROWS + most_neighbors
    return WORK * max(
        layer_bytes(*sizes, read, LEAST_ROWS, most_neighbors, edge_columns)
        + sampled_bytes(read, LEAST_ROWS, most_neighbors)
        + FLOAT * read * sizes[0]
        for sizes in pairwise(widths)
    )


def whole_inference_bytes(widths: Sequence[int], num_nodes: int) -> int:
    """Of all nodes at once, whose features are at hand: two layers, and what is between."""
    kept = [0, *widths[1:]]
    return max(
        FLOAT * num_nodes * (kept[layer] + kept[layer + 1]) + layer_bytes(*sizes, num_nodes, num_nodes, 0)
        for layer, sizes in enumerate(pairwise(widths))
    )


def distinct(num_targets: float, num_edges: float, num_nodes: int) -> float:
    """Different nodes that a batch reaches whose edges come from anywhere."""
    return num_targets + (num_nodes - num_targets) * -float(np.expm1(-num_edges / num_nodes))
