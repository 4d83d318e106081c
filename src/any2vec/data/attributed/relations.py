"""Adjacencies whose edges have types: a graph's, with the inverse of each relation where wanted.

Legend: N nodes, E edges, R relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from any2vec.data.attributed.features import NodeNumbers
from any2vec.errors import InputError
from any2vec.types import Csr

if TYPE_CHECKING:
    from any2vec.data.attributed.graph import AttributedGraph


class RelationalCsr(Csr):
    """In-neighbors of nodes, without weights, with a relation for each edge; ascending only within a relation."""

    type_E: np.ndarray
    """int32 (E,): relations of the edges, by place in `indices`"""
    relations: tuple[str, ...]
    """names of the R relations"""

    @classmethod
    def of(cls, indptr: np.ndarray, indices: np.ndarray, type_E: np.ndarray, relations: Sequence[str]) -> RelationalCsr:
        """From arrays as those of `Csr`, and types."""
        found = cls(indptr, indices, np.empty(0, np.float32))
        found.type_E, found.relations = type_E, tuple(relations)
        return found

    def named(self, relations: Sequence[str]) -> RelationalCsr:
        """The same edges, types being places in `relations`.

        Raises:
            InputError: an edge is of a relation that is not among them.
        """
        if tuple(relations) == self.relations:
            return self
        place_of = {name: place for place, name in enumerate(relations)}
        place_R = np.array([place_of.get(name, -1) for name in self.relations], np.int32)
        used = np.bincount(self.type_E, minlength=len(place_R)) > 0
        if (unknown := np.flatnonzero(used & (place_R < 0))).size:
            raise InputError(
                f"The graph has edges of {self.relations[unknown[0]]!r}, a relation that the network has not seen; "
                "train it with such edges, or leave them out."
            )
        return self.of(self.indptr, self.indices, place_R[self.type_E], relations)


class Relations(NamedTuple):
    """What a network knows of the edges' types, and of nodes without features."""

    names: tuple[str, ...]
    """of the relations, inverse ones among them"""
    num_nodes: int = 0
    """that have a learned row each; 0: nodes have features"""

    @classmethod
    def of(cls, csr: Csr, features: Any) -> Relations | None:
        """Of a graph's edges and what its nodes have; None: edges have no types."""
        if not isinstance(csr, RelationalCsr):
            return None
        return cls(csr.relations, features.num if isinstance(features, NodeNumbers) else 0)


def relational_csr(graph: AttributedGraph, inverse: bool) -> RelationalCsr:
    """The edges of a graph, read once; inverse: of a directed one, and each the other way, as a relation of its own.

    Memory with inverses: 24 bytes an edge, twice that meanwhile.

    Raises:
        InputError: its edges have no types. FormatError: as of `check_edges`.
    """
    from any2vec.kernels.graph.neighbors import group_by_target

    if not len(graph.edge_types):
        raise InputError(
            "The edges of the graph have no types; build it of triples (any2vec graph build ... --edge-types triples)."
        )
    graph.check_edges()
    csr, names = graph.csr, graph.relations
    if not (inverse and graph.is_directed):
        return RelationalCsr.of(csr.indptr, csr.indices, graph.edge_types, names)
    target_E = np.repeat(np.arange(len(graph), dtype=np.int32), np.diff(csr.indptr))
    src, dst = np.concatenate([csr.indices, target_E]), np.concatenate([target_E, csr.indices])
    indptr, indices, id_E = np.zeros(len(graph) + 1, np.int64), np.empty_like(src), np.empty(len(src), np.int64)
    group_by_target(src, dst, indptr, indices, id_E)
    types = np.concatenate([graph.edge_types, graph.edge_types + np.int32(len(names))])[id_E]
    return RelationalCsr.of(indptr, indices, types, [*names, *(f"inverse of {name}" for name in names)])
