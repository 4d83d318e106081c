"""Graph attention (Veličković et al. 2018; Brody, Alon, Yahav 2022): with PyG's parameters, PyG's numbers.

Legend: F nodes that aggregate, S edges, M nodes that have rows, H heads, C columns of a head, D = H C, K features of an
edge.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import torch

from any2vec.checks import check_number, check_whole
from any2vec.errors import InputError
from any2vec.nn.aggregate import Neighbors, check_tensors, neighbors_of, weighted_sum
from any2vec.nn.attention import (
    EdgePairWeights,
    EdgeSumWeights,
    PairWeights,
    SumWeights,
    with_edge_loops,
    with_self_loops,
)
from any2vec.nn.dropout import dropout


class _Attention(torch.nn.Module):
    """What both kinds of attention share (abstract)."""

    def __init__(
        self, sizes: tuple[int, int], out_channels: int, heads: int, concat: bool, negative_slope: float,
        dropout: float, add_self_loops: bool, bias: bool, edge_dim: int | None,
    ) -> None:  # fmt: skip
        super().__init__()
        for name, size in (*(("in_channels", size) for size in sizes), ("out_channels", out_channels)):
            check_whole(name, size, 1, 1 << 20)
        check_whole("heads", heads, 1, 1 << 16)
        check_whole("edge_dim", 1 if edge_dim is None else edge_dim, 1, 1 << 20)
        check_number("negative_slope", negative_slope, 0, 1e6)
        check_number("dropout", dropout, 0, 0.99)
        self.heads, self.out_channels, self.concat = heads, out_channels, concat
        self.negative_slope, self.dropout, self.add_self_loops = float(negative_slope), float(dropout), add_self_loops
        self.bias = torch.nn.Parameter(torch.empty(out_channels * (heads if concat else 1))) if bias else None
        self.edge_dim = edge_dim
        self.lin_edge = None if edge_dim is None else torch.nn.Linear(edge_dim, heads * out_channels, bias=False)

    def forward(
        self, x: torch.Tensor | tuple[torch.Tensor, torch.Tensor], edge_index: torch.Tensor | Neighbors,
        edge_attr: torch.Tensor | None = None, num_neighbors: torch.Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """(F, heads * out_channels); means of heads: (F, out_channels).

        Args:
            x: rows (M, in_channels), or a pair: those of neighbors (M, ·) and of the nodes (F, ·).
            edge_index: int64 (2, S), from row to node; or `Neighbors`, of the first F rows where x is no pair.
            edge_attr: (S, edge_dim), of the type of x, where the layer has an edge_dim: features of the edges. That of
                the loop that is added to a node is the mean of those of its other in-edges, 0 without any.
            num_neighbors: float (F,) or (F, 1), where the edges are a sample: how many each node has in the graph. A
                sampled neighbor then stands for as many as it is one of, the node itself for one. Not in PyG.
            generator: of what is dropped.

        Raises:
            InputError: as of `aggregate`; features of the edges are missing, not wanted, or of another shape.
        """
        source, own = x if isinstance(x, tuple) else (x, x)
        edge_index, edge_SK = self._with_features(source, edge_index, edge_attr)
        if not isinstance(edge_index, Neighbors):
            for rows in (source, own):
                check_tensors(rows, edge_index)
            edge_index = neighbors_of(edge_index, len(source), len(own))
        num = len(edge_index.stop_F1) - 1
        left, right = self._projections()
        source_MD = left(source)
        target_FD = source_MD[:num] if left is right and own is source else right(own[:num])
        share_F = _share(edge_index, num_neighbors)
        neighbors = edge_index
        if edge_SK is not None:
            if self.add_self_loops:
                neighbors, edge_SK = with_edge_loops(edge_index, len(source), edge_SK)
            weight_SH = self._edge_weights(source_MD, target_FD, edge_SK, neighbors, share_F)
        else:
            neighbors = with_self_loops(edge_index, len(source)) if self.add_self_loops else edge_index
            weight_SH = self._weights(source_MD, target_FD, neighbors, share_F)
        if self.training and self.dropout:
            weight_SH = dropout(weight_SH, self.dropout, generator)
        out = weighted_sum(source_MD, neighbors, weight_SH)
        out = out if self.concat else out.view(-1, self.heads, self.out_channels).mean(dim=1)
        return out if self.bias is None else out + self.bias

    def _with_features(
        self, source: torch.Tensor, edge_index: torch.Tensor | Neighbors, edge_attr: torch.Tensor | None
    ) -> tuple[torch.Tensor | Neighbors, torch.Tensor | None]:  # fmt: skip
        """(edges, by target where they have features; these, (S, K), or None). InputError where they do not fit."""
        if edge_attr is None and self.lin_edge is None:
            return edge_index, None
        if edge_attr is None or self.lin_edge is None:
            what = "has no edge_dim, and got" if self.lin_edge is None else f"has edge_dim {self.edge_dim}, and got no"
            raise InputError(f"{type(self).__name__} {what} edge_attr; give both, or neither.")
        if not isinstance(edge_index, Neighbors):
            check_tensors(source, edge_index)
        if not isinstance(edge_attr, torch.Tensor):
            raise InputError(
                f"edge_attr must be a torch tensor, got {type(edge_attr).__name__}; torch.as_tensor makes one."
            )
        size = len(edge_index.neighbor_S) if isinstance(edge_index, Neighbors) else edge_index.shape[-1]
        edge_SK = edge_attr[:, None] if edge_attr.ndim == 1 else edge_attr
        if tuple(edge_SK.shape) != (size, self.edge_dim) or edge_SK.dtype != source.dtype:
            raise InputError(
                f"edge_attr must be {source.dtype} ({size:,}, {self.edge_dim}), a row an edge, got {edge_attr.dtype} "
                f"{tuple(edge_attr.shape)}."
            )
        if not isinstance(edge_index, Neighbors) and (edge_index[1, 1:] < edge_index[1, :-1]).any():
            order = edge_index[1].argsort(stable=True)
            return edge_index[:, order], edge_SK.index_select(0, order)
        return edge_index, edge_SK

    @abstractmethod
    def _projections(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Of neighbors' rows and of the nodes' own, to D columns."""

    @abstractmethod
    def _weights(
        self, source_MD: torch.Tensor, target_FD: torch.Tensor, neighbors: Neighbors, share_F: np.ndarray
    ) -> torch.Tensor:
        """Of the edges, (S, H)."""

    @abstractmethod
    def _edge_weights(
        self, source_MD: torch.Tensor, target_FD: torch.Tensor, edge_SK: torch.Tensor, neighbors: Neighbors,
        share_F: np.ndarray,
    ) -> torch.Tensor:  # fmt: skip
        """Of edges with features, (S, H)."""


class GATConv(_Attention):
    """out_i = bias + the sum of a_ij W x_j over the in-neighbors j of i and i itself, beside each other for each head;
    a_i: softmax of leaky(att_src . W x_j + att_dst . W x_i) (GAT, equations 3 and 4).

    Parameters are named as in `torch_geometric.nn.GATConv`, and start as they do there (Glorot and Bengio 2010; 0):
    `state_dict` goes from one to the other. A self-loop of the graph stands for the one that is added.

    Args:
        in_channels: columns of rows, 1 or more; a pair: of neighbors' rows and of the node's own, with a W for each.
        out_channels: columns of a head, 1 or more. heads: 1 or more.
        concat: heads stand beside each other; else their mean is taken.
        negative_slope: of the leaky ReLU, 0 or more. dropout: share of weights that are set to 0 in training, 0..0.99.
        add_self_loops: each node attends to itself, once. bias: with a bias.
        edge_dim: features of an edge, 1 or more, which attention heeds by lin_edge (PyG's fill_value is mean).

    Raises:
        InputError: an option is not legal.
    """

    def __init__(
        self, in_channels: int | tuple[int, int], out_channels: int, heads: int = 1, concat: bool = True,
        negative_slope: float = 0.2, dropout: float = 0.0, add_self_loops: bool = True, bias: bool = True,
        edge_dim: int | None = None,
    ) -> None:  # fmt: skip
        sizes = in_channels if isinstance(in_channels, tuple) else (in_channels, in_channels)
        super().__init__(sizes, out_channels, heads, concat, negative_slope, dropout, add_self_loops, bias, edge_dim)
        self.lin = self.lin_src = self.lin_dst = None
        if isinstance(in_channels, tuple):
            self.lin_src, self.lin_dst = (torch.nn.Linear(size, heads * out_channels, False) for size in sizes)
        else:
            self.lin = torch.nn.Linear(in_channels, heads * out_channels, bias=False)
        self.att_src, self.att_dst = (torch.nn.Parameter(torch.empty(1, heads, out_channels)) for _ in range(2))
        self.att_edge = None if edge_dim is None else torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        _start(self, self.att_src[0], self.att_dst[0], *([] if self.att_edge is None else [self.att_edge[0]]))

    def _projections(self) -> Any:
        return (self.lin, self.lin) if self.lin is not None else (self.lin_src, self.lin_dst)

    def _weights(
        self, source_MD: torch.Tensor, target_FD: torch.Tensor, neighbors: Neighbors, share_F: np.ndarray
    ) -> torch.Tensor:
        scores = self._scores(source_MD, target_FD)
        found: torch.Tensor = SumWeights.apply(*scores, neighbors, share_F, self.negative_slope)
        return found

    def _edge_weights(
        self, source_MD: torch.Tensor, target_FD: torch.Tensor, edge_SK: torch.Tensor, neighbors: Neighbors,
        share_F: np.ndarray,
    ) -> torch.Tensor:  # fmt: skip
        assert self.lin_edge is not None and self.att_edge is not None
        by_head_HCK = self.lin_edge.weight.view(self.heads, self.out_channels, -1)
        edge_SH = edge_SK @ (by_head_HCK * self.att_edge[0, :, :, None]).sum(dim=1).T
        scores = self._scores(source_MD, target_FD)
        found: torch.Tensor = EdgeSumWeights.apply(*scores, edge_SH, neighbors, share_F, self.negative_slope)
        return found

    def _scores(self, source_MD: torch.Tensor, target_FD: torch.Tensor) -> list[torch.Tensor]:
        """(M, H) and (F, H)"""
        return [
            (rows.view(-1, self.heads, self.out_channels) * attention).sum(dim=-1)
            for rows, attention in ((source_MD, self.att_src), (target_FD, self.att_dst))
        ]


class GATv2Conv(_Attention):
    """As `GATConv`, with a_i: softmax of att . leaky(W_l x_j + W_r x_i) (GATv2, equation 7), and sums of W_l x_j.

    Parameters as in `torch_geometric.nn.GATv2Conv`. share_weights: W_r is W_l. Other arguments: as of `GATConv`.
    """

    def __init__(
        self, in_channels: int | tuple[int, int], out_channels: int, heads: int = 1, concat: bool = True,
        negative_slope: float = 0.2, dropout: float = 0.0, add_self_loops: bool = True, bias: bool = True,
        share_weights: bool = False, edge_dim: int | None = None,
    ) -> None:  # fmt: skip
        sizes = in_channels if isinstance(in_channels, tuple) else (in_channels, in_channels)
        super().__init__(sizes, out_channels, heads, concat, negative_slope, dropout, add_self_loops, bias, edge_dim)
        self.lin_l = torch.nn.Linear(sizes[0], heads * out_channels, bias)
        self.lin_r = self.lin_l if share_weights else torch.nn.Linear(sizes[1], heads * out_channels, bias)
        self.att = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        _start(self, self.att[0])

    def _projections(self) -> Any:
        return self.lin_l, self.lin_r

    def _weights(
        self, source_MD: torch.Tensor, target_FD: torch.Tensor, neighbors: Neighbors, share_F: np.ndarray
    ) -> torch.Tensor:
        attention_D, slope = self.att.flatten(), self.negative_slope
        found: torch.Tensor = PairWeights.apply(
            source_MD, target_FD, attention_D, self.heads, neighbors, share_F, slope
        )
        return found

    def _edge_weights(
        self, source_MD: torch.Tensor, target_FD: torch.Tensor, edge_SK: torch.Tensor, neighbors: Neighbors,
        share_F: np.ndarray,
    ) -> torch.Tensor:  # fmt: skip
        assert self.lin_edge is not None
        attention_D, slope = self.att.flatten(), self.negative_slope
        found: torch.Tensor = EdgePairWeights.apply(
            source_MD, target_FD, self.lin_edge(edge_SK), attention_D, self.heads, neighbors, share_F, slope
        )
        return found


def _start(layer: _Attention, *attentions: torch.Tensor) -> None:
    """Draw a layer's parameters; attentions: (H, C) each."""
    for part in layer.children():
        part.reset_parameters()  # type: ignore[operator]
        torch.nn.init.xavier_uniform_(part.weight)  # type: ignore[arg-type]
    for attention in attentions:
        torch.nn.init.xavier_uniform_(attention)
    if layer.bias is not None:
        torch.nn.init.zeros_(layer.bias)


def _share(neighbors: Neighbors, num_neighbors: torch.Tensor | None) -> np.ndarray:
    """How many neighbors each one stands for, float64 (F,); (0,): itself."""
    if num_neighbors is None:
        return np.empty(0)
    counts: np.ndarray = np.diff(neighbors.stop_F1)
    return np.asarray(num_neighbors.detach().numpy().reshape(-1)[: len(counts)] / np.maximum(counts, 1), np.float64)
