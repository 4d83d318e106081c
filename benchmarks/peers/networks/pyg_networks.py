"""GraphSAGE and GCN of PyTorch Geometric, on a planted graph with random features; one JSON line of seconds.

WHAT GRAPH.npz LAYERS HIDDEN ROUNDS THREADS [FANOUTS BATCHES WORKERS]: epochs (GraphSAGE over sampled batches, layers
without the nodes that later ones do not ask for: `trim_to_layer`), full (GCN over the whole graph, as a CSR matrix that
is normalized once), inference (GraphSAGE, all nodes over the CSR matrix), by-layer (the same by `inference` with its
loader).
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from inputs import BATCH, CLASSES, COLUMNS, inputs_of
from rounds import seconds_of
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GCN, GraphSAGE


def main(what: str, path: str, layers: str, hidden: str, rounds: str, threads: str, *batches: str) -> None:
    data = inputs_of(path, threads)
    num, x, y = len(data.x), data.x, data.y
    shape: dict[str, Any] = {"in_channels": COLUMNS, "hidden_channels": int(hidden), "num_layers": int(layers)}
    shape |= {"out_channels": CLASSES, "dropout": 0.5}
    model = GCN(**shape, cached=True) if what == "full" else GraphSAGE(**shape)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    result: dict[str, Any] = {}

    def step(scores: Any, labels: Any) -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(scores, labels).backward()
        optimizer.step()

    if what in ("full", "inference"):
        matrix = torch.sparse_csr_tensor(data.indptr, data.indices, torch.ones(len(data.indices)), (num, num))

        def work() -> None:
            if what == "full":
                step(model(torch.nn.functional.dropout(x, 0.5), matrix), y)
                return
            with torch.no_grad():
                model(x, matrix)
    else:
        targets = torch.arange(num).repeat_interleave(data.indptr.diff())
        graph = Data(x=x, y=y, edge_index=torch.stack([data.indices, targets]))
        if what == "by-layer":
            loader = NeighborLoader(graph, num_neighbors=[-1], batch_size=BATCH)
        else:
            seeds, workers = data.seeds(batches[1]), int(batches[2])
            loader = NeighborLoader(
                graph, num_neighbors=list(map(int, batches[0].split(","))), batch_size=BATCH, input_nodes=seeds,
                shuffle=True, num_workers=workers, persistent_workers=workers > 0,
            )  # fmt: skip

        def work() -> None:
            if what == "by-layer":
                model.inference(loader)
                return
            nodes = edges = 0
            for batch in loader:
                scores = model(
                    torch.nn.functional.dropout(batch.x, 0.5), batch.edge_index,
                    num_sampled_nodes_per_hop=batch.num_sampled_nodes,
                    num_sampled_edges_per_hop=batch.num_sampled_edges,
                )  # fmt: skip
                step(scores[: batch.batch_size], batch.y[: batch.batch_size])
                nodes, edges = nodes + len(batch.x), edges + batch.edge_index.shape[1]
            result.update(nodes=nodes / len(loader), edges=edges / len(loader))

    if what not in ("full", "epochs"):
        model.eval()
    print(json.dumps({"seconds": seconds_of(work, int(rounds))} | result))


if __name__ == "__main__":
    main(*sys.argv[1:])
