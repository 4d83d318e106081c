"""A traced module as stages, each of which passes messages once at most and is computed for all nodes before the next.

Operations of the same message degree are one stage: d(op) = max d(inputs) + [op passes messages]. What later stages
want of earlier ones is carried along: a stage takes one matrix of rows and gives one, values side by side.

Source: DGI (Yin et al. 2022, arXiv 2211.15082, section 4). Ours: operations on a node's own rows that only a later
stage wants go there, where what they take is carried past that stage's messages anyway; the stages are
checked against the module on a small graph.

Legend: M nodes that have rows, F of them, the first ones, that a stage answers for, N nodes of a graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from any2vec.nn.aggregate import Neighbors
from any2vec.nn.layerwise.messages import Edges, edge_columns, run_layer, ways_of
from any2vec.nn.layerwise.trace import (
    OF_EDGES,
    NotTracedError,
    Operation,
    Probe,
    Trace,
    carry_out,
    entry_of,
    first_line,
    moved_copy,
    placed,
    small_graph,
    trace,
)  # fmt: skip
from any2vec.sampling.neighbors import NeighborOptions, NeighborSampler

_CLOSE = 1e-4
"""times the largest value on the small graph: by how much stages may differ from the module there"""
_FIRST = 20
"""nodes of the small graph that are a batch; the others are another"""


class Stage(NamedTuple):
    """What is computed for all nodes before the next stage begins."""

    takes: tuple[Operation, ...]
    """values that a row of it has, side by side"""
    gives: tuple[Operation, ...]
    operations: tuple[Operation, ...]
    """that give rows, in order"""

    @property
    def reads_neighbors(self) -> bool:
        """Whether it passes messages."""
        return any(operation.is_message for operation in self.operations)

    @property
    def columns_made(self) -> int:
        """Numbers of each row that it makes."""
        return sum(operation.columns for operation in self.operations)


class Cut:
    """A module that is computed stage by stage; it shares the module's parameters.

    Args:
        ways: in which each layer that passes messages is run.
        hidden: columns of the last stage's rows that its last operation with weights reads, the first ones.
    """

    def __init__(self, traced: Trace, stages: list[Stage], ways: dict[Operation, str], hidden: int) -> None:
        self.stages, self.hidden = stages, hidden
        self._trace, self._ways = traced, ways

    @property
    def widths(self) -> tuple[int, ...]:
        """Columns that each stage takes, and those of the output."""
        return (*(_columns(stage.takes) for stage in self.stages), self._trace.output.columns)

    @property
    def num_hops(self) -> int:
        """How often messages are passed."""
        return sum(stage.reads_neighbors for stage in self.stages)

    def edge_columns(self, number: int) -> int:
        """Numbers of 4 bytes that a stage holds for each edge, about."""
        found = 0
        for one in self.stages[number].operations:
            if one.is_message:
                layer = self._trace.root.get_submodule(str(one.node.target))
                given = max((row.columns for row in one.rows), default=0)
                found = max(found, edge_columns(layer, self._ways[one], given, one.columns))
        return found

    def run(self, number: int, x_MD: torch.Tensor, edges: Edges) -> torch.Tensor:
        """What a stage gives for the first F nodes, (F, widths[number + 1]); edges: to them, from all neighbors."""
        return self.given(number, self.values(number, x_MD, edges))

    def values(self, number: int, x_MD: torch.Tensor, edges: Edges) -> dict[Operation, Any]:
        """What each operation of a stage, and what the stage takes, gives for the first F nodes."""
        stage = self.stages[number]
        at = np.cumsum([0, *(one.columns for one in stage.takes)]).tolist()
        whole = {one: x_MD[:, first:stop].unflatten(1, one.shape) if len(one.shape) != 1 else x_MD[:, first:stop]
                 for one, (first, stop) in zip(stage.takes, pairwise(at), strict=True)}  # fmt: skip
        return self._values(stage, whole, edges, edges.num_targets)

    def given(self, number: int, done: dict[Operation, Any]) -> torch.Tensor:
        """What a stage gives, side by side; done: what its operations do."""
        given = [done[one].flatten(1) if len(one.shape) != 1 else done[one] for one in self.stages[number].gives]
        return given[0] if len(given) == 1 else torch.cat(given, dim=1)

    def _values(self, stage: Stage, whole: dict[Operation, Any], edges: Edges, num: int) -> dict[Operation, Any]:
        """What operations give for F nodes; whole: what the stage takes, of M."""
        done: dict[Operation, Any] = {one: value[:num] for one, value in whole.items()}
        if self._trace.edge_attr is not None:
            done[self._trace.edge_attr] = edges.edge_SK
        root = self._trace.root

        def value(one: Operation) -> Any:
            if one not in done:
                done[one] = carry_out(one, root, value)
            return done[one]

        def given(one: Operation) -> Any:
            if one.kind in ("const", OF_EDGES):
                return value(one)
            return one if one.kind == "edges" else whole[one] if one.kind == "rows" else carry_out(one, root, given)

        for one in stage.operations:
            done[one] = self._message(one, given, edges) if one.is_message else carry_out(one, root, value)
        return done

    def _message(self, one: Operation, given: Any, edges: Edges) -> torch.Tensor:
        return run_message(one, self._ways[one], self._trace.root, given, edges)


def run_message(one: Operation, way: str, root: torch.nn.Module, given: Any, edges: Edges) -> torch.Tensor:
    """What a layer that passes messages gives for F nodes. given: what operations give, for M nodes."""
    index = next(part for part in one.inputs if part.kind == "edges")
    args, kwargs = placed(one.args, given), placed(one.kwargs, given)
    return run_layer(root.get_submodule(str(one.node.target)), way, args, kwargs, index, edges)


def cut(module: torch.nn.Module, num_features: int, num_edge_features: int = 0) -> Cut:
    """The stages of a module, whose forward takes (x, edge_index), and edge_attr where edges have features, as it is in
    evaluation.

    Raises:
        NotTracedError: it cannot be computed layer by layer.
    """
    probe, tried = small_graph(num_features, num_edge_features), moved_copy(module)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        traced = trace(tried, probe)
        ways = {one: _way(one, traced, probe) for one in traced.operations if one.is_message}
        stages, hidden = _stages(traced)
        _check(Cut(traced, stages, ways, hidden), traced, probe)
    return Cut(traced._replace(root=entry_of(module, num_edge_features), values={}), stages, ways, hidden)


def _way(one: Operation, traced: Trace, probe: Probe) -> str:
    """In which a layer gives for some nodes what it gives for them in the whole graph."""
    layer, expected = traced.root.get_submodule(str(one.node.target)), traced.values[one][:_FIRST]
    if "normalized" in ways_of(layer) and any(part.kind == OF_EDGES for part in one.inputs):
        raise NotTracedError(f"its layer {one}, {type(layer).__name__}, normalizes by features of all edges of a node")
    why = ""
    for way in ways_of(layer):
        ids, edges = next(_batches(probe, [np.arange(_FIRST)]))

        def given(operation: Operation, ids: Any = ids, edges: Edges = edges) -> Any:
            if operation.kind == "rows":
                return traced.values[operation][ids]
            if operation is traced.edge_attr:
                return edges.edge_SK
            known = operation.kind in ("loose", OF_EDGES)
            return carry_out(operation, traced.root, given) if known else traced.values.get(operation, operation)

        def known(operation: Operation, given: Any = given) -> Any:
            return operation if operation.kind == "edges" else given(operation)

        try:
            if _are_close(run_message(one, way, traced.root, known, edges), expected):
                return way
            why = ""
        except Exception as error:
            why = f" ({first_line(error)})"
    raise NotTracedError(
        f"its layer {one}, {type(layer).__name__}, reads more of the graph than the neighbors of a node{why}"
    )


def _batches(probe: Probe, parts: list[np.ndarray]) -> Iterator[tuple[torch.Tensor, Edges]]:
    """(nodes that have rows, edges) of some nodes of the small graph each."""
    sampler = NeighborSampler(probe.csr, NeighborOptions(fanouts=(-1,)))
    src_S, dst_S = probe.edge_index.numpy()
    degree_N = np.bincount(dst_S[src_S != dst_S], minlength=len(probe.x_ND)).astype(np.float32)
    for ids in parts:
        found = sampler.sample(ids, with_edges=True)
        node_M = torch.from_numpy(found.node_M.astype(np.int64))
        edge_SK = None if probe.edge_SK is None else probe.edge_SK[torch.from_numpy(found.edge_S.astype(np.int64))]
        degree_M1 = torch.from_numpy(degree_N)[node_M, None]
        yield node_M, Edges(Neighbors(found.stop_D1, found.neighbor_S), degree_M1, edge_SK)


def _check(found: Cut, traced: Trace, probe: Probe) -> None:
    """Raise NotTracedError unless each operation of the stages, in batches, gives what it does in the module: of the
    output alone what goes on before a gate that is shut could not be told."""
    rows = probe.x_ND
    parts = [np.arange(_FIRST), np.arange(_FIRST, len(rows))]
    for number, stage in enumerate(found.stages):
        batches = _batches(probe, parts)
        done = [found.values(number, rows[ids], edges) for ids, edges in batches]
        for one in stage.operations:
            if traced.values[one].is_floating_point():
                whole = torch.cat([values[one] for values in done])
                if not _are_close(whole, traced.values[one]):
                    raise NotTracedError(
                        f"what its {one} gives for a node depends on more than the neighbors, and theirs, of the node"
                    )
        rows = torch.cat([found.given(number, values) for values in done])


def _are_close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    if found.shape != expected.shape:
        return False
    finite = expected[expected.isfinite()]
    most = float(finite.abs().max()) if finite.numel() else 0.0
    return torch.allclose(found, expected, rtol=0, atol=_CLOSE * max(1.0, most))  # equal infinities are close


def _stages(traced: Trace) -> tuple[list[Stage], int]:
    """(the stages, columns of what the last operation with weights reads)."""
    stage_of = {one: one.degree for one in traced.operations if one.kind == "rows"}
    last = traced.output.degree
    head = _head(traced, last)
    if head is not None and not head.is_message:
        last += 1
        moved = {head}
        for one in traced.operations:
            if one.kind == "rows" and (one in moved or any(row in moved for row in one.rows)):
                moved.add(one)
                stage_of[one] = last
    _delay(traced, stage_of, last)
    numbers = sorted({*stage_of.values(), last})
    used = _last_uses(traced, stage_of, last)
    made = {traced.x: -1, **stage_of}
    stages: list[Stage] = []
    takes: tuple[Operation, ...] = (traced.x,)
    for number in numbers:
        gives = tuple(one for one, at in made.items() if at <= number < used.get(one, -1))
        if number == last:
            gives = (traced.output,)
        elif number == numbers[-2] and head is not None:
            gives = tuple(sorted(gives, key=lambda one: one not in head.rows))
        operations = tuple(one for one, at in stage_of.items() if at == number)
        if operations or number == last:
            stages.append(Stage(takes, gives, operations))
            takes = gives
    for one in {one for stage in stages for one in stage.takes}:
        if one is not traced.x and traced.values[one].dtype != torch.float32:
            raise NotTracedError(f"its {one} gives {traced.values[one].dtype}, which later layers want, not float32")
    hidden = _columns(tuple(one for one in stages[-1].takes if head is None or one in head.rows))
    return stages, hidden


def _head(traced: Trace, last: int) -> Operation | None:
    """The last operation with weights behind all messages."""
    with_weights = [
        one for one in traced.operations if one.kind == "rows" and one.degree == last and _has_weights(one, traced.root)
    ]
    return with_weights[-1] if with_weights else None


def _has_weights(one: Operation, root: torch.nn.Module) -> bool:
    if one.node.op == "call_module":
        return any(True for _ in root.get_submodule(str(one.node.target)).parameters())
    return any(part.kind == "const" for part in one.inputs)


def _delay(traced: Trace, stage_of: dict[Operation, int], last: int) -> None:
    """Let operations on a node's own rows wait for the stage that wants them, where what they take goes there too."""
    for one in reversed(traced.operations):
        if one.kind != "rows" or one.is_message or one is traced.output:
            continue
        wanted = min((_stage_that_wants(user, one, stage_of) for user in _row_users(one)), default=last)
        used = _last_uses(traced, stage_of, last, but=one)
        if wanted > stage_of[one] and all(used.get(row, -1) >= wanted for row in one.rows):
            stage_of[one] = wanted


def _stage_that_wants(user: Operation, one: Operation, stage_of: dict[Operation, int]) -> int:
    """The latest stage in which an operation may be done for a user of it."""
    return stage_of[user] - user.is_message


def _row_users(one: Operation) -> Iterator[Operation]:
    """Operations that give rows of it, of lists and sizes of it, too."""
    for user in one.users:
        if user.kind == "rows":
            yield user
        else:
            yield from _row_users(user)


def _last_uses(
    traced: Trace, stage_of: dict[Operation, int], last: int, but: Operation | None = None
) -> dict[Operation, int]:  # fmt: skip
    """The last stage that reads what gives rows; the output is read behind the last stage."""
    found = {traced.output: last + 1}
    for one, number in stage_of.items():
        if one is not but:
            for row in one.rows:
                found[row] = max(found.get(row, -1), number)
    return found


def _columns(values: tuple[Operation, ...]) -> int:
    return sum(value.columns for value in values)
