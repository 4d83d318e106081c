"""Sampled neighborhoods in a graph whose nodes and edges have types: fan-outs by type of edge.

Pure, as `neighbors.py` is: a sample depends on (seed, epoch, type of edge, node, hop), and on the batch's number where
the key is `batch`. A node samples once a batch, at the hop that finds it, along each type of edge that leads to it.

Legend: M nodes of a type that are found, D of them have sampled, S edges of a type, H hops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from any2vec.errors import InputError
from any2vec.sampling.neighbors import (
    MAX_FANOUT,
    NeighborOptions,
    SampledRows,
    Scratch,
    ThreadScratch,
    edge_index_of,
    hop_key,
    is_fanout,
)
from any2vec.types import Csr

EdgeType = tuple[str, str, str]
"""(type of the sources, relation, type of the targets)"""


class TypedEdges(NamedTuple):
    """Sampled edges of a type."""

    stop_D1: np.ndarray
    """int64: the edges of the target number d are [stop[d], stop[d + 1])"""
    neighbor_S: np.ndarray
    """int32: numbers of the sources among the nodes of their type"""
    edge_S: np.ndarray
    """int64: places of the edges in the type's adjacency; (0,) where not asked for"""
    by_hop: tuple[int, ...]
    """H"""

    def edge_index(self) -> np.ndarray:
        """int64 (2, S): (source, target that has sampled it), by hop."""
        return edge_index_of(self.stop_D1, self.neighbor_S)


class TypedNeighborhood(NamedTuple):
    """What a batch has sampled."""

    nodes: dict[str, np.ndarray]
    """int32 (M,) by type of node: the seeds, then the nodes of each hop in order of discovery"""
    nodes_by_hop: dict[str, tuple[int, ...]]
    """H + 1: seeds, then nodes that each hop has found"""
    edges: dict[EdgeType, TypedEdges]


class _Relation(NamedTuple):
    """Edges of a type, and how they are sampled."""

    number: int
    kind: EdgeType
    rows: SampledRows
    fanouts: tuple[int, ...]


class _Nodes:
    """Nodes of a type that a batch has found so far."""

    def __init__(self, scratch: Scratch, num_nodes: int, num_seeds: int) -> None:
        self.scratch, self.num_nodes = scratch, num_nodes
        self.found = scratch.room("found", num_seeds + 1, np.int32)
        self.num, self.by_hop = num_seeds, [num_seeds]
        self.first = self.stop = 0
        """those that sample in this hop are [first, stop)"""


class _Edges:
    """Edges of a type that a batch has sampled so far; arrays are those of the thread."""

    def __init__(self, scratch: Scratch, number: int) -> None:
        self.scratch, self.number, self.sampled, self.by_hop = scratch, number, 0, list[int]()
        self.stop = self.room("stop", 1, np.int64)
        self.stop[0] = 0

    def room(self, name: str, size: int, dtype: type, kept: int = 0) -> np.ndarray:
        return self.scratch.room(f"{name} {self.number}", size, dtype, kept)


class TypedNeighborSampler:
    """Samples of neighbors by type of edge; any number of threads may call it at once.

    Args:
        csrs: by type of edge, the rows that are sampled: of in-neighbors; `indices` are nodes of the sources' type.
            Weights, > 0, only for the law `weighted`; types without weights are sampled uniformly.
        num_nodes: by type of node.
        fanouts: by type of edge, one a hop; 0 leaves the type out. `options.fanouts` for types that are not in it.
        options: law, replace, key and seed.

    Memory: 4 bytes a node and thread; weighted: 8 bytes an edge, too. A hub costs as much as its fan-out.

    Raises:
        InputError: fan-outs are none, or reach another number of hops, or by the law `weighted` no type has weights.
    """

    def __init__(
        self, csrs: Mapping[EdgeType, Csr], num_nodes: Mapping[str, int],
        fanouts: Mapping[EdgeType, Sequence[int]], options: NeighborOptions,
    ) -> None:  # fmt: skip
        by_type = {kind: _checked_fanouts(kind, fanouts.get(kind, options.fanouts)) for kind in csrs}
        hops = {len(of_type) for of_type in by_type.values()}
        if len(hops) > 1:
            raise InputError(
                f"num_neighbors must reach the same number of hops for all types of edges, got {sorted(hops)}."
            )
        if options.law == "weighted" and not any(len(csr.weights) for csr in csrs.values()):
            raise InputError("The graph has no weights, so it cannot be sampled by them; take the law uniform.")
        self.num_nodes, self.options, self.num_hops = dict(num_nodes), options, hops.pop() if hops else 0
        self._relations = [
            _Relation(number, kind, SampledRows(csr, _law_of(csr, options.law)), by_type[kind])
            for number, (kind, csr) in enumerate(csrs.items())
        ]
        self._scratch = {kind: ThreadScratch(number) for kind, number in num_nodes.items()}

    def sample(
        self, seeds: Mapping[str, np.ndarray], epoch: int = 0, batch: int = 0, with_edges: bool = False
    ) -> TypedNeighborhood:
        """The neighborhood of seeds by type, integers (B,), in each type all different.

        epoch, batch: 0 or more; the batch counts only where the key is `batch`. O(nodes and edges sampled).

        Raises:
            InputError: a seed is no node, or comes twice.
        """
        from any2vec.kernels.graph.neighbors import number_seeds

        given = {kind: self._checked(kind, seeds.get(kind, np.empty(0, np.int32))) for kind in self.num_nodes}
        nodes = {
            kind: _Nodes(self._scratch[kind].of_thread(), number, len(given[kind]))
            for kind, number in self.num_nodes.items()
        }
        edges = [_Edges(nodes[relation.kind[2]].scratch, relation.number) for relation in self._relations]
        try:
            for kind, of_type in nodes.items():
                if not number_seeds(given[kind], of_type.scratch.base, of_type.scratch.seen, of_type.found):
                    raise InputError(f"A node comes twice among the seeds of {kind} of a batch; give each once.")
            for hop in range(self.num_hops):
                for of_type in nodes.values():
                    of_type.stop = of_type.num
                for relation, sampled in zip(self._relations, edges, strict=True):
                    src, dst = nodes[relation.kind[0]], nodes[relation.kind[2]]
                    self._sample_hop(relation, src, dst, sampled, (epoch, batch, hop), with_edges)
                for of_type in nodes.values():
                    of_type.first = of_type.stop
                    of_type.by_hop.append(of_type.num - of_type.stop)
            return _result(nodes, self._relations, edges, with_edges)
        finally:
            for of_type in nodes.values():
                of_type.scratch.base += of_type.num

    def _sample_hop(
        self, relation: _Relation, src: _Nodes, dst: _Nodes, edges: _Edges, at: tuple[int, int, int], with_edges: bool
    ) -> None:
        """Sample along one type of edge for the nodes of one hop."""
        from any2vec.kernels.graph import neighbors

        rows, first, end, fanout, sampled = relation.rows, dst.first, dst.stop, relation.fanouts[at[2]], edges.sampled
        size = end - first
        edges.stop = stop = edges.room("stop", end + 1, np.int64, first + 1)
        if fanout == 0 or size == 0:
            stop[first + 1 : end + 1] = stop[first]
            edges.by_hop.append(0)
            return
        starts, degrees = dst.scratch.room("starts", size, np.int64), dst.scratch.room("degrees", size, np.int64)
        counted = (starts[:size], degrees[:size], stop[first : end + 1])
        replace = self.options.replace
        total, widest = neighbors.count_samples(rows.csr.indptr, dst.found[first:end], fanout, replace, *counted)
        src.found = src.scratch.room("found", min(src.num + total, src.num_nodes) + 1, np.int32, src.num)
        local = edges.room("local", sampled + total, np.int32, sampled)
        edge = edges.room("edge", sampled + total, np.int64, sampled) if with_edges else np.empty(0, np.int64)
        place = dst.scratch.room("place", max(widest, neighbors.CHUNK), np.int64)
        src.num = neighbors.sample_hop(
            rows.csr.indices, *rows.alias, rows.weights, dst.found[first:end], *counted, rows.law,
            replace and fanout > 0, hop_key(self.options, *at, relation.number), src.scratch.base, src.scratch.seen,
            src.found, src.num, place, local, edge,
        )  # fmt: skip
        edges.sampled += total
        edges.by_hop.append(total)

    def _checked(self, kind: str, seeds: np.ndarray) -> np.ndarray:
        seed_B, number = np.asarray(seeds), self.num_nodes[kind]
        if seed_B.ndim != 1 or seed_B.dtype.kind not in "iu":
            raise InputError(f"Seeds of {kind} are whole numbers in a row, got {seed_B.dtype} {seed_B.shape}.")
        if len(seed_B) and not 0 <= int(seed_B.min()) <= int(seed_B.max()) < number:
            wrong = seed_B[(seed_B < 0) | (seed_B >= number)][0]
            raise InputError(f"Seed {wrong} is no node of {kind}; these are 0 to {number - 1:,}.")
        return np.ascontiguousarray(seed_B, np.int32)


def _result(
    nodes: Mapping[str, _Nodes], relations: Sequence[_Relation], edges: Sequence[_Edges], with_edges: bool
) -> TypedNeighborhood:
    """Copies of what a thread has sampled."""
    none = np.empty(0, np.int64)
    sampled = {
        relation.kind: TypedEdges(
            found.stop[: nodes[relation.kind[2]].first + 1].copy(),
            found.room("local", found.sampled, np.int32, found.sampled)[: found.sampled].copy(),
            found.room("edge", found.sampled, np.int64, found.sampled)[: found.sampled].copy() if with_edges else none,
            tuple(found.by_hop),
        )
        for relation, found in zip(relations, edges, strict=True)
    }
    found_nodes = {kind: of_type.found[: of_type.num].copy() for kind, of_type in nodes.items()}
    return TypedNeighborhood(found_nodes, {kind: tuple(of_type.by_hop) for kind, of_type in nodes.items()}, sampled)


def _law_of(csr: Csr, law: str) -> str:
    """Types without weights are sampled uniformly."""
    return "uniform" if law == "weighted" and not len(csr.weights) else law


def _checked_fanouts(kind: EdgeType, fanouts: Any) -> tuple[int, ...]:
    """Those of a type of edge."""
    is_row = isinstance(fanouts, Sequence) and not isinstance(fanouts, str) and len(fanouts) > 0
    if not is_row or not all(is_fanout(fanout, 0) for fanout in fanouts):
        raise InputError(
            f"num_neighbors of {'__'.join(kind)} must be whole numbers from 0 to {MAX_FANOUT:,} (or -1: all "
            f"neighbors), one a hop, got {fanouts!r}."
        )
    return tuple(int(fanout) for fanout in fanouts)
