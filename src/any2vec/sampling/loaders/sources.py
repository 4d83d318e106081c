"""Graphs that loaders take, of one type of nodes and edges: PyG's `Data`, and folders; what of them a batch holds."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from any2vec.data.attributed.graph import SPLITS, AttributedGraph
from any2vec.data.attributed.tensors import as_numpy, edges_of
from any2vec.errors import InputError
from any2vec.sampling.links import without_edges
from any2vec.sampling.neighbors import NeighborOptions, NeighborSampler
from any2vec.sampling.typed_neighbors import EdgeType
from any2vec.types import Csr

Kind = str | None
"""a type of nodes; None where there is one"""


class InputNodes(NamedTuple):
    """Where batches begin."""

    kind: Kind
    node_B: np.ndarray
    """int64, all different"""
    id_B: np.ndarray
    """int64: what `input_id` says of each: its place in what was given; of a mask the node"""


class Source(ABC):
    """A graph, and how its neighbors are sampled (abstract); any number of threads may call it at once."""

    edge_types: tuple[EdgeType, ...] | None
    """None where there is one"""

    @abstractmethod
    def num_nodes(self, kind: Kind = None) -> int:
        """Of a type."""

    @abstractmethod
    def input_nodes(self, given: Any) -> InputNodes:
        """What `input_nodes` of a loader means. InputError where that is no nodes, or one comes twice."""

    @abstractmethod
    def edges(self, kind: EdgeType | None = None) -> np.ndarray:
        """(source, target) of the edges of a type, in the order in which the user has them, int32 (2, E)."""

    @abstractmethod
    def sample(
        self, data: Any, seeds: Mapping[Kind, np.ndarray], epoch: int, batch: int, with_edges: bool,
        left_out: np.ndarray | None = None,
    ) -> Any:  # fmt: skip
        """What is sampled from seeds, as PyG has it: n_id, num_sampled_nodes and num_sampled_edges, e_id where asked.

        data: what the source was made of. left_out: (source, target), int (2, K): edges to seeds along which no message
        goes; of graphs of one type.
        """


class PlainSource(Source):
    """A graph of one type (abstract)."""

    edge_types = None
    csr: Csr
    masks: dict[str, Any]
    """by part; None where there is none"""
    sampler: NeighborSampler

    @abstractmethod
    def needs_edges(self, data: Any) -> bool:
        """Whether something but their ends belongs to edges."""

    @abstractmethod
    def collate(self, data: Any, node_M: np.ndarray, edge_2S: np.ndarray, edge_S: np.ndarray) -> tuple[Any, Any]:
        """(`Data` of some nodes and the edges among them, numbers of these edges as the user has them).

        edge_2S: int64 (2, S), by place in `node_M`; edge_S: their places in `csr`, (0,) where not wanted.
        """

    def num_nodes(self, kind: Kind = None) -> int:
        return len(self.csr.indptr) - 1

    def input_nodes(self, given: Any) -> InputNodes:
        if isinstance(given, str):
            mask = self.masks.get(given)
            if mask is None:
                known = ", ".join(part for part, mask in self.masks.items() if mask is not None)
                raise InputError(
                    f"input_nodes must be nodes, a mask or a part ({known or 'there are none'}), got {given!r}."
                )
            given = mask
        return checked_nodes(None, given, self.num_nodes())

    def sample(
        self, data: Any, seeds: Mapping[Kind, np.ndarray], epoch: int, batch: int, with_edges: bool,
        left_out: np.ndarray | None = None,
    ) -> Any:  # fmt: skip
        with_edges = with_edges or self.needs_edges(data)
        found = self.sampler.sample(seeds[None], epoch, batch, with_edges)
        if left_out is not None:
            found = without_edges(found, left_out[1], left_out[0])
        made = self.made(data, found.node_M, found.edge_index(), found.edge_S, with_edges)
        made.num_sampled_nodes, made.num_sampled_edges = list(found.nodes_by_hop), list(found.edges_by_hop)
        return made

    def made(self, data: Any, node_M: np.ndarray, edge_2S: np.ndarray, edge_S: np.ndarray, with_edges: bool) -> Any:
        """`Data` of some nodes and edges, with n_id, and e_id where asked; see `collate`."""
        import torch

        made, e_id = self.collate(data, node_M, edge_2S, edge_S)
        made.n_id = torch.from_numpy(node_M.astype(np.int64))
        if with_edges:
            made.e_id = e_id
        return made


class DataSource(PlainSource):
    """A PyG `Data` in memory: in-neighbors of its edges, each kept, and the edges' numbers."""

    def __init__(self, data: Any, options: NeighborOptions, weight_attr: str | None = None) -> None:
        src, dst, num_nodes = edges_of(data)
        weights = None if weight_attr is None else weights_of(data, weight_attr, len(src), f"data.{weight_attr}")
        self.csr, self.edge_id = grouped(src, dst, num_nodes, weights)
        self.sampler = NeighborSampler(self.csr, options)
        self.masks = {part: as_numpy(getattr(data, f"{part}_mask", None)) for part in SPLITS}

    def edges(self, kind: EdgeType | None = None) -> np.ndarray:
        return ends_of(self.csr, self.edge_id)

    def needs_edges(self, data: Any) -> bool:
        return any(data.is_edge_attr(name) for name, _ in _attributes(data) if name != "edge_index")

    def collate(self, data: Any, node_M: np.ndarray, edge_2S: np.ndarray, edge_S: np.ndarray) -> tuple[Any, Any]:
        import torch

        made = copy.copy(data)
        e_id = self.edge_id[edge_S]
        for name, value in _attributes(data):
            if name == "edge_index":
                continue
            if name == "num_nodes":
                made.num_nodes = len(node_M)
            elif data.is_node_attr(name):
                made[name] = taken(data, None, name, value, node_M)
            elif data.is_edge_attr(name):
                made[name] = taken(data, None, name, value, e_id)
        made.edge_index = as_placed(edge_2S, data.edge_index)
        return made, torch.from_numpy(e_id)


class FolderSource(PlainSource):
    """A mapped graph. Its edges' numbers are places in its `csr`."""

    def __init__(self, graph: AttributedGraph, options: NeighborOptions, split: int) -> None:
        graph.check_edges()
        self.csr, self.sampler = graph.csr, NeighborSampler(graph.csr, options)
        parts = SPLITS if len(graph.splits) else ()
        for part in parts:
            graph.rows(part, split)  # refuses a split that is not there
        self.masks = {part: graph.splits[split] == number for number, part in enumerate(parts)}

    def edges(self, kind: EdgeType | None = None) -> np.ndarray:
        return ends_of(self.csr)

    def needs_edges(self, data: AttributedGraph) -> bool:
        return len(data.csr.weights) > 0 or len(data.edge_types) > 0 or data.edge_features is not None

    def collate(
        self, data: AttributedGraph, node_M: np.ndarray, edge_2S: np.ndarray, edge_S: np.ndarray
    ) -> tuple[Any, Any]:
        import torch
        from torch_geometric.data import Data

        made, nodes, graph = Data(edge_index=torch.from_numpy(edge_2S), num_nodes=len(node_M)), node_M, data
        if graph.features is not None:
            made.x = torch.from_numpy(graph.features.take(nodes))
        if graph.labels is not None:
            made.y = torch.from_numpy(graph.labels[nodes].astype(np.int64 if graph.labels.ndim == 1 else np.float32))
        for part, mask in self.masks.items():
            made[f"{part}_mask"] = torch.from_numpy(mask[nodes])
        for name, values in (("edge_weight", graph.csr.weights), ("edge_type", graph.edge_types.astype(np.int64))):
            if len(values):
                made[name] = torch.from_numpy(values[edge_S])
        if graph.edge_features is not None:
            made.edge_attr = torch.from_numpy(graph.edge_features.take(edge_S))
        return made, torch.from_numpy(edge_S)


def grouped(
    src_E: np.ndarray, dst_E: np.ndarray, num_targets: int, weight_E: np.ndarray | None = None
) -> tuple[Csr, np.ndarray]:
    """(in-neighbors in the order in which the edges came, int64 (E,): numbers of the edges there)."""
    from any2vec.kernels.graph.neighbors import group_by_target

    indptr, indices = np.zeros(num_targets + 1, np.int64), np.empty(len(src_E), np.int32)
    edge_id = np.empty(len(src_E), np.int64)
    group_by_target(src_E, dst_E, indptr, indices, edge_id)
    return Csr(indptr, indices, np.empty(0, np.float32) if weight_E is None else weight_E[edge_id]), edge_id


def ends_of(csr: Csr, edge_id: np.ndarray | None = None) -> np.ndarray:
    """(source, target) of the edges, int32 (2, E): by number, or else in the order of the rows."""
    target = np.repeat(np.arange(len(csr.indptr) - 1, dtype=np.int32), np.diff(csr.indptr))
    found = np.empty((2, len(target)), np.int32)
    found[:, slice(None) if edge_id is None else edge_id] = csr.indices, target
    return found


def linked_rows(src_E: np.ndarray, dst_E: np.ndarray, num_targets: int) -> Csr:
    """In-neighbors of each node, ascending and once each. O(E log E)."""
    code = np.unique(dst_E.astype(np.int64) << 32 | src_E.astype(np.int64))
    indptr = np.searchsorted(code, np.arange(num_targets + 1, dtype=np.int64) << 32)
    return Csr(indptr.astype(np.int64), (code & 0xFFFFFFFF).astype(np.int32), np.empty(0, np.float32))


def weights_of(store: Any, name: str, num_edges: int, said: str) -> np.ndarray:
    """float32 (E,): an attribute of edges by which they are sampled. InputError where it is no such thing."""
    given = as_numpy(getattr(store, name, None))
    if given is None:
        raise InputError(f"There is no {said}; weight_attr names an attribute of the edges.")
    with np.errstate(over="ignore", under="ignore"):  # what float32 has no number for is refused
        weights: np.ndarray = given.reshape(-1).astype(np.float32)
    if len(weights) != num_edges or not (np.isfinite(weights) & (weights > 0)).all():
        raise InputError(f"{said} must hold a finite number above 0, as float32, for each edge.")
    return weights


def taken(data: Any, store: Any, name: str, value: Any, ids: np.ndarray) -> Any:
    """What belongs to nodes, or edges, of some of them, integers (K,): in the dimension that PyG says; of arrays of
    numbers a tensor, as in PyG."""
    import torch

    from any2vec.kernels.rows.take import take_floats

    if isinstance(value, list | tuple):
        return [value[one] for one in ids.tolist()]
    if isinstance(value, np.ndarray):
        rows = value.take(ids, axis=data.__cat_dim__(name, value, store))
        return torch.from_numpy(rows) if rows.dtype.kind in "biufc" else rows
    at = torch.from_numpy(ids.astype(np.int64)).to(value.device)
    if not isinstance(value, torch.Tensor):
        return value[at]
    dim = data.__cat_dim__(name, value, store)
    is_plain = value.device.type == "cpu" and value.dtype == torch.float32 and not value.requires_grad
    if is_plain and value.ndim == 2 and dim == 0 and value.is_contiguous():
        found = torch.empty(len(ids), value.shape[1])
        take_floats(value.numpy(), ids, found.numpy())
        return found
    return value.index_select(dim, at)


def as_placed(edge_2S: np.ndarray, edge_index: Any) -> Any:
    """The edges of a batch as a tensor, on the device of those of the whole."""
    import torch

    return torch.from_numpy(edge_2S).to(getattr(edge_index, "device", "cpu"))


def _attributes(data: Any) -> list[tuple[str, Any]]:
    """Names and values; private ones, which a `Batch` of PyG has, are no attributes."""
    return list(data.stores[0].items())


def checked_nodes(kind: Kind, given: Any, num_nodes: int) -> InputNodes:
    """Nodes of a type: numbers, a mask, or None for all. InputError where they are no nodes, or one comes twice."""
    nodes = np.arange(num_nodes) if given is None else np.asarray(as_numpy(given))
    is_mask = nodes.dtype == bool and nodes.shape == (num_nodes,)
    nodes = np.flatnonzero(nodes) if is_mask else nodes
    if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
        raise InputError(
            f"input_nodes must be whole numbers, or a mask of {num_nodes:,}, got {nodes.dtype} {nodes.shape}."
        )
    if not len(nodes):
        raise InputError("input_nodes holds no nodes; give one at least.")
    if not 0 <= int(nodes.min()) <= int(nodes.max()) < num_nodes:
        raise InputError(
            f"input_nodes must be from 0 to {num_nodes - 1:,}, got {int(nodes.min())} to {int(nodes.max())}."
        )
    if len(np.unique(nodes)) != len(nodes):
        raise InputError("A node comes twice in input_nodes; give each once.")
    node_B = nodes.astype(np.int64)
    return InputNodes(kind, node_B, node_B if is_mask else np.arange(len(node_B)))
