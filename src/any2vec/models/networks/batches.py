"""What a step of training reads: rows of features, and edges along which messages go.

A batch is a pure function of (seed, epoch, number), so it can be made ahead, or again. Its seeds are chosen by the
objective (`objectives.py`): nodes whose rows the loss reads, and what these are compared with. How messages reach them
is decided here: along sampled edges, or along all. Another way is one more class with `Batches`' methods, and a line in
`batches_of`.

Legend: M nodes whose rows a batch reads, B seeds, D columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np
import torch

from any2vec.data.attributed.edge_features import FeaturedCsr
from any2vec.data.attributed.features import FeatureRows, NodeNumbers
from any2vec.data.attributed.relations import RelationalCsr
from any2vec.data.attributed.row_file import Reads
from any2vec.models.networks.config.base import SUBGRAPHS, GraphNetwork
from any2vec.models.networks.config.relational import RGCN
from any2vec.models.networks.features import CachedFeatures
from any2vec.models.networks.network import Block, Network, block_of, blocks_of, fixed_sums
from any2vec.models.networks.node_order import OrderedFeatures
from any2vec.nn.aggregate import Neighbors
from any2vec.nn.sparse.rows import SparseRows, rows_among
from any2vec.plan.sharding.clusters import find_clusters
from any2vec.sampling.disk_neighbors import CachedLists, DiskNeighborSampler
from any2vec.sampling.links import LinkData, without_edges
from any2vec.sampling.neighbors import NeighborOptions, NeighborSampler
from any2vec.sampling.relation_neighbors import RelationSampler
from any2vec.sampling.subgraphs import ClusterSampler, Presampled, SubgraphSampler, WalkSampler
from any2vec.types import Csr

if TYPE_CHECKING:
    from any2vec.models.networks.objectives import Classes, Objective

Features = FeatureRows | CachedFeatures | OrderedFeatures | NodeNumbers | SparseRows


class LearnerData(NamedTuple):
    """What a network learns from."""

    csr: Csr
    """in-neighbors"""
    features: Features
    labels: np.ndarray
    """int32 (N,), or uint8 (N, C), several classes a node"""
    num_classes: int
    rows: Mapping[str, np.ndarray]
    """int64: nodes of train, val and test; where no classes are learned all train"""
    links: LinkData | None = None
    """edges to learn, which `csr` has, and those held out, which it has not"""


class Seeds(NamedTuple):
    """Nodes whose rows of the last layer the loss of a batch reads."""

    node_B: np.ndarray
    """integers, all different"""
    target: Any
    """what their rows are compared with; the objective alone looks into it"""
    size: int
    """items that the batch learns from; the loss is their mean; of 0 there is no step"""
    left_out: np.ndarray | None = None
    """int64 (2, K): places in `node_B` of targets and sources of edges along which a sampled batch sends no message"""


class Drawn(NamedTuple):
    """A batch whose features have not been read."""

    number: int
    seeds: Seeds
    node_M: np.ndarray | None
    """integers: nodes whose features are read; None: none are, for `make` has them"""
    edges: Any
    """along which messages go: a named tuple, whose arrays may wait on disk, or None; `make` alone knows what it is"""
    num_nodes: int
    """whose features the batch reads"""
    num_edges: int
    lists: Reads = Reads()
    """what sampling has read of lists on disk"""


class Batch(NamedTuple):
    """What a step learns from."""

    x_MD: torch.Tensor | SparseRows
    blocks: list[Block]
    """a layer's each, the first one first; further layers have the last one"""
    row_B: torch.Tensor
    """the seeds' places in what the last layer gives"""
    target: Any
    size: int
    number: int


class Batches(Protocol):
    """The batches of any epoch, by number: drawn, read and made by stages (`stages.py`), each of which may have a
    thread of its own, and takes one after the other."""

    reader: Reader
    is_owned: bool
    """whether the features of a batch are nobody else's, and may be changed"""

    @property
    def num_items(self) -> int:
        """Of an epoch: what its batches share, and its schedule counts."""

    @property
    def batch_size(self) -> int:
        """Items of a batch, the last one apart."""

    @property
    def order(self) -> str:
        """In which order items come, in words."""

    def draw(self, epoch: int, number: int) -> Drawn: ...

    def make(self, drawn: Drawn, x_MD: torch.Tensor | SparseRows | None) -> Batch:
        """x_MD: the rows of `node_M`, float32, or, without features, the nodes' numbers."""

    def trial(self) -> Drawn:
        """A small one, by which kernels are compiled."""

    def nodes_of(self, epoch: int, number: int) -> np.ndarray:
        """int64, ascending: the nodes whose features a batch reads."""


class Reader:
    """Features, and what reading them for batches that have been trained came to."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self.sampled = 0
        """nodes whose features batches have read"""
        self.num_edges = 0
        """along which their messages went"""
        self.reads = Reads()
        """what it came to, where features are on disk"""
        self.lists = Reads()
        """what sampling came to, where lists of neighbors are on disk"""

    def rows(self, node_M: np.ndarray) -> torch.Tensor | SparseRows:
        """float32 (M, D), or, without features, the nodes' numbers, int64 (M,); of no batch of a plan."""
        return rows_among(self.features, node_M)

    def count(self, drawn: Drawn, reads: Reads) -> None:
        """A batch has been read, and is trained."""
        self.sampled += drawn.num_nodes
        self.num_edges += drawn.num_edges
        self.reads = self.reads.plus(*reads)
        self.lists = self.lists.plus(*drawn.lists)

    @property
    def bytes_filled(self) -> int:
        """Read from the disk before the first batch."""
        return self.features.bytes_filled if isinstance(self.features, CachedFeatures) else 0

    def close(self) -> None:
        """Nothing is read any more."""
        if isinstance(self.features, CachedFeatures):
            self.features.close()


class SampledBatches:
    """Batches of items of the objective, whose nodes sample their neighbors.

    Args:
        lists: those of the neighbors, where not all are in memory.
    """

    is_owned = True

    def __init__(
        self, model: GraphNetwork, data: LearnerData, objective: Objective, seed: int, lists: CachedLists | None = None
    ) -> None:
        self.reader, self._objective, self.batch_size = Reader(data.features), objective, model.batch_size
        self._sampler = _sampler_of(model, data.csr, seed, lists)
        self._csr, self._degree_N = data.csr, np.diff(data.csr.indptr).astype(np.float32)

    @property
    def num_items(self) -> int:
        return self._objective.num_items

    @property
    def order(self) -> str:
        return self._objective.order

    def draw(self, epoch: int, number: int) -> Drawn:
        return self._of(self._seeds(epoch, number), epoch, number)

    def make(self, drawn: Drawn, x_MD: torch.Tensor | SparseRows | None) -> Batch:
        assert x_MD is not None
        seeds, blocks = drawn.seeds, blocks_of(drawn.edges, self._degree_N, self._csr)
        if seeds.left_out is not None:
            blocks = _of_fewer(blocks, seeds.left_out[0])
        return Batch(x_MD, blocks, torch.arange(len(seeds.node_B)), seeds.target, seeds.size, drawn.number)

    def trial(self) -> Drawn:
        return self._of(self._objective.trial(), 0, 0)

    def nodes_of(self, epoch: int, number: int) -> np.ndarray:
        found = self._sampler.sample(self._seeds(epoch, number).node_B, epoch, number)
        return np.sort(found.node_M.astype(np.int64))

    def _seeds(self, epoch: int, number: int) -> Seeds:
        return self._objective.seeds(epoch, number, number * self.batch_size, (number + 1) * self.batch_size)

    def _of(self, seeds: Seeds, epoch: int, number: int) -> Drawn:
        with_edges = isinstance(self._csr, RelationalCsr | FeaturedCsr)
        found = self._sampler.sample(seeds.node_B, epoch, number, with_edges)
        if seeds.left_out is not None:
            found = without_edges(found, *seeds.node_B[seeds.left_out])
        return Drawn(number, seeds, found.node_M, found, len(found.node_M), len(found.neighbor_S), found.reads)


def _sampler_of(
    model: GraphNetwork, csr: Csr, seed: int, lists: CachedLists | None
) -> NeighborSampler | RelationSampler:  # fmt: skip
    by_relation = fanouts_by_relation(model, csr)
    options = NeighborOptions(
        fanouts=model.fanouts_by_hop if by_relation is None else (1,) * len(by_relation[0]),
        law="labor" if model.sampling == "labor" else "uniform", key=model.sample_key, seed=seed,
    )  # fmt: skip
    if lists is not None:
        return DiskNeighborSampler(csr.indptr, lists, options)
    if by_relation is None or not isinstance(csr, RelationalCsr):
        return NeighborSampler(csr, options)
    return RelationSampler(csr, csr.type_E, by_relation, options)


def fanouts_by_relation(model: GraphNetwork, csr: Csr) -> tuple[tuple[int, ...], ...] | None:
    """By relation and hop, as `RGCN.fanouts_of` gives them; None: they are the same for all edges."""
    return model.fanouts_of(csr.relations) if isinstance(model, RGCN) and isinstance(csr, RelationalCsr) else None


class WholeBatches:
    """One batch an epoch: all items, and messages along all edges. What has no weights is computed once."""

    is_owned = False

    def __init__(self, data: LearnerData, objective: Objective, network: Network) -> None:
        self.reader, self._objective, self._network = Reader(data.features), objective, network
        self._csr = data.csr
        self._whole: tuple[torch.Tensor | SparseRows, list[Block]] | None = None

    @property
    def num_items(self) -> int:
        return self._objective.num_items

    @property
    def batch_size(self) -> int:
        return max(1, self.num_items)

    @property
    def order(self) -> str:
        return self._objective.order

    def draw(self, epoch: int, number: int) -> Drawn:
        num_nodes, num_edges = len(self._csr.indptr) - 1, len(self._csr.indices)
        if epoch:  # rows are read once, and summed once by layers that learn nothing
            num_nodes, num_edges = 0, 0 if self._network.num_fixed else num_edges
        return Drawn(number, self._objective.all_seeds(epoch), None, None, num_nodes, num_edges)

    def make(self, drawn: Drawn, x_MD: torch.Tensor | SparseRows | None) -> Batch:
        (x_ND, blocks), seeds = self.whole(), drawn.seeds
        return Batch(x_ND, blocks, torch.from_numpy(seeds.node_B), seeds.target, seeds.size, drawn.number)

    def trial(self) -> Drawn:
        return self.draw(0, 0)

    def nodes_of(self, epoch: int, number: int) -> np.ndarray:
        return np.arange(len(self._csr.indptr) - 1)

    def whole(self) -> tuple[torch.Tensor | SparseRows, list[Block]]:
        """(features of all nodes, behind fixed layers; what the first layer behind them, and later ones, pass messages
        along over all edges), made once."""
        if self._whole is None:
            features = self.reader.features
            x_ND: Any = features if isinstance(features, SparseRows) else self.reader.rows(self.nodes_of(0, 0))
            block = block_of(self._csr, is_learned=True)
            with torch.no_grad():
                for number in range(self._network.num_fixed):
                    x_ND = self._network.infer(number, x_ND, block)
                sums = fixed_sums(self._network, x_ND, block)
            self._whole = x_ND, [block] if sums is None else [block._replace(sums=sums), block]
        return self._whole


def _of_fewer(blocks: list[Block], targets: np.ndarray) -> list[Block]:
    """Blocks of a graph that lacks some edges to these nodes, by number in the batch."""
    degree_M1 = blocks[0].degree_M1.clone()
    degree_M1[:, 0] -= torch.from_numpy(np.bincount(targets, minlength=len(degree_M1)).astype(np.float32))
    return [block._replace(degree_M1=degree_M1) for block in blocks]


class _Among(NamedTuple):
    """Edges among the nodes of a subgraph, and which of these are learned from."""

    row_B: np.ndarray
    """int64"""
    stop_M1: np.ndarray
    neighbor_S: np.ndarray
    weight_S: np.ndarray | None
    edge_S: np.ndarray
    """int64: places of the edges in the adjacency, where they have features"""


class SubgraphBatches:
    """Nodes of the graph, with all edges among them; what is learned from are the training nodes among those that a
    batch is made for. The items of an epoch are its batches. One without training nodes is empty.

    Every layer answers for all nodes of the batch. Degrees are those of the graph: as with sampled neighbors, the mean
    of those that are there stands for all.
    """

    is_owned = True
    batch_size = 1

    def __init__(self, model: GraphNetwork, data: LearnerData, objective: Classes, seed: int) -> None:
        self.reader, self._objective, self._train = Reader(data.features), objective, data.rows["train"]
        self._degree_N = np.diff(data.csr.indptr).astype(np.float32)
        self._is_train_N = np.zeros(len(self._degree_N), bool)
        self._is_train_N[self._train] = True
        self._coverage, self._csr = model.sample_coverage, data.csr
        self._sampler: SubgraphSampler
        if model.sampling == "walks":
            self._sampler = WalkSampler(data.csr, self._train, model.batch_size, model.walk_steps + 1, seed)
            self._order = f"walks of {model.walk_steps} steps from random training nodes"
            return
        clusters = find_clusters(data.csr, model.parts_of(len(self._degree_N)), model.partitioner, seed)
        self._sampler = ClusterSampler(data.csr, clusters, model.parts_per_batch, model.halo, seed)
        self._order = f"random parts of the graph: {clusters.sentence()}"

    @property
    def num_items(self) -> int:
        return self._sampler.num_batches

    @property
    def order(self) -> str:
        return self._order

    def draw(self, epoch: int, number: int) -> Drawn:
        return self._of(*self._nodes(epoch, number), number)

    def make(self, drawn: Drawn, x_MD: torch.Tensor | SparseRows | None) -> Batch:
        assert x_MD is not None
        (row_B, stop_M1, neighbor_S, weight_S, edge_S), seeds = drawn.edges, drawn.seeds
        degree_M1 = torch.from_numpy(self._degree_N[drawn.node_M][:, None])
        edge_SK = torch.from_numpy(self._csr.take(edge_S)) if isinstance(self._csr, FeaturedCsr) else None
        block = Block(Neighbors(stop_M1, neighbor_S, None, weight_S), degree_M1, edge_SK=edge_SK)
        return Batch(x_MD, [block], torch.from_numpy(row_B), seeds.target, seeds.size, drawn.number)

    def trial(self) -> Drawn:
        return self._of(self._train[:1].astype(np.int32), np.ones(1, bool), 0)

    def nodes_of(self, epoch: int, number: int) -> np.ndarray:
        return self._nodes(epoch, number)[0].astype(np.int64)

    def _nodes(self, epoch: int, number: int) -> tuple[np.ndarray, np.ndarray]:
        """(int32 (M,), ascending; bool (M,): those that are learned from) of a batch."""
        node_M, is_own_M = self._sampler.nodes(epoch, number)
        is_learned_M = is_own_M & self._is_train_N[node_M]
        size = len(node_M) if is_learned_M.any() else 0
        return node_M[:size], is_learned_M[:size]

    def _of(self, node_M: np.ndarray, is_learned_M: np.ndarray, number: int) -> Drawn:
        row_B, seen, weight_B, weight_S = np.flatnonzero(is_learned_M), self._seen, None, None
        has_rows = isinstance(self._csr, FeaturedCsr)
        found = self._sampler.induced(node_M, is_learned_M, with_edges=seen is not None or has_rows)
        if seen is not None:
            weight_B = torch.from_numpy(seen.loss_weights(node_M[row_B], len(self._train)))
            weight_S = seen.edge_shares(found) / np.repeat(self._degree_N[node_M], np.diff(found.stop_M1))
        edge_S = found.edge_S if has_rows else found.edge_S[:0]
        edges = _Among(row_B, found.stop_M1, found.neighbor_S, weight_S, edge_S)
        seeds = self._objective.seeds_of(node_M[row_B], weight_B)
        return Drawn(number, seeds, node_M, edges, len(node_M), len(found.neighbor_S))

    @cached_property
    def _seen(self) -> Presampled | None:
        """What is known of how often walks come to nodes and edges; counted when the first batch is made."""
        if isinstance(self._sampler, WalkSampler) and self._coverage:
            return self._sampler.presample(self._coverage)
        return None


def batches_of(
    model: GraphNetwork, data: LearnerData, objective: Objective, network: Network, seed: int,
    lists: CachedLists | None = None,
) -> Batches:  # fmt: skip
    """Those that the model's `sampling` names; lists: of sampled neighbors, where not all are in memory."""
    if model.sampling == "full-graph":
        return WholeBatches(data, objective, network)
    if model.sampling in SUBGRAPHS:
        return SubgraphBatches(model, data, cast("Classes", objective), seed)
    return SampledBatches(model, data, objective, seed, lists)
