"""The graph convolution (Kipf and Welling 2017, equation 2): with PyG's parameters, PyG's numbers."""

from __future__ import annotations

import numpy as np
import torch

from any2vec.checks import check_whole
from any2vec.errors import InputError
from any2vec.nn.aggregate import Neighbors, check_range, check_tensors, neighbors_of, weighted_sum
from any2vec.nn.convolve import convolve


class GCNConv(torch.nn.Module):
    """out_i = bias + the sum of W x_j / sqrt(d_i d_j) over the in-neighbors j of i and i itself; d: how many these are.

    A self-loop of the graph stands for the one that is added. Parameters are named as in `torch_geometric.nn.GCNConv`,
    and start as they do there (Glorot and Bengio 2010; 0): `state_dict` goes from one to the other.

    Args:
        in_channels, out_channels: columns, 1 or more. bias: with a bias.

    Raises:
        InputError: an option is not legal.
    """

    def __init__(self, in_channels: int, out_channels: int, bias: bool = True) -> None:
        super().__init__()
        for name, size in (("in_channels", in_channels), ("out_channels", out_channels)):
            check_whole(name, size, 1, 1 << 20)
        self.lin = torch.nn.Linear(in_channels, out_channels, bias=False)
        self.bias = torch.nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        torch.nn.init.xavier_uniform_(self.lin.weight)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def forward(
        self, x: torch.Tensor, edge_index: torch.Tensor, edge_weight: torch.Tensor | None = None
    ) -> torch.Tensor:  # fmt: skip
        """(M, out_channels).

        Args:
            x: rows (M, in_channels). edge_index: int64 (2, S), from row to row.
            edge_weight: (S,), of the type of x: how many edges each one counts as, in degrees, too; an added self-loop
                counts as one. With its gradient.

        Raises:
            InputError: as of `aggregate`; edge_weight is of another kind.
        """
        check_tensors(x, edge_index)
        check_range(edge_index, len(x), len(x))
        if edge_weight is not None:
            return self._weighted(x, edge_index, edge_weight)
        is_narrow = self.lin.weight.shape[0] < self.lin.weight.shape[1]
        found = self.lin(x) if is_narrow else x
        neighbors = neighbors_of(edge_index[:, edge_index[0] != edge_index[1]], len(x), len(x))
        found = convolve(found, neighbors, torch.from_numpy(np.diff(neighbors.stop_F1))[:, None])
        found = found if is_narrow else self.lin(found)
        return found if self.bias is None else found + self.bias

    def _weighted(self, x: torch.Tensor, edge_index: torch.Tensor, edge_weight: torch.Tensor) -> torch.Tensor:
        is_tensor, kind = isinstance(edge_weight, torch.Tensor), type(edge_weight).__name__
        if not is_tensor or edge_weight.shape != edge_index.shape[1:] or edge_weight.dtype != x.dtype:
            got = f"{edge_weight.dtype} {tuple(edge_weight.shape)}" if is_tensor else kind
            raise InputError(f"edge_weight must be {x.dtype} ({edge_index.shape[1]},), got {got}.")
        neighbors, norm_S = _normalized(edge_index, edge_weight, len(x))
        is_narrow = self.lin.weight.shape[0] < self.lin.weight.shape[1]
        found = weighted_sum(self.lin(x) if is_narrow else x, neighbors, norm_S[:, None])
        found = found if is_narrow else self.lin(found)
        return found if self.bias is None else found + self.bias


def _normalized(edge_index: torch.Tensor, edge_weight: torch.Tensor, num: int) -> tuple[Neighbors, torch.Tensor]:
    """(edges by target, the last of each node's a self-loop; their weights over the roots of both degrees)."""
    is_loop, each = edge_index[0] == edge_index[1], torch.arange(num)
    last_N = torch.full((num,), -1).scatter_reduce(0, edge_index[0, is_loop], is_loop.nonzero()[:, 0], "amax")
    loop_N = torch.where(last_N < 0, edge_weight.new_ones(num), edge_weight[last_N])
    src, dst = torch.cat([edge_index[:, ~is_loop], torch.stack([each, each])], dim=1)
    dst, order = dst.sort(stable=True)
    src, weight_S = src[order], torch.cat([edge_weight[~is_loop], loop_N])[order]
    root_N = edge_weight.new_zeros(num).index_add(0, dst, weight_S).rsqrt()
    root_N = root_N.masked_fill(root_N == float("inf"), 0)
    stop_F1 = np.searchsorted(dst.numpy(), np.arange(num + 1))
    return Neighbors(stop_F1, np.ascontiguousarray(src.numpy())), root_N[src] * weight_S * root_N[dst]
