"""`ClusterLoader`: batches of parts of a graph with all edges among their nodes, in the place of PyG's own loader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from any2vec.checks import check_choice
from any2vec.plan.sharding.clusters import find_clusters
from any2vec.sampling.loaders.base import BatchLoader
from any2vec.sampling.loaders.opening import open_plain
from any2vec.sampling.loaders.sources import linked_rows
from any2vec.sampling.neighbors import NeighborOptions
from any2vec.sampling.subgraphs import ClusterSampler


class ClusterLoader(BatchLoader):
    """Batches of parts of a graph, joined, with all edges among their nodes, one PyG `Data` each (Cluster-GCN).

    What PyG makes of `ClusterLoader(ClusterData(data, num_parts), batch_size)`, but in the numbers of nodes that the
    data have: `n_id` are a batch's nodes, `input_id` its parts. Whatever `data` has by node or by edge comes along.
    Source: Chiang et al., KDD 2019, algorithm 1: edges between the parts of a batch are kept.

    Args:
        data: PyG's `Data`; or an `AttributedGraph`, or its folder, whose features stay on disk.
        num_parts: into which the graph is cut, 1 to its number of nodes; some may be empty.
        batch_size: parts of a batch, 1 or more.
        method: metis (few edges between parts; needs pymetis), or ldg (linear deterministic greedy); by default metis
            where it is installed.
        seed: of the order of parts, and of ldg. shuffle: another order of parts each epoch.
        return_e_id: numbers of the edges. split: of an `AttributedGraph`, which one the masks mean.
        others: see `NeighborLoader`.

    Attributes:
        part_of: int (N,), the part of each node.

    Memory: 4 bytes a node and thread; of `Data` the in-neighbors, 12 bytes an edge; while it is cut some 40 more.

    Raises:
        InputError: an option is not legal, or torch, torch_geometric or METIS is missing.
        DataError: `data` has edges outside its nodes.
    """

    def __init__(
        self, data: Any, num_parts: int, *, batch_size: int = 1, method: str | None = None, seed: int = 1,
        shuffle: bool = False, drop_last: bool = False, return_e_id: bool = False,
        transform: Callable[[Any], Any] | None = None, num_workers: int = 0, prefetch: int = 2, split: int = 0,
        persistent_workers: bool = False, pin_memory: bool = False,
    ) -> None:  # fmt: skip
        check_choice("method", method or "metis", ("metis", "ldg"))
        self.data, self._source = open_plain("ClusterLoader", data, NeighborOptions(), None, split)
        super().__init__(
            num_parts, batch_size=batch_size, seed=seed, shuffle=shuffle, drop_last=drop_last, transform=transform,
            num_workers=num_workers, prefetch=prefetch, pin_memory=pin_memory,
        )  # fmt: skip
        src, dst = self._source.edges()
        clusters = find_clusters(linked_rows(src, dst, self._source.num_nodes()), num_parts, method, seed)
        self.part_of, self._return_e_id = clusters.part_N, return_e_id
        self._member_N, self._start_P1 = clusters.members()
        self._sampler = ClusterSampler(self._source.csr, clusters, batch_size, 0, seed)

    def _make(self, places: np.ndarray, epoch: int, batch: int) -> Any:
        import torch

        start_P1 = self._start_P1
        node_M = np.concatenate([self._member_N[start_P1[part] : start_P1[part + 1]] for part in places.tolist()])
        with_edges = self._return_e_id or self._source.needs_edges(self.data)
        found = self._sampler.induced(node_M, np.ones(len(node_M), bool), with_edges)
        target_S = np.repeat(np.arange(len(node_M)), np.diff(found.stop_M1))
        edge_2S = np.stack([found.neighbor_S.astype(np.int64), target_S])
        made = self._source.made(self.data, node_M, edge_2S, found.edge_S, with_edges)
        made.input_id = torch.from_numpy(places)
        return made
