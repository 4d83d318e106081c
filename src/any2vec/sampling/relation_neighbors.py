"""Sampled neighborhoods whose fan-outs go by the type of the edges, of nodes that are of one type.

Pure: as `typed_neighbors.py`, whose samples these are.

Legend: N nodes, E edges, R relations, D nodes that have sampled, S edges, H hops.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from any2vec.sampling.neighbors import Neighborhood, NeighborOptions
from any2vec.sampling.typed_neighbors import EdgeType, TypedNeighborSampler
from any2vec.types import Csr

_NODE = "node"
"""the one type of nodes"""


class RelationSampler:
    """As `NeighborSampler`, of edges that have types: a node samples along each of them, at the hop that finds it.

    Args:
        csr: whose rows are sampled. type_E: integers in [0, R), of its entries.
        fanouts: by relation and hop; -1 takes all, 0 none. Those of `options` do not count.

    Memory: 12 bytes an edge, 8 a node and relation that is sampled, and 4 a node and thread.
    """

    def __init__(
        self, csr: Csr, type_E: np.ndarray, fanouts: Sequence[Sequence[int]], options: NeighborOptions
    ) -> None:  # fmt: skip
        num_nodes = len(csr.indptr) - 1
        self._places: dict[EdgeType, np.ndarray] = {}
        """by relation, int64: places of its edges in the adjacency"""
        csrs: dict[EdgeType, Csr] = {}
        for number, row in enumerate(fanouts):
            kind = (_NODE, str(number), _NODE)
            place = np.flatnonzero(type_E == number) if any(row) else np.empty(0, np.int64)
            stop_N1 = np.searchsorted(place, csr.indptr)
            csrs[kind] = Csr(stop_N1.astype(np.int64), csr.indices[place], np.empty(0, np.float32))
            self._places[kind] = place
        by_kind = dict(zip(csrs, fanouts, strict=True))
        self._sampler = TypedNeighborSampler(csrs, {_NODE: num_nodes}, by_kind, options)

    def sample(self, seeds: np.ndarray, epoch: int = 0, batch: int = 0, with_edges: bool = False) -> Neighborhood:
        """As of `NeighborSampler`; a node's edges stand by relation."""
        found = self._sampler.sample({_NODE: seeds}, epoch, batch, with_edges=True)
        parts = [found.edges[kind] for kind in self._places]
        node_D = np.arange(len(parts[0].stop_D1) - 1)
        target_S = np.concatenate([np.repeat(node_D, np.diff(part.stop_D1)) for part in parts])
        order = np.argsort(target_S, kind="stable")
        stop_D1 = np.sum([part.stop_D1 for part in parts], axis=0)
        neighbor_S = np.concatenate([part.neighbor_S for part in parts])[order]
        edge_S = np.empty(0, np.int64)
        if with_edges:
            edge_S = np.concatenate([self._places[kind][found.edges[kind].edge_S] for kind in self._places])[order]
        by_hop = tuple(map(sum, zip(*(part.by_hop for part in parts), strict=True)))
        return Neighborhood(found.nodes[_NODE], stop_D1, neighbor_S, edge_S, found.nodes_by_hop[_NODE], by_hop)
