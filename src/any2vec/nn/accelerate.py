"""`accelerate`: PyTorch Geometric's layers within a module go on with their parameters, by the kernels of this library.

A layer gets a class that inherits from its own: its parameters, `state_dict` and options stay as they are, and whatever
the kernels do not know (sparse matrices, attention weights that are asked for, another device) goes its own way.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from any2vec.errors import InputError
from any2vec.nn.aggregate import REDUCTIONS
from any2vec.nn.dropout import dropout
from any2vec.nn.gat import GATConv, GATv2Conv
from any2vec.nn.gcn import GCNConv
from any2vec.nn.gin import GINConv, GINEConv
from any2vec.nn.rgcn import RGCNConv
from any2vec.nn.sage import SAGEConv

_OURS = {kind.__name__: kind for kind in (SAGEConv, GCNConv, GATConv, GATv2Conv, GINConv, GINEConv, RGCNConv)}
_ATTENTION = (GATConv, GATv2Conv)
_PREFIX = "Accelerated"
_STEPS = ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update")
_HOOKS = [f"_{step}_forward_{kind}" for step in _STEPS for kind in ("pre_hooks", "hooks")]
"""where PyG's layers keep what is called between their steps"""


def accelerate(module: torch.nn.Module) -> torch.nn.Module:
    """Let the layers of PyTorch Geometric within a module, and its `torch.nn.Dropout`, run by kernels; returns it.

    Known are `SAGEConv` (mean, sum, max), `GCNConv`, `GATConv`, `GATv2Conv`, `GINConv`, `GINEConv` and `RGCNConv`
    (mean), where they are given rows and an `edge_index` of int64 on the processor: `GCNConv` weights of edges, too,
    `GINEConv` and, with `edge_dim`, `GATConv` and `GATv2Conv` features of edges, `RGCNConv` types of edges, and nodes
    in place of rows. Numbers are theirs to 1e-5; dropout draws others of the same law. Layers of subclasses are left
    alone. Under autocast, within `torch.compile` and `torch.export`, and with hooks of messages layers go PyG's own
    way.

    Raises:
        InputError: it is no module, or holds no such layer.
    """
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"accelerate takes a torch.nn.Module, got {type(module).__name__}.")
    found = 0
    for layer in module.modules():
        kind = type(layer)
        if kind is torch.nn.Dropout:
            layer.__class__ = AcceleratedDropout
        elif kind.__module__.startswith("torch_geometric.nn.conv.") and _is_known(layer):
            layer.__class__ = _accelerated(kind.__name__)
        found += type(layer).__name__.removeprefix(_PREFIX) in _OURS and type(layer).__module__ == __name__
    if not found:
        raise InputError(
            f"{type(module).__name__} holds no layer that can be accelerated; known are {', '.join(_OURS)} of "
            "torch_geometric.nn, without options that only they have."
        )
    return module


class AcceleratedDropout(torch.nn.Dropout):
    """`torch.nn.Dropout` by `any2vec.nn.dropout`, where it can."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As of `torch.nn.Dropout`."""
        if not self.training or self.inplace or self.p >= 1 or not _is_plain(x) or _is_recorded():
            return super().forward(x)
        return dropout(x, self.p)


def __getattr__(name: str) -> Any:
    """Classes of accelerated layers, so that they are found where a module is loaded."""
    if name.removeprefix(_PREFIX) in _OURS and name.startswith(_PREFIX):
        return _accelerated(name.removeprefix(_PREFIX))
    raise AttributeError(f"module {__name__} has no {name}")


@cache
def _accelerated(name: str) -> type:
    """The class of PyG's layers of this name that run by our kernels."""
    import torch_geometric.nn

    ours: Any = _OURS[name]
    base: Any = getattr(torch_geometric.nn, name)

    def forward(self: Any, x: Any, edge_index: Any, *more: Any, **options: Any) -> Any:
        if _is_recorded() or torch.is_autocast_enabled("cpu") or any(map(self.__dict__.get, _HOOKS)):
            return base.forward(self, x, edge_index, *more, **options)
        x = tuple(x) if isinstance(x, list) else x
        given = [value for value in (*more, *options.values()) if value is not None]
        rows = () if ours is RGCNConv and _are_nodes(x) else x
        is_known = len(given) == 1 and _is_for_kernels(rows, edge_index)
        if is_known and _is_of_edges(self, ours, rows, edge_index.shape[1], given[0]):
            return ours.forward(_view(self, ours), x, edge_index, given[0])
        if ours in (RGCNConv, GINEConv) or (ours in _ATTENTION and self.edge_dim is not None):
            return base.forward(self, x, edge_index, *more, **options)
        if not _is_for_kernels(x, edge_index, *more, *options.values()) or self.explain:
            return base.forward(self, x, edge_index, *more, **options)
        return ours.forward(_view(self, ours), x, edge_index)

    return type(_PREFIX + name, (base,), {"forward": forward, "__module__": __name__})


def _is_recorded() -> bool:
    """Whether operations are written down, as for ONNX, or compiled: what a kernel gives would be a constant there."""
    return torch.jit.is_tracing() or torch.compiler.is_compiling()


def _view(layer: Any, ours: type) -> Any:
    """A layer of ours that is this one: parameters, modules and options have the same names in both."""
    found: Any = object.__new__(ours)
    found.__dict__.update(layer.__dict__)
    if ours is SAGEConv:
        found.__dict__["aggr"] = "sum" if layer.aggr == "add" else layer.aggr
        found.__dict__.update({name: None for name in ("lin", "lin_r") if name not in layer._modules})
    if ours is GINEConv:
        found.__dict__["edge_dim"] = None if layer.lin is None else layer.lin.in_channels
    return found


def _is_known(layer: Any) -> bool:
    """Whether our layer of this name does what it does."""
    name = type(layer).__name__
    if name not in _OURS:  # what holds layers for types of edges stands among them, too
        return False
    are_rows = layer.flow == "source_to_target" and layer.node_dim in (-2, 0)
    is_made = not any(isinstance(value, torch.nn.UninitializedParameter) for value in layer.parameters())
    if not are_rows or not is_made:
        return False
    if name == "SAGEConv":
        return layer.aggr in (*REDUCTIONS, "add")
    if name == "RGCNConv":
        return bool(layer.aggr == "mean")
    if layer.aggr not in ("add", "sum"):
        return False
    if name == "GCNConv":
        return bool(not layer.improved and layer.normalize and layer.add_self_loops)
    return name in ("GINConv", "GINEConv") or (
        (layer.edge_dim is None or layer.fill_value == "mean") and not layer.residual and layer.dropout <= 0.99
    )


def _is_for_kernels(x: Any, edge_index: Any, *more: Any) -> bool:
    """Whether a layer is called with rows and edges alone, of kinds that the kernels know."""
    rows = x if isinstance(x, tuple | list) else (x,)
    return (
        type(edge_index) is torch.Tensor
        and edge_index.layout == torch.strided
        and edge_index.dtype == torch.int64
        and all(_is_plain(row) and row.ndim == 2 for row in rows)
        and all(value is None for value in more)
    )


def _is_of_edges(layer: Any, ours: Any, x: Any, num_edges: int, value: Any) -> bool:
    """Whether what a layer is given beside rows and edges belongs to edges, and is known to our layer of its kind.

    x: rows, (): there are nodes in place of them.
    """
    if layer.explain or type(value) is not torch.Tensor or value.shape[:1] != (num_edges,):
        return False
    if ours is RGCNConv:
        are_types = value.dtype == torch.int64 and value.device.type == "cpu" and value.ndim == 1
        return are_types and (not isinstance(x, tuple) or len(x) > 0 or layer.num_blocks is None)
    first = x[0] if isinstance(x, tuple | list) and x else x
    if not _is_plain(first) or not _is_plain(value) or value.dtype != first.dtype:
        return False
    if ours is GCNConv:
        return value.ndim == 1
    if ours is GINEConv:  # what does not fit together PyG refuses in its words
        sizes = (first.shape[-1],) * 2 if layer.lin is None else (layer.lin.in_channels, layer.lin.out_channels)
        return value.ndim == 2 and (value.shape[1], first.shape[-1]) == sizes
    return ours in _ATTENTION and layer.edge_dim is not None and value.ndim == 2


def _are_nodes(x: Any) -> bool:
    """Whether it stands for nodes without rows: their numbers, or nothing, which means all."""
    return x is None or (
        type(x) is torch.Tensor and x.dtype == torch.int64 and x.ndim == 1 and x.device.type == "cpu"
    )  # fmt: skip


def _is_plain(x: Any) -> bool:
    are_numbers = type(x) in (torch.Tensor, torch.nn.Parameter) and x.dtype in (torch.float32, torch.float64)
    return are_numbers and x.device.type == "cpu"
