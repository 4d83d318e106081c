"""A graph whose classes nothing but the features of its edges tells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from any2vec import AttributedGraph, GraphOptions, write_graph

NODES, CLASSES, EACH = 600, 3, 6


def planted(folder: Path, keep: bool = True, seed: int = 1) -> AttributedGraph:
    """Each node has neighbors of all classes; its own class is that of those whose edges are marked."""
    rng = np.random.default_rng(seed)
    shown = rng.integers(0, CLASSES, NODES)
    src = np.concatenate([rng.choice(NODES, EACH, replace=False) for _ in range(NODES)])
    dst = np.repeat(np.arange(NODES), EACH)
    label = rng.integers(0, CLASSES, NODES)
    is_marked = shown[src] == label[dst]
    features = np.eye(CLASSES, dtype=np.float32)[shown]
    rows = np.stack([2.0 * is_marked - 1, rng.normal(size=len(src))], axis=1).astype(np.float32)
    has_one = np.bincount(dst, is_marked, NODES) > 0
    told = np.flatnonzero(has_one)
    split = {"train": told[::2], "val": told[1::4], "test": told[3::4]}
    return write_graph(
        (src, dst), folder, features=features, labels=label, split=split, edge_features=rows if keep else None,
        graph=GraphOptions(directed=True),
    )  # fmt: skip


def arguments(graph: AttributedGraph) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(x, edge_index, edge_attr) of the whole graph, as a module of PyG takes them; copies."""
    assert graph.features is not None and graph.edge_features is not None
    targets = np.repeat(np.arange(len(graph)), np.diff(graph.csr.indptr))
    edge_index = torch.from_numpy(np.stack([graph.csr.indices, targets]).astype(np.int64))
    x, edge_attr = (torch.from_numpy(np.array(rows.row_ND)) for rows in (graph.features, graph.edge_features))
    return x, edge_index, edge_attr
