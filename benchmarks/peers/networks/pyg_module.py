"""A model of PyTorch Geometric by its own loader or by any2vec's; one JSON line.

seconds LOADER MODEL GRAPH.npz BATCHES ROUNDS: of epochs on a planted graph, one thread.
accuracy LOADER MODEL FOLDER EPOCHS SEED: of the test nodes, in the epoch of the best validation accuracy.
LOADER: pyg, any2vec, or accelerated (any2vec's, and `any2vec.nn.accelerate`). MODEL: graphsage or gat, 2 layers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rounds import seconds_of
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GraphSAGE

COLUMNS, CLASSES, DROPOUT = 128, 16, 0.5


def main(what: str, loader: str, model: str, path: str, *more: str) -> None:
    torch.set_num_threads(1)
    if loader == "pyg":
        from torch_geometric.loader import NeighborLoader
    else:
        from any2vec import NeighborLoader
    call = {"seconds": seconds, "accuracy": accuracy}[what]
    print(json.dumps(call(NeighborLoader, loader == "accelerated", model, path, *map(int, more))))


def seconds(kind: Any, is_fast: bool, name: str, path: str, batches: int, rounds: int) -> dict[str, Any]:
    stored, rng = np.load(path), np.random.default_rng(1)
    num = len(stored["indptr"]) - 1
    seeds = torch.from_numpy(rng.permutation(num)[: 1024 * batches])
    x = torch.from_numpy(rng.standard_normal((num, COLUMNS), np.float32))
    y = torch.from_numpy(rng.integers(0, CLASSES, num, np.int32).astype(np.int64))
    data = Data(x=x, y=y, edge_index=edges_of(stored["indptr"], stored["indices"]))
    loader = kind(data, num_neighbors=[15, 10], batch_size=1024, input_nodes=seeds, shuffle=True)
    model, step = trainer(name, COLUMNS, 128, CLASSES, 0.01, is_fast)
    model.train()
    return {"seconds": seconds_of(lambda: [step(batch) for batch in loader], rounds)}


def accuracy(kind: Any, is_fast: bool, name: str, path: str, epochs: int, seed: int) -> dict[str, Any]:
    torch.manual_seed(seed)
    array = {file.stem: np.load(file) for file in Path(path).glob("*.npy")}
    x, y = torch.from_numpy(array["features"]), torch.from_numpy(array["labels"].astype(np.int64))
    edge_index, parts = edges_of(array["indptr"], array["indices"]), array["splits"][0]
    rows = [torch.from_numpy(np.flatnonzero(parts == part)) for part in range(3)]
    given = {} if kind.__module__.startswith("torch_geometric") else {"key": "batch", "seed": seed}
    loader = kind(
        Data(x=x, y=y, edge_index=edge_index), num_neighbors=[10, 5], batch_size=32, input_nodes=rows[0], shuffle=True,
        **given,
    )  # fmt: skip
    model, step = trainer(name, x.shape[1], 64, int(y.max()) + 1, 0.005, is_fast)
    best = (-1.0, 0.0)
    for _ in range(epochs):
        model.train()
        for batch in loader:
            step(batch)
        model.eval()
        with torch.no_grad():
            right = model(x, edge_index).argmax(dim=1) == y
        val, test = (float(right[part].float().mean()) for part in rows[1:])
        best = max(best, (val, test), key=lambda found: found[0])
    return {"val_accuracy": best[0], "test_accuracy": best[1]}


def trainer(name: str, columns: int, hidden: int, classes: int, rate: float, is_fast: bool) -> tuple[Any, Any]:
    """(model, what trains it on a batch)"""
    kind = {"graphsage": GraphSAGE, "gat": GAT}[name]
    model = kind(columns, hidden, 2, classes, dropout=DROPOUT, **({"heads": 8} if name == "gat" else {}))
    if is_fast:
        from any2vec.nn import accelerate

        accelerate(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=5e-4)

    def step(batch: Any) -> None:
        optimizer.zero_grad()
        scores = model(
            model.dropout(batch.x), batch.edge_index, num_sampled_nodes_per_hop=batch.num_sampled_nodes,
            num_sampled_edges_per_hop=batch.num_sampled_edges,
        )[: batch.batch_size]  # fmt: skip
        torch.nn.functional.cross_entropy(scores, batch.y[: batch.batch_size]).backward()
        optimizer.step()

    return model, step


def edges_of(indptr: np.ndarray, indices: np.ndarray) -> torch.Tensor:
    targets = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return torch.from_numpy(np.stack([indices.astype(np.int64), targets]))


if __name__ == "__main__":
    main(*sys.argv[1:])
