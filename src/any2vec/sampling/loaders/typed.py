"""PyG's `HeteroData` in memory: nodes and edges of several types; what of them a batch holds."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from any2vec.data.attributed.tensors import as_numpy
from any2vec.errors import DataError, InputError
from any2vec.sampling.loaders.sources import (
    InputNodes,
    Kind,
    Source,
    as_placed,
    checked_nodes,
    ends_of,
    grouped,
    taken,
    weights_of,
)
from any2vec.sampling.neighbors import NeighborOptions
from any2vec.sampling.typed_neighbors import EdgeType, TypedNeighborSampler
from any2vec.types import Csr


class HeteroSource(Source):
    """In-neighbors by type of edge, each edge kept, and the edges' numbers.

    Memory: 12 bytes an edge.

    Raises:
        DataError: edges are none, or outside the nodes of their types.
        InputError: fan-outs or weights are not legal.
    """

    def __init__(
        self, data: Any, fanouts: Mapping[EdgeType, Sequence[int]], options: NeighborOptions, weight_attr: str | None
    ) -> None:
        self._num_nodes = {kind: _num_nodes(data, kind) for kind in data.node_types}
        self.csrs: dict[EdgeType, Csr] = {}
        self.edge_ids: dict[EdgeType, np.ndarray] = {}
        for kind in data.edge_types:
            src, dst = self._edges(data, kind)
            is_weighted = weight_attr is not None and weight_attr in data[kind]
            said = f"{weight_attr} of {'__'.join(kind)}"
            weights = weights_of(data[kind], str(weight_attr), len(src), said) if is_weighted else None
            self.csrs[kind], self.edge_ids[kind] = grouped(src, dst, self._num_nodes[kind[2]], weights)
        if weight_attr is not None and not any(weight_attr in data[kind] for kind in data.edge_types):
            raise InputError(f"No type of edges has weights {weight_attr}; name an attribute of edges.")
        self.edge_types = tuple(self.csrs)
        self.sampler = TypedNeighborSampler(self.csrs, self._num_nodes, fanouts, options)

    def edges(self, kind: EdgeType | None = None) -> np.ndarray:
        assert kind is not None
        return ends_of(self.csrs[kind], self.edge_ids[kind])

    def num_nodes(self, kind: Kind = None) -> int:
        return self._num_nodes[str(kind)]

    def input_nodes(self, given: Any) -> InputNodes:
        kind, nodes = given if isinstance(given, tuple | list) and len(given) == 2 else (given, None)
        if not isinstance(kind, str) or kind not in self._num_nodes:
            known = ", ".join(self._num_nodes)
            raise InputError(
                f"input_nodes must be a type of nodes ({known}), or (type, nodes or a mask), got {_shown(given)}."
            )
        return checked_nodes(kind, nodes, self._num_nodes[kind])

    def sample(
        self, data: Any, seeds: Mapping[Kind, np.ndarray], epoch: int, batch: int, with_edges: bool,
        left_out: np.ndarray | None = None,
    ) -> Any:  # fmt: skip
        import torch

        if left_out is not None:
            raise InputError("Edges of a batch are left out of graphs of one type only.")
        with_edges = with_edges or any(_edge_attributes(data[kind]) for kind in self.csrs)
        of_kind = {str(kind): nodes for kind, nodes in seeds.items()}
        found = self.sampler.sample(of_kind, epoch, batch, with_edges)
        made = copy.copy(data)
        for node_kind, node_M in found.nodes.items():
            n_id, store = torch.from_numpy(node_M.astype(np.int64)), made[node_kind]
            for name, value in data[node_kind].items():
                if name == "num_nodes":
                    store.num_nodes = len(n_id)
                elif data[node_kind].is_node_attr(name):
                    store[name] = taken(data, data[node_kind], name, value, node_M)
            store.n_id, store.num_sampled_nodes = n_id, list(found.nodes_by_hop[node_kind])
        for kind, edges in found.edges.items():
            store, e_id = made[kind], self.edge_ids[kind][edges.edge_S]
            for name in _edge_attributes(data[kind]):
                store[name] = taken(data, data[kind], name, data[kind][name], e_id)
            store.edge_index = as_placed(edges.edge_index(), data[kind].edge_index)
            store.num_sampled_edges = list(edges.by_hop)
            if with_edges:
                store.e_id = torch.from_numpy(e_id)
        return made

    def _edges(self, data: Any, kind: EdgeType) -> tuple[np.ndarray, np.ndarray]:
        """int32 (E,) each: (sources, targets)."""
        name, edge_index = "__".join(kind), as_numpy(data[kind].get("edge_index"))
        if edge_index is None or edge_index.ndim != 2 or len(edge_index) != 2 or edge_index.dtype.kind not in "iu":
            raise DataError(f"{name} of the HeteroData needs an integer edge_index of shape (2, num_edges).")
        for end, of_end, number in zip(edge_index, (kind[0], kind[2]), (0, 2), strict=True):
            if kind[number] not in self._num_nodes:
                raise DataError(
                    f"{name} leads to nodes of {kind[number]}, which the HeteroData has none of; set their x."
                )
            size = self._num_nodes[kind[number]]
            if len(end) and not 0 <= int(end.min()) <= int(end.max()) < size:
                raise DataError(f"Edges of {name} lead outside the {size:,} nodes of {of_end}.")
        return edge_index[0].astype(np.int32), edge_index[1].astype(np.int32)


def _num_nodes(data: Any, kind: str) -> int:
    """Of a type."""
    with warnings.catch_warnings():  # PyG's, where it does not know
        warnings.simplefilter("ignore", UserWarning)
        found = data[kind].num_nodes
    if found is None:
        raise DataError(f"How many nodes of {kind} there are is not said; set data[{kind!r}].num_nodes.")
    return int(found)


def _edge_attributes(store: Any) -> list[str]:
    """What belongs to edges but their ends."""
    return [name for name in store if name != "edge_index" and store.is_edge_attr(name)]


def _shown(given: Any) -> str:
    return repr(given) if given is None or isinstance(given, str | int) else type(given).__name__
