"""The graph convolution (Kipf and Welling 2017, equation 2): with PyG's parameters, PyG's numbers."""

from __future__ import annotations

import numpy as np
import torch

from any2vec.checks import check_whole
from any2vec.nn.aggregate import check_range, check_tensors, neighbors_of
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

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """(M, out_channels). x: rows (M, in_channels); edge_index: int64 (2, S), from row to row.

        Raises:
            InputError: as of `aggregate`.
        """
        check_tensors(x, edge_index)
        check_range(edge_index, len(x), len(x))
        is_narrow = self.lin.weight.shape[0] < self.lin.weight.shape[1]
        found = self.lin(x) if is_narrow else x
        neighbors = neighbors_of(edge_index[:, edge_index[0] != edge_index[1]], len(x), len(x))
        found = convolve(found, neighbors, torch.from_numpy(np.diff(neighbors.stop_F1))[:, None])
        found = found if is_narrow else self.lin(found)
        return found if self.bias is None else found + self.bias
