"""A graph folder's edges weighed by `tune_graph`, and which of its entries stay.

Legend: N nodes, E entries of the adjacency, K of them kept.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from any2vec.data.attributed.graph import AttributedGraph
from any2vec.errors import InputError
from any2vec.nn.tuning.graph import tune_graph
from any2vec.plan.sharding.pruning import PruneOptions
from any2vec.types import Stage


@dataclass(frozen=True)
class Pruned:
    """What is pruned of a graph folder."""

    is_kept_E: np.ndarray
    """bool: of the adjacency's entries"""
    about: dict[str, Any]
    """what was asked, and what it did, JSON-ready"""


def prune_entries(
    graph: AttributedGraph, options: PruneOptions, split: int = 0, stage: Stage | None = None
) -> Pruned:  # fmt: skip
    """The entries that stay, by `tune_graph` with the train and the val nodes of a split; the test's are not looked at.

    Raises:
        InputError: the graph lacks features, classes or training nodes, or has several types of edges or classes.
    """
    parts = {part: torch.from_numpy(_labeled(graph, part, split)) for part in ("train", "val")}
    num_nodes, csr = len(graph), graph.csr
    graph.check_edges()
    graph.check_labels()
    assert graph.features is not None and graph.labels is not None
    dst_E = np.repeat(np.arange(num_nodes), np.diff(csr.indptr))
    edge_index = torch.from_numpy(np.stack([csr.indices.astype(np.int64), dst_E]))
    x = torch.from_numpy(graph.features.take(np.arange(num_nodes)))
    labels = torch.from_numpy(graph.labels.astype(np.int64))
    found = tune_graph(edge_index, x, labels, parts["train"], parts["val"], options, stage=stage)
    is_kept_E = found.is_kept.numpy()
    about = asdict(options) | {
        "split_index": split,
        "edges_before": graph.num_edges, "edges": edges_of(edge_index.numpy()[:, is_kept_E], graph.is_directed),
        "val_accuracy_before": found.before.val_accuracy, "val_accuracy": found.after.val_accuracy,
        "share_within_blocks_before": found.shares["ordered"], "share_within_blocks": found.shares["tuned"],
    }  # fmt: skip
    return Pruned(is_kept_E, about)


def edges_of(entries_2K: np.ndarray, is_directed: bool) -> int:
    """How many edges entries are; an undirected one counts once, and so does a self-loop."""
    return int((entries_2K[0] <= entries_2K[1]).sum()) if not is_directed else entries_2K.shape[1]


def _labeled(graph: AttributedGraph, part: str, split: int) -> np.ndarray:
    """int64: nodes of the part that have a class. InputError where the graph cannot be weighed."""
    for is_missing, what in (
        (graph.features is None, "features"), (graph.labels is None, "labels"), (not len(graph.splits), "split"),
    ):  # fmt: skip
        if is_missing:
            raise InputError(f"{graph.folder} holds no {what}, by which edges are weighed; build it with --{what}.")
    assert graph.labels is not None
    if graph.labels.ndim == 2 or len(graph.edge_types):
        what = "several classes a node" if graph.labels.ndim == 2 else "several types of edges"
        raise InputError(f"{graph.folder} has {what}; edges are weighed in graphs with one of each alone.")
    found = graph.rows(part, split)
    found = found[graph.labels[found] >= 0]
    if part == "train" and not len(found):
        raise InputError(f"{graph.folder} has no training nodes with a class in split {split}; give some.")
    return found
