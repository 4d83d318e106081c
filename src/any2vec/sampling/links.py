"""Pairs of nodes that a batch learns from: edges, pairs on one walk, and pairs drawn as negatives.

Pure: a negative depends on (seed, epoch, its edge), a pair on a walk on (seed, epoch, number of the walk). So batches
can be made ahead, or again, by any number of threads.

Legend: N nodes, E edges, B different nodes of a batch, P pairs, K pairs or edges, R edges that are ranked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np

from any2vec.checks import MAX_SEED, Whole, check_fields
from any2vec.sampling.neighbors import Neighborhood
from any2vec.sampling.walks import Walker, WalkOptions
from any2vec.types import Csr

DISTORTION = 0.75
"""power of the degree by which negatives are drawn (Mikolov et al. 2013; Hamilton et al. 2017)"""
RANKED, CANDIDATES = 20_000, 100
"""edges of a part that are ranked, at most, and nodes that each one's target is ranked among, besides"""


@dataclass(frozen=True, kw_only=True)
class LinkOptions:
    """How negatives are drawn."""

    num_negatives: Annotated[int, Whole(1, 1000)] = 1
    """pairs that are no edge, for each edge, 1..1,000"""
    negatives: Literal["uniform", "degree"] = "uniform"
    """ends of negatives: each node alike, or by degree to the power of 0.75"""
    seed: Annotated[int, Whole(0, MAX_SEED)] = 1
    """seed of every draw"""

    def __post_init__(self) -> None:
        check_fields(self)


class LinkData(NamedTuple):
    """Edges of a graph, once each, cut into parts: (source, target), int32 (2, K)."""

    train: np.ndarray
    val: np.ndarray
    val_negatives: np.ndarray
    """as many pairs that are no edge"""
    val_ranking: np.ndarray
    """int32 (2 + CANDIDATES, R): of some of them source, target, and nodes without an edge from that source"""
    test: np.ndarray
    test_negatives: np.ndarray
    test_ranking: np.ndarray


class LinkPairs(NamedTuple):
    """Pairs of a batch."""

    node_B: np.ndarray
    """int32, ascending: the nodes of all pairs, once each"""
    src_P: np.ndarray
    """int64: places in `node_B`; the pairs that are edges come first"""
    dst_P: np.ndarray
    num_edges: int


class LinkSampler:
    """Edges with negatives; any number of threads may call it at once.

    Args:
        csr: in-neighbors, rows ascending; no negative is an edge of it, as long as 16 draws find one that is none.
        edge_2E: int32 (2, E): the edges that are learned, (source, target).
    """

    def __init__(self, csr: Csr, edge_2E: np.ndarray, options: LinkOptions) -> None:
        self._csr, self.edge_2E, self.options = csr, edge_2E, options
        none = np.empty(0, np.uint32), np.empty(0, np.int32)
        self._alias = by_degree(csr) if options.negatives == "degree" else none

    def sample(self, edges: np.ndarray, epoch: int = 0) -> LinkPairs:
        """Some edges, int64 (K,) by number, and `num_negatives` pairs for each."""
        from any2vec.kernels.common.rng import PURPOSE_NEGATIVE, stream_key
        from any2vec.kernels.graph.links import draw_pairs

        shape = len(edges), self.options.num_negatives
        src, dst = np.empty(shape, np.int64), np.empty(shape, np.int64)
        key = stream_key(self.options.seed, PURPOSE_NEGATIVE, epoch)
        draw_pairs(self._csr.indptr, self._csr.indices, *self._alias, key, edges.astype(np.int64), src, dst)
        positive_2K = self.edge_2E[:, edges]
        pairs = np.concatenate([positive_2K[0], src.ravel(), positive_2K[1], dst.ravel()])
        node_B, place = np.unique(pairs, return_inverse=True)
        src_P, dst_P = place.reshape(2, -1)
        return LinkPairs(node_B.astype(np.int32), src_P, dst_P, len(edges))


class WalkPairs:
    """Pairs of nodes that stand on one walk, and nodes as negatives; any number of threads may call it at once.

    An epoch has a walk from each node, in an order of its own. Source: Hamilton et al. 2017, section 3.2. Ours: one
    pair a walk, its start and one of the nodes behind it.

    Args:
        csr: whose rows are walked. walk_length: nodes of a walk, the first one included, 2 or more.
        num_negatives: nodes drawn by degree, which all pairs of a batch share.
    """

    def __init__(self, csr: Csr, walk_length: int, num_negatives: int, seed: int) -> None:
        self._walker = Walker(csr, WalkOptions(walks_per_node=1, walk_length=walk_length), seed, is_directed=True)
        self._alias, self._num_negatives, self._seed = by_degree(csr), num_negatives, seed

    @property
    def num_walks(self) -> int:
        """Of an epoch."""
        return self._walker.num_walks

    def sample(self, first: int, stop: int, epoch: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(different nodes int32 (B,); places in it: sources (P,), their partners (P,), negatives (num_negatives,)).

        Walks [first, stop) of an epoch give a pair each, those apart that have one node, or come back to where they
        started. Negatives depend on `first`.
        """
        from any2vec.kernels.common.rng import PURPOSE_NEGATIVE, PURPOSE_PAIR, stream_key
        from any2vec.kernels.graph.links import choose_partners, draw_nodes

        walks = np.empty((stop - first) * self._walker.stride, np.int32)
        self._walker.sample(first, stop, epoch, walks)
        src, dst = np.empty(stop - first, np.int64), np.empty(stop - first, np.int64)
        key = stream_key(self._seed, PURPOSE_PAIR, epoch)
        choose_partners(walks.reshape(stop - first, -1), key, first, src, dst)
        is_pair = (dst >= 0) & (dst != src)
        negatives = np.empty(self._num_negatives, np.int64)
        key = stream_key(int(stream_key(self._seed, PURPOSE_NEGATIVE, epoch)), PURPOSE_NEGATIVE, first)
        draw_nodes(*self._alias, key, negatives)
        num = int(is_pair.sum())
        node_B, place = np.unique(np.concatenate([src[is_pair], dst[is_pair], negatives]), return_inverse=True)
        return node_B.astype(np.int32), place[:num], place[num : 2 * num], place[2 * num :]


def by_degree(csr: Csr) -> tuple[np.ndarray, np.ndarray]:
    """Alias table (uint32 (N,), int32 (N,)) of degrees to the power of 0.75; nodes without neighbors are not drawn."""
    from any2vec.kernels.common.alias import build_alias

    degree_N = np.diff(csr.indptr).astype(np.float64)
    return build_alias(degree_N**DISTORTION if degree_N.any() else degree_N + 1)


def without_edges(found: Neighborhood, target_K: np.ndarray, source_K: np.ndarray) -> Neighborhood:
    """A neighborhood in which some edges to seeds were not sampled; target, source: nodes, integers (K,).

    Nodes that were found along them stay; they send nothing to these seeds.
    """
    num = found.nodes_by_hop[0]
    stop = int(found.stop_D1[num])
    seed_S = np.repeat(found.node_M[:num], np.diff(found.stop_D1[: num + 1]))
    sampled_S = _code(seed_S, found.node_M[found.neighbor_S[:stop]])
    is_kept_S = np.ones(len(found.neighbor_S), bool)
    is_kept_S[:stop] = ~np.isin(sampled_S, _code(target_K, source_K))
    kept = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_kept_S)])
    edges = found.edge_S[is_kept_S] if len(found.edge_S) else found.edge_S
    by_hop = found.edges_by_hop[0] - int((~is_kept_S).sum()), *found.edges_by_hop[1:]
    return found._replace(
        stop_D1=kept[found.stop_D1], neighbor_S=found.neighbor_S[is_kept_S], edge_S=edges, edges_by_hop=by_hop
    )


def _code(target: np.ndarray, source: np.ndarray) -> np.ndarray:
    """A number for each pair."""
    return target.astype(np.int64) << 32 | source.astype(np.int64)
