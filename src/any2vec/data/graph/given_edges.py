"""Edges as their source gives them: each kept, in its order, before equal ones become one edge of a graph.

Letter: M edges as they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from any2vec.data.graph.graph import Graph, are_mirrored, build_graph


@dataclass(frozen=True)
class GivenEdges:
    """What a source of edges comes to."""

    src_M: np.ndarray
    """int32 (M,), rows of `keys`, as `dst_M`"""
    dst_M: np.ndarray
    weight_M: np.ndarray | None
    """float32 (M,), finite and above 0; None: there are none"""
    keys: Sequence[str]
    is_directed: bool
    name: str
    """for messages"""
    ignored_columns: int = 0
    header: str = ""
    notes: Sequence[str] = ()
    """on how they were read, for the user"""

    def graph(self) -> Graph:
        """As `build_graph`."""
        return build_graph(
            self.src_M, self.dst_M, self.weight_M, self.keys, is_directed=self.is_directed, name=self.name,
            ignored_columns=self.ignored_columns, header=self.header, notes=self.notes,
        )  # fmt: skip

    def shares(self) -> np.ndarray:
        """float32 (M,): weights that, added up by edge, are those of `graph`; (0,): it has none.

        Raises:
            DataError: as of `build_graph`.
        """
        if self.weight_M is None or not len(self.graph().csr.weights):
            return np.empty(0, np.float32)
        if self.is_directed or not are_mirrored(self.src_M, self.dst_M, self.weight_M, len(self.keys)):
            return self.weight_M
        return np.where(self.src_M == self.dst_M, self.weight_M, self.weight_M * np.float32(0.5))
