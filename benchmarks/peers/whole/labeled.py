"""What the scripts of this folder share: a graph with classes, and epochs over all of it by one thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch


class Labeled(NamedTuple):
    """Letters: N nodes, E entries of the adjacency, F features."""

    edge_index: torch.Tensor
    """int64 (2, E)"""
    x: torch.Tensor | None
    """float32 (N, F)"""
    label: torch.Tensor
    """int64 (N,)"""
    parts: tuple[torch.Tensor, ...]
    """int64: nodes that train, validate and test"""
    types: torch.Tensor | None
    """int64 (E,): of edges with types"""

    def adjacency(self, with_loops: bool) -> torch.Tensor:
        """float32 CSR (N, N), of a node's neighbors in its line: `adj_t` of PyG."""
        sources, targets = self.edge_index
        if not with_loops:
            sources, targets = self.edge_index[:, sources != targets]
        ones, size = torch.ones(len(sources)), len(self.label)
        return torch.sparse_coo_tensor(
            torch.stack([targets, sources]), ones, (size, size), check_invariants=True
        ).to_sparse_csr()

    @property
    def classes(self) -> int:
        return int(self.label.max()) + 1


def opened(folder: str, seed: str) -> Labeled:
    """The folder of `any2vec graph build`; torch uses one thread from here on, and this seed."""
    torch.set_num_threads(1)
    torch.manual_seed(int(seed))
    array = {file.stem: np.load(file) for file in Path(folder).glob("*.npy")}
    targets = np.repeat(np.arange(len(array["indptr"]) - 1), np.diff(array["indptr"]))
    edge_index = torch.from_numpy(np.stack([array["indices"], targets]).astype(np.int64))
    x = torch.from_numpy(array["features"]) if "features" in array else None
    label = torch.from_numpy(array["labels"].astype(np.int64))
    parts = tuple(torch.from_numpy(np.flatnonzero(array["splits"][0] == part)) for part in range(3))
    types = torch.from_numpy(array["edge_types"].astype(np.int64)) if "edge_types" in array else None
    return Labeled(edge_index, x, label, parts, types)


def best_epoch(
    graph: Labeled, scores: Callable[[bool], torch.Tensor], optimizer: torch.optim.Optimizer, epochs: str
) -> dict[str, float]:
    """Accuracies of the epoch whose validation accuracy is the highest. scores: of all nodes; is this training?"""
    best = (-1.0, 0.0)
    train, *others = graph.parts
    for _ in range(int(epochs)):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(scores(True)[train], graph.label[train]).backward()
        optimizer.step()
        with torch.no_grad():
            right = scores(False).argmax(dim=1) == graph.label
        val, test = (float(right[part].float().mean()) for part in others)
        if val > best[0]:
            best = (val, test)
    return {"val_accuracy": best[0], "test_accuracy": best[1]}
