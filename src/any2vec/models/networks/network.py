"""The networks as PyTorch modules, over the edges of a batch or of a whole graph.

Legend: M nodes that have rows, F of them, the first ones, that the layer answers for, S edges, D columns.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from any2vec.models.networks.config import GAT, GCN, GIN, AttentionNetwork, GraphNetwork
from any2vec.nn.aggregate import Neighbors, aggregate
from any2vec.nn.gat import GATConv, GATv2Conv
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

    def forward(self, x_MD: torch.Tensor, block: Block, draws: torch.Generator | None = None) -> torch.Tensor:
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

    def forward(self, x_MD: torch.Tensor, block: Block, draws: torch.Generator | None = None) -> torch.Tensor:
        num, degree_M1 = block.num_targets, block.degree_M1[: len(x_MD)]
        is_narrow = self.linear.out_features < self.linear.in_features
        x_MD = nn.functional.linear(x_MD, self.linear.weight) if is_narrow else x_MD
        x_MD = x_MD * (degree_M1 + 1).rsqrt()
        found = (aggregate(x_MD, block.neighbors) * degree_M1[:num] + x_MD[:num]) * (degree_M1[:num] + 1).rsqrt()
        return found + self.linear.bias if is_narrow else self.linear(found)


class AttentionLayer(nn.Module):
    """Attention, of GAT or GATv2. A sampled neighbor stands for as many of the node's as it is one of, so that the
    softmax over a sample estimates that over all; the node itself stands for one.
    """

    def __init__(self, model: AttentionNetwork, size_in: int, size_out: int, is_last: bool) -> None:
        super().__init__()
        kind, heads = GATConv if model.name == GAT.name else GATv2Conv, model.output_heads if is_last else model.heads
        columns = size_out if is_last else size_out // heads
        self.conv = kind(size_in, columns, heads, concat=not is_last, dropout=model.dropout)
        self.edge_columns = heads + 1
        """numbers that it holds for each edge where nothing is learned: its weights, by head, and where it leads"""

    def forward(self, x_MD: torch.Tensor, block: Block, draws: torch.Generator | None = None) -> torch.Tensor:
        self.conv.train(draws is not None)
        found: torch.Tensor = self.conv(x_MD, block.neighbors, block.degree_M1, draws)
        return found


class GinLayer(nn.Module):
    """An MLP of (1 + eps) x and the sum of the neighbors' rows, that of a sample being its mean times their number.

    Its hidden rows are normalized over the batch (Ioffe and Szegedy 2015), as Xu et al. do: sums grow with the degree.
    """

    mean: torch.Tensor
    variance: torch.Tensor

    def __init__(self, model: GIN, size_in: int, size_out: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(size_in, model.hidden, bias=False), nn.Linear(model.hidden, size_out)
        self.scale, self.shift = nn.Parameter(torch.ones(model.hidden)), nn.Parameter(torch.zeros(model.hidden))
        self.eps = nn.Parameter(torch.zeros(1)) if model.train_eps else None
        self.register_buffer("mean", torch.zeros(model.hidden))
        self.register_buffer("variance", torch.ones(model.hidden))

    def forward(self, x_MD: torch.Tensor, block: Block, draws: torch.Generator | None = None) -> torch.Tensor:
        num, own = block.num_targets, 1 if self.eps is None else 1 + self.eps
        is_narrow = self.first.out_features < self.first.in_features
        x_MD = self.first(x_MD) if is_narrow else x_MD
        total = aggregate(x_MD, block.neighbors) * block.degree_M1[:num] + own * x_MD[:num]
        total = total if is_narrow else self.first(total)
        is_batch = draws is not None and num > 1  # of one row there is no variance
        total = nn.functional.batch_norm(total, self.mean, self.variance, self.scale, self.shift, is_batch)
        found: torch.Tensor = self.last(total.relu())
        return found


class Network(nn.Module):
    """Layers with ReLU between them, ELU where they attend (Veličković et al. 2018); in training dropout before all."""

    def __init__(self, model: GraphNetwork, num_features: int, num_classes: int) -> None:
        super().__init__()
        sizes = [num_features, *[model.hidden] * (model.num_layers - 1), num_classes]
        self.layers = nn.ModuleList(
            _layer(model, *pair, number == model.num_layers) for number, pair in enumerate(pairwise(sizes), 1)
        )
        self.activation = nn.functional.elu if isinstance(model, AttentionNetwork) else torch.relu
        self.dropout = model.dropout

    def forward(self, x_MD: torch.Tensor, blocks: list[Block], draws: torch.Generator | None = None) -> torch.Tensor:
        """Scores of classes, float32 (seeds, C), in training; draws: for dropout; None: it is no training."""
        for number, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            x_MD = self.activation(x_MD) if number else x_MD
            x_MD = layer(_dropped(x_MD, self.dropout, draws), block, draws)
        return x_MD

    def hidden_and_scores(self, x_ND: torch.Tensor, block: Block) -> tuple[torch.Tensor, torch.Tensor]:
        """(what the last hidden layer gives (N, hidden), scores of classes (N, C)) of all nodes of a graph."""
        with torch.no_grad():
            for layer in self.layers[:-1]:
                x_ND = self.activation(layer(x_ND, block))
            return x_ND, self.layers[-1](x_ND, block)


def _layer(model: GraphNetwork, size_in: int, size_out: int, is_last: bool) -> nn.Module:
    if isinstance(model, AttentionNetwork):
        return AttentionLayer(model, size_in, size_out, is_last)
    if isinstance(model, GIN):
        return GinLayer(model, size_in, size_out)
    return GcnLayer(size_in, size_out) if isinstance(model, GCN) else SageLayer(size_in, size_out)


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


def _dropped(x: torch.Tensor, share: float, draws: torch.Generator | None) -> torch.Tensor:
    """As `torch.nn.functional.dropout`, which takes no generator of its own."""
    if share == 0 or draws is None:
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
