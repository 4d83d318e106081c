"""PyG's loader with pyg-lib: GRAPH.npz FANOUTS BATCHES ROUNDS THREADS; edges/s of each round, and counts."""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader

BATCH = 1024


def main(path: str, fanouts: str, batches: str, rounds: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    stored = np.load(path)
    indptr, indices = stored["indptr"], torch.from_numpy(stored["indices"].astype(np.int64))
    rows = torch.from_numpy(np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)))
    data = Data(edge_index=torch.stack([indices, rows]), num_nodes=len(indptr) - 1)
    order = np.random.default_rng(1).permutation(len(indptr) - 1)[: BATCH * int(batches)]
    loader = NeighborLoader(
        data, num_neighbors=list(map(int, fanouts.split(","))), batch_size=BATCH, input_nodes=torch.from_numpy(order)
    )
    speeds, nodes, edges = [], 0, 0
    for _ in range(int(rounds) + 1):
        started, nodes, edges = time.perf_counter(), 0, 0
        for batch in loader:
            nodes, edges = nodes + len(batch.n_id), edges + batch.edge_index.shape[1]
        speeds.append(edges / (time.perf_counter() - started))
    print(json.dumps({"edges_per_s": speeds[1:], "nodes": nodes / len(loader), "edges": edges / len(loader)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
