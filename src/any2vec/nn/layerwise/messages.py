"""Layers that pass messages, run for some nodes from all their neighbors, as in the whole graph.

Legend: M nodes that have rows, F of them, the first ones, that the layer answers for, S edges, D columns.
"""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any

import numpy as np
import torch

from any2vec.nn.aggregate import Neighbors
from any2vec.nn.convolve import convolve

WAYS = ("convolution", "normalized", "pair", "rows")
"""in which a layer can be run, the cheapest first. convolution: by our kernel; normalized: with weights of edges that
are known from the degrees of the whole graph; pair: rows of neighbors and of those that are answered for; rows: all
rows, of which the first ones count"""
_INDEX_COLUMNS = 8
"""numbers of 4 bytes that stand for each edge: both ends as int64, and what sorts and checks them"""
_MESSAGE_ARRAYS = 3
"""rows that a layer of PyG's own makes of each edge: what is gathered, the message, and what is weighed"""


def passes_messages(module: torch.nn.Module) -> bool:
    """Whether it is a layer of PyG that aggregates over edges (`MessagePassing`)."""
    return any(
        kind.__name__ == "MessagePassing" and kind.__module__.startswith("torch_geometric.")
        for kind in type(module).__mro__
    )


class Edges:
    """What messages are passed along in a batch, in the forms in which layers want it; each is made once.

    Args:
        degree_M1: float32, in-neighbors in the graph, the node itself not counted.
        edge_SK: float32 (S, K): features of edges, where a module takes some.
    """

    def __init__(self, neighbors: Neighbors, degree_M1: torch.Tensor, edge_SK: torch.Tensor | None = None) -> None:
        self.neighbors, self.degree_M1, self.edge_SK = neighbors, degree_M1, edge_SK

    @property
    def num_targets(self) -> int:
        """F"""
        return len(self.neighbors.stop_F1) - 1

    @cached_property
    def edge_index(self) -> torch.Tensor:
        """int64 (2, S), by target."""
        stop_F1, neighbor_S = self.neighbors.stop_F1, self.neighbors.neighbor_S
        found = np.empty((2, len(neighbor_S)), np.int64)
        found[0] = neighbor_S
        found[1] = np.repeat(np.arange(len(stop_F1) - 1), np.diff(stop_F1))
        return torch.from_numpy(found)

    @cached_property
    def without_loops(self) -> Neighbors:
        """The same without edges from nodes to themselves."""
        src_S, dst_S = self.edge_index.numpy()
        is_loop_S = src_S == dst_S
        if not is_loop_S.any():
            return Neighbors(self.neighbors.stop_F1, self.neighbors.neighbor_S)
        num_E = np.bincount(dst_S[~is_loop_S], minlength=self.num_targets)
        return Neighbors(np.concatenate([[0], np.cumsum(num_E)]), self.neighbors.neighbor_S[~is_loop_S])

    def normalized(self, own: float) -> tuple[torch.Tensor, torch.Tensor]:
        """(edges and a loop for each node, int64 (2, S); weights (S,) of a graph convolution); own: that of loops."""
        src_S, dst_S = self.edge_index
        is_kept_S = src_S != dst_S
        loop_F = torch.arange(self.num_targets)
        src_S, dst_S = torch.cat([src_S[is_kept_S], loop_F]), torch.cat([dst_S[is_kept_S], loop_F])
        root_M = (self.degree_M1[:, 0] + own).rsqrt()
        weight_S = root_M[src_S] * root_M[dst_S]
        weight_S[len(weight_S) - len(loop_F) :] *= own
        return torch.stack([src_S, dst_S]), weight_S


def ways_of(layer: Any) -> tuple[str, ...]:
    """In which a layer may be run, to be tried in this order."""
    if not (getattr(layer, "normalize", False) and getattr(layer, "add_self_loops", False)):
        return ("pair", "rows")
    is_plain = type(layer).__name__.removeprefix("Accelerated") == "GCNConv" and not layer.improved
    return ("convolution", "normalized") if is_plain else ("normalized",)


def edge_columns(layer: Any, way: str, columns_in: int, columns_out: int) -> int:
    """Numbers of 4 bytes that a layer holds for each edge, about."""
    heads = int(getattr(layer, "heads", 1) or 1)
    if way == "convolution":
        return _INDEX_COLUMNS
    if type(layer).__module__.startswith("any2vec."):
        return _INDEX_COLUMNS + heads + 1
    wide = columns_out if getattr(layer, "concat", True) else columns_out * heads
    return _INDEX_COLUMNS + _MESSAGE_ARRAYS * max(columns_in, wide) + 2 * heads


def run_layer(
    layer: Any, way: str, args: tuple[Any, ...], kwargs: dict[str, Any], is_edges: Any, edges: Edges
) -> torch.Tensor:  # fmt: skip
    """(F, D): what a layer gives for the first nodes.

    Args:
        way: one of `WAYS`.
        args: those of its forward; rows are those of all M nodes.
        is_edges: stands for the edges in them.
    """
    num = edges.num_targets
    if way == "convolution":
        is_narrow = layer.out_channels < layer.in_channels
        found = convolve(layer.lin(args[0]) if is_narrow else args[0], edges.without_loops, edges.degree_M1)
        found = found if is_narrow else layer.lin(found)
        return found if layer.bias is None else found + layer.bias
    index, more = edges.edge_index, dict(kwargs)
    if way == "normalized":
        index, weight_S = edges.normalized(2.0 if getattr(layer, "improved", False) else 1.0)
        layer = _normalizing_no_more(layer)
        more["edge_weight"] = weight_S
    given: list[Any] = [index if arg is is_edges else arg for arg in args]
    more = {name: index if value is is_edges else value for name, value in more.items()}
    if way == "pair":
        given[0] = (given[0], given[0][:num])
    found = layer(*given, **more)
    return found[:num] if way != "pair" else found


def _normalizing_no_more(layer: Any) -> Any:
    """The same layer, its parameters too, that takes weights of edges as they are."""
    found = copy.copy(layer)
    found.normalize = False
    return found
