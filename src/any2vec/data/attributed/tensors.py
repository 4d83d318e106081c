"""Graphs in tensors of other libraries, as arrays; none is imported: objects tell by their attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from any2vec.errors import DataError


def as_numpy(value: Any) -> Any:
    """A tensor of any device as an array, a sparse matrix as SciPy's, bfloat16 as float32; None and arrays as they
    are."""
    for step in ("detach", "cpu"):
        value = getattr(value, step)() if hasattr(value, step) else value
    if str(getattr(value, "dtype", "")) == "torch.bfloat16":  # NumPy has no such type
        value = value.float()
    if str(getattr(value, "layout", "")).startswith("torch.sparse"):
        found = value.to_sparse_coo().coalesce()
        if found.sparse_dim() == found.ndim == 2:
            return sparse.csr_array((found.values().numpy(), found.indices().numpy()), tuple(found.shape))
        value = found.to_dense()
    return value.numpy() if hasattr(value, "numpy") else value


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
