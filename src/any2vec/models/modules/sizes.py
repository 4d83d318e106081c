"""What a user's module takes of memory, about. Arithmetic alone."""

from __future__ import annotations

from typing import NamedTuple

_FLOAT = 4
_KEPT = 2
"""times what the parts of a module give: for the way back as much as is made between them is kept, and gradients"""
_OF_EDGES = 24
"""bytes of an edge of a batch: its ends, sampled and as the module takes them"""


class ModuleSizes(NamedTuple):
    """Of one module."""

    widths: tuple[int, ...]
    """columns that each stage takes, and those of the scores"""
    num_weights: int
    columns_made: tuple[int, ...]
    """numbers of each node that its parts give"""
    edge_columns: int
    """numbers that a stage holds for each edge, at most"""
    hidden: int
    """columns of the vectors; 0: as many as what the last part takes, which is known when it runs"""
    is_cut: bool

    def batch_bytes(self, num_nodes: float, num_edges: float) -> int:
        """Of a batch in training: every part is computed for all its nodes."""
        made = sum(self.columns_made) + self.widths[0]
        return int(_FLOAT * (_KEPT * num_nodes * made + num_edges * self.edge_columns) + _OF_EDGES * num_edges)

    def at_once_bytes(self, num_nodes: int, num_edges: int) -> int:
        """Of all nodes of a graph at once, where nothing is learned; features of nodes are copied."""
        made = sum(self.columns_made) + 2 * self.widths[0]
        return _FLOAT * (num_nodes * made + num_edges * self.edge_columns)
