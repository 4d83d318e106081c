"""What a module of PyG layers does, operation by operation: traced by torch.fx, and run once on a small graph.

Legend: N nodes of the small graph, S its edges.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.fx import Graph, Node, Tracer
from torch.fx.node import map_arg

from any2vec.nn.layerwise.messages import passes_messages
from any2vec.types import Csr

_NODES = 53
"""of the small graph: a prime, so that no other size is taken for it"""
OF_EDGES = "of edges"
"""what gives a row an edge"""


class NotTracedError(Exception):
    """Why a module cannot be computed layer by layer: a clause, without a full stop."""


@dataclass(eq=False)
class Operation:
    """One step of a forward."""

    node: Node
    args: tuple[Any, ...]
    """operations stand for what they give"""
    kwargs: dict[str, Any]
    is_message: bool
    degree: int
    """of messages behind each other that it is behind, itself among them"""
    kind: str
    """rows: gives a row a node; edges: is the edges; of edges: gives a row an edge; const: depends on no node; loose:
    anything else, such as a list of rows or their number"""
    shape: tuple[int, ...] = ()
    """of a row"""
    changes: bool = False
    """it changes what it takes"""
    users: list[Operation] = field(default_factory=list)

    @property
    def columns(self) -> int:
        """Numbers of a row."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def inputs(self) -> list[Operation]:
        """What it takes, each once, in order."""
        return list(dict.fromkeys(_operations(self.args))) + [
            one for one in dict.fromkeys(_operations(self.kwargs)) if one not in list(_operations(self.args))
        ]

    @property
    def rows(self) -> list[Operation]:
        """Those that give rows and that it takes, in lists and sizes of them, too."""
        found: dict[Operation, None] = {}
        for one in self.inputs:
            found.update(dict.fromkeys([one] if one.kind == "rows" else one.rows))
        return list(found)

    def __str__(self) -> str:
        target = self.node.target
        name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
        return str(name).removeprefix("module.")


class Probe(NamedTuple):
    """A small graph with a hub, a loop, and a node without neighbors."""

    csr: Csr
    x_ND: torch.Tensor
    edge_index: torch.Tensor
    """int64 (2, S), by target"""
    edge_SK: torch.Tensor | None
    """float32 (S, K): features of edges, where a module is given some"""

    @property
    def num_edge_features(self) -> int:
        """K; 0: there are none."""
        return 0 if self.edge_SK is None else self.edge_SK.shape[1]

    @property
    def arguments(self) -> tuple[torch.Tensor, ...]:
        """Of a module's forward: rows, edges, and features of edges where there are some."""
        more = () if self.edge_SK is None else (self.edge_SK,)
        return (self.x_ND, self.edge_index, *more)


class Trace(NamedTuple):
    """A module, traced."""

    root: torch.nn.Module
    """has the module as `module`"""
    x: Operation
    edge_attr: Operation | None
    """features of edges, where the module takes some"""
    operations: list[Operation]
    """in order, those that give nothing to the output left out"""
    output: Operation
    values: dict[Operation, Any]
    """on the small graph"""


class Entry(torch.nn.Module):
    """Calls a module with rows and edges alone: its other arguments have their defaults."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Any, edge_index: Any) -> Any:
        return self.module(x, edge_index)


class FeaturedEntry(Entry):
    """The same, with features of edges, too."""

    def forward(self, x: Any, edge_index: Any, edge_attr: Any) -> Any:  # type: ignore[override]
        return self.module(x, edge_index, edge_attr=edge_attr)


def entry_of(module: torch.nn.Module, num_edge_features: int) -> Entry:
    """What calls a module; num_edge_features: 0: it is given none."""
    return FeaturedEntry(module) if num_edge_features else Entry(module)


class _Tracer(Tracer):
    """Layers that pass messages, and modules that hold none, are operations; lists of modules are looked into."""

    def is_leaf_module(self, module: torch.nn.Module, name: str) -> bool:
        if passes_messages(module):
            return True
        is_inner = name != "module" and not isinstance(module, torch.nn.Sequential)
        return is_inner and not any(map(passes_messages, module.modules()))


def small_graph(num_features: int, num_edge_features: int = 0) -> Probe:
    """Always the same; its edges have features where some are asked for."""
    draws = np.random.default_rng(1)
    rows = [np.sort(draws.choice(_NODES, number, replace=False)) for number in draws.integers(1, 6, _NODES)]
    rows[3], rows[7], rows[11] = np.arange(20), np.array([7, 9]), np.empty(0, np.int64)
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    src_S = np.concatenate(rows)
    dst_S = np.repeat(np.arange(_NODES), np.diff(indptr))
    x_ND = torch.from_numpy(draws.normal(size=(_NODES, num_features)).astype(np.float32))
    csr = Csr(indptr, src_S.astype(np.int32), np.empty(0, np.float32))
    row_SK = draws.normal(size=(len(src_S), num_edge_features)).astype(np.float32)
    edge_SK = torch.from_numpy(row_SK) if num_edge_features else None
    return Probe(csr, x_ND, torch.from_numpy(np.stack([src_S, dst_S])), edge_SK)


def moved_copy(module: torch.nn.Module) -> torch.nn.Module:
    """In evaluation, with all parameters moved off where they start, always in the same way: a layer, a scale or a gate
    that starts at 0 would hide what comes before it. Scales and gates get larger, so that what is positive stays so."""
    found, draws = copy.deepcopy(module).eval(), torch.Generator().manual_seed(2)
    with torch.no_grad():
        for value in found.parameters():
            if value.is_floating_point():
                step = torch.empty(value.shape, dtype=value.dtype)
                if value.ndim > 1:
                    value.add_(step.normal_(0, max(1, *value.shape) ** -0.5, generator=draws))
                else:
                    value.add_(step.uniform_(0.1, 0.5, generator=draws))
    return found


def trace(module: torch.nn.Module, probe: Probe) -> Trace:
    """What a module in evaluation mode does.

    Raises:
        NotTracedError: torch.fx cannot say, or it does what cannot be done for some nodes alone.
    """
    root = entry_of(module, probe.num_edge_features)
    cached = [name for name, part in module.named_modules() if passes_messages(part) and getattr(part, "cached", False)]
    if cached:
        raise NotTracedError(f"its layer {cached[0]} keeps the edges that it sees first (cached=True)")
    try:
        graph = _Tracer().trace(root)
    except Exception as error:
        raise NotTracedError(f"torch.fx cannot trace its forward ({first_line(error)})") from error
    with torch.no_grad():
        return _Reading(copy.deepcopy(root), probe).read(root, graph)


def first_line(error: Exception) -> str:
    """Kind and message of an error, on one line."""
    text = " ".join(str(error).split("\n")[0].split()).rstrip(".")
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def carry_out(operation: Operation, root: torch.nn.Module, value: Any) -> Any:
    """What an operation gives. value: of operations among its arguments."""
    node, target = operation.node, operation.node.target
    args, kwargs = placed(operation.args, value), placed(operation.kwargs, value)
    if operation.changes:
        args = (args[0].clone(), *args[1:])
    if node.op == "call_function":
        assert callable(target)
        return target(*args, **kwargs)
    if node.op == "call_method":
        return getattr(args[0], str(target))(*args[1:], **kwargs)
    if node.op == "get_attr":
        found: Any = root
        for name in str(target).split("."):
            found = getattr(found, name)
        return found
    return root.get_submodule(str(target))(*args, **kwargs)


def placed(argument: Any, value: Any) -> Any:
    """An argument with what `value` says in place of operations."""
    if isinstance(argument, Operation):
        return value(argument)
    if isinstance(argument, tuple | list):
        found = [placed(one, value) for one in argument]
        return tuple(found) if isinstance(argument, tuple) else found
    if isinstance(argument, dict):
        return {name: placed(one, value) for name, one in argument.items()}
    if isinstance(argument, slice):
        return slice(*(placed(one, value) for one in (argument.start, argument.stop, argument.step)))
    return argument


def _operations(argument: Any) -> Iterator[Operation]:
    found: list[Operation] = []
    placed(argument, found.append)
    yield from found


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


class _Reading:
    """Runs a traced graph once, and sees what each of its operations is."""

    def __init__(self, root: torch.nn.Module, probe: Probe) -> None:
        self.root, self.probe = root, probe
        self.values: dict[Operation, Any] = {}
        self._now: dict[Node, Operation] = {}
        """which operation gives what stands for a node by now"""

    def read(self, root: torch.nn.Module, graph: Graph) -> Trace:
        found: list[Operation] = []
        inputs: list[Operation] = []
        for node in graph.nodes:
            if node.op == "placeholder":
                inputs.append(self._input(node))
            elif node.op == "output":
                return self._finished(root, inputs, found, node.args[0])
            elif (operation := self._step(node)) is not None:
                found.append(operation)
        raise NotTracedError("its forward gives nothing")

    def _finished(self, root: Any, inputs: list[Operation], found: list[Operation], given: Any) -> Trace:
        output = self._now.get(given) if isinstance(given, Node) else None
        if output is None or output.kind != "rows":
            raise NotTracedError("its forward does not give a row a node")
        kept: dict[Operation, None] = {}
        open_ones = [output]
        while open_ones:
            one = open_ones.pop()
            if one not in kept:
                kept[one] = None
                open_ones += one.inputs
        operations = [one for one in found if one in kept]
        for one in operations:
            for given_one in one.inputs:
                given_one.users.append(one)
        return Trace(root, inputs[0], inputs[2] if len(inputs) > 2 else None, operations, output, self.values)

    def _input(self, node: Node) -> Operation:
        values = dict(zip(("x", "edge_index", "edge_attr"), self.probe.arguments, strict=False))
        kind = {"x": "rows", "edge_index": "edges", "edge_attr": OF_EDGES}[str(node.target)]
        value = values[str(node.target)]
        found = Operation(node, (), {}, False, 0, kind, tuple(value.shape[1:]) if kind == "rows" else ())
        self._now[node], self.values[found] = found, value.clone()  # forwards may change what they take
        return found

    def _step(self, node: Node) -> Operation | None:
        """An operation; None: it gives what it takes, unchanged."""
        now: Any = self._now.__getitem__
        args: Any = map_arg(node.args, now)
        kwargs: Any = map_arg(node.kwargs, now)
        is_message = node.op == "call_module" and passes_messages(self.root.get_submodule(str(node.target)))
        found = Operation(node, tuple(args), dict(kwargs), is_message, 0, "loose")
        kinds = {one.kind for one in found.inputs}
        takes_edges = "edges" in kinds
        if takes_edges != is_message:
            what = "takes the edges and is no layer of PyG" if takes_edges else "is given no edges"
            raise NotTracedError(f"its {found} {what}")
        if OF_EDGES in kinds and not is_message and not kinds <= {OF_EDGES, "const"}:
            raise NotTracedError(f"its {found} takes features of edges and rows of nodes, and is no layer of PyG")
        before, saved = self._versions(found), {one: _copied(self.values[one]) for one in found.inputs}
        try:
            value = carry_out(found, self.root, self.values.__getitem__)
        except Exception as error:
            raise NotTracedError(f"its {found} fails by itself ({first_line(error)})") from error
        same = [one for one in found.inputs if self.values[one] is value and isinstance(value, torch.Tensor)]
        if same and self._versions(found) == before:
            self._now[node] = same[0]
            return None
        self._place(found, value)
        self._now[node], self.values[found] = found, value
        if same:
            found.changes = True
            self.values.update(saved)
            for known, operation in list(self._now.items()):
                if operation is same[0]:
                    self._now[known] = found
        return found

    def _versions(self, operation: Operation) -> list[int]:
        given = (self.values[one] for one in operation.inputs)
        return [value._version for value in given if isinstance(value, torch.Tensor)]

    def _place(self, found: Operation, value: Any) -> None:
        """Say what an operation is, by what it has given."""
        known = [one for one in found.inputs if one.kind != "const"]
        found.degree = max((one.degree for one in known), default=0) + found.is_message
        if not known:
            found.kind = "const"
        elif not found.is_message and any(one.kind == OF_EDGES for one in known):
            if not isinstance(value, torch.Tensor) or value.ndim == 0 or len(value) != len(self.probe.edge_index[0]):
                raise NotTracedError(f"its {found} takes features of edges and gives no row an edge")
            found.kind = OF_EDGES
        elif isinstance(value, torch.Tensor):
            if value.ndim == 0 or len(value) != _NODES:
                raise NotTracedError(f"its {found} gives {tuple(value.shape)} for {_NODES} nodes, not a row a node")
            found.kind, found.shape = "rows", tuple(value.shape[1:])
        elif found.is_message:
            raise NotTracedError(f"its layer {found} gives no tensor alone")
