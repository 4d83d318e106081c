"""Modules of PyG's layers, of every shape that inference cuts, and some that it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as PyG writes it
import torch_geometric.nn as pyg
from torch import nn


class Residual(nn.Module):
    """An MLP before, rows added to what layers give, batch normalization, dropout and ReLU in place, an MLP behind."""

    def __init__(self, in_channels: int, out_channels: int, hidden: int = 16) -> None:
        super().__init__()
        self.before = nn.Linear(in_channels, hidden)
        self.convs = nn.ModuleList([pyg.SAGEConv(hidden, hidden) for _ in range(3)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(hidden) for _ in range(3)])
        self.behind = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, out_channels))

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        x = self.before(x).relu_()
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + F.dropout(F.relu(norm(conv(x, edge_index)), inplace=True), p=0.5, training=self.training)
        found: torch.Tensor = self.behind(x)
        return found


class Sometimes(nn.Module):
    """A layer that about half of the batches leave out, so that its weights take fewer steps."""

    def __init__(self, in_channels: int, out_channels: int, hidden: int = 16) -> None:
        super().__init__()
        self.before, self.behind = pyg.SAGEConv(in_channels, hidden), pyg.SAGEConv(hidden, out_channels)
        self.between = nn.Linear(hidden, hidden)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        x = self.before(x, edge_index).relu()
        if not self.training or torch.rand(()) < 0.5:
            x = x + self.between(x).relu()
        found: torch.Tensor = self.behind(x, edge_index)
        return found


class Salted(nn.Module):
    """Buffers that float32 does not hold: their differences from what it holds are 1."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = pyg.SAGEConv(in_channels, out_channels)
        self.register_buffer("salt", torch.tensor([16777217]))
        self.register_buffer("fine", torch.tensor([16777217.0], dtype=torch.float64))

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.conv(x, edge_index).double() + self.salt + self.fine - 2 * 16777216
        return found.float()


class Parallel(nn.Module):
    """Two convolutions of the same rows side by side, and features that go past both layers."""

    def __init__(self, in_channels: int, out_channels: int, hidden: int = 16) -> None:
        super().__init__()
        self.one, self.other = pyg.GCNConv(in_channels, hidden), pyg.GATConv(in_channels, hidden // 4, heads=4)
        self.last, self.skip = pyg.SAGEConv(2 * hidden, out_channels, aggr="max"), nn.Linear(in_channels, out_channels)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        both = torch.cat([self.one(x, edge_index), self.other(x, edge_index)], dim=-1).relu()
        found: torch.Tensor = self.last(both, edge_index) + self.skip(x)
        return found


class Heads(nn.Module):
    """Rows with two dimensions between layers, sizes of tensors, a parameter of its own."""

    def __init__(self, in_channels: int, out_channels: int, hidden: int = 16) -> None:
        super().__init__()
        self.first, self.last = pyg.GATv2Conv(in_channels, hidden // 4, heads=4), pyg.SAGEConv(hidden, out_channels)
        self.weight = nn.Parameter(torch.linspace(0, 1, 4))

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        num = x.size(0)
        heads = self.first(x, edge_index).view(num, 4, -1) * self.weight.softmax(0)[:, None]
        found: torch.Tensor = self.last(heads.reshape(num, -1), edge_index)
        return found


class Skips(nn.Module):
    """A matrix of the node's own rows beside each convolution, as in the GAT of PyG's example of PPI."""

    def __init__(self, in_channels: int, out_channels: int, hidden: int = 16) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            [pyg.GATConv(in_channels, hidden // 4, 4), pyg.GATConv(hidden, out_channels, 2, concat=False)]
        )
        self.skips = nn.ModuleList([nn.Linear(in_channels, hidden), nn.Linear(hidden, out_channels)])

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        x = F.elu(self.convs[0](x, edge_index) + self.skips[0](x))
        found: torch.Tensor = self.convs[1](x, edge_index) + self.skips[1](x)
        return found


class InitialResidual(nn.Module):
    """Layers that take the first rows, too (GCNII), and norm by the degrees of the whole graph."""

    def __init__(self, in_channels: int, out_channels: int, hidden: int = 16) -> None:
        super().__init__()
        self.before, self.behind = nn.Linear(in_channels, hidden), nn.Linear(hidden, out_channels)
        self.convs = nn.ModuleList([pyg.GCN2Conv(hidden, 0.1, 0.5, layer + 1) for layer in range(3)])

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        x = first = self.before(x).relu()
        for conv in self.convs:
            x = conv(x, first, edge_index).relu()
        found: torch.Tensor = self.behind(x)
        return found


class OfEdges(nn.Module):
    """Features of edges through an MLP of their own, into the messages of two layers."""

    def __init__(self, in_channels: int, out_channels: int, hidden: int = 16, edge_dim: int = 2) -> None:
        super().__init__()
        self.of_edges = nn.Sequential(nn.Linear(edge_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
        self.before, self.behind = nn.Linear(in_channels, hidden), nn.Linear(hidden, out_channels)
        self.convs = nn.ModuleList(
            [pyg.GINEConv(nn.Linear(hidden, hidden)), pyg.TransformerConv(hidden, hidden, edge_dim=hidden)]
        )

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_attr: torch.Tensor) -> torch.Tensor:
        x, of_edges = self.before(x).relu(), self.of_edges(edge_attr)
        x = self.convs[0](x, edge_index, of_edges).relu()
        x = self.convs[1](x, edge_index, edge_attr=2 * of_edges).relu()
        found: torch.Tensor = self.behind(x)
        return found


class OfEdgesAlone(nn.Module):
    """Layers that take features of edges as they are, behind each other."""

    def __init__(self, in_channels: int, out_channels: int, hidden: int = 16, edge_dim: int = 2) -> None:
        super().__init__()
        one, other = nn.Sequential(nn.Linear(in_channels, hidden), nn.ReLU()), nn.Linear(hidden, out_channels)
        self.convs = nn.ModuleList([pyg.GINEConv(part, edge_dim=edge_dim) for part in (one, other)])

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_attr: torch.Tensor | None = None) -> torch.Tensor:
        for conv in self.convs:
            x = conv(x, edge_index, edge_attr)
        return x


class InPlace(nn.Module):
    """Changes what it is given; cut where it can be, unless it is told to draw."""

    def __init__(self, in_channels: int, out_channels: int, edge_dim: int = 2, is_traced: bool = True) -> None:
        super().__init__()
        self.convs = nn.ModuleList([pyg.GINEConv(nn.Linear(in_channels, out_channels), edge_dim=edge_dim)])
        self.is_traced = is_traced

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_attr: torch.Tensor) -> torch.Tensor:
        if not self.is_traced and float(x.detach().abs().max()) > 1e6:
            x = x / 1e6
        x.mul_(2).add_(0.1)
        edge_attr.mul_(2).add_(1)
        found: torch.Tensor = self.convs[0](x, edge_index, edge_attr)
        return found


class Networked(nn.Module):
    """A layer whose own network makes a matrix of each edge."""

    def __init__(self, in_channels: int, out_channels: int, edge_dim: int = 2, hidden: int = 16) -> None:
        super().__init__()
        self.convs = nn.ModuleList([pyg.NNConv(in_channels, hidden, nn.Linear(edge_dim, in_channels * hidden))])
        self.behind = nn.Linear(hidden, out_channels)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_attr: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.behind(self.convs[0](x, edge_index, edge_attr).relu())
        return found


class ByEdgeWeight(nn.Module):
    """A convolution that takes a column of them for weights."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = pyg.GCNConv(in_channels, out_channels)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_attr: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.conv(x, edge_index, edge_attr[:, 0].sigmoid())
        return found


class GatedByEdges(nn.Module):
    """Messages by hand of rows and features of edges together."""

    def __init__(self, in_channels: int, out_channels: int, edge_dim: int = 2) -> None:
        super().__init__()
        self.gate, self.out = nn.Linear(edge_dim, in_channels), nn.Linear(2 * in_channels, out_channels)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_attr: torch.Tensor) -> torch.Tensor:
        given = x[edge_index[0]] * self.gate(edge_attr).sigmoid()
        found: torch.Tensor = self.out(torch.cat([x, torch.zeros_like(x).index_add(0, edge_index[1], given)], dim=1))
        return found


class ControlFlow(nn.Module):
    """What torch.fx cannot trace."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv, self.out = pyg.SAGEConv(in_channels, 8), nn.Linear(8, out_channels)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        if float(x.detach().abs().max()) > 1e6:
            x = x / 1e6
        found: torch.Tensor = self.out(self.conv(x, edge_index).relu())
        return found


class ByHand(nn.Module):
    """Messages without a layer."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.out = nn.Linear(in_channels, out_channels)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        x = self.out(x)
        return x.index_add(0, edge_index[1], x[edge_index[0]])


class WrongShape(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = pyg.SAGEConv(in_channels, out_channels + 1)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> Any:
        return self.conv(x, edge_index)


class OnlyRows(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.out = nn.Linear(in_channels, out_channels)

    def forward(self, x: torch.Tensor) -> Any:
        return self.out(x)


class NotANumber(WrongShape):
    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> Any:
        return self.conv(x, edge_index)[:, 1:] * float("nan")


class NoModule:
    def __init__(self, in_channels: int, out_channels: int) -> None:
        pass


def stack(kind: str, **options: Any) -> Callable[..., nn.Module]:
    """One of PyG's models."""

    def made(in_channels: int, out_channels: int, hidden: int = 16) -> nn.Module:
        found: nn.Module = getattr(pyg, kind)(in_channels, hidden, 3, out_channels, **options)
        return found

    return made


ZOO: dict[str, Callable[..., nn.Module]] = {
    "stack-sage": stack("GraphSAGE", dropout=0.5),
    "stack-gcn-norm": stack("GCN", norm="batch_norm"),
    "stack-gat": stack("GAT", heads=4),
    "stack-gin": stack("GIN"),
    "stack-edge-cnn": stack("EdgeCNN"),
    "jumping-cat": stack("GraphSAGE", jk="cat"),
    "jumping-max": stack("GCN", jk="max"),
    "jumping-lstm": stack("GIN", jk="lstm"),
    "residual": Residual,
    "parallel": Parallel,
    "heads": Heads,
    "skips": Skips,
    "initial-residual": InitialResidual,
}


HEEDING: dict[str, Callable[..., nn.Module]] = {
    "gat": stack("GAT", heads=2, edge_dim=2),
    "gatv2": stack("GAT", heads=2, edge_dim=2, v2=True, jk="cat"),
    "of-edges": OfEdges,
    "gine": OfEdgesAlone,
    "in-place": InPlace,
    "networked": Networked,
}
"""those that take features of edges, two columns"""
