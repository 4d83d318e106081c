"""Graphs of PyTorch Geometric and NetworkX as what `write_graph` takes. No library is imported: objects tell by
their attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from any2vec.data.attributed.graph import MAX_RELATIONS, SPLITS
from any2vec.data.attributed.tensors import as_numpy, edges_of
from any2vec.data.options import GraphOptions
from any2vec.errors import DataError
from any2vec.tasks.graphs.edges import NO_TYPES, EdgeSource
from any2vec.tasks.graphs.nodes import Nodes


def of_pyg(data: Any) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], int, dict[str, Any]]:
    """((src, dst, weights, types), number of nodes, features, labels, split and features of edges where it has
    them) of a `Data`.

    Raises:
        DataError: edges are none, or outside the nodes; their weights or types are none.
    """
    src, dst, num_nodes = edges_of(data)
    weights, types = as_numpy(getattr(data, "edge_weight", None)), as_numpy(getattr(data, "edge_type", None))
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
    of_edges = as_numpy(getattr(data, "edge_attr", None))  # one number an edge may as well be its weight
    own["edge_features"] = of_edges if of_edges is not None and of_edges.ndim == 2 and of_edges.shape[1] else None
    masks = {part: as_numpy(getattr(data, f"{part}_mask", None)) for part in SPLITS}
    own["split"] = {part: mask for part, mask in masks.items() if mask is not None} or None
    return pieces, num_nodes, own


def of_networkx(graph: Any, features: Any, options: GraphOptions, known: Nodes | None) -> tuple[EdgeSource, Any]:
    """(the edges in NetworkX's order, without weights; their features) of a graph of NetworkX.

    Args:
        features: a row for each edge, or the name of an attribute that holds it. known: the nodes that there are.

    Raises:
        DataError: an edge lacks the attribute, rows are of several lengths, or an end is no node.
    """
    name, pairs = "The NetworkX graph", list(graph.edges())
    names = list(graph.nodes)
    if all(type(node) is int for node in names):
        nodes = known or Nodes.of_ids(np.sort(np.array(names, np.int64)))
    else:
        nodes = known or Nodes(len(names), [str(node) for node in names])
    src, dst = (nodes.rows([str(pair[end]) for pair in pairs], name).astype(np.int32) for end in range(2))
    if isinstance(features, str):
        given = [value for *_, value in graph.edges(data=features)]
        if any(value is None for value in given):
            raise DataError(f"{name} has edges without {features!r}; give each of them the attribute.")
        try:
            features = np.array([np.atleast_1d(np.asarray(value, np.float32)) for value in given])
        except (TypeError, ValueError) as error:
            raise DataError(f"{name}: {features!r} must be as many numbers for each edge.") from error
    pieces = [(src, dst, np.empty(0, np.float32), NO_TYPES)]
    return EdgeSource(nodes, lambda: iter(pieces), options.directed or graph.is_directed(), name), features
