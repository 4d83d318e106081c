"""GraphSAGE and GCN of DGL, int64 graphs, on a planted graph with random features; one JSON line of seconds.

WHAT GRAPH.npz LAYERS HIDDEN ROUNDS THREADS [FANOUTS BATCHES WORKERS]: epochs (GraphSAGE over sampled batches), full
(GCN over the whole graph), full-once (the same without dropout), inference (GraphSAGE, all nodes over the whole graph).
"""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from typing import Any

import dgl
import torch
from inputs import BATCH, CLASSES, COLUMNS, inputs_of
from rounds import seconds_of


def main(what: str, path: str, layers: str, hidden: str, rounds: str, threads: str, *batches: str) -> None:
    data = inputs_of(path, threads)
    x, y = data.x, data.y
    graph = dgl.graph(("csc", (data.indptr, data.indices, torch.empty(0, dtype=torch.int64))))
    widths = [COLUMNS, *[int(hidden)] * (int(layers) - 1), CLASSES]
    is_full, share = what in ("full", "full-once"), 0.0 if what == "full-once" else 0.5
    kind = dgl.nn.GraphConv if is_full else (lambda *pair: dgl.nn.SAGEConv(*pair, "mean"))
    network = torch.nn.ModuleList(kind(*pair) for pair in pairwise(widths))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01, weight_decay=5e-4)
    result: dict[str, Any] = {}

    def scores_of(rows: Any, blocks: list[Any], is_training: bool) -> Any:
        for number, (layer, block) in enumerate(zip(network, blocks, strict=True)):
            rows = torch.nn.functional.dropout(rows.relu() if number else rows, share, is_training)
            rows = layer(block, rows)
        return rows

    def step(rows: Any, blocks: list[Any], labels: Any) -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(scores_of(rows, blocks, True), labels).backward()
        optimizer.step()

    if is_full:
        looped = graph.add_self_loop()

        def work() -> None:
            step(x, [looped] * len(network), y)
    elif what == "inference":

        def work() -> None:
            with torch.no_grad():
                scores_of(x, [graph] * len(network), False)
    else:
        sampler = dgl.dataloading.NeighborSampler(list(map(int, batches[0].split(",")))[::-1])
        seeds = data.seeds(batches[1])
        loader = dgl.dataloading.DataLoader(
            graph, seeds, sampler, batch_size=BATCH, shuffle=True, num_workers=int(batches[2])
        )

        def work() -> None:
            nodes = edges = 0
            for sources, targets, blocks in loader:
                step(x[sources], blocks, y[targets])
                nodes, edges = nodes + len(sources), edges + sum(block.num_edges() for block in blocks)
            result.update(nodes=nodes / len(loader), edges=edges / len(loader))

    print(json.dumps({"seconds": seconds_of(work, int(rounds))} | result))


if __name__ == "__main__":
    main(*sys.argv[1:])
