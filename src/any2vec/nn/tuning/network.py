"""The graph convolution network by which edges are weighed, and which learns again from those that stay.

Legend: N nodes, S edges, D features, C classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from any2vec.nn.aggregate import Neighbors, neighbors_of, weighted_sum
from any2vec.nn.convolve import convolve
from any2vec.nn.dropout import dropout
from any2vec.nn.gcn import WeightedGraph
from any2vec.nn.tuning.quantized import quantized
from any2vec.plan.sharding.pruning import PruneOptions


class Nodes(NamedTuple):
    """What is known of nodes."""

    x_ND: torch.Tensor
    """float32 or float64"""
    label_N: torch.Tensor
    """int64; of nodes that neither train nor validate anything"""
    train: torch.Tensor
    """int64: nodes"""
    val: torch.Tensor
    """int64: nodes, maybe none"""


class TunedNetwork(torch.nn.Module):
    """Two graph convolutions (Kipf and Welling 2017).

    Args:
        features, hidden, classes: columns. bits: features, weights and sums are rounded to so many, or None. class_N:
            int64 (N,), the nodes' degree classes, each of which then has a range of its own.
    """

    def __init__(
        self, features: int, hidden: int, classes: int, bits: int | None = None, class_N: torch.Tensor | None = None
    ) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(features, hidden), torch.nn.Linear(hidden, classes)
        self.bits, self.class_N = bits, class_N

    def start(self, generator: torch.Generator) -> None:
        """Draw all parameters anew."""
        for layer in (self.first, self.second):
            torch.nn.init.xavier_uniform_(layer.weight, generator=generator)
            torch.nn.init.zeros_(layer.bias)

    def scores(
        self, x_ND: torch.Tensor, graph: WholeGraph, p: float = 0.0, generator: torch.Generator | None = None
    ) -> torch.Tensor:
        """(N, C), with a share p of each layer's inputs dropped."""
        found = x_ND
        for layer in (self.first, self.second):
            found = dropout(found if layer is self.first else found.relu(), p, generator)
            found = quantized(found, self.bits, self.class_N)
            sent = torch.nn.functional.linear(found, quantized(layer.weight, self.bits))
            found = convolve(quantized(sent, self.bits, self.class_N), graph.neighbors, graph.degree_N1) + layer.bias
        return found

    def sent(self, x_ND: torch.Tensor) -> torch.Tensor:
        """(N, hidden): what the first layer sends along edges, without a gradient; not rounded."""
        return torch.nn.functional.linear(x_ND, self.first.weight.detach())

    def weighted_scores(self, sent: torch.Tensor, graph: WeightedGraph, value_S: torch.Tensor) -> torch.Tensor:
        """(N, C) from what the first layer sends, where edges count as often as their values say; with these values'
        gradient. Not rounded."""
        norm = graph.normalized(value_S)[:, None]
        hidden = (weighted_sum(sent, graph.neighbors, norm) + self.first.bias.detach()).relu()
        sent = torch.nn.functional.linear(hidden, self.second.weight.detach())
        return weighted_sum(sent, graph.neighbors, norm) + self.second.bias.detach()


class WholeGraph:
    """A graph without its self-loops, grouped once for many epochs.

    Args:
        edge_index: int64 (2, S), from node to node.
    """

    def __init__(self, edge_index: torch.Tensor, num_nodes: int) -> None:
        edges = edge_index[:, edge_index[0] != edge_index[1]]
        reverse = neighbors_of(edges.flip(0), num_nodes, num_nodes)
        self.neighbors = Neighbors(*neighbors_of(edges, num_nodes, num_nodes)[:2], reverse)
        self.degree_N1 = torch.from_numpy(np.diff(self.neighbors.stop_F1).astype(np.float32))[:, None]


class Trained(NamedTuple):
    """A network as it was after the epoch that validated best, the last one where none validates."""

    network: TunedNetwork
    score_NC: torch.Tensor
    """of all nodes"""
    val_accuracy: float | None


def train_network(
    nodes: Nodes, graph: WholeGraph, options: PruneOptions, bits: int | None = None,
    class_N: torch.Tensor | None = None, progress: Callable[[int, int], None] | None = None,
) -> Trained:  # fmt: skip
    """A network learned from the whole graph by Adam, its start and dropout drawn by the options' seed.

    progress: is called with how many epochs are over, and of how many.
    """
    generator = torch.Generator().manual_seed(options.seed)
    classes = int(nodes.label_N[torch.cat([nodes.train, nodes.val])].max()) + 1
    network = TunedNetwork(nodes.x_ND.shape[1], options.hidden, classes, bits, class_N).to(nodes.x_ND.dtype)
    network.start(generator)
    optimizer = torch.optim.Adam(
        network.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay
    )  # fmt: skip
    best, best_state = -1.0, None
    for epoch in range(options.epochs):
        if progress is not None:
            progress(epoch, options.epochs)
        optimizer.zero_grad()
        scores = network.scores(nodes.x_ND, graph, options.dropout, generator)
        torch.nn.functional.cross_entropy(scores[nodes.train], nodes.label_N[nodes.train]).backward()
        optimizer.step()
        if len(nodes.val):
            with torch.no_grad():
                found = accuracy(network.scores(nodes.x_ND, graph), nodes.label_N, nodes.val)
            if found > best:
                best, best_state = found, {name: value.clone() for name, value in network.state_dict().items()}
    if progress is not None:
        progress(options.epochs, options.epochs)
    if best_state is not None:
        network.load_state_dict(best_state)
    with torch.no_grad():
        return Trained(network, network.scores(nodes.x_ND, graph), best if len(nodes.val) else None)


def accuracy(score_NC: torch.Tensor, label_N: torch.Tensor, nodes: torch.Tensor) -> float:
    """Share of the nodes whose class has the largest score."""
    return float((score_NC[nodes].argmax(1) == label_N[nodes]).double().mean())
