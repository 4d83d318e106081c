"""Graphs in tensors of other libraries, as arrays; none is imported: objects tell by their attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from any2vec.errors import DataError


def as_numpy(value: Any) -> Any:
    """A tensor of any device as an array; None and arrays as they are."""
    for step in ("detach", "cpu", "numpy"):
        value = getattr(value, step)() if hasattr(value, step) else value
    return value


def edges_of(data: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """(src, dst int32 (E,), number of nodes) of a PyG `Data`.

    Raises:
        DataError: edges are none, or outside the nodes.
    """
    edge_index = as_numpy(data.edge_index)
    if edge_index is None or edge_index.ndim != 2 or edge_index.shape[0] != 2 or edge_index.dtype.kind not in "iu":
        raise DataError("The PyG data needs an integer edge_index of shape (2, num_edges).")
    num_nodes = int(data.num_nodes)
    if edge_index.size and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < num_nodes:
        raise DataError(f"The PyG data has edges outside its {num_nodes:,} nodes.")
    return edge_index[0].astype(np.int32), edge_index[1].astype(np.int32), num_nodes
