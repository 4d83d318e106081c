"""The graph isomorphism convolution (Xu et al. 2019, equation 4.1), and that of edges with features (Hu et al. 2020):
with PyG's parameters, PyG's numbers.

Legend: F nodes that aggregate, S edges, M nodes that have rows, D columns, K features of an edge.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from any2vec.checks import check_number, check_whole
from any2vec.errors import InputError
from any2vec.nn.aggregate import Neighbors, aggregate, check_tensors, neighbors_of
from any2vec.nn.threads import in_parts, over_nodes, threads_for


class GINConv(torch.nn.Module):
    """out_i = nn((1 + eps) x_i + the sum of the in-neighbors' rows).

    Parameters are named as in `torch_geometric.nn.GINConv`: `state_dict` goes from one to the other.

    Args:
        nn: a module from rows to rows, as an MLP.
        eps: what the node's own row counts more than a neighbor's. train_eps: it is learned, from there.

    Raises:
        InputError: an option is not legal.
    """

    eps: torch.Tensor

    def __init__(self, nn: torch.nn.Module, eps: float = 0.0, train_eps: bool = False) -> None:
        super().__init__()
        if not isinstance(nn, torch.nn.Module):
            raise InputError(f"nn must be a torch.nn.Module, got {type(nn).__name__}.")
        check_number("eps", eps, -1e6, 1e6)
        self.nn, self.initial_eps = nn, float(eps)
        if train_eps:
            self.eps = torch.nn.Parameter(torch.full((1,), self.initial_eps))
        else:
            self.register_buffer("eps", torch.full((1,), self.initial_eps))

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for part in self.nn.modules():
            if callable(reset := getattr(part, "reset_parameters", None)):
                reset()
        torch.nn.init.constant_(self.eps, self.initial_eps)

    def forward(
        self, x: torch.Tensor | tuple[torch.Tensor, torch.Tensor], edge_index: torch.Tensor | Neighbors
    ) -> torch.Tensor:
        """(F, ·), what `nn` gives. x: rows (M, D), or a pair: those of neighbors (M, D) and of the nodes (F, D).

        Raises:
            InputError: as of `aggregate`.
        """
        source, own = x if isinstance(x, tuple) else (x, x)
        found: torch.Tensor = self.nn(aggregate(source, edge_index, len(own), "sum") + (1 + self.eps) * own)
        return found


class GINEConv(torch.nn.Module):
    """out_i = nn((1 + eps) x_i + the sum of max(0, x_j + e_ji) over the in-neighbors j) (Hu et al., ICLR 2020,
    "Strategies for pre-training graph neural networks").

    Parameters are named as in `torch_geometric.nn.GINEConv`: `state_dict` goes from one to the other.

    Args:
        nn: a module from rows to rows, as an MLP.
        eps: what the node's own row counts more than a neighbor's. train_eps: it is learned, from there.
        edge_dim: features of an edge, 1 or more, which `lin` brings to the columns of rows, those that nn, or its first
            part, takes; None: edges have as many features as rows have columns.

    Raises:
        InputError: an option is not legal, or with an edge_dim nn does not say what it takes.
    """

    eps: torch.Tensor

    def __init__(
        self, nn: torch.nn.Module, eps: float = 0.0, train_eps: bool = False, edge_dim: int | None = None
    ) -> None:
        super().__init__()
        if not isinstance(nn, torch.nn.Module):
            raise InputError(f"nn must be a torch.nn.Module, got {type(nn).__name__}.")
        check_number("eps", eps, -1e6, 1e6)
        check_whole("edge_dim", 1 if edge_dim is None else edge_dim, 1, 1 << 20)
        self.nn, self.initial_eps, self.edge_dim = nn, float(eps), edge_dim
        if train_eps:
            self.eps = torch.nn.Parameter(torch.full((1,), self.initial_eps))
        else:
            self.register_buffer("eps", torch.full((1,), self.initial_eps))
        self.lin = None if edge_dim is None else torch.nn.Linear(edge_dim, _columns_in(nn))

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for part in (*self.nn.modules(), self.lin):
            if callable(reset := getattr(part, "reset_parameters", None)):
                reset()
        torch.nn.init.constant_(self.eps, self.initial_eps)

    def forward(
        self, x: torch.Tensor | tuple[torch.Tensor, torch.Tensor], edge_index: torch.Tensor | Neighbors,
        edge_attr: torch.Tensor | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """(F, ·), what `nn` gives.

        Args:
            x: rows (M, D), or a pair: those of neighbors (M, D) and of the nodes (F, D).
            edge_index: int64 (2, S), from row to node; or `Neighbors`, of F nodes.
            edge_attr: (S, edge_dim), without an edge_dim (S, D), of the type of x: features of the edges.

        Raises:
            InputError: as of `aggregate`; x has other columns than nn takes; features of the edges are missing, or of
                another shape.
        """
        source, own = x if isinstance(x, tuple) else (x, x)
        neighbors, edge_SK = _by_target(source, len(own), edge_index, edge_attr, self.edge_dim)
        edge_SD = edge_SK if self.lin is None else self.lin(edge_SK)
        if edge_SD.shape[1] != source.shape[1]:
            raise InputError(f"x must have {edge_SD.shape[1]:,} columns, as many as nn takes, got {source.shape[1]:,}.")
        found: torch.Tensor = self.nn(edge_relu_sum(source, edge_SD, neighbors) + (1 + self.eps) * own)
        return found


def edge_relu_sum(x_MD: torch.Tensor, edge_SD: torch.Tensor, neighbors: Neighbors) -> torch.Tensor:
    """For each node the sum of max(0, x + edge) over its in-edges, times the edges' weights where they have some,
    (F, D)."""
    weight_S = np.empty(0) if neighbors.weight_S is None else neighbors.weight_S
    found: torch.Tensor = _EdgeSum.apply(x_MD, edge_SD, neighbors, weight_S)
    return found


class _EdgeSum(torch.autograd.Function):
    """Backward knows which sums were above 0, not the rows: those may be changed in place, as behind PyG's layer."""

    @staticmethod
    def forward(
        ctx: Any, x_MD: torch.Tensor, edge_SD: torch.Tensor, neighbors: Neighbors, weight_S: np.ndarray
    ) -> torch.Tensor:
        from any2vec.kernels.graph.aggregate import sum_edge_rows

        x, edge = (rows.detach().contiguous().numpy() for rows in (x_MD, edge_SD))
        stop_F1, neighbor_S, weight_S = *neighbors[:2], weight_S.astype(x.dtype, copy=False)
        out = x_MD.new_empty(len(stop_F1) - 1, x.shape[1])
        out_FD, is_open_SD = out.numpy(), np.empty((len(edge) if any(ctx.needs_input_grad) else 0, x.shape[1]), bool)

        def work(first: int, stop: int) -> None:
            sum_edge_rows(stop_F1[first : stop + 1], neighbor_S, weight_S, x, edge, out_FD[first:stop], is_open_SD)

        over_nodes(work, stop_F1, x.shape[1])
        ctx.known, ctx.size = (stop_F1, neighbor_S, weight_S, is_open_SD), x.shape
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        from any2vec.kernels.graph.aggregate import gate_edge_rows, spread_edge_rows

        stop_F1, neighbor_S, weight_S, is_open_SD = ctx.known
        grad_FD, by_edge = grad.contiguous().numpy(), grad.new_empty(is_open_SD.shape)
        grad_SD = by_edge.numpy()

        def gate(first: int, stop: int) -> None:
            gate_edge_rows(stop_F1[first : stop + 1], weight_S, is_open_SD, grad_FD[first:stop], grad_SD)

        over_nodes(gate, stop_F1, grad_SD.shape[1])
        if not ctx.needs_input_grad[0]:
            return None, by_edge, None, None
        by_row = grad.new_zeros(ctx.size)
        grad_MD = by_row.numpy()
        in_parts(
            lambda part, parts: spread_edge_rows(neighbor_S, grad_SD, part, parts, grad_MD), threads_for(grad_SD.size)
        )
        return by_row, by_edge, None, None


def _columns_in(nn: torch.nn.Module) -> int:
    """Of the rows that a module takes, as PyG finds them. InputError: it does not say."""
    first = nn[0] if isinstance(nn, torch.nn.Sequential) else nn
    found = getattr(first, "in_features", getattr(first, "in_channels", None))
    if not isinstance(found, int):
        raise InputError("With edge_dim the first part of nn must have in_features or in_channels, as Linear has.")
    return found


def _by_target(
    source: torch.Tensor, num_nodes: int, edge_index: torch.Tensor | Neighbors, edge_attr: torch.Tensor | None,
    edge_dim: int | None,
) -> tuple[Neighbors, torch.Tensor]:  # fmt: skip
    """The edges by target, and their features, (S, K), in this order. InputError where they do not fit."""
    if not isinstance(edge_index, Neighbors):
        check_tensors(source, edge_index)
    columns = source.shape[1] if edge_dim is None else edge_dim
    if not isinstance(edge_attr, torch.Tensor):
        what = "is missing" if edge_attr is None else f"is {type(edge_attr).__name__}"
        raise InputError(f"GINEConv takes features of edges, a torch tensor (edges, {columns}); edge_attr {what}.")
    size = len(edge_index.neighbor_S) if isinstance(edge_index, Neighbors) else edge_index.shape[1]
    if tuple(edge_attr.shape) != (size, columns) or edge_attr.dtype != source.dtype:
        raise InputError(
            f"edge_attr must be {source.dtype} ({size:,}, {columns}), a row an edge, got {edge_attr.dtype} "
            f"{tuple(edge_attr.shape)}."
        )
    if isinstance(edge_index, Neighbors):
        return edge_index, edge_attr
    if (edge_index[1, 1:] < edge_index[1, :-1]).any():
        order = edge_index[1].argsort(stable=True)
        edge_index, edge_attr = edge_index[:, order], edge_attr.index_select(0, order)
    return neighbors_of(edge_index, len(source), num_nodes), edge_attr
