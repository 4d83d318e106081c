"""Trained networks as modules of PyTorch Geometric, with the same weights and the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from any2vec.errors import InputError

if TYPE_CHECKING:
    from any2vec.models.networks.config.base import GraphNetwork

_LAYERED = ("graphsage", "gcn", "gat", "gatv2", "gin", "gine")
_Step = tuple[Any, str]
"""what is called, and with what: as `torch_geometric.nn.Sequential` takes them"""


def to_pyg(model: GraphNetwork, network: Any) -> nn.Module:
    """A `torch_geometric.nn.Sequential` called as (x, edge_index), and edge_attr where the network takes features of
    edges, in evaluation mode, with copies of the weights.

    Raises:
        InputError: PyG has no such layers.
    """
    if model.name not in (*_LAYERED, "appnp", "sgc"):
        raise InputError(
            f"{model.name} has no module of PyG with the same numbers; export to PyG is for "
            f"{', '.join((*_LAYERED, 'appnp', 'sgc'))}."
        )
    from torch_geometric.nn import Sequential

    makes = {"appnp": _propagated, "sgc": _smoothed}
    steps = list(makes.get(model.name, _layered)(model, network))
    found: nn.Module = Sequential("x, " + _edges_of(network), steps)
    return found.eval()


def _edges_of(network: Any) -> str:
    """What layers are given beside rows."""
    has_features = any(getattr(layer, "edge_dim", None) is not None for layer in network.modules())
    return "edge_index, edge_attr" if has_features else "edge_index"


def _layered(model: Any, network: Any) -> Iterator[_Step]:
    attends, jumps = model.name in ("gat", "gatv2"), model.jumping_knowledge
    taken, last, edges = "x", model.num_layers - 1, _edges_of(network)
    for number in range(model.num_layers):
        layer = network.layers[number]
        layer = layer.layer if jumps else layer
        if model.dropout:
            yield nn.Dropout(model.dropout), f"{taken} -> d{number}"
            taken = f"d{number}"
        inner = layer.layer if model.residual else layer
        yield _convolution(model, inner, number == last and not jumps), f"{taken}, {edges} -> c{number}"
        if model.residual:
            yield _copy(layer.own), f"{taken} -> r{number}"
            yield torch.add, f"c{number}, r{number} -> c{number}"
        taken = f"c{number}"
        if number < last or jumps:
            yield nn.ELU() if attends else nn.ReLU(), f"c{number} -> h{number}"
            taken = f"h{number}"
    if jumps:
        yield from _jumping(model, network)


def _jumping(model: Any, network: Any) -> Iterator[_Step]:
    from torch_geometric.nn import JumpingKnowledge

    found = JumpingKnowledge(model.jumping_knowledge, model.hidden, model.num_layers)
    if model.jumping_knowledge == "lstm":
        ours = network.layers[model.num_layers - 1]
        found.lstm.load_state_dict(ours.lstm.state_dict())
        found.att.load_state_dict(ours.attention.state_dict())
    rows = ", ".join(f"h{number}" for number in range(model.num_layers))
    yield lambda *rows_of_layers: list(rows_of_layers), f"{rows} -> all"
    yield found, "all -> j"
    if model.dropout:
        yield nn.Dropout(model.dropout), "j -> j"
    yield _copy(network.layers[-1].linear), "j -> j"


def _convolution(model: Any, layer: Any, is_last: bool) -> nn.Module:
    """A layer of PyG with a layer's weights; is_last: it gives the scores of classes."""
    from torch_geometric import nn as pyg

    if model.name == "gcn":
        size_out, size_in = layer.linear.weight.shape
        weights = {"lin.weight": layer.linear.weight, "bias": layer.linear.bias}
        return _with(pyg.GCNConv(size_in, size_out), weights)
    if model.name in ("gin", "gine"):
        return _gin(layer)
    weights = layer.conv.state_dict()
    if model.name == "graphsage":
        size_out, size_in = weights["lin_l.weight"].shape
        is_pool = model.aggregator == "pool"
        found = pyg.SAGEConv(size_in, size_out, aggr="max" if is_pool else model.aggregator, project=is_pool)
        return _with(found, weights)
    kind = pyg.GATConv if model.name == "gat" else pyg.GATv2Conv
    heads = model.output_heads if is_last else model.heads
    size_in = weights["lin.weight" if model.name == "gat" else "lin_l.weight"].shape[1]
    options = {"concat": not is_last, "dropout": model.dropout, "edge_dim": layer.conv.edge_dim}
    found = kind(size_in, layer.conv.out_channels, heads, **options)
    return _with(found, weights)


def _gin(layer: Any) -> nn.Module:
    from torch_geometric.nn import GINConv, GINEConv

    (hidden, size_in), size_out = layer.first.weight.shape, layer.last.weight.shape[0]
    norm = nn.BatchNorm1d(hidden)
    mlp = nn.Sequential(nn.Linear(size_in, hidden, bias=False), norm, nn.ReLU(), nn.Linear(hidden, size_out))
    trains, of_edges = layer.eps is not None, getattr(layer, "edge", None)  # both draw the MLP's weights anew
    found = GINConv(mlp, train_eps=trains) if of_edges is None else GINEConv(mlp, 0.0, trains, of_edges.in_features)
    if of_edges is not None:
        found.lin.load_state_dict(of_edges.state_dict())
    mlp[0].load_state_dict(layer.first.state_dict())
    mlp[3].load_state_dict(layer.last.state_dict())
    own = {"weight": layer.scale, "bias": layer.shift, "running_mean": layer.mean, "running_var": layer.variance}
    norm.load_state_dict({name: value.detach() for name, value in own.items()}, strict=False)
    if layer.eps is not None:
        found.eps.data.copy_(layer.eps.detach())
    return found


def _propagated(model: Any, network: Any) -> Iterator[_Step]:
    from torch_geometric.nn import APPNP

    for number in range(model.num_layers - 1):
        if model.dropout:
            yield nn.Dropout(model.dropout), "x -> x"
        yield _copy(network.layers[number].linear), "x -> x"
        yield nn.ReLU(), "x -> x"
    yield APPNP(model.hops, model.teleport), "x, edge_index -> x"
    if model.dropout:
        yield nn.Dropout(model.dropout), "x -> x"
    yield _copy(network.layers[-1].linear), "x -> x"


def _smoothed(model: Any, network: Any) -> Iterator[_Step]:
    from torch_geometric.nn import SGConv

    linear = network.layers[-1].linear
    found = SGConv(linear.in_features, linear.out_features, K=model.hops)
    found.lin.load_state_dict(linear.state_dict())
    yield found, "x, edge_index -> x"


def _copy(linear: nn.Linear) -> nn.Linear:
    found = nn.Linear(linear.in_features, linear.out_features, linear.bias is not None)
    found.load_state_dict(linear.state_dict())
    return found


def _with(found: nn.Module, weights: dict[str, torch.Tensor]) -> nn.Module:
    found.load_state_dict({name: value.detach() for name, value in weights.items()})
    return found
