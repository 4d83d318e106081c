"""Graphs of PyTorch Geometric and NetworkX as what `write_graph` takes. No library is imported: objects tell by
their attributes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from any2vec.data.attributed.graph import MAX_RELATIONS, SPLITS
from any2vec.data.attributed.tensors import as_numpy, edges_of
from any2vec.errors import DataError


def of_pyg(
    data: Any, is_weighted: bool | None = None, has_split: bool = True
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], int, dict[str, Any]]:
    """((src, dst, weights, types), number of nodes, features, labels, split and features of edges where it has
    them) of a `Data`. is_weighted: edges need weights; False: these are left out; None: where there are some.
    has_split: masks come along.

    Raises:
        DataError: edges are none, or outside the nodes; their weights or types are none.
    """
    src, dst, num_nodes = edges_of(data)
    weights = None if is_weighted is False else as_numpy(getattr(data, "edge_weight", None))
    if is_weighted and weights is None:
        raise DataError("The PyG data has no edge_weight; name the weights so, or leave out weighted=True.")
    types = as_numpy(getattr(data, "edge_type", None))
    if types is not None and types.size:
        low, high = types.min(), types.max()
        if types.dtype.kind not in "iu" or not 0 <= low <= high < MAX_RELATIONS:
            raise DataError(
                f"The PyG data has edge types from {low} to {high}; give whole numbers from 0, below {MAX_RELATIONS:,}."
            )
    pieces = (
        src, dst,
        np.empty(0, np.float32) if weights is None else weights.reshape(-1).astype(np.float32),
        np.empty(0, np.int32) if types is None else types.reshape(-1).astype(np.int32),
    )  # fmt: skip
    if any(len(part) not in (0, len(pieces[0])) for part in pieces[2:]):
        raise DataError("The PyG data has not as many weights or types as edges.")
    if len(pieces[2]) and not (np.isfinite(pieces[2]) & (pieces[2] > 0)).all():
        raise DataError("The PyG data has edge weights that are not finite numbers above 0; drop those edges.")
    own: dict[str, Any] = {"features": as_numpy(getattr(data, "x", None)), "labels": as_numpy(getattr(data, "y", None))}
    of_edges = as_numpy(getattr(data, "edge_attr", None))
    own["edge_features"] = of_edges if of_edges is not None and of_edges.ndim == 2 and of_edges.shape[1] else None
    if of_edges is not None and of_edges.ndim == 1 and len(of_edges):  # it may be weights, or one feature
        warnings.warn(
            "edge_attr of one dimension is left out: name weights edge_weight, or make it edge_attr.reshape(-1, 1) "
            "for a feature of edges.",
            stacklevel=4,
        )
    masks = {part: as_numpy(getattr(data, f"{part}_mask", None)) for part in SPLITS}
    given = {part: mask for part, mask in masks.items() if mask is not None}
    own["split"] = _splits(given, num_nodes) if has_split else None
    return pieces, num_nodes, own


def _splits(masks: Mapping[str, np.ndarray], num_nodes: int) -> Any:
    """Masks as they stand, or, where one has a column a split, int8 (S, N); None: there are none.

    Raises:
        DataError: a mask with columns is no mask of these nodes, has another number of them, or shares nodes with
            another.
    """
    several = {mask.shape[1] for mask in masks.values() if mask.ndim == 2}
    if not several:
        return masks or None
    split_SN = np.full((max(several), num_nodes), -1, np.int8)
    for part, mask in masks.items():
        if mask.dtype != bool or len(mask) != num_nodes or len(several) > 1:
            raise DataError(
                f"The PyG data has a {part}_mask of {mask.dtype} and shape {mask.shape}; masks are of bool and "
                f"({num_nodes:,},), or ({num_nodes:,}, splits) with as many splits in each."
            )
        mask_SN = np.broadcast_to(mask.T, split_SN.shape)
        if (split_SN[mask_SN] >= 0).any():
            raise DataError(f"The PyG data has a node twice in a split: in {part}_mask and in one before it.")
        split_SN[mask_SN] = SPLITS.index(part)
    return split_SN


def attribute_rows(graph: Any, attribute: str) -> np.ndarray:
    """float32 (M, K): an attribute of the M edges of a graph of NetworkX, in its order.

    Raises:
        DataError: an edge lacks it, or it is not as many numbers for each.
    """
    given = [value for *_, value in graph.edges(data=attribute)]
    if any(value is None for value in given):
        raise DataError(f"The NetworkX graph has edges without {attribute!r}; give each of them the attribute.")
    try:
        return np.array([np.atleast_1d(np.asarray(value, np.float32)) for value in given])
    except (TypeError, ValueError) as error:
        raise DataError(f"The NetworkX graph: {attribute!r} must be as many numbers for each edge.") from error
