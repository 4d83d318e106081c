"""Subgraphs as batches: clusters that are joined, or the nodes that random walks reach, and all edges among them.

Pure: a batch depends on (seed, epoch, its number), the graph and its clusters alone; not on threads or the clock.

Sources: Cluster-GCN (Chiang et al., KDD 2019, algorithm 1: clusters drawn at random are joined, with the edges among
them), GraphTheta (arXiv 2104.10569: with the nodes around them), GraphSAINT (Zeng et al., ICLR 2020, algorithm 2:
random walks; equations 1 to 3 and section 3.2: what is seen often counts less).

Legend: N nodes, E entries of the graph, M nodes of a batch, S edges among them, P clusters, T training nodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from any2vec.plan.order.shuffle import random_order
from any2vec.plan.sharding.clusters import Clusters
from any2vec.sampling.neighbors import NeighborOptions, NeighborSampler, ThreadScratch
from any2vec.types import Csr

_PRESAMPLED = -1
"""number of the epoch whose batches are drawn before the training, to count what they have"""


class Subgraph(NamedTuple):
    """A batch."""

    node_M: np.ndarray
    """int32, ascending; a node's number is its place here"""
    is_own_M: np.ndarray
    """bool: those that it is made for, and not those around them"""
    stop_M1: np.ndarray
    """int64: the neighbors of node number m are [stop[m], stop[m + 1])"""
    neighbor_S: np.ndarray
    """int32: numbers of in-neighbors that are of the batch"""
    edge_S: np.ndarray
    """int64: places of the edges in the adjacency; (0,) where not asked for"""


class SubgraphSampler(ABC):
    """Batches of nodes with the edges among them (abstract); any number of threads may call it at once.

    Memory: 4 bytes a node and thread, and while edges are sought 4 for each neighbor that a node of the batch has (12
    with places).
    """

    num_batches: int
    """of an epoch"""

    def __init__(self, csr: Csr) -> None:
        self.csr = csr
        self._scratch = ThreadScratch(len(csr.indptr) - 1)

    @abstractmethod
    def nodes(self, epoch: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """(int32 (M,), ascending; bool (M,): those that the batch is made for) of a batch of an epoch, from 0 each."""

    def sample(self, epoch: int, batch: int, with_edges: bool = False) -> Subgraph:
        """The batch, with the edges among its nodes. O(their neighbors)."""
        return self.induced(*self.nodes(epoch, batch), with_edges)

    def induced(self, node_M: np.ndarray, is_own_M: np.ndarray, with_edges: bool = False) -> Subgraph:
        """These nodes, int32, all different, with the edges among them."""
        from any2vec.kernels.graph.neighbors import number_seeds
        from any2vec.kernels.graph.subgraphs import induce

        scratch, indptr = self._scratch.of_thread(), self.csr.indptr
        number_seeds(node_M, scratch.base, scratch.seen, np.empty(len(node_M), np.int32))
        stop_M1, room = np.empty(len(node_M) + 1, np.int64), int((indptr[node_M + 1] - indptr[node_M]).sum()) + 1
        local, edge = np.empty(room, np.int32), np.empty(room if with_edges else 0, np.int64)
        num = induce(indptr, self.csr.indices, node_M, scratch.base, scratch.seen, stop_M1, local, edge)
        scratch.base += len(node_M)
        return Subgraph(node_M, is_own_M, stop_M1, local[:num].copy(), edge[:num].copy())


class ClusterSampler(SubgraphSampler):
    """Clusters, in another order each epoch, some a batch.

    Args:
        parts_per_batch: that are joined, 1 or more; the last batch of an epoch may have fewer.
        halo: hops of in-neighbors around them that come along, 0 or more.
    """

    def __init__(self, csr: Csr, clusters: Clusters, parts_per_batch: int, halo: int, seed: int) -> None:
        super().__init__(csr)
        self._num_parts, self._parts_per_batch, self._seed = clusters.num, parts_per_batch, seed
        self._member_N, self._start_P1 = clusters.members()
        self._around = NeighborSampler(csr, NeighborOptions(fanouts=(-1,) * halo)) if halo else None
        self.num_batches = -(-clusters.num // parts_per_batch)

    def nodes(self, epoch: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
        first = batch * self._parts_per_batch
        chosen = random_order(self._num_parts, self._seed, epoch)[first : first + self._parts_per_batch]
        start_P1 = self._start_P1
        own = np.concatenate([self._member_N[start_P1[part] : start_P1[part + 1]] for part in chosen.tolist()])
        if self._around is None or not len(own):
            return np.sort(own), np.ones(len(own), bool)
        found_M = self._around.sample(own).node_M
        place_M = np.argsort(found_M)
        return found_M[place_M], place_M < len(own)


class WalkSampler(SubgraphSampler):
    """Nodes that random walks reach, which begin at training nodes drawn with replacement and go to in-neighbors.

    An epoch has as many roots as there are training nodes, in batches of as many each.

    Args:
        roots: int (T,), the training nodes.
        num_roots: of a batch, 1 or more; T at most count.
        walk_length: nodes of a walk, its root included, 1 or more.
    """

    def __init__(self, csr: Csr, roots: np.ndarray, num_roots: int, walk_length: int, seed: int) -> None:
        super().__init__(csr)
        self._root_T, self._seed = np.ascontiguousarray(roots, np.int32), seed
        self._shape = min(num_roots, len(roots)), walk_length
        self.num_batches = -(-len(roots) // num_roots)

    def nodes(self, epoch: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
        from any2vec.kernels.common.rng import PURPOSE_SUBGRAPH, stream_key
        from any2vec.kernels.graph.subgraphs import walk_from

        key = stream_key(int(stream_key(self._seed, PURPOSE_SUBGRAPH, epoch)), batch)
        walk_RL = np.empty(self._shape, np.int32)
        walk_from(self.csr.indptr, self.csr.indices, self._root_T, key, walk_RL)
        found_M = np.unique(walk_RL)
        found_M = found_M[np.searchsorted(found_M, 0) :]  # without the -1 of walks that have ended
        return found_M, np.ones(len(found_M), bool)

    def presample(self, coverage: int) -> Presampled:
        """Count what so many epochs of batches have, which none trains. O(coverage) times an epoch's sampling."""
        num = coverage * self.num_batches
        node_N, edge_E = np.zeros(len(self.csr.indptr) - 1, np.int32), np.zeros(len(self.csr.indices), np.int32)
        for batch in range(num):
            found = self.sample(_PRESAMPLED, batch, with_edges=True)
            node_N[found.node_M] += 1
            edge_E[found.edge_S] += 1
        return Presampled(num, node_N, edge_E)


class Presampled(NamedTuple):
    """In how many of the batches that were drawn each node and each edge was."""

    num: int
    node_N: np.ndarray
    """int32"""
    edge_E: np.ndarray
    """int32"""

    def loss_weights(self, node_K: np.ndarray, num_train: int) -> np.ndarray:
        """float32 (K,): by which the losses of nodes are multiplied, so that sums over batches are, in the mean, the
        mean loss over the training nodes: 1 over (their number times the chance of the node to be in a batch).
        """
        return (self.num / (num_train * np.maximum(self.node_N[node_K], 1))).astype(np.float32)

    def edge_shares(self, found: Subgraph) -> np.ndarray:
        """float32 (S,): how many each edge stands for: 1 over its chance to be in a batch that has its target."""
        count_S = np.repeat(self.node_N[found.node_M], np.diff(found.stop_M1))
        return (np.maximum(count_S, 1) / np.maximum(self.edge_E[found.edge_S], 1)).astype(np.float32)
