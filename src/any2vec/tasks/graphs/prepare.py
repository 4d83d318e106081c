"""From a graph, features, classes and a split to what a graph network trains on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from any2vec.data.attributed.features import NodeNumbers
from any2vec.data.attributed.graph import SPLITS, AttributedGraph, is_attributed
from any2vec.data.attributed.relations import RelationalCsr
from any2vec.data.attributed.row_file import RowFile
from any2vec.data.options import GraphOptions, NodeOptions
from any2vec.errors import DataError, InputError
from any2vec.models.networks.batches import LearnerData
from any2vec.models.networks.classifier import edges_for
from any2vec.models.networks.config import RGCN, GraphNetwork
from any2vec.tasks.graphs.build import BuildOptions, write_graph
from any2vec.tasks.graphs.edges import TRIPLES
from any2vec.types import Stage

_GIVEN = ("features", "labels", "split")


@dataclass(frozen=True)
class PreparedGraph:
    """A graph whose nodes can be classified."""

    graph: AttributedGraph
    data: LearnerData
    metadata: dict[str, Any]
    file: RowFile | None
    """of the features; it may have no name any more; None: there are none"""


def prepare_graph(
    model: GraphNetwork, source: Any, nodes: NodeOptions | None, graph: GraphOptions | None, stage: Stage | None
) -> PreparedGraph:
    """Open a graph folder, or write one of edges, features, classes and a split.

    Without a split all nodes that have classes train. Of several splits the first one is taken.

    Raises:
        InputError: something is missing, or given twice.
        DataError: it cannot be read, or does not go together.
    """
    options = nodes or NodeOptions()
    opened = _opened(source, options, graph)
    if opened is None:
        if isinstance(source, str | Path) and str(source) != "-" and not Path(source).exists():
            raise DataError(f"There is no {source}; give a graph folder, or a file of edges.")
        build = BuildOptions(
            features=options.features, labels=options.labels, split=options.split,
            edge_types=TRIPLES if isinstance(model, RGCN) else None,
        )  # fmt: skip
        with TemporaryDirectory(prefix="any2vec-graph-") as folder:  # mapped files outlive their names
            opened = write_graph(source, Path(folder) / "graph", build, graph=graph, stage=stage)
            return _prepared(model, opened)
    return _prepared(model, opened)


def _prepared(model: GraphNetwork, opened: AttributedGraph) -> PreparedGraph:
    features, is_featured = opened.features, not isinstance(model, RGCN)
    if (is_featured and features is None) or opened.labels is None:
        lacks = "labels" if opened.labels is None else "features"
        raise InputError(
            f"{model.name} learns classes of nodes{' from features' * is_featured}, and the graph has no {lacks}; give "
            f"--{lacks}, or build the graph with them."
        )
    csr = edges_for(model, opened)
    opened.check_labels()
    data = LearnerData(
        csr, features or NodeNumbers(len(opened)), opened.labels, len(opened.classes), _rows(opened)
    )  # fmt: skip
    _check(data)
    arrays, degree_N = opened.metadata["arrays"], np.diff(csr.indptr)
    row_bytes = 0 if features is None else (features.row_ND.nbytes + features.scale_N.nbytes) // len(opened)
    taken = [degree_N if fanout < 0 else np.minimum(degree_N, fanout) for fanout in model.fanouts_by_hop]
    metadata = {
        "kind": "nodes", "num_nodes": len(opened), "num_edges": opened.num_edges, "num_features": opened.num_features,
        "num_entries": len(csr.indices), "most_neighbors": int(degree_N.max()),
        "mean_sampled": [float(taken_N.mean()) for taken_N in taken],
        "feature_bytes": row_bytes, "label_bytes": opened.labels.nbytes,
        "num_relations": len(csr.relations) if isinstance(csr, RelationalCsr) else 0,
        "num_classes": len(opened.classes), **{f"num_{name}": len(data.rows[name]) for name in SPLITS},
        "digest": "".join(known["blake2b"][:16] for _, known in sorted(arrays.items())),
    }  # fmt: skip
    return PreparedGraph(opened, data, metadata, None if features is None else opened.open_features())


def _opened(source: Any, options: NodeOptions, graph: GraphOptions | None) -> AttributedGraph | None:
    """The graph that the source is, or names; None: it is edges."""
    if not isinstance(source, AttributedGraph) and not is_attributed(source):
        return None
    given = [name for name in _GIVEN if getattr(options, name) is not None]
    if given or graph not in (None, GraphOptions()):
        what = f"its own {given[0]}" if given else "been read already"
        raise InputError(f"A graph folder has {what}; leave out --{given[0] if given else 'the options of reading'}.")
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
