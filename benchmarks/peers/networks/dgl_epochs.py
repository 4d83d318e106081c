"""Trains GraphSAGE by DGL, int64 graphs: GRAPH.npz FANOUTS HIDDEN BATCHES ROUNDS THREADS; seconds of each epoch,
and counts."""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise

import dgl
import numpy as np
import torch

BATCH, COLUMNS, CLASSES = 1024, 128, 16


def main(path: str, fanouts: str, hidden: str, batches: str, rounds: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    stored, sizes = np.load(path), list(map(int, fanouts.split(",")))
    num, rng = len(stored["indptr"]) - 1, np.random.default_rng(1)
    seeds = torch.from_numpy(rng.permutation(num)[: BATCH * int(batches)])
    x = torch.from_numpy(rng.standard_normal((num, COLUMNS), np.float32))
    y = torch.from_numpy(rng.integers(0, CLASSES, num, np.int32).astype(np.int64))
    indptr, indices = (torch.from_numpy(stored[name].astype(np.int64)) for name in ("indptr", "indices"))
    graph = dgl.graph(("csc", (indptr, indices, torch.empty(0, dtype=torch.int64))))
    sampler = dgl.dataloading.NeighborSampler(sizes[::-1])
    loader = dgl.dataloading.DataLoader(graph, seeds, sampler, batch_size=BATCH, shuffle=True)
    widths = [COLUMNS, *[int(hidden)] * (len(sizes) - 1), CLASSES]
    layers = torch.nn.ModuleList(dgl.nn.SAGEConv(*pair, "mean") for pair in pairwise(widths))
    optimizer = torch.optim.Adam(layers.parameters(), lr=0.01, weight_decay=5e-4)
    seconds, nodes, edges = [], 0, 0
    for _ in range(int(rounds) + 1):
        started, nodes, edges = time.perf_counter(), 0, 0
        for sources, targets, blocks in loader:
            optimizer.zero_grad()
            rows = x[sources]
            for number, (layer, block) in enumerate(zip(layers, blocks, strict=True)):
                rows = torch.nn.functional.dropout(rows.relu() if number else rows, 0.5)
                rows = layer(block, rows)
            torch.nn.functional.cross_entropy(rows, y[targets]).backward()
            optimizer.step()
            nodes, edges = nodes + len(sources), edges + sum(block.num_edges() for block in blocks)
        seconds.append(time.perf_counter() - started)
    print(json.dumps({"seconds": seconds[1:], "nodes": nodes / len(loader), "edges": edges / len(loader)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
