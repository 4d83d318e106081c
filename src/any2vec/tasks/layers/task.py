"""The task of layers: classifiers of nodes that are trained layer by layer."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from any2vec.cluster.launch.join import check_torch, joined
from any2vec.errors import InputError
from any2vec.train.spec import Hooks
from any2vec.train.task import HOSTS, RUN, Nouns, Task, file_names

if TYPE_CHECKING:
    from any2vec.cluster.transport import Transport
    from any2vec.options.planning import Shape
    from any2vec.options.sync import SyncOptions
    from any2vec.plan.cost.size import Forecast, Size
    from any2vec.tasks.layers.prepare import PreparedNodes
    from any2vec.train.spec import Request, RunSpec
    from any2vec.types import Stage

_NEIGHBORS = "hosts hold layers, and neighboring layers exchange what they need"
_DENSE = "it has no table of rows"


class Layers(Task):
    """GA-MLP by pdADMM-G or back-propagation."""

    name = "layers"
    title = "classes of nodes"
    rank = 40
    models: ClassVar = {"ga-mlp": "any2vec.models.layers.ga_mlp:GAMLP"}
    about: ClassVar = {"ga-mlp": "classes of nodes by a network over augmented features (GA-MLP)"}
    reading: ClassVar = {
        "graph": "any2vec.data.options:GraphOptions", "nodes": "any2vec.data.options:NodeOptions",
    }  # fmt: skip
    leaves_out: ClassVar = ("edge_features",)
    has: ClassVar = {"run": (*RUN, "cache_dir"), "hosts": HOSTS, "sync": ("dual",)}
    lacks: ClassVar = {
        "init": _DENSE, "cache": _DENSE, "cache_rows": _DENSE, "memory": _DENSE, "order": _DENSE, "servers": _DENSE,
        "sync_servers": _NEIGHBORS, "sync": _NEIGHBORS, "scheme": _NEIGHBORS, "rounds_per_epoch": _NEIGHBORS,
        "validate": "the val nodes of --split are scored in each record",
        "patience": "all its epochs run, with the accuracy on the val nodes in each record",
        "bits": "quantize says on which grid what travels lies", "overlap": _NEIGHBORS, "credits": _NEIGHBORS,
        "staleness_bound": _NEIGHBORS, "read": "it reads a graph", "partition": "each host has the whole graph",
    }  # fmt: skip
    planning: ClassVar = ("any2vec.options.planning:Shape",)
    needs_folder: ClassVar = False  # what a classifier predicts rightly may be all that is wanted
    input: ClassVar = "a graph (edge list, Parquet, JSON Lines, Matrix Market): one file, or - for standard input"

    def nouns(self, model: Any) -> Nouns:
        return Nouns("nodes", "nodes")

    def check(self, spec: RunSpec, hooks: Hooks) -> None:
        model, hosts, nodes = spec.model, spec.hosts, spec.reading.get("nodes")
        if hooks.on_epoch is not None:
            raise InputError(f"on_epoch does not apply to {model.name}; leave it out.")
        if spec.run.threads > 1:
            raise InputError(
                f"A host of {model.name} has one thread, got threads = {spec.run.threads}; start more hosts instead."
            )
        if model.trainer != "pdadmm" and spec.sync.dual != "sent":
            raise InputError(f"dual does nothing with trainer {model.trainer}; leave it out.")
        if hosts.num_ranks is not None and hosts.num_ranks > model.num_layers:
            raise InputError(
                f"There are more hosts than layers, {hosts.num_ranks} and {model.num_layers}: each host needs a layer."
            )
        if nodes is not None and nodes.edge_features is not None:
            raise InputError("edge_features is for graph networks, and does nothing for ga-mlp; leave it out.")
        if nodes is not None and nodes.psi is not None and (hosts.hosts or hosts.ray or joined()):
            raise InputError("A function psi of your own cannot be sent to processes; use logical_hosts.")
        if model.trainer != "pdadmm":
            check_torch("Trainers by back-propagation")

    def threads(self, spec: RunSpec, local_hosts: int) -> int:
        return 1

    def agreement(self, spec: RunSpec) -> SyncOptions:
        return spec.sync

    def read(self, spec: RunSpec, hooks: Hooks) -> PreparedNodes:
        from any2vec.tasks.layers.prepare import prepare_nodes

        nodes, graph = spec.reading.get("nodes"), spec.reading.get("graph")
        return prepare_nodes(spec.model, spec.data, nodes, graph, spec.run.cache_dir, hooks.stage)

    @contextmanager
    def limits(self, spec: RunSpec) -> Iterator[None]:
        single: Any = nullcontext()
        if spec.model.trainer != "pdadmm":
            from any2vec.models.torch_threads import torch_threads

            single = torch_threads(1)
        with super().limits(spec), single:
            yield

    def program(self, request: Request, data: Any, transport: Transport) -> Any:
        from any2vec.tasks.layers.program import NodeProgram

        return NodeProgram(request, data, transport)

    def stored(self, spec: RunSpec, folder: Path, hooks: Hooks) -> RunSpec:
        from any2vec.data.graph.reader import open_graph
        from any2vec.tasks.layers.prepare import stored_options

        reading = dict(spec.reading)
        if "nodes" in reading:
            reading["nodes"] = stored_options(reading["nodes"], folder)
        try:
            return replace(spec, data=file_names(spec.data), reading=reading)
        except InputError:
            graph = reading.pop("graph", None)  # the options have done their work
            open_graph(spec.data, graph, None, hooks.stage).save(folder / "graph")
            return replace(spec, data=str(folder / "graph"), reading=reading)

    def size(self, spec: RunSpec, metadata: Mapping[str, Any]) -> Size:
        from any2vec.tasks.layers.planning import size_of_layers

        return size_of_layers(spec.model, metadata, spec.hosts.trainers or 1)

    def plan(self, spec: RunSpec, shape: Shape, machines: None, stage: Stage) -> Forecast:
        from any2vec.tasks.layers.planning import plan_layers

        self.check(spec, Hooks())
        found = (
            self.metadata_of(spec, shape) if shape.rows is not None else self.read(spec, Hooks(stage=stage)).metadata
        )
        return plan_layers(spec, found, self.sized(spec, found))

    def scorer(self, folder: Path) -> Any:
        from any2vec.models.layers.classifier import NodeClassifier

        return NodeClassifier.load(folder)

    def next_step(self, model: Any, folder: Path, keys: Sequence[str]) -> str:
        command = ["any2vec", "score", str(folder), "EDGES.tsv", "--features", "X.npz"]
        return f"To predict classes of these nodes, or of others:  {shlex.join(command)}"

    def lines(self, summary: Mapping[str, Any]) -> list[tuple[str, str]]:
        found = [(name, summary.get(f"{name}_accuracy")) for name in ("train", "val", "test")]
        shares = ", ".join(f"{name} {value:.1%}" for name, value in found if value is not None)
        linear = summary.get("linear_test_accuracy")
        beside = [] if linear is None else [("linear model", f"test {linear:.1%}")]
        return [("accuracy", shares), *beside] if shares else []
