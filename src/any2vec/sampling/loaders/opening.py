"""What a loader is given, as a source of batches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from any2vec.data.attributed.graph import AttributedGraph, is_attributed
from any2vec.errors import InputError
from any2vec.sampling.loaders.base import check_libraries
from any2vec.sampling.loaders.sources import DataSource, FolderSource, PlainSource, Source
from any2vec.sampling.loaders.typed import HeteroSource
from any2vec.sampling.neighbors import NeighborOptions
from any2vec.sampling.typed_neighbors import EdgeType


def open_sampled(
    loader: str, data: Any, num_neighbors: Any, *, law: str | None, weight_attr: str | None, split: int,
    disjoint: bool, subgraph_type: Any, **options: Any,
) -> tuple[Any, Source]:  # fmt: skip
    """(the data, opened; their source). loader: its name; options: replace, key and seed of `NeighborOptions`.

    Raises:
        InputError: an option is not legal, or a library is missing.
        DataError: the data are damaged.
    """
    if disjoint or getattr(subgraph_type, "value", subgraph_type) != "directional":
        raise InputError("disjoint neighborhoods, and subgraph_type but directional, are not there; leave them out.")
    if weight_attr is not None and law not in (None, "weighted"):
        raise InputError(f"weight_attr samples by weights, and law is {law!r}; give one of them.")
    options["law"] = "weighted" if weight_attr is not None else law or "uniform"
    weights = weight_attr if options["law"] == "weighted" else None
    if hasattr(data, "node_types") and hasattr(data, "edge_stores"):
        check_libraries(loader)
        fanouts, default = _by_type(data, num_neighbors)
        chosen = NeighborOptions(**options) if default is None else NeighborOptions(fanouts=default, **options)
        return data, HeteroSource(data, fanouts, chosen, weights)
    if isinstance(_values(num_neighbors), Mapping):
        raise InputError("num_neighbors by type of edge is for HeteroData; give fan-outs by hop.")
    fanouts = _listed(_values(num_neighbors))
    return open_plain(loader, data, NeighborOptions(fanouts=fanouts, **options), weights, split)


def open_plain(
    loader: str, data: Any, options: NeighborOptions, weight_attr: str | None, split: int
) -> tuple[Any, PlainSource]:
    """The same of data of one type of nodes and edges, for which there is nothing else."""
    data = AttributedGraph.open(data) if is_attributed(data) else data
    check_libraries(loader)
    if isinstance(data, AttributedGraph):
        return data, FolderSource(data, options, split)
    if hasattr(data, "edge_index") and hasattr(data, "is_node_attr"):
        return data, DataSource(data, options, weight_attr)
    kind = type(data).__name__
    if isinstance(data, str | Path):
        kind = f"the path {data}, which is none (any2vec graph build makes one)"
    if hasattr(data, "node_types"):
        kind += "; write_graph lays its types behind each other, in a folder that is taken"
    raise InputError(f"data must be PyG's Data, an AttributedGraph or its folder, got {kind}.")


def _by_type(data: Any, num_neighbors: Any) -> tuple[dict[EdgeType, Any], Any]:
    """(fan-outs by type of edges, or else those of all types) of HeteroData."""
    default = getattr(num_neighbors, "default", None)
    values = _values(num_neighbors)
    if not isinstance(values, Mapping):
        return {}, _listed(values)
    found = {_edge_type(data, kind): _listed(fanouts) for kind, fanouts in values.items()}
    missing = ", ".join("__".join(kind) for kind in data.edge_types if kind not in found)
    if missing and default is None:
        raise InputError(f"num_neighbors has no fan-outs of {missing}; give some of each type of edges (0: none).")
    return {kind: found.get(kind, default) for kind in data.edge_types}, None


def _edge_type(data: Any, kind: Any) -> EdgeType:
    """As the data have it, from a tuple or from PyG's string."""
    for known in data.edge_types:
        if kind in (known, "__".join(known)):
            return tuple(known)
    known_types = ", ".join("__".join(known) for known in data.edge_types)
    raise InputError(f"num_neighbors has fan-outs of {kind!r}, which is no type of edges; these are {known_types}.")


def _values(num_neighbors: Any) -> Any:
    """Of PyG's `NumNeighbors`, too."""
    return num_neighbors.values if hasattr(num_neighbors, "default") else num_neighbors


def _listed(fanouts: Any) -> Any:
    return fanouts.tolist() if hasattr(fanouts, "tolist") else fanouts
