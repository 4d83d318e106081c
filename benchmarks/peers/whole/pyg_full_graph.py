"""Networks of PyTorch Geometric over a whole graph, as its examples train them; run in any2vec's environment.

Arguments: folder of `any2vec graph build`, model, epochs, seed. One JSON line: accuracies of the epoch whose validation
accuracy is the highest. Layers without attention are given the adjacency in CSR, which PyG multiplies by instead of
making a row of features for each edge: the same sums, and wide features fit into memory. GCN's is given without loops:
PyG adds one to each node, of a list of edges only where there is none.
"""

from __future__ import annotations

import json
import sys

try:
    import torch
    from labeled import best_epoch, opened
    from torch_geometric.nn import GATConv, GATv2Conv, GCNConv, GINConv, SAGEConv
except ImportError:
    sys.exit('no PyTorch Geometric: pip install "any2vec[pyg]"')

DECAY, HEADS = 5e-4, 8
SETTINGS = {
    "gcn": (128, 0.5, 0.01), "graphsage": (128, 0.5, 0.01), "gat": (64, 0.6, 0.005), "gatv2": (64, 0.6, 0.005),
    "gin": (64, 0.5, 0.01),
}  # fmt: skip
"""model -> columns of the hidden layer, dropout, learning rate"""


def main(folder: str, name: str, epochs: str, seed: str) -> None:
    graph = opened(folder, seed)
    hidden, dropout, rate = SETTINGS[name]
    layers = torch.nn.ModuleList(layers_of(name, graph.x.shape[1], hidden, graph.classes, dropout))
    attends = name in ("gat", "gatv2")
    edges = graph.edge_index if attends else graph.adjacency(with_loops=name != "gcn")
    between = torch.nn.functional.elu if attends else torch.relu
    optimizer = torch.optim.Adam(layers.parameters(), lr=rate, weight_decay=DECAY)

    def scores(is_training: bool) -> torch.Tensor:
        layers.train(is_training)
        rows = torch.nn.functional.dropout(graph.x, dropout, is_training)
        rows = torch.nn.functional.dropout(between(layers[0](rows, edges)), dropout, is_training)
        return layers[1](rows, edges)

    print(json.dumps(best_epoch(graph, scores, optimizer, epochs)))


def layers_of(name: str, size_in: int, hidden: int, classes: int, dropout: float) -> list[torch.nn.Module]:
    """The two layers of a model."""
    if name in ("gat", "gatv2"):
        kind = GATConv if name == "gat" else GATv2Conv
        return [
            kind(size_in, hidden // HEADS, HEADS, dropout=dropout),
            kind(hidden, classes, 1, concat=False, dropout=dropout),
        ]
    if name == "gin":
        return [
            GINConv(
                torch.nn.Sequential(
                    torch.nn.Linear(size, hidden, bias=False), torch.nn.BatchNorm1d(hidden), torch.nn.ReLU(),
                    torch.nn.Linear(hidden, out),
                )
            )
            for size, out in ((size_in, hidden), (hidden, classes))
        ]  # fmt: skip
    kind = GCNConv if name == "gcn" else SAGEConv
    return [kind(size_in, hidden), kind(hidden, classes)]


if __name__ == "__main__":
    main(*sys.argv[1:])
