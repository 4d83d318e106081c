"""The part of a graph that one host holds: the rows of its own nodes, and where every other node is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from any2vec.errors import InputError
from any2vec.types import Csr

if TYPE_CHECKING:
    from any2vec.data.graph.graph import Graph
    from any2vec.kernels.graph.walk_parts import PartRows

_OWNER = np.uint16
_BLOCK_ENTRIES = 1 << 20
"""of rows that are copied at a time"""


@dataclass(frozen=True, kw_only=True)
class Owners:
    """Which host owns which node. Blocks and hashing are arithmetic; any other partition takes 2 bytes a node."""

    num_nodes: int
    parts: int
    bounds: np.ndarray
    """int64 (parts + 1,) of contiguous blocks, (0,) otherwise"""
    owner_of: np.ndarray
    """uint16 (N,) of any other partition; (0,) for blocks, and for hashing, where bounds are (0,) too"""

    @classmethod
    def make(cls, csr: Csr, parts: int, method: str) -> Owners:
        """Of a partition by name, see `plan.sharding.graph.partition`.

        Raises:
            InputError: as there.
        """
        from any2vec.plan.sharding.graph import contiguous_bounds, partition

        num_nodes = len(csr.indptr) - 1
        bounds, owner_N = np.empty(0, np.int64), np.empty(0, _OWNER)
        if method == "contiguous":
            bounds = np.array(contiguous_bounds(num_nodes, parts), np.int64)
        elif method != "hash":
            owner_N = partition(csr, parts, method).astype(_OWNER)
        return cls(num_nodes=num_nodes, parts=parts, bounds=bounds, owner_of=owner_N)

    @classmethod
    def of(cls, part_N: np.ndarray, parts: int) -> Owners:
        """Of any partition: part_N int (N,), in [0, parts).

        Raises:
            InputError: a part is not one of them.
        """
        if len(part_N) and not 0 <= part_N.min() <= part_N.max() < parts:
            raise InputError(f"parts of nodes must lie in [0, {parts}), got [{part_N.min()}, {part_N.max()}].")
        owner_N = np.array(part_N, _OWNER)
        return cls(num_nodes=len(part_N), parts=parts, bounds=np.empty(0, np.int64), owner_of=owner_N)

    def find(self, nodes: np.ndarray) -> np.ndarray:
        """The owner of each of `nodes`, int (any,): int32 (any,)."""
        from any2vec.kernels.graph.walk_parts import find_owners

        out = np.empty(len(nodes), np.int32)
        find_owners(self.owner_of, self.bounds, self.parts, np.ascontiguousarray(nodes, np.int64), out)
        return out

    def nodes_of(self, rank: int) -> np.ndarray:
        """The nodes of host `rank`, int32 (any,), ascending."""
        if len(self.bounds):
            return np.arange(self.bounds[rank], self.bounds[rank + 1], dtype=np.int32)
        step, found = 1 << 20, []
        for first in range(0, self.num_nodes, step):
            nodes = np.arange(first, min(self.num_nodes, first + step), dtype=np.int32)
            found.append(nodes[self.find(nodes) == rank])
        return np.concatenate(found) if found else np.empty(0, np.int32)

    @cached_property
    def digest(self) -> str:
        """The same at hosts that hold the same map."""
        from any2vec.data.io.files import fingerprint

        return fingerprint(np.array([self.num_nodes, self.parts]), self.bounds, self.owner_of)

    @property
    def nbytes(self) -> int:
        return self.bounds.nbytes + self.owner_of.nbytes


@dataclass(frozen=True, kw_only=True)
class GraphPart:
    """What host `rank` holds of a graph.

    Memory: 4 bytes an entry of its own rows (16 when weighted), 12 a node of its own (20 when weighted), and for all
    nodes of the graph a quarter of a byte each (none for blocks) and what `owners` takes.
    """

    rank: int
    owners: Owners
    nodes: np.ndarray
    """int32 (n,): the nodes that it owns, ascending"""
    csr: Csr
    """their rows: indptr int64 (n + 1,), indices of the whole graph int32 (E,), weights float32 (E,) or (0,)"""
    is_directed: bool

    @property
    def num_nodes(self) -> int:
        """Of the whole graph."""
        return self.owners.num_nodes

    @cached_property
    def rows(self) -> PartRows:
        """The part as kernels read it: with alias tables, and the map from a node to its row."""
        from any2vec.kernels.common.alias import build_row_alias
        from any2vec.kernels.graph.walk_parts import PartRows, mark_owned
        from any2vec.sampling.walks import row_sums

        threshold, alias = np.empty(0, np.uint32), np.empty(0, np.int32)
        if len(self.csr.weights):
            threshold, alias = build_row_alias(self.csr.indptr, self.csr.weights)
        is_block = len(self.owners.bounds) > 0
        owned = np.zeros((0 if is_block else self.num_nodes // 64 + 1, 2), np.uint64)
        if not is_block:
            mark_owned(self.nodes, owned)
        first = int(self.owners.bounds[self.rank]) if is_block else 0
        return PartRows(*self.csr, threshold, alias, row_sums(self.csr), owned, first)

    @cached_property
    def widest_row(self) -> int:
        """Entries of its longest row."""
        return int(np.diff(self.csr.indptr).max(initial=0))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays that this host holds."""
        arrays: list[Any] = [self.nodes, self.owners, *self.rows[:-1]]
        return sum(array.nbytes for array in arrays)


def cut_part(csr: Csr, owners: Owners, rank: int, is_directed: bool) -> GraphPart:
    """Copy the rows of host `rank` out of a graph's arrays, which may be memory-mapped: only these are read.

    Beside the part 24 bytes a node of it, and 32 an entry of a block of rows.
    """
    nodes = owners.nodes_of(rank)
    starts, stops = csr.indptr[nodes], csr.indptr[nodes + 1]
    indptr = np.zeros(len(nodes) + 1, np.int64)
    np.cumsum(stops - starts, out=indptr[1:])
    indices = np.empty(indptr[-1], np.int32)
    weights = np.empty(indptr[-1] if len(csr.weights) else 0, np.float32)
    for first, stop in pairwise(_blocks_of_rows(indptr)):
        here, degrees = slice(indptr[first], indptr[stop]), np.diff(indptr[first : stop + 1])
        places = np.arange(here.start, here.stop) + np.repeat(starts[first:stop] - indptr[first:stop], degrees)
        indices[here] = csr.indices[places]
        if len(weights):
            weights[here] = csr.weights[places]
    return GraphPart(rank=rank, owners=owners, nodes=nodes, csr=Csr(indptr, indices, weights), is_directed=is_directed)


def _blocks_of_rows(indptr: np.ndarray) -> list[int]:
    """Bounds of blocks of whole rows, of `_BLOCK_ENTRIES` each and at most a row more."""
    firsts = np.searchsorted(indptr, np.arange(0, indptr[-1], _BLOCK_ENTRIES))
    return [*np.unique(firsts).tolist(), len(indptr) - 1]


def split_graph(graph: Graph, owners: Owners) -> list[GraphPart]:
    """The parts of all hosts, by rank: for logical hosts, which live in one process."""
    return [cut_part(graph.csr, owners, rank, graph.is_directed) for rank in range(owners.parts)]
