"""A user's module as a network: trained on batches of sampled neighbors, and computed layer by layer for all nodes.

Legend: M nodes that have rows, F of them, the first ones, that a layer answers for, N nodes of a graph, S edges, C
classes.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from any2vec.errors import InputError
from any2vec.models.modules.imported import factory_at, make
from any2vec.models.modules.sizes import ModuleSizes
from any2vec.nn.accelerate import accelerate
from any2vec.nn.layerwise.cut import Cut, cut
from any2vec.nn.layerwise.messages import Edges, passes_messages
from any2vec.nn.layerwise.trace import NotTracedError, Probe, entry_of, first_line, moved_copy, small_graph
from any2vec.sampling.neighbors import NeighborOptions, NeighborSampler

if TYPE_CHECKING:
    from any2vec.models.networks.config.own import OwnModule
    from any2vec.models.networks.network import Block

_SEEDS = 10
"""of a batch of the small graph"""
_MESSAGE_ARRAYS = 3
"""rows that an unknown layer makes of each edge"""
_TRIMMED = ("num_sampled_nodes_per_hop", "num_sampled_edges_per_hop")
"""by which PyG's models leave out, layer by layer, what the seeds do not need any more"""


class ModuleNetwork(nn.Module):
    """A module, and its stages where it can be cut into such.

    Args:
        model: names the module. num_features, num_classes: its in_channels and out_channels.
        num_edge_features: columns that its edge_attr has; 0: it is given none.

    Raises:
        InputError: there is none of that name, it cannot be made, or its forward does not give a row of scores a node.
    """

    num_fixed = 0

    def __init__(self, model: OwnModule, num_features: int, num_classes: int, num_edge_features: int = 0) -> None:
        super().__init__()
        self.place, self._num_edge_features = model.module, num_edge_features
        self.module = _made(model, num_features, num_classes)
        _check_cached(self.module, model)
        parameters = inspect.signature(self.module.forward).parameters
        self.cut: Cut | None = None
        self.why_whole = ""
        """why it is not cut into layers; empty: it is"""
        _check_forward(self.module, self.place, small_graph(num_features, num_edge_features), num_classes)
        try:
            self.cut = cut(self.module, num_features, num_edge_features)
        except NotTracedError as error:
            self.why_whole = str(error)
        if self.cut is not None and self.cut.num_hops > model.num_layers:
            raise InputError(
                f"{self.place} passes messages {self.cut.num_hops} times, and batches reach {model.num_layers} hops; "
                f"give --num-layers {self.cut.num_hops}, or as many --fanouts."
            )
        self._is_trimmed = all(name in parameters for name in _TRIMMED) and self._can_be_trimmed()
        self._widths = self.cut.widths if self.cut is not None else (num_features, num_classes)
        self._edge_numbers = 0
        """numbers of an edge that are features of it, or made of these"""
        if num_edge_features:
            made = columns_made(self.module, small_graph(num_features, num_edge_features))
            self._edge_numbers = num_edge_features + sum(made[1])

    @property
    def widths(self) -> tuple[int, ...]:
        """Columns that each stage takes, and C."""
        return self._widths

    @property
    def is_cut(self) -> bool:
        """Whether it is computed layer by layer; else over the whole graph at once."""
        return self.cut is not None

    @property
    def hidden_columns(self) -> int:
        """Of what the last stage takes, those that are vectors of nodes, the first ones."""
        return self.cut.hidden if self.cut is not None else 0

    def reads_neighbors(self, number: int) -> bool:
        """Whether a stage passes messages."""
        return self.cut is None or self.cut.stages[number].reads_neighbors

    def edge_columns(self, number: int) -> int:
        """Numbers of 4 bytes that a stage holds for each edge, about."""
        return self.cut.edge_columns(number) + self._edge_numbers if self.cut is not None else 0

    def target_columns(self, number: int) -> int:
        """Numbers that a stage makes of each node, beside what it gives."""
        return self.cut.stages[number].columns_made if self.cut is not None else 0

    def forward(
        self, x_MD: torch.Tensor, blocks: list[Block], draws: torch.Generator | None = None, are_owned: bool = False
    ) -> torch.Tensor:  # fmt: skip
        """Scores of classes, (M or fewer, C), those of the seeds first, in training.

        Args:
            blocks: the first one has all edges. draws: whose seed is that of whatever the module draws; None: it is no
                training. are_owned: what it takes may be changed; else it is given copies.
        """
        edges, edge_SK = _edges_of(blocks[0]), blocks[0].edge_SK
        if not are_owned:
            x_MD, edge_SK = x_MD.clone(), None if edge_SK is None else edge_SK.clone()
        more = _of_edges(edge_SK)
        if self._is_trimmed and self.cut is not None and self.cut.num_hops == len(blocks):
            nodes = [block.num_targets for block in reversed(blocks)] + [len(x_MD)]
            more |= _by_hop(nodes, [len(block.neighbors.neighbor_S) for block in reversed(blocks)])
        self.module.train(draws is not None)
        if draws is not None and len(x_MD) == 1:
            _norm_by_running(self.module)
        with torch.random.fork_rng(devices=[], enabled=draws is not None):
            if draws is not None:
                torch.manual_seed(draws.initial_seed())
            found: torch.Tensor = self.module(x_MD, edges.edge_index, **more)
        return found

    def _can_be_trimmed(self) -> bool:
        """Whether the module gives the same for the seeds of a batch where it is told what each hop has found: layers
        of different sizes cannot be put side by side, as PyG's jumping knowledge does."""
        if self.cut is None:
            return False
        probe, hops = small_graph(self.cut.widths[0], self._num_edge_features), self.cut.num_hops
        sampler = NeighborSampler(probe.csr, NeighborOptions(fanouts=(-1,) * hops))
        found = sampler.sample(np.arange(_SEEDS), with_edges=True)
        nodes = np.cumsum(found.nodes_by_hop).tolist()
        more = _by_hop(nodes, [int(found.stop_D1[num]) for num in nodes[:-1]])
        edge_index, tried = torch.from_numpy(found.edge_index()), moved_copy(self.module)

        def scored(**told: Any) -> Any:
            rows = None if probe.edge_SK is None else probe.edge_SK[found.edge_S.astype(np.int64)]
            return tried(probe.x_ND[found.node_M.astype(np.int64)], edge_index, **_of_edges(rows), **told)[:_SEEDS]

        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                trimmed, whole = scored(**more), scored()
        except Exception:  # whatever it says, it can do without
            return False
        return bool(torch.allclose(trimmed, whole, rtol=1e-4, atol=1e-4))

    def infer(self, number: int, x_MD: torch.Tensor, block: Block) -> torch.Tensor:
        """What a stage gives the next one, or the scores of classes, (F, widths[number + 1])."""
        assert self.cut is not None
        self.module.eval()
        return self.cut.run(number, x_MD, _edges_of(block))

    def at_once(self, x_ND: torch.Tensor, block: Block) -> tuple[torch.Tensor, torch.Tensor]:
        """(what the last part with weights takes, scores of classes), of all nodes of a graph."""
        self.module.eval()
        taken: list[torch.Tensor] = []
        x_ND, edge_SK = x_ND.clone(), None if block.edge_SK is None else block.edge_SK.clone()

        def keep(_: nn.Module, args: tuple[Any, ...]) -> None:
            rows = args[0] if args else None
            rows = rows[0] if isinstance(rows, tuple | list) else rows
            if isinstance(rows, torch.Tensor) and rows.ndim == 2 and len(rows) == len(x_ND):
                taken[:] = [rows]

        hooks = [part.register_forward_pre_hook(keep) for part in _with_weights(self.module)]
        try:
            scores = self.module(x_ND, _edges_of(block).edge_index, **_of_edges(edge_SK))
        finally:
            for hook in hooks:
                hook.remove()
        return (taken or [x_ND])[0].detach(), scores

    def at_once_bytes(self, num_nodes: int, num_edges: int) -> int:
        """Of all nodes of a graph at once, about."""
        return self.sizes().at_once_bytes(num_nodes, num_edges)

    def sizes(self) -> ModuleSizes:
        """What it takes of memory, about."""
        columns = columns_made(self.module, small_graph(self.widths[0], self._num_edge_features))[0]
        stages = len(self.widths) - 1
        of_edges = max(self.edge_columns(number) for number in range(stages)) if self.cut is not None else 0
        return ModuleSizes(
            self.widths, sum(value.numel() for value in self.parameters()), tuple(columns),
            of_edges or self._edge_numbers + _MESSAGE_ARRAYS * max(columns, default=1), self.hidden_columns,
            self.is_cut,
        )  # fmt: skip


def sizes_of(model: OwnModule, num_features: int, num_classes: int, num_edge_features: int) -> ModuleSizes:
    """What a module takes of memory; it is made, and run on a small graph; arguments as of `ModuleNetwork`.

    Raises:
        InputError: it is none, or not as it must be.
    """
    return _sizes(factory_at(model.module), model, num_features, num_classes, num_edge_features)


@lru_cache(maxsize=8)
def _sizes(factory: Callable[..., Any], model: OwnModule, *columns: int) -> ModuleSizes:
    """factory: what the module's name stands for by now."""
    with torch.random.fork_rng(devices=[]):
        return ModuleNetwork(model, *columns).sizes()


def _edges_of(block: Block) -> Edges:
    return Edges(block.neighbors, block.degree_M1, block.edge_SK)


def _of_edges(edge_SK: torch.Tensor | None) -> dict[str, Any]:
    """By which a forward is given features of edges."""
    return {} if edge_SK is None else {"edge_attr": edge_SK}


def degrees_of(csr: Any) -> np.ndarray:
    """float32 (N,): in-neighbors, the node itself not counted: layers of PyG add each node's own loop."""
    num_N = np.diff(csr.indptr)
    is_loop_S = np.repeat(np.arange(len(num_N), dtype=csr.indices.dtype), num_N) == csr.indices
    if is_loop_S.any():
        num_N = num_N - np.bincount(csr.indices[is_loop_S], minlength=len(num_N))
    return num_N.astype(np.float32)


def columns_made(module: nn.Module, probe: Probe) -> tuple[list[int], list[int]]:
    """Numbers of each node, and of each edge, that parts of a module give, each part's own, run on a small graph."""
    found: tuple[list[int], list[int]] = [], []

    def count(_: nn.Module, args: Any, given: Any) -> None:
        if not isinstance(given, torch.Tensor) or not given.ndim:
            return
        if len(given) == len(probe.x_ND):
            found[0].append(given[0].numel())
        elif len(given) >= len(probe.edge_index[0]):  # or with a loop for each node
            found[1].append(given[0].numel())

    tried = copy.deepcopy(module).eval()
    for part in tried.modules():
        if passes_messages(part) or not any(True for _ in part.children()):
            part.register_forward_hook(count)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        entry_of(tried, probe.num_edge_features)(*probe.arguments)
    return found


def _made(model: OwnModule, num_features: int, num_classes: int) -> nn.Module:
    found = make(model.module, model.module_args, num_features, num_classes)
    if not isinstance(found, nn.Module):
        raise InputError(f"{model.module} is no torch.nn.Module, but makes {type(found).__name__}.")
    if any(isinstance(value, nn.UninitializedParameter) for value in found.parameters()):
        raise InputError(f"{model.module} has layers without sizes (-1); make them of in_channels and out_channels.")
    if not any(value.requires_grad for value in found.parameters()):
        raise InputError(f"{model.module} has no weights that can be trained.")
    if model.accelerate:
        try:
            accelerate(found)
        except InputError:  # no layer that the kernels know: it runs as it is
            return found
    return found


def _check_forward(module: nn.Module, place: str, probe: Probe, num_classes: int) -> None:
    """Raise InputError unless a forward gives scores of classes of a small graph's nodes."""
    entry = entry_of(copy.deepcopy(module).eval(), probe.num_edge_features)
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            found = entry(*probe.arguments)
    except Exception as error:
        nodes, call = f"{len(probe.x_ND)} nodes with {probe.x_ND.shape[1]} features", "forward(x, edge_index), without"
        if probe.num_edge_features:
            nodes += f" and edges with {probe.num_edge_features}"
            call = "forward(x, edge_index, edge_attr=...), without weights or"
        else:
            call += " features (edge_attr gives them) or"
        raise InputError(
            f"The forward of {place} fails on {nodes} ({first_line(error)}); it is called as {call} types of edges."
        ) from error
    if probe.edge_SK is not None and _is_same_without(module, probe, probe.edge_SK):
        raise InputError(
            f"The forward of {place} makes nothing of edge_attr; leave it out, or give its layers what they need to "
            "take it, as edge_dim (--module-args '{\"edge_dim\": N}')."
        )
    asked = len(probe.x_ND), num_classes
    if not isinstance(found, torch.Tensor) or tuple(found.shape) != asked or found.dtype != torch.float32:
        got = f"{found.dtype} {tuple(found.shape)}" if isinstance(found, torch.Tensor) else type(found).__name__
        raise InputError(
            f"The forward of {place} must give float32 {asked}, out_channels scores for each of {asked[0]} nodes; it "
            f"gives {got}."
        )
    if not torch.isfinite(found).all():
        raise InputError(f"The forward of {place} gives values that are no numbers (NaN or infinite), untrained.")


def _is_same_without(module: nn.Module, probe: Probe, edge_SK: torch.Tensor) -> bool:
    """Whether a forward gives the same where edges have others' features."""
    entry = entry_of(moved_copy(module), probe.num_edge_features)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        rows, others = (entry(probe.x_ND.clone(), probe.edge_index, one) for one in (edge_SK.clone(), edge_SK.flip(0)))
    return isinstance(rows, torch.Tensor) and torch.equal(rows, others)


def _check_cached(module: nn.Module, model: OwnModule) -> None:
    """Raise InputError where a layer would go on in all batches with the edges of the first one."""
    if model.sampling == "full-graph":
        return
    for name, layer in module.named_modules():
        is_plain = type(layer).__name__ == "AcceleratedGCNConv"  # its kernel keeps no edges
        if passes_messages(layer) and getattr(layer, "cached", False) and not is_plain:
            raise InputError(
                f"Layers of {model.module} must not keep the edges of their first batch with sampling "
                f"{model.sampling}, and its {name or type(layer).__name__} has cached=True; give it cached=False, or "
                "--sampling full-graph."
            )


def _norm_by_running(module: nn.Module) -> None:
    """Let batch normalization go by its running numbers: of one row there is no variance."""
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.eval()


def _with_weights(module: nn.Module) -> list[nn.Module]:
    """Layers that pass messages, and the smallest parts with weights outside them."""
    if passes_messages(module) or not any(True for _ in module.children()):
        return [module] if any(True for _ in module.parameters()) else []
    return [part for child in module.children() for part in _with_weights(child)]


def _by_hop(nodes: list[int], edges: list[int]) -> dict[str, list[int]]:
    """How many nodes and edges each hop from the seeds has, as PyG's loaders say; given: up to each hop, with it."""
    counts = ([nodes[0], *np.diff(nodes).tolist()], np.diff([0, *edges]).tolist())
    return dict(zip(_TRIMMED, counts, strict=True))
