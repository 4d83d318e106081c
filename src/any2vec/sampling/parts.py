"""The part of a graph that one host holds: the rows of its own nodes, and where every other node is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from any2vec.kernels.common.ranges import positions_in
from any2vec.plan.sharding.nodes import NodeSharding
from any2vec.types import Csr

if TYPE_CHECKING:
    from any2vec.data.graph.graph import Graph
    from any2vec.kernels.graph.walk_parts import PartRows

_BLOCK_ENTRIES = 1 << 20
"""of rows that are copied at a time"""


@dataclass(frozen=True, kw_only=True)
class GraphPart:
    """What host `rank` holds of a graph.

    Memory: 4 bytes an entry of its own rows (16 when weighted), 12 a node of its own (20 when weighted), and for all
    nodes of the graph a quarter of a byte each (none for blocks) and what `sharding` takes.
    """

    rank: int
    sharding: NodeSharding
    nodes: np.ndarray
    """int32 (n,): the nodes that it owns, ascending"""
    csr: Csr
    """their rows: indptr int64 (n + 1,), indices of the whole graph int32 (E,), weights float32 (E,) or (0,)"""
    is_directed: bool

    @property
    def num_nodes(self) -> int:
        """Of the whole graph."""
        return self.sharding.num_rows

    @cached_property
    def rows(self) -> PartRows:
        """The part as kernels read it: with alias tables, and the map from a node to its row."""
        from any2vec.kernels.common.alias import build_row_alias
        from any2vec.kernels.graph.walk_parts import PartRows, mark_owned
        from any2vec.sampling.walks import row_sums

        threshold, alias = np.empty(0, np.uint32), np.empty(0, np.int32)
        if len(self.csr.weights):
            threshold, alias = build_row_alias(self.csr.indptr, self.csr.weights)
        is_block = len(self.sharding.bounds) > 0
        owned = np.zeros((0 if is_block else self.num_nodes // 64 + 1, 2), np.uint64)
        if not is_block:
            mark_owned(self.nodes, owned)
        first = int(self.sharding.bounds[self.rank]) if is_block else 0
        return PartRows(*self.csr, threshold, alias, row_sums(self.csr), owned, first)

    @cached_property
    def digest(self) -> str:
        """The same at hosts that hold the same map from nodes to hosts."""
        from any2vec.data.io.files import fingerprint

        of = self.sharding
        return fingerprint(np.array([of.num_rows, of.owners]), of.bounds, of.part_of)

    @cached_property
    def widest_row(self) -> int:
        """Entries of its longest row."""
        return int(np.diff(self.csr.indptr).max(initial=0))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays that this host holds."""
        arrays: list[Any] = [self.nodes, self.sharding, *self.rows[:-1]]
        return sum(array.nbytes for array in arrays)


def cut_part(csr: Csr, sharding: NodeSharding, rank: int, is_directed: bool) -> GraphPart:
    """Copy the rows of host `rank` out of a graph's arrays, which may be memory-mapped: only these are read.

    Beside the part 24 bytes a node of it, and 32 an entry of a block of rows.
    """
    nodes = sharding.ids(rank)
    starts, stops = csr.indptr[nodes], csr.indptr[nodes + 1]
    indptr = np.zeros(len(nodes) + 1, np.int64)
    np.cumsum(stops - starts, out=indptr[1:])
    indices = np.empty(indptr[-1], np.int32)
    weights = np.empty(indptr[-1] if len(csr.weights) else 0, np.float32)
    for first, stop in pairwise(_blocks_of_rows(indptr)):
        here, places = slice(indptr[first], indptr[stop]), positions_in(starts[first:stop], stops[first:stop])
        indices[here] = csr.indices[places]
        if len(weights):
            weights[here] = csr.weights[places]
    return GraphPart(
        rank=rank, sharding=sharding, nodes=nodes, csr=Csr(indptr, indices, weights), is_directed=is_directed
    )


def _blocks_of_rows(indptr: np.ndarray) -> list[int]:
    """Bounds of blocks of whole rows, of `_BLOCK_ENTRIES` each and at most a row more."""
    firsts = np.searchsorted(indptr, np.arange(0, indptr[-1], _BLOCK_ENTRIES))
    return [*np.unique(firsts).tolist(), len(indptr) - 1]


def split_graph(graph: Graph, sharding: NodeSharding) -> list[GraphPart]:
    """The parts of all hosts, by rank: for logical hosts, which live in one process."""
    return [cut_part(graph.csr, sharding, rank, graph.is_directed) for rank in range(sharding.owners)]
