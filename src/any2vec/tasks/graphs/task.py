"""The task of graph networks: classes of nodes from features and neighbors."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from any2vec import machine
from any2vec.cluster.launch.join import check_torch
from any2vec.errors import InputError
from any2vec.models.networks.config.base import objective_name
from any2vec.models.networks.config.own import OwnModule
from any2vec.options.storage import StorageOptions
from any2vec.tasks.graphs.options import CacheOptions
from any2vec.train.task import RUN, Nouns, Task

if TYPE_CHECKING:
    from any2vec.cluster.transport import Transport
    from any2vec.plan.cost.size import Size
    from any2vec.tasks.graphs.planning import NetworkPlan
    from any2vec.tasks.graphs.prepare import PreparedGraph
    from any2vec.train.spec import Hooks, Request, RunSpec

_ONE = "graph networks train on one host"
_DENSE = "it has no table of rows"
_CONFIG = "any2vec.models.networks.config"
_LAYERS = f"{_CONFIG}.layers"


class Graphs(Task):
    """GraphSAGE, GCN, GAT, GATv2, GIN, GINE, R-GCN, APPNP, SGC, and modules of a user's own."""

    name = "graphs"
    title = "nodes with features"
    rank = 45
    models: ClassVar = {
        "graphsage": f"{_LAYERS}:GraphSAGE", "gcn": f"{_LAYERS}:GCN", "gat": f"{_LAYERS}:GAT",
        "gatv2": f"{_LAYERS}:GATv2", "gin": f"{_LAYERS}:GIN", "gine": f"{_LAYERS}:GINE",
        "rgcn": f"{_CONFIG}.relational:RGCN", "appnp": f"{_LAYERS}:APPNP", "sgc": f"{_LAYERS}:SGC",
        "module": f"{_CONFIG}.own:OwnModule",
    }  # fmt: skip
    about: ClassVar = {
        "graphsage": "classes of nodes by own and sampled neighbors' features (GraphSAGE)",
        "gcn": "classes of nodes by graph convolutions (GCN)",
        "gat": "classes of nodes by attention to neighbors (GAT)",
        "gatv2": "classes of nodes by dynamic attention to neighbors (GATv2)",
        "gin": "classes of nodes by an MLP of own and summed neighbors (GIN)",
        "gine": "classes of nodes by GIN with features of edges (GINE)",
        "rgcn": "classes of nodes whose edges have types (R-GCN)",
        "appnp": "classes of nodes by an MLP and personalized PageRank (APPNP)",
        "sgc": "classes of nodes by a linear model of smoothed features (SGC)",
        "module": "classes of nodes by a module of your own of PyG's layers",
    }
    reading: ClassVar = {
        "graph": "any2vec.data.options:GraphOptions", "nodes": "any2vec.data.options:NodeOptions",
        "cache": "any2vec.tasks.graphs.options:CacheOptions",
    }  # fmt: skip
    leaves_out: ClassVar = ("linear_probe",)
    has: ClassVar = {"run": (*RUN, "patience"), "storage": ("memory",)}
    lacks: ClassVar = {
        **dict.fromkeys(("hosts", "logical_hosts", "link", "host_timeout", "ray", "restarts"), _ONE),
        **dict.fromkeys(("sync", "scheme", "rounds_per_epoch", "bits", "overlap", "servers", "sync_servers"), _ONE),
        **dict.fromkeys(("dual", "credits", "staleness_bound", "partition", "read"), _ONE),
        "plan": f"{_ONE}: any2vec estimate says what that takes",
        "init": _DENSE, "cache": _DENSE, "cache_rows": _DENSE, "order": _DENSE,
        "validate": "it validates by the split of its nodes, --split",
        "cache_dir": "a graph folder (any2vec graph build) is what is kept",
    }  # fmt: skip
    score_options: ClassVar = ("module",)
    help: ClassVar = {  # a line each, for there are many; docs/graphs.md and the configs say more
        "sampling": "what batches take from the graph",
        "fanouts": "by layer, as 15,10, or all; rgcn: by type, too",
        "sample_key": "how long samples stay",
        "batch_order": "of training nodes",
        "batch_size": "nodes that a batch scores",
        "node_order": "in memory, for full-graph",
        "num_parts": "cluster: parts; by default by --batch-size",
        "parts_per_batch": "cluster: parts that a batch joins",
        "partitioner": "finds parts; by default metis if there",
        "halo": "cluster: hops around the parts of a batch",
        "walk_steps": "walks: steps of a walk",
        "sample_coverage": "walks: epochs to weigh by; 0: no weights",
        "weight_decay": "times half the squared weights",
        "residual": "add a node's own row to what a layer gives",
        "jumping_knowledge": "classes from what all layers give",
        "objective": "what is learned; classes alone need labels",
        "num_negatives": "by link (default 1); unsupervised: by batch (20)",
        "negatives": "links: drawn so; default uniform",
        "val_share": "links: share of edges that validates",
        "test_share": "links: share of edges for the test",
        "walk_length": "unsupervised: nodes of a walk",
        "aggregator": "of neighbors' rows",
        "module": "package:Class of a module, or of a function that makes one",
        "module_args": "further arguments of the class, a JSON object",
        "accelerate": "run PyG's layers by any2vec's kernels",
        "patience": "epochs without a better score; default 0: no stop",
        "residency": "rows in memory, with --memory",
        "superbatch": "belady: batches looked ahead; by default by memory",
        "adjacency": "where lists of neighbors lie, with --memory",
        "neighbor_cache": "adjacency disk: bytes of lists in memory",
    }
    needs_folder: ClassVar = False  # what a classifier predicts rightly may be all that is wanted
    input: ClassVar = "a folder of any2vec graph build, or edges (edge list, Parquet, Matrix Market; of rgcn triples)"

    def nouns(self, model: Any) -> Nouns:
        return Nouns("nodes", {"links": "edges", "unsupervised": "walks"}.get(objective_name(model), "nodes"))

    def check(self, spec: RunSpec, hooks: Hooks) -> None:
        check_torch("Graph networks")
        if spec.model.node_order in ("metis", "gcod") or spec.model.partitioner == "metis":
            from any2vec.plan.sharding.graph import check_metis

            check_metis()
        if hooks.on_epoch is not None:
            raise InputError(f"on_epoch does not apply to {spec.model.name}; leave it out.")
        nodes = spec.reading.get("nodes")
        if nodes is not None and (nodes.psi is not None or nodes.linear_probe):
            name = "linear_probe" if nodes.linear_probe else "psi"
            raise InputError(f"{name} is for ga-mlp, and does nothing for {spec.model.name}; leave it out.")
        if nodes is not None and objective_name(spec.model) != "classes":
            for name in ("labels", "split"):
                if getattr(nodes, name) is not None:
                    raise InputError(
                        f"{name} does nothing with objective {spec.model.objective}, which learns from edges alone; "
                        "leave it out."
                    )
        given = None if nodes is None else nodes.edge_features
        if given is not None and given is not False and not spec.model.takes_edge_features:
            fix = "give edge_attr, too" if isinstance(spec.model, OwnModule) else "take gat, gatv2 or gine"
            raise InputError(
                f"edge_features does nothing for {spec.model.name}, which makes nothing of features of edges; leave it "
                f"out, or {fix}."
            )
        cache = spec.reading.get("cache") or CacheOptions()
        if cache.adjacency == "disk":
            from any2vec.tasks.graphs.adjacency import check_lists

            check_lists(spec)
        if cache != CacheOptions() and spec.storage.memory is None:
            raise InputError("residency chooses rows where memory is small; give a budget, like --memory 2GB.")

    def read(self, spec: RunSpec, hooks: Hooks) -> PreparedGraph:
        from any2vec.tasks.graphs.prepare import prepare_graph

        nodes, graph = spec.reading.get("nodes"), spec.reading.get("graph")
        found = prepare_graph(spec.model, spec.data, nodes, graph, hooks.stage, spec.run.seed)
        if spec.run.patience and not found.metadata["num_val"]:
            raise InputError(
                "patience waits for a better validation score, and nothing validates; give a split with val nodes "
                "(classes), or val_share (links)."
            )
        return found

    @contextmanager
    def limits(self, spec: RunSpec) -> Iterator[None]:
        """One network: its matrices are multiplied by all threads of the run."""
        from threadpoolctl import threadpool_limits

        machine.ask_for_huge_pages()
        from any2vec.models.torch_threads import torch_threads

        threads = self.threads(spec, 1)
        with threadpool_limits(limits=threads, user_api="blas"), torch_threads(threads):
            yield

    def program(self, request: Request, data: Any, transport: Transport) -> Any:
        from any2vec.tasks.graphs.program import NetworkProgram

        return NetworkProgram(request, data, transport)

    def settings(self, spec: RunSpec, data: Any, hosts: int) -> dict[str, Any]:
        return replace(spec, storage=StorageOptions()).settings(data.metadata)  # any budget trains the same weights

    def size(self, spec: RunSpec, metadata: Mapping[str, Any]) -> Size:
        from any2vec.tasks.graphs.planning import size_of_network

        return size_of_network(spec.model, metadata, self.threads(spec, 1), self.memory_plan(spec, metadata))

    def memory_plan(self, spec: RunSpec, metadata: Mapping[str, Any]) -> NetworkPlan:
        """What a run keeps in memory. Raises InputError where its budget is too small."""
        from any2vec.tasks.graphs.adjacency import plan_of

        budget = spec.storage.memory_bytes, machine.process_bytes(), self.threads(spec, 1)
        return plan_of(spec.model, metadata, *budget, spec.reading.get("cache") or CacheOptions())

    def sized(self, spec: RunSpec, metadata: Mapping[str, Any]) -> dict[str, Any]:
        from any2vec.tasks.graphs.planning import vector_columns

        needs, process, threads = self.size(spec, metadata), machine.process_bytes(), self.threads(spec, 1)
        found = needs.as_dict(
            needs.whole(process + needs.fixed_bytes(threads)), process_bytes=process, threads=threads
        )  # fmt: skip
        about = {
            "dim": vector_columns(spec.model, metadata),
            "epochs": spec.run.epochs or spec.model.default_epochs,
        }
        plan = self.memory_plan(spec, metadata)
        lists = {"adjacency": plan.adjacency} if plan.adjacency else {}
        return found | about | {"features": plan.sentence} | lists

    def scorer(self, folder: Path) -> Any:
        from any2vec.models.networks.classifier import read_network
        from any2vec.tasks.graphs.predict import scorer_of

        return read_network(folder, scorer_of)

    def score(self, folder: Path, data: Path, **options: Any) -> Iterator[str]:
        from any2vec.models.networks.classifier import NetworkClassifier
        from any2vec.tasks.graphs.predict import pair_lines, predicted_lines

        scorer, module = self.scorer(folder), options.get("module")
        if isinstance(scorer, NetworkClassifier):
            return predicted_lines(scorer.with_module(module), data)
        if module is not None:
            raise InputError(f"The network is {scorer.model.name}, and no module of your own; leave out --module.")
        return pair_lines(folder, data)

    def next_step(self, model: Any, folder: Path, keys: Sequence[str]) -> str:
        if objective_name(model) != "classes":
            command = ["any2vec", "evaluate", str(folder), "--task", "nodes", "--data", "LABELS"]
            if model.objective == "links":
                command = ["any2vec", "score", str(folder), "PAIRS"]
                return f"To score pairs of nodes, lines of two:  {shlex.join(command)}"
            return f"To see how well vectors tell labels:  {shlex.join(command)}"
        own = ["--module", model.module] if isinstance(model, OwnModule) else []
        command = ["any2vec", "score", str(folder), "GRAPH", *own]
        return f"To predict classes of the nodes of a graph folder, this or another:  {shlex.join(command)}"

    def lines(self, summary: Mapping[str, Any]) -> list[tuple[str, str]]:
        where = [(name, summary[name]) for name in ("features", "adjacency") if summary.get(name)]
        if "pruned" in summary:
            from any2vec.tasks.graphs.prune import pruned_sentence

            where.append(("pruned", pruned_sentence(summary["pruned"])))
        if name := summary["data"].get("unused_edge_features"):
            num = summary["data"]["num_edge_features"]
            where.append(("note", f"{name} makes nothing of features of edges: the {num:,} are not used"))
        if "test_auc" in summary:
            return [*_link_lines(summary), *where]
        metric = "accuracy" if "test_accuracy" in summary else "micro_f1"
        found = [(part, summary.get(f"{part}_{metric}")) for part in ("train", "val", "test")]
        shares = ", ".join(f"{part} {value:.1%}" for part, value in found if value is not None)
        if not shares:
            return where
        epochs = f"{summary['best_epoch']} of {summary['epochs_done']}"
        if summary.get("why_whole"):
            where.append(("all nodes", f"scored over the whole graph at once, for {summary['why_whole']}"))
        return [(metric.replace("_", "-"), shares), ("best epoch", epochs), *where]


def _link_lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, words in (("auc", "AUC"), ("mrr", "MRR"), ("hits_at_10", "hits@10")):
        scores = [(part, summary.get(f"{part}_{name}")) for part in ("val", "test")]
        known = ", ".join(f"{part} {value:.4f}" for part, value in scores if value is not None)
        if known:
            yield words, known
