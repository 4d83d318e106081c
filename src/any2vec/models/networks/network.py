"""The networks as PyTorch modules, over the edges of a batch or of a whole graph.

Legend: M nodes that have rows, F of them, the first ones, that the layer answers for, S edges, D columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from any2vec.data.attributed.edge_features import FeaturedCsr
from any2vec.data.attributed.relations import RelationalCsr, Relations
from any2vec.models.networks.config.base import GraphNetwork, LayeredNetwork
from any2vec.models.networks.config.layers import APPNP, GAT, GIN, GINE, SGC, AttentionNetwork, GraphSAGE
from any2vec.models.networks.config.own import OwnModule
from any2vec.models.networks.config.relational import RGCN
from any2vec.models.networks.sizing import LEAST_ROWS, feature_columns, gine_columns, relation_columns
from any2vec.models.networks.skips import Jumping, Residual, dropped, multiplies_first
from any2vec.nn.aggregate import Neighbors, aggregate
from any2vec.nn.convolve import convolve
from any2vec.nn.gat import GATConv, GATv2Conv
from any2vec.nn.gin import edge_relu_sum
from any2vec.nn.relations import RelationGroups
from any2vec.nn.rgcn import RGCNConv
from any2vec.nn.sage import SAGEConv
from any2vec.sampling.neighbors import Neighborhood
from any2vec.types import Csr, State


class Block(NamedTuple):
    """What a layer passes messages along."""

    neighbors: Neighbors
    """of F nodes"""
    degree_M1: torch.Tensor
    """float32 (M, 1): in-neighbors in the graph, sampled or not"""
    relations: RelationGroups | None = None
    """of edges that have types"""
    sums: torch.Tensor | None = None
    """what the layer sums rows up to, where that is known (`fixed_sums`)"""
    edge_SK: torch.Tensor | None = None
    """float32 (S, K): features of edges that have some"""

    @property
    def num_targets(self) -> int:
        """F"""
        return len(self.neighbors.stop_F1) - 1


class SageLayer(nn.Module):
    """GraphSAGE's convolution."""

    def __init__(self, size_in: int, size_out: int, aggregator: str = "mean") -> None:
        super().__init__()
        is_pool = aggregator == "pool"
        self.conv = SAGEConv(size_in, size_out, aggr="max" if is_pool else aggregator, project=is_pool)
        self.multiplies_first = is_pool or (size_out < size_in and aggregator != "max")

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
        self.multiplies_first = size_out < size_in
        """rows go through matrices first, and are summed then"""

    def forward(self, x_MD: torch.Tensor, block: Block, draws: torch.Generator | None = None) -> torch.Tensor:
        if self.multiplies_first:
            return _convolved(nn.functional.linear(x_MD, self.linear.weight), block) + self.linear.bias
        found: torch.Tensor = self.linear(_convolved(x_MD, block) if block.sums is None else block.sums)
        return found


class AttentionLayer(nn.Module):
    """Attention, of GAT or GATv2. A sampled neighbor stands for as many of the node's as it is one of, so that the
    softmax over a sample estimates that over all; the node itself stands for one. Its loop has the mean of its sampled
    edges' features, where edges have some.
    """

    def __init__(
        self, model: AttentionNetwork, size_in: int, size_out: int, is_last: bool, edge_features: int = 0
    ) -> None:  # fmt: skip
        super().__init__()
        kind, heads = GATConv if model.name == GAT.name else GATv2Conv, model.output_heads if is_last else model.heads
        columns = size_out if is_last else size_out // heads
        self.multiplies_first = True
        self.conv = kind(
            size_in, columns, heads, concat=not is_last, dropout=model.dropout, edge_dim=edge_features or None
        )
        projected = heads if model.name == GAT.name else heads * columns
        self.edge_columns = heads + 1 + feature_columns(edge_features, projected)
        """numbers that it holds for each edge where nothing is learned: its weights, by head, where it leads, and what
        becomes of its features"""

    def forward(self, x_MD: torch.Tensor, block: Block, draws: torch.Generator | None = None) -> torch.Tensor:
        self.conv.train(draws is not None)
        found: torch.Tensor = self.conv(x_MD, block.neighbors, block.edge_SK, block.degree_M1, draws)
        return found


class GinLayer(nn.Module):
    """An MLP of (1 + eps) x and the sum of the neighbors' rows, that of a sample being its mean times their number.

    Its hidden rows are normalized over the batch (Ioffe and Szegedy 2015), as Xu et al. do: sums grow with the degree.
    """

    mean: torch.Tensor
    variance: torch.Tensor

    def __init__(self, model: GIN | GINE, size_in: int, size_out: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(size_in, model.hidden, bias=False), nn.Linear(model.hidden, size_out)
        self.scale, self.shift = nn.Parameter(torch.ones(model.hidden)), nn.Parameter(torch.zeros(model.hidden))
        self.eps = nn.Parameter(torch.zeros(1)) if model.train_eps else None
        self.register_buffer("mean", torch.zeros(model.hidden))
        self.register_buffer("variance", torch.ones(model.hidden))
        self.multiplies_first = model.hidden < size_in

    def forward(self, x_MD: torch.Tensor, block: Block, draws: torch.Generator | None = None) -> torch.Tensor:
        num, own = block.num_targets, 1 if self.eps is None else 1 + self.eps
        x_MD = self.first(x_MD) if self.multiplies_first else x_MD
        total = aggregate(x_MD, block.neighbors) * block.degree_M1[:num] + own * x_MD[:num]
        return self.answer(total if self.multiplies_first else self.first(total), draws)

    def answer(self, total_FD: torch.Tensor, draws: torch.Generator | None) -> torch.Tensor:
        """What the MLP makes of its hidden rows."""
        is_batch = draws is not None and len(total_FD) > 1  # of one row there is no variance
        total_FD = nn.functional.batch_norm(total_FD, self.mean, self.variance, self.scale, self.shift, is_batch)
        found: torch.Tensor = self.last(total_FD.relu())
        return found


class GineLayer(GinLayer):
    """As `GinLayer`, the sum being that of max(0, a neighbor's row + a matrix times the edge's features + a bias)."""

    def __init__(self, model: GINE, size_in: int, size_out: int, edge_features: int) -> None:
        super().__init__(model, size_in, size_out)
        self.multiplies_first = False
        self.edge, self.edge_dim = nn.Linear(edge_features, size_in), edge_features
        self.edge_columns = gine_columns(edge_features, size_in)

    def forward(self, x_MD: torch.Tensor, block: Block, draws: torch.Generator | None = None) -> torch.Tensor:
        assert block.edge_SK is not None
        num, own = block.num_targets, 1 if self.eps is None else 1 + self.eps
        total = edge_relu_sum(x_MD, _as_of_many(self.edge, block.edge_SK), block.neighbors) * _stands_for(block)
        return self.answer(self.first(total + own * x_MD[:num]), draws)


def _as_of_many(linear: nn.Linear, row_SK: torch.Tensor) -> torch.Tensor:
    """What a matrix makes of rows; where there is no gradient, to the bits that it makes of these among many."""
    num = len(row_SK)
    if not torch.is_grad_enabled() and num < LEAST_ROWS:
        row_SK = torch.cat([row_SK, row_SK.new_zeros(LEAST_ROWS - num, row_SK.shape[1])])
    found: torch.Tensor = linear(row_SK)
    return found[:num]


def _stands_for(block: Block) -> torch.Tensor:
    """How many neighbors each one of a sample stands for, (F, 1); where edges have weights, which add up to 1 in the
    mean, all."""
    degree_F1 = block.degree_M1[: block.num_targets]
    if block.neighbors.weight_S is not None:
        return degree_F1
    counts = torch.from_numpy(np.diff(block.neighbors.stop_F1).astype(np.float32)[:, None])
    return degree_F1 / counts.clamp_(min=1)


class RgcnLayer(nn.Module):
    """The relational graph convolution; over a sample the mean by a relation is that of the sample's edges of it."""

    def __init__(self, model: RGCN, size_in: int, size_out: int, relations: Relations) -> None:
        super().__init__()
        self.conv = RGCNConv(size_in or relations.num_nodes, size_out, len(relations.names), model.num_bases)
        self.edge_columns = relation_columns(size_in, size_out)

    def forward(self, x_MD: torch.Tensor, block: Block, draws: torch.Generator | None = None) -> torch.Tensor:
        assert block.relations is not None
        found: torch.Tensor = self.conv((x_MD, x_MD[: block.num_targets]), block.relations)
        return found


class DenseLayer(nn.Module):
    """The node's own row times a matrix."""

    def __init__(self, size_in: int, size_out: int, bias: bool) -> None:
        super().__init__()
        self.linear, self.multiplies_first = nn.Linear(size_in, size_out, bias), True

    def forward(self, x_MD: torch.Tensor, block: Block, draws: torch.Generator | None = None) -> torch.Tensor:
        found: torch.Tensor = self.linear(x_MD[: block.num_targets])
        return found


def _convolved(x_MD: torch.Tensor, block: Block) -> torch.Tensor:
    return convolve(x_MD, block.neighbors, block.degree_M1)


class Propagation(nn.Module):
    """From rows (z, h) to ((1 - teleport) convolved z + teleport h, h); the first one takes h, the last one gives z."""

    def __init__(self, teleport: float, is_first: bool, is_last: bool) -> None:
        super().__init__()
        self.teleport, self.is_first, self.is_last = teleport, is_first, is_last

    def forward(self, x_MD: torch.Tensor, block: Block, draws: torch.Generator | None = None) -> torch.Tensor:
        z_MD, own_MD = (x_MD, x_MD) if self.is_first else x_MD.chunk(2, dim=1)
        own_FD = own_MD[: block.num_targets]
        z_FD = (1 - self.teleport) * _convolved(z_MD, block) + self.teleport * own_FD
        return z_FD if self.is_last else torch.cat([z_FD, own_FD], dim=1)


class Convolution(nn.Module):
    """GCN's sum, without weights."""

    def forward(self, x_MD: torch.Tensor, block: Block, draws: torch.Generator | None = None) -> torch.Tensor:
        return _convolved(x_MD, block)


class Network(nn.Module):
    """Layers with ReLU between them, ELU where they attend (Veličković et al. 2018); in training dropout before all.

    Layers below jumping knowledge do both themselves, and those without weights neither.
    """

    def __init__(
        self, model: GraphNetwork, num_features: int, num_classes: int, relations: Relations | None = None,
        edge_features: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.widths = model.widths(num_features, num_classes)
        activation = nn.functional.elu if isinstance(model, AttentionNetwork) else torch.relu
        self.layers = nn.ModuleList(_layers(model, self.widths, activation, relations, edge_features))
        self.num_fixed = model.hops if isinstance(model, SGC) else 0
        """first layers, which have no weights: what they give is computed once"""
        is_plain = not any(isinstance(layer, Jumping | Convolution) for layer in self.layers)
        self.activation = activation if is_plain else nn.Identity()
        self.dropout = model.dropout
        self.is_cut, self.hidden_columns = True, self.widths[-2]

    def reads_neighbors(self, number: int) -> bool:
        """Whether a layer passes messages."""
        return not isinstance(self.layers[number], DenseLayer)

    @property
    def multiplies_first(self) -> bool:
        """Whether features go through matrices before all else but dropout, so that `SparseRows` do, too."""
        return multiplies_first(self.layers[0])

    def edge_columns(self, number: int) -> int:
        """Numbers that a layer holds for each edge, by its own word."""
        return int(getattr(self.layers[number], "edge_columns", 0))

    def target_columns(self, number: int) -> int:
        """Numbers that a layer makes of each node, beside what it gives: none to speak of."""
        return 0

    def forward(
        self, x_MD: torch.Tensor, blocks: list[Block], draws: torch.Generator | None = None, are_owned: bool = False
    ) -> torch.Tensor:  # fmt: skip
        """Scores of classes, float32 (seeds, C), in training.

        Args:
            x_MD: what the fixed layers give; of a network without such, features; of one that `multiplies_first`
                they may be `SparseRows`.
            are_owned: they may be changed.
            blocks: a layer's each; those behind the last one have its.
            draws: for dropout; None: it is no training.
        """
        learned = self.layers[self.num_fixed :]
        blocks = [*blocks, *[blocks[-1]] * (len(learned) - len(blocks))]
        for number, (layer, block) in enumerate(zip(learned, blocks, strict=True)):
            x_MD = self._activated(x_MD) if number else x_MD
            share = 0 if isinstance(layer, Propagation | Jumping) else self.dropout
            x_MD = layer(dropped(x_MD, share, draws, inplace=are_owned and number == 0), block, draws)
        return x_MD

    def infer(self, number: int, x_MD: torch.Tensor, block: Block) -> torch.Tensor:
        """What a layer gives the next one, or the scores of classes, (F, widths[number + 1]); nothing is dropped."""
        return self.activated(number, self.layers[number](x_MD, block))

    def activated(self, number: int, found_FD: torch.Tensor) -> torch.Tensor:
        """What the next layer takes of what a layer has given, which nothing else reads; of the last one the same."""
        return found_FD if number + 1 == len(self.layers) else self._activated(found_FD)

    def _activated(self, given_MD: torch.Tensor) -> torch.Tensor:
        """Of what a layer has given, which nothing else reads: layers end with a sum or a matrix, whose gradients need
        it no more.
        """
        return given_MD.relu_() if self.activation is torch.relu else self.activation(given_MD)


def _layers(
    model: GraphNetwork, widths: Sequence[int], activation: Callable[..., torch.Tensor], relations: Relations | None,
    edge_features: int,
) -> Iterator[nn.Module]:  # fmt: skip
    """The layers of a network, in their order; with jumping knowledge a matrix for the classes follows them."""
    last = len(widths) - 2
    if not isinstance(model, LayeredNetwork):
        yield from (_dense_or_propagation(model, *pair, number, last) for number, pair in enumerate(pairwise(widths)))
        return
    jumps = model.jumping_knowledge is not None
    sizes = widths if not jumps else (widths[0], *[model.hidden] * model.num_layers)
    for number, (size_in, size_out) in enumerate(pairwise(sizes)):
        layer = _layer(model, size_in, size_out, number == last, relations, edge_features)
        layer = Residual(layer, size_in, size_out) if model.residual else layer
        yield Jumping(layer, model, number, activation) if jumps else layer
    if jumps:
        yield DenseLayer(widths[-2], widths[-1], bias=True)


def _dense_or_propagation(model: GraphNetwork, size_in: int, size_out: int, number: int, last: int) -> nn.Module:
    if isinstance(model, APPNP):
        if number in range(model.num_layers - 1, last):
            return Propagation(model.teleport, number == model.num_layers - 1, number == last - 1)
        return DenseLayer(size_in, size_out, bias=number < last)
    return DenseLayer(size_in, size_out, bias=True) if number == last else Convolution()


def _layer(
    model: LayeredNetwork, size_in: int, size_out: int, is_last: bool, relations: Relations | None, edge_features: int
) -> nn.Module:  # fmt: skip
    if isinstance(model, RGCN):
        assert relations is not None
        return RgcnLayer(model, size_in, size_out, relations)
    if isinstance(model, AttentionNetwork):
        return AttentionLayer(model, size_in, size_out, is_last, edge_features)
    if isinstance(model, GIN):
        return GinLayer(model, size_in, size_out)
    if isinstance(model, GINE):
        return GineLayer(model, size_in, size_out, edge_features)
    if isinstance(model, GraphSAGE):
        return SageLayer(size_in, size_out, model.aggregator)
    return GcnLayer(size_in, size_out)


def fixed_sums(network: Any, x_MD: torch.Tensor, block: Block) -> torch.Tensor | None:
    """What the first layer with weights sums the features up to, where that is the same in each step: for GCN that sums
    before it multiplies, if nothing is dropped (dropout comes before the sum). None: it is not.
    """
    first = network.layers[network.num_fixed] if isinstance(network, Network) else None
    if not isinstance(first, GcnLayer) or first.multiplies_first or network.dropout:
        return None
    return _convolved(x_MD, block)


def make_network(
    model: GraphNetwork, num_features: int, num_classes: int, relations: Relations | None = None, edge_features: int = 0
) -> Any:  # fmt: skip
    """A network, its weights drawn: a `Network`, or of a user's module a `ModuleNetwork`, which is used alike.

    edge_features: columns; 0: edges have none.

    Raises:
        InputError: a user's module is none, or not as it must be.
    """
    if isinstance(model, OwnModule):
        from any2vec.models.modules.network import ModuleNetwork

        return ModuleNetwork(model, num_features, num_classes, edge_features)
    return Network(model, num_features, num_classes, relations, edge_features)


def network_of(
    model: GraphNetwork, num_features: int, num_classes: int, weights: State, relations: Relations | None = None,
    edge_features: int = 0,
) -> Any:  # fmt: skip
    """A network with these weights, by name; nothing is drawn, and, but of a user's module, nothing copied.

    Raises:
        ValueError: they are another network's. InputError: as of `make_network`.
    """
    if isinstance(model, OwnModule):
        with torch.random.fork_rng(devices=[]):
            own = make_network(model, num_features, num_classes, edge_features=edge_features)
        load_weights(own, weights)
        return own
    with torch.device("meta"):
        network = Network(model, num_features, num_classes, relations, edge_features)
    load_weights(network, weights, assign=True)
    return network


def load_weights(network: nn.Module, weights: State, assign: bool = False) -> None:
    """Take weights over, copied or, with `assign`, as they are. ValueError where they are another network's."""
    found = {name: torch.from_numpy(array) for name, array in weights.items()}
    if not assign:  # numbers by themselves, such as counts of batches, are kept as arrays of one
        own = network.state_dict()
        found = {
            name: value.reshape(own[name].shape) if name in own and value.numel() == own[name].numel() == 1 else value
            for name, value in found.items()
        }
    try:
        network.load_state_dict(found, assign=assign)
    except RuntimeError as error:
        raise ValueError(str(error)) from error


def blocks_of(found: Neighborhood, degree_N: np.ndarray, csr: Csr | None = None) -> list[Block]:
    """What each layer of a batch passes messages along, the first one first; degree_N: in-neighbors, float32; csr: what
    was sampled, with edges' places where they have types or features.

    A layer answers for the nodes that later ones ask: the first one for all but those of the last hop.
    """
    degree_M1 = torch.from_numpy(degree_N[found.node_M][:, None])
    blocks = []
    edge_SK = torch.from_numpy(csr.take(found.edge_S)) if isinstance(csr, FeaturedCsr) else None
    for hops in range(len(found.edges_by_hop), 0, -1):
        num = sum(found.nodes_by_hop[:hops])
        stop_F1 = found.stop_D1[: num + 1]
        neighbors = Neighbors(stop_F1, found.neighbor_S[: stop_F1[-1]])
        rows_SK = None if edge_SK is None else edge_SK[: len(neighbors.neighbor_S)]
        blocks.append(Block(neighbors, degree_M1, _relations(neighbors, csr, found.edge_S), None, rows_SK))
    return blocks


def block_of(csr: Csr, is_learned: bool = False) -> Block:
    """What every layer passes messages along over a whole graph; is_learned: gradients go back along it."""
    degree_N1 = torch.from_numpy(np.diff(csr.indptr).astype(np.float32)[:, None])
    is_plain = not isinstance(csr, RelationalCsr)
    neighbors = Neighbors(csr.indptr, csr.indices, _reverse(csr) if is_learned and is_plain else None)
    edge_SK = torch.from_numpy(csr.take()) if isinstance(csr, FeaturedCsr) else None
    return Block(neighbors, degree_N1, _relations(neighbors, csr), None, edge_SK)


def _relations(neighbors: Neighbors, csr: Csr | None, edge_S: np.ndarray | None = None) -> RelationGroups | None:
    """The edges in groups; edge_S: their places in the adjacency, None: they are all of it."""
    if not isinstance(csr, RelationalCsr):
        return None
    type_S = csr.type_E if edge_S is None else csr.type_E[edge_S[: len(neighbors.neighbor_S)]]
    return RelationGroups(neighbors, type_S, len(csr.relations))


def _reverse(csr: Csr) -> Neighbors:
    """The edges by the node that they lead from: of an undirected graph the same arrays."""
    from any2vec.kernels.graph.csr import transpose_pattern

    indptr, indices = transpose_pattern(csr.indptr, csr.indices)
    if np.array_equal(indptr, csr.indptr) and np.array_equal(indices, csr.indices):
        return Neighbors(csr.indptr, csr.indices)
    return Neighbors(indptr, indices)
