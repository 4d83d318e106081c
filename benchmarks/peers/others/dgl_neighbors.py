"""DGL's loader, int64 graphs: GRAPH.npz FANOUTS BATCHES ROUNDS THREADS; edges/s of each round, and counts.

Graphs with int32 numbers give wrong blocks with two threads in 2.1.0.
"""

from __future__ import annotations

import json
import sys
import time

import dgl
import numpy as np
import torch

BATCH = 1024


def main(path: str, fanouts: str, batches: str, rounds: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    stored = np.load(path)
    indptr, indices = (torch.from_numpy(stored[name].astype(np.int64)) for name in ("indptr", "indices"))
    graph = dgl.graph(("csc", (indptr, indices, torch.empty(0, dtype=torch.int64))))
    order = np.random.default_rng(1).permutation(len(indptr) - 1)[: BATCH * int(batches)]
    sampler = dgl.dataloading.NeighborSampler(list(map(int, fanouts.split(",")))[::-1])
    loader = dgl.dataloading.DataLoader(graph, torch.from_numpy(order), sampler, batch_size=BATCH, shuffle=False)
    speeds, nodes, edges = [], 0, 0
    for _ in range(int(rounds) + 1):
        started, nodes, edges = time.perf_counter(), 0, 0
        for sources, _, blocks in loader:
            nodes, edges = nodes + len(sources), edges + sum(block.num_edges() for block in blocks)
        speeds.append(edges / (time.perf_counter() - started))
    print(json.dumps({"edges_per_s": speeds[1:], "nodes": nodes / len(loader), "edges": edges / len(loader)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
