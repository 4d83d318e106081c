"""R-GCN of PyTorch Geometric over a whole graph, as its example trains it; run in any2vec's environment.

Arguments: folder of `any2vec graph build --edge-types`, columns of the hidden layer, bases (0: none), dropout, weight
decay, epochs, seed. Nodes without features are their numbers, and run by FastRGCNConv, as in that example: the other
makes zeros as large as all weights for the gradient of each relation. One JSON line: accuracies of the epoch whose
validation accuracy is the highest.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

try:
    import torch
    from torch_geometric.nn import FastRGCNConv, RGCNConv
except ImportError:
    sys.exit('no PyTorch Geometric: pip install "any2vec[pyg]"')

RATE = 0.01


def main() -> None:
    folder, hidden, bases = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) or None
    dropout, decay, epochs, seed = float(sys.argv[4]), float(sys.argv[5]), int(sys.argv[6]), int(sys.argv[7])
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    array = {file.stem: np.load(file) for file in folder.glob("*.npy")}
    nodes, types = len(array["indptr"]) - 1, torch.from_numpy(array["edge_types"].astype(np.int64))
    targets = np.repeat(np.arange(nodes), np.diff(array["indptr"]))
    edge_index = torch.from_numpy(np.stack([array["indices"], targets]).astype(np.int64))
    relations = int(types.max()) + 1
    edge_index, types = torch.cat([edge_index, edge_index.flip(0)], 1), torch.cat([types, types + relations])
    x = torch.from_numpy(array["features"]) if "features" in array else None
    label = torch.from_numpy(array["labels"].astype(np.int64))
    rows = [torch.from_numpy(np.flatnonzero(array["splits"][0] == part)) for part in range(3)]
    size, classes = nodes if x is None else x.shape[1], int(label.max()) + 1
    kind = FastRGCNConv if x is None else RGCNConv
    layers = torch.nn.ModuleList(
        [kind(size, hidden, 2 * relations, bases), kind(hidden, classes, 2 * relations, bases)]
    )
    optimizer = torch.optim.Adam(layers.parameters(), lr=RATE, weight_decay=decay)

    def scores(is_training: bool) -> torch.Tensor:
        rows = x if x is None else torch.nn.functional.dropout(x, dropout, is_training)
        rows = torch.nn.functional.dropout(layers[0](rows, edge_index, types).relu(), dropout, is_training)
        return layers[1](rows, edge_index, types)

    best = (-1.0, 0.0)
    for _ in range(epochs):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(scores(True)[rows[0]], label[rows[0]]).backward()
        optimizer.step()
        with torch.no_grad():
            right = scores(False).argmax(dim=1) == label
        val, test = (float(right[part].float().mean()) for part in rows[1:])
        if val > best[0]:
            best = (val, test)
    print(json.dumps({"val_accuracy": best[0], "test_accuracy": best[1]}))


if __name__ == "__main__":
    main()
