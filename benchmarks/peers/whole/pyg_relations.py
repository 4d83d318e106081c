"""R-GCN of PyTorch Geometric over a whole graph, as its example trains it; run in any2vec's environment.

Arguments: folder of `any2vec graph build --edge-types`, columns of the hidden layer, bases (0: none), dropout, weight
decay, epochs, seed. Nodes without features are their numbers, and run by FastRGCNConv, as in that example: the other
makes zeros as large as all weights for the gradient of each relation. One JSON line: accuracies of the epoch whose
validation accuracy is the highest.
"""

from __future__ import annotations

import json
import sys

try:
    import torch
    from labeled import best_epoch, opened
    from torch_geometric.nn import FastRGCNConv, RGCNConv
except ImportError:
    sys.exit('no PyTorch Geometric: pip install "any2vec[pyg]"')

RATE = 0.01


def main(folder: str, hidden: str, num_bases: str, dropout: str, decay: str, epochs: str, seed: str) -> None:
    graph, columns, bases, share = opened(folder, seed), int(hidden), int(num_bases) or None, float(dropout)
    relations = int(graph.types.max()) + 1
    edge_index = torch.cat([graph.edge_index, graph.edge_index.flip(0)], 1)
    types = torch.cat([graph.types, graph.types + relations])
    kind = FastRGCNConv if graph.x is None else RGCNConv
    size = len(graph.label) if graph.x is None else graph.x.shape[1]
    layers = torch.nn.ModuleList(
        [kind(size, columns, 2 * relations, bases), kind(columns, graph.classes, 2 * relations, bases)]
    )
    optimizer = torch.optim.Adam(layers.parameters(), lr=RATE, weight_decay=float(decay))

    def scores(is_training: bool) -> torch.Tensor:
        rows = None if graph.x is None else torch.nn.functional.dropout(graph.x, share, is_training)
        rows = torch.nn.functional.dropout(layers[0](rows, edge_index, types).relu(), share, is_training)
        return layers[1](rows, edge_index, types)

    print(json.dumps(best_epoch(graph, scores, optimizer, epochs)))


if __name__ == "__main__":
    main(*sys.argv[1:])
