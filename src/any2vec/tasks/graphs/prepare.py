"""From a graph, features, classes and a split to what a graph network trains on."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from any2vec.checks import check_whole
from any2vec.data.attributed.edge_features import FeaturedCsr
from any2vec.data.attributed.features import NodeNumbers
from any2vec.data.attributed.graph import SPLITS, AttributedGraph, is_attributed
from any2vec.data.attributed.relations import RelationalCsr
from any2vec.data.attributed.row_file import RowFile
from any2vec.data.options import GraphOptions, NodeOptions
from any2vec.errors import DataError, InputError
from any2vec.evaluate.graph.split import hold_out
from any2vec.models.networks.batches import LearnerData, fanouts_by_relation
from any2vec.models.networks.classifier import edges_for
from any2vec.models.networks.config.base import GraphNetwork, ObjectiveNetwork, objective_name
from any2vec.models.networks.config.layers import GINE
from any2vec.models.networks.config.own import OwnModule
from any2vec.models.networks.config.relational import RGCN
from any2vec.sampling.walks import is_symmetric
from any2vec.tasks.graphs.build import BuildOptions, is_given, write_graph
from any2vec.tasks.graphs.edges import TRIPLES
from any2vec.tasks.graphs.prune import PRUNED, pruned_sentence
from any2vec.types import Csr, Stage

_GIVEN = ("features", "labels", "split", "edge_features")


@dataclass(frozen=True)
class PreparedGraph:
    """A graph that a network can be trained on."""

    graph: AttributedGraph
    data: LearnerData
    metadata: dict[str, Any]
    file: RowFile | None
    """of the features; it may have no name any more; None: there are none"""


def prepare_graph(
    model: GraphNetwork, source: Any, nodes: NodeOptions | None, graph: GraphOptions | None, stage: Stage | None,
    seed: int = 1,
) -> PreparedGraph:  # fmt: skip
    """Open a graph folder, or write one of edges, features, classes and a split.

    Without a split all nodes that have classes train. Of several splits the first one is taken. Where links are
    learned, edges are held out by the seed.

    Raises:
        InputError: something is missing, or given twice; there are fewer nodes than parts of the graph.
        DataError: it cannot be read, or does not go together. FormatError: the folder is damaged.
    """
    options = nodes or NodeOptions()
    opened = _opened(source, options, graph)
    if opened is None:
        if isinstance(source, str | Path) and str(source) != "-" and not Path(source).exists():
            raise DataError(f"There is no {source}; give a graph folder, or a file of edges.")
        build = BuildOptions(
            features=options.features, labels=options.labels, split=options.split,
            edge_types=TRIPLES if isinstance(model, RGCN) else None,
            edge_features=options.edge_features if model.takes_edge_features else False,
        )  # fmt: skip
        with TemporaryDirectory(prefix="any2vec-graph-") as folder:  # mapped files outlive their names
            opened = _built(source, Path(folder) / "graph", build, graph, stage, objective_name(model) == "classes")
            return _prepared(model, opened, seed)
    return _prepared(model, opened, seed)


def _built(
    source: Any, out: Path, build: BuildOptions, graph: GraphOptions | None, stage: Stage | None, is_of_classes: bool
) -> AttributedGraph:
    """The folder; y and masks of PyG's data that are no classes and splits are left out where none are learned.

    Those that are stay, for checkpoints tell the data by them.
    """
    own: dict[str, Any] = {name: False for name in ("labels", "split") if getattr(build, name) is None}
    if own and not is_of_classes and (hasattr(source, "edge_index") or hasattr(source, "node_types")):
        with suppress(DataError):  # if it is of something else, it comes again
            return write_graph(source, out, build, graph=graph, stage=stage)
        build = replace(build, **own)
    return write_graph(source, out, build, graph=graph, stage=stage)


def _prepared(model: GraphNetwork, opened: AttributedGraph, seed: int) -> PreparedGraph:
    if PRUNED in opened.metadata:
        pruned_sentence(opened.metadata[PRUNED])  # a damaged one is refused now, not when the run has ended
    features, objective, is_featured = opened.features, objective_name(model), not isinstance(model, RGCN)
    if is_featured and features is None:
        what = {"classes": "classes of nodes", "links": "links"}.get(objective, "vectors of nodes")
        raise InputError(
            f"{model.name} learns {what} from features, and the graph has no features; give --features, or build the "
            "graph with them (node2vec and deepwalk learn vectors of nodes without)."
        )
    if isinstance(model, GINE) and not opened.num_edge_features:
        raise InputError(
            "gine sums messages of features of edges, and the graph has none; give --edge-features, or build the graph "
            "with them (gin sums those of nodes alone)."
        )
    if isinstance(model, OwnModule) and model.edge_attr and not opened.num_edge_features:
        raise InputError(
            "edge_attr asks for features of edges, and the graph has none; give --edge-features, build the graph with "
            "them, or leave out edge_attr."
        )
    if opened.labels is None and objective == "classes":
        without = ", or learn without: --objective links or unsupervised" * isinstance(model, ObjectiveNetwork)
        raise InputError(
            f"{model.name} learns classes of nodes, and the graph has no labels; give --labels, or build the graph "
            f"with them{without}."
        )
    if model.num_parts is not None:
        check_whole("num_parts", model.num_parts, 1, len(opened))
    csr = edges_for(model, opened)
    data = _classes(opened, csr) if objective == "classes" else _without_classes(model, opened, csr, seed)
    arrays, degree_N = opened.metadata["arrays"], np.diff(data.csr.indptr)
    row_bytes = 0 if features is None else (features.row_ND.nbytes + features.scale_N.nbytes) // len(opened)
    taken = _taken(model, data.csr)
    metadata = {
        "kind": "nodes", "num_nodes": len(opened), "num_edges": opened.num_edges, "num_features": opened.num_features,
        "num_entries": len(data.csr.indices), "most_neighbors": int(degree_N.max()),
        "mean_sampled": [float(taken_N.mean()) for taken_N in taken],
        "feature_bytes": row_bytes, "label_bytes": data.labels.nbytes,
        "num_relations": len(csr.relations) if isinstance(csr, RelationalCsr) else 0,
        "num_classes": data.num_classes, **{f"num_{name}": len(data.rows[name]) for name in SPLITS},
        "digest": "".join(known["blake2b"][:16] for _, known in sorted(arrays.items())),
    }  # fmt: skip
    weights = opened.csr.weights
    if len(weights) and objective != "unsupervised" and weights.min() != weights.max():  # its walks go by weights
        metadata["unused_weights"] = model.name
    if opened.num_edge_features:
        metadata["num_edge_features"] = opened.num_edge_features
        metadata |= {} if model.takes_edge_features else {"unused_edge_features": model.name}
    metadata |= _pairs(model, data)
    return PreparedGraph(opened, data, metadata, None if features is None else opened.open_features())


def _taken(model: GraphNetwork, csr: Csr) -> list[np.ndarray]:
    """How many neighbors each node samples, (N,), by hop."""
    by_relation, degree_N = fanouts_by_relation(model, csr), np.diff(csr.indptr)
    if by_relation is None or not isinstance(csr, RelationalCsr):
        return [degree_N if fanout < 0 else np.minimum(degree_N, fanout) for fanout in model.fanouts_by_hop]
    target_E, taken = np.repeat(np.arange(len(degree_N)), degree_N), [np.zeros_like(degree_N) for _ in by_relation[0]]
    for relation, row in enumerate(by_relation):
        own_N = np.bincount(target_E[csr.type_E == relation], minlength=len(degree_N))
        for taken_N, fanout in zip(taken, row, strict=True):
            taken_N += own_N if fanout < 0 else np.minimum(own_N, fanout)
    return taken


def _classes(opened: AttributedGraph, csr: Csr) -> LearnerData:
    assert opened.labels is not None
    opened.check_labels()
    features = opened.features or NodeNumbers(len(opened))
    data = LearnerData(csr, features, opened.labels, len(opened.classes), _rows(opened))
    _check(data)
    return data


def _without_classes(model: GraphNetwork, opened: AttributedGraph, csr: Csr, seed: int) -> LearnerData:
    """Of the objectives that need no labels; where links are learned, the graph is one without those held out."""
    assert opened.features is not None and isinstance(model, ObjectiveNetwork)
    links = None
    if not (csr.indices != np.repeat(np.arange(len(opened)), np.diff(csr.indptr))).any():
        raise DataError("The graph has no edges between different nodes, and without classes nothing else is learned.")
    if model.objective == "links":
        is_directed = opened.is_directed and not is_symmetric(csr)  # as PyG keeps undirected graphs
        shares = model.val_share, model.test_share
        links, kept = hold_out(csr.numbered() if isinstance(csr, FeaturedCsr) else csr, is_directed, *shares, seed)
        csr = csr.again(kept) if isinstance(csr, FeaturedCsr) else kept
    none = np.empty(0, np.int64)
    rows = {"train": np.arange(len(opened)), "val": none, "test": none}
    return LearnerData(csr, opened.features, np.empty(0, np.int32), model.dim, rows, links)


def _pairs(model: GraphNetwork, data: LearnerData) -> dict[str, Any]:
    """What the metadata of objectives that need no labels say besides."""
    if not isinstance(model, ObjectiveNetwork) or model.objective == "classes":
        return {}
    if data.links is None:
        return {"num_items": len(data.rows["train"]), "batch_seeds": [2, model.num_drawn]}
    edges = {f"num_{part}": getattr(data.links, part).shape[1] for part in SPLITS}
    return edges | {"num_items": edges["num_train"], "batch_seeds": [2 + 2 * model.num_drawn, 0]}


def _opened(source: Any, options: NodeOptions, graph: GraphOptions | None) -> AttributedGraph | None:
    """The graph that the source is, or names; None: it is edges."""
    if not isinstance(source, AttributedGraph) and not is_attributed(source):
        return None
    given = [name for name in _GIVEN if is_given(getattr(options, name))]
    if given or graph not in (None, GraphOptions()):
        what = f"its own {given[0]}" if given else "been read already"
        option = f"--{given[0]}".replace("_", "-") if given else "the options of reading"
        raise InputError(f"A graph folder has {what}; leave out {option}.")
    return source if isinstance(source, AttributedGraph) else AttributedGraph.open(source)


def _rows(graph: AttributedGraph) -> dict[str, np.ndarray]:
    """Nodes of each part."""
    if len(graph.splits):
        return {part: graph.rows(part) for part in SPLITS}
    assert graph.labels is not None
    known_N = graph.labels >= 0 if graph.labels.ndim == 1 else graph.labels.any(axis=1)
    none = np.empty(0, np.int64)
    return {"train": np.flatnonzero(known_N), "val": none, "test": none}


def _check(data: LearnerData) -> None:
    """Raise DataError unless there are nodes to train, of two classes or more, and all in the split have one."""
    train = data.rows["train"]
    if not len(train):
        raise DataError("The training split is empty: no node that has a class is to train; give some nodes `train`.")
    if data.num_classes < 2:
        raise DataError(f"There are {data.num_classes} classes in the labels; a classifier needs two or more.")
    if data.labels.ndim > 1:
        return
    for part, rows in data.rows.items():
        if missing := int((data.labels[rows] < 0).sum()):
            raise DataError(
                f"{missing:,} nodes of the {part} split have no class; label them, or leave them out of the split."
            )
    if len(np.unique(data.labels[train])) == 1:
        raise DataError(
            f"All {len(train):,} training nodes have the same class; let nodes of two or more classes train."
        )
