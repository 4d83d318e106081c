"""The graph isomorphism convolution (Xu et al. 2019, equation 4.1): with PyG's parameters, PyG's numbers."""

from __future__ import annotations

import torch

from any2vec.checks import check_number
from any2vec.errors import InputError
from any2vec.nn.aggregate import Neighbors, aggregate


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
