"""Trains PyG's GraphSAGE by its own loader: GRAPH.npz FANOUTS HIDDEN BATCHES ROUNDS THREADS [WORKERS]; seconds of each
epoch, and counts. Layers leave out nodes that later ones do not ask for (`trim_to_layer`)."""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE

BATCH, COLUMNS, CLASSES = 1024, 128, 16


def main(path: str, fanouts: str, hidden: str, batches: str, rounds: str, threads: str, workers: str = "0") -> None:
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    stored, sizes = np.load(path), list(map(int, fanouts.split(",")))
    num, rng = len(stored["indptr"]) - 1, np.random.default_rng(1)
    seeds = torch.from_numpy(rng.permutation(num)[: BATCH * int(batches)])
    x = torch.from_numpy(rng.standard_normal((num, COLUMNS), np.float32))
    y = torch.from_numpy(rng.integers(0, CLASSES, num, np.int32).astype(np.int64))
    targets = torch.from_numpy(np.repeat(np.arange(num), np.diff(stored["indptr"])))
    edge_index = torch.stack([torch.from_numpy(stored["indices"].astype(np.int64)), targets])
    loader = NeighborLoader(
        Data(x=x, y=y, edge_index=edge_index), num_neighbors=sizes, batch_size=BATCH, input_nodes=seeds, shuffle=True,
        num_workers=int(workers), persistent_workers=int(workers) > 0,
    )  # fmt: skip
    model = GraphSAGE(COLUMNS, int(hidden), len(sizes), CLASSES, dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    seconds, nodes, edges = [], 0, 0
    for _ in range(int(rounds) + 1):
        started, nodes, edges = time.perf_counter(), 0, 0
        for batch in loader:
            optimizer.zero_grad()
            rows = torch.nn.functional.dropout(batch.x, 0.5)
            scores = model(
                rows, batch.edge_index, num_sampled_nodes_per_hop=batch.num_sampled_nodes,
                num_sampled_edges_per_hop=batch.num_sampled_edges,
            )[: batch.batch_size]  # fmt: skip
            torch.nn.functional.cross_entropy(scores, batch.y[: batch.batch_size]).backward()
            optimizer.step()
            nodes, edges = nodes + len(batch.x), edges + batch.edge_index.shape[1]
        seconds.append(time.perf_counter() - started)
    print(json.dumps({"seconds": seconds[1:], "nodes": nodes / len(loader), "edges": edges / len(loader)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
