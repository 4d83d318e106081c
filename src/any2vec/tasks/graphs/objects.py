"""Graphs of PyTorch Geometric as what `write_graph` takes. No library is imported: objects tell by their attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from any2vec.errors import DataError


def of_pyg(data: Any) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], int, dict[str, Any]]:
    """((src, dst, weights, types), number of nodes, features, labels and split where it has them) of a `Data`.

    Raises:
        DataError: edges are none, or outside the nodes.
    """
    edge_index = as_numpy(data.edge_index)
    if edge_index is None or edge_index.ndim != 2 or edge_index.shape[0] != 2 or edge_index.dtype.kind not in "iu":
        raise DataError("The PyG data needs an integer edge_index of shape (2, num_edges).")
    num_nodes = int(data.num_nodes)
    if edge_index.size and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < num_nodes:
        raise DataError(f"The PyG data has edges outside its {num_nodes:,} nodes.")
    weights, types = as_numpy(getattr(data, "edge_weight", None)), as_numpy(getattr(data, "edge_type", None))
    pieces = (
        edge_index[0].astype(np.int32), edge_index[1].astype(np.int32),
        np.empty(0, np.float32) if weights is None else weights.reshape(-1).astype(np.float32),
        np.empty(0, np.int32) if types is None else types.reshape(-1).astype(np.int32),
    )  # fmt: skip
    if any(len(part) not in (0, len(pieces[0])) for part in pieces[2:]):
        raise DataError("The PyG data has not as many weights or types as edges.")
    if len(pieces[2]) and not (np.isfinite(pieces[2]) & (pieces[2] > 0)).all():
        raise DataError("The PyG data has edge weights that are not finite numbers above 0; drop those edges.")
    own: dict[str, Any] = {"features": as_numpy(getattr(data, "x", None)), "labels": as_numpy(getattr(data, "y", None))}
    masks = {part: as_numpy(getattr(data, f"{part}_mask", None)) for part in ("train", "val", "test")}
    own["split"] = {part: mask for part, mask in masks.items() if mask is not None} or None
    return pieces, num_nodes, own


def as_numpy(value: Any) -> Any:
    """A tensor of any device as an array; None and arrays as they are."""
    for step in ("detach", "cpu", "numpy"):
        value = getattr(value, step)() if hasattr(value, step) else value
    return value
