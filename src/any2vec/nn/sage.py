"""GraphSAGE's convolution (Hamilton, Ying, Leskovec 2017, algorithm 1): with PyG's parameters, PyG's numbers."""

from __future__ import annotations

import torch

from any2vec.checks import check_choice, check_whole
from any2vec.nn.aggregate import REDUCTIONS, Neighbors, aggregate


class SAGEConv(torch.nn.Module):
    """out = lin_l(mean, sum or maximum of the in-neighbors' rows) + lin_r(the node's own row).

    Parameters are named as in `torch_geometric.nn.SAGEConv`: `state_dict` goes from one to the other. Where rows get
    narrower, they are multiplied first and added up then, which is the same but for rounding.

    Args:
        in_channels, out_channels: columns, 1 or more; a pair: of neighbors' rows and of the node's own.
        aggr: mean, sum or max.
        normalize: give rows of length 1.
        root_weight: with the node's own row. bias: with a bias.
        project: neighbors' rows go through a layer with ReLU first: with max the pooling of equation 3.

    Raises:
        InputError: an option is not legal.
    """

    def __init__(
        self, in_channels: int | tuple[int, int], out_channels: int, aggr: str = "mean", normalize: bool = False,
        root_weight: bool = True, project: bool = False, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        neighbors, own = in_channels if isinstance(in_channels, tuple) else (in_channels, in_channels)
        for name, size in (("in_channels", neighbors), ("in_channels", own), ("out_channels", out_channels)):
            check_whole(name, size, 1, 1 << 20)
        check_choice("aggr", aggr, REDUCTIONS)
        self.aggr, self.normalize = aggr, normalize
        self.lin = torch.nn.Linear(neighbors, neighbors) if project else None
        self.lin_l = torch.nn.Linear(neighbors, out_channels, bias=bias)
        self.lin_r = torch.nn.Linear(own, out_channels, bias=False) if root_weight else None

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for part in (self.lin, self.lin_l, self.lin_r):
            if part is not None:
                part.reset_parameters()

    def forward(
        self, x: torch.Tensor | tuple[torch.Tensor, torch.Tensor], edge_index: torch.Tensor | Neighbors
    ) -> torch.Tensor:
        """(F, out_channels). x: rows (M, in_channels), or a pair: those of neighbors (M, ·) and of the nodes (F, ·).

        Raises:
            InputError: as of `aggregate`.
        """
        source, own = x if isinstance(x, tuple) else (x, x)
        source = source if self.lin is None else self.lin(source).relu()
        weight, bias = self.lin_l.weight, self.lin_l.bias
        if weight.shape[0] < weight.shape[1] and self.aggr != "max":
            out = aggregate(torch.nn.functional.linear(source, weight), edge_index, len(own), self.aggr)
            out = out if bias is None else out + bias
        else:
            out = self.lin_l(aggregate(source, edge_index, len(own), self.aggr))
        if self.lin_r is not None:
            matrix = self.lin_r.weight.T
            out = torch.addmm(out, own, matrix) if torch.is_grad_enabled() else out.addmm_(own, matrix)
        return torch.nn.functional.normalize(out, dim=-1) if self.normalize else out
