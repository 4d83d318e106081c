"""Rows that go past layers: a node's own to what a layer gives, and what each layer gives to the end of the network.

Layers take rows and give rows, so what is wanted later is carried along with them: inference, which computes one layer
after the other, needs to know of nothing else.

Legend: M nodes that have rows, F of them, the first ones, that the layer answers for, D columns, L layers, H of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import nn

from any2vec.nn.dropout import dropout
from any2vec.nn.sparse.rows import SparseRows

if TYPE_CHECKING:
    from any2vec.models.networks.config.base import LayeredNetwork
    from any2vec.models.networks.network import Block

_PIECE = 8192
"""rows at a time whose layers are read by an LSTM where nothing is learned"""


class Residual(nn.Module):
    """A layer, and the node's own row times a matrix added to what it gives, as `residual` of PyG's `GATConv`."""

    def __init__(self, layer: nn.Module, size_in: int, size_out: int) -> None:
        super().__init__()
        self.layer, self.own = layer, nn.Linear(size_in, size_out, bias=False)
        nn.init.xavier_uniform_(self.own.weight)
        self.edge_columns, self.multiplies_first = getattr(layer, "edge_columns", 0), multiplies_first(layer)

    def forward(self, x_MD: torch.Tensor, block: Block, draws: torch.Generator | None = None) -> torch.Tensor:
        found: torch.Tensor = self.layer(x_MD, block, draws) + self.own(x_MD[: block.num_targets])
        return found


class Jumping(nn.Module):
    """One of the layers below jumping knowledge (Xu et al. 2018; `torch_geometric.nn.JumpingKnowledge`).

    Its rows end with what the layer before gives; before that stand what those before it give (cat, lstm), or the
    largest of all by column (max). The last one gives what they come to.
    """

    def __init__(self, layer: nn.Module, model: LayeredNetwork, number: int, activation: Callable[..., torch.Tensor]):
        super().__init__()
        self.layer, self.activation, self.mode = layer, activation, model.jumping_knowledge
        self.number, self.hidden, self.dropout = number, model.hidden, model.dropout
        self.is_last = number == model.num_layers - 1
        self.edge_columns, self.multiplies_first = getattr(layer, "edge_columns", 0), multiplies_first(layer)
        if self.is_last and self.mode == "lstm":
            size = model.num_layers * model.hidden // 2
            self.lstm = nn.LSTM(model.hidden, size, bidirectional=True, batch_first=True)
            self.attention = nn.Linear(2 * size, 1)

    def forward(self, x_MD: torch.Tensor, block: Block, draws: torch.Generator | None = None) -> torch.Tensor:
        before_FD = x_MD[: block.num_targets]
        given_MD = x_MD[:, -self.hidden :] if self.number else x_MD
        own_FH = self.activation(self.layer(dropped(given_MD, self.dropout, draws), block, draws))
        if self.number == 0:
            return own_FH
        if self.mode == "max":
            largest_FH = torch.maximum(before_FD[:, : self.hidden], own_FH)
            return largest_FH if self.is_last else torch.cat([largest_FH, own_FH], dim=1)
        all_FD = torch.cat([before_FD, own_FH], dim=1)
        if self.mode == "cat" or not self.is_last:
            return all_FD
        pieces = [all_FD] if draws is not None else all_FD.split(_PIECE)
        return torch.cat([self._attended(piece) for piece in pieces])

    def _attended(self, all_FD: torch.Tensor) -> torch.Tensor:
        """The mean of the layers' rows, (F, H), by how much the LSTM heeds each."""
        layer_FLH = all_FD.view(len(all_FD), -1, self.hidden)
        share_FL1 = self.attention(self.lstm(layer_FLH)[0]).softmax(dim=1)
        return (layer_FLH * share_FL1).sum(dim=1)


def multiplies_first(layer: nn.Module) -> bool:
    """Whether rows go through matrices before all else in a layer, by its own word."""
    return bool(getattr(layer, "multiplies_first", False))


def dropped(x: torch.Tensor, share: float, draws: torch.Generator | None, inplace: bool = False) -> torch.Tensor:
    """As `dropout`, of `SparseRows`, too; without draws, which is no training, and of numbers of nodes x itself."""
    if draws is not None and isinstance(x, SparseRows):
        return x.dropped(share, draws)
    return x if draws is None or not x.is_floating_point() else dropout(x, share, draws, inplace)
