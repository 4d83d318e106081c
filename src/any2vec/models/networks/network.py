"""The networks as PyTorch modules, over the edges of a batch or of a whole graph.

Legend: M nodes that have rows, F of them, the first ones, that the layer answers for, S edges, D columns.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from any2vec.models.networks.config import GCN, GraphNetwork
from any2vec.nn.aggregate import Neighbors, aggregate
from any2vec.nn.sage import SAGEConv
from any2vec.sampling.neighbors import Neighborhood
from any2vec.types import Csr, State


class Block(NamedTuple):
    """What a layer passes messages along."""

    neighbors: Neighbors
    """of F nodes"""
    degree_M1: torch.Tensor
    """float32 (M, 1): in-neighbors in the graph, sampled or not"""

    @property
    def num_targets(self) -> int:
        """F"""
        return len(self.neighbors.stop_F1) - 1


class SageLayer(nn.Module):
    """GraphSAGE's convolution, of means."""

    def __init__(self, size_in: int, size_out: int) -> None:
        super().__init__()
        self.conv = SAGEConv(size_in, size_out)

    def forward(self, x_MD: torch.Tensor, block: Block) -> torch.Tensor:
        found: torch.Tensor = self.conv((x_MD, x_MD[: block.num_targets]), block.neighbors)
        return found


class GcnLayer(nn.Module):
    """sum over the node and its neighbors of x / sqrt((degree + 1) (degree' + 1)), then the weights.

    The sum over a sample counts for all neighbors: its mean, times their number.
    """

    def __init__(self, size_in: int, size_out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size_in, size_out)
        nn.init.xavier_uniform_(self.linear.weight)  # as Kipf and Welling start (Glorot and Bengio 2010)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x_MD: torch.Tensor, block: Block) -> torch.Tensor:
        num, degree_M1 = block.num_targets, block.degree_M1[: len(x_MD)]
        is_narrow = self.linear.out_features < self.linear.in_features
        x_MD = nn.functional.linear(x_MD, self.linear.weight) if is_narrow else x_MD
        x_MD = x_MD * (degree_M1 + 1).rsqrt()
        found = (aggregate(x_MD, block.neighbors) * degree_M1[:num] + x_MD[:num]) * (degree_M1[:num] + 1).rsqrt()
        return found + self.linear.bias if is_narrow else self.linear(found)


class Network(nn.Module):
    """Layers with ReLU between them; dropout before each in training."""

    def __init__(self, model: GraphNetwork, num_features: int, num_classes: int) -> None:
        super().__init__()
        kind = GcnLayer if model.name == GCN.name else SageLayer
        sizes = [num_features, *[model.hidden] * (model.num_layers - 1), num_classes]
        self.layers = nn.ModuleList(kind(size_in, size_out) for size_in, size_out in pairwise(sizes))
        self.dropout = model.dropout

    def forward(self, x_MD: torch.Tensor, blocks: list[Block], draws: torch.Generator) -> torch.Tensor:
        """Scores of classes, float32 (seeds, C), in training; draws: for dropout."""
        for number, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            x_MD = x_MD.relu() if number else x_MD
            x_MD = layer(_dropped(x_MD, self.dropout, draws), block)
        return x_MD

    def hidden_and_scores(self, x_ND: torch.Tensor, block: Block) -> tuple[torch.Tensor, torch.Tensor]:
        """(what the last hidden layer gives (N, hidden), scores of classes (N, C)) of all nodes of a graph."""
        with torch.no_grad():
            for layer in self.layers[:-1]:
                x_ND = layer(x_ND, block).relu()
            return x_ND, self.layers[-1](x_ND, block)


def network_of(model: GraphNetwork, num_features: int, num_classes: int, weights: State) -> Network:
    """A network with these weights, by name, and not copies of them; nothing is drawn.

    Raises:
        ValueError: they are another network's.
    """
    with torch.device("meta"):
        network = Network(model, num_features, num_classes)
    load_weights(network, weights, assign=True)
    return network


def load_weights(network: Network, weights: State, assign: bool = False) -> None:
    """Take weights over, copied or, with `assign`, as they are. ValueError where they are another network's."""
    try:
        network.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()}, assign=assign)
    except RuntimeError as error:
        raise ValueError(str(error)) from error


def _dropped(x: torch.Tensor, share: float, draws: torch.Generator) -> torch.Tensor:
    """As `torch.nn.functional.dropout`, which takes no generator of its own."""
    if share == 0:
        return x
    kept = torch.empty_like(x, requires_grad=False).bernoulli_(1 - share, generator=draws)
    return x * kept.div_(1 - share)


def blocks_of(found: Neighborhood, degree_N: np.ndarray) -> list[Block]:
    """What each layer of a batch passes messages along, the first one first; degree_N: in-neighbors, float32.

    A layer answers for the nodes that later ones ask: the first one for all but those of the last hop.
    """
    degree_M1 = torch.from_numpy(degree_N[found.node_M][:, None])
    blocks = []
    for hops in range(len(found.edges_by_hop), 0, -1):
        num = sum(found.nodes_by_hop[:hops])
        stop_F1 = found.stop_D1[: num + 1]
        blocks.append(Block(Neighbors(stop_F1, found.neighbor_S[: stop_F1[-1]]), degree_M1))
    return blocks


def block_of(csr: Csr) -> Block:
    """What every layer passes messages along over a whole graph."""
    degree_N1 = torch.from_numpy(np.diff(csr.indptr).astype(np.float32)[:, None])
    return Block(Neighbors(csr.indptr, csr.indices), degree_N1)
