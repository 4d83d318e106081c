"""GCN and GraphSAGE of PyTorch Geometric over a whole graph, as its examples train them; run in any2vec's environment.

Arguments: folder of `any2vec graph build`, model, epochs, seed. One JSON line: accuracies of the epoch whose validation
accuracy is the highest.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

try:
    import torch
    from torch_geometric.nn import GCNConv, SAGEConv
except ImportError:
    sys.exit('no PyTorch Geometric: pip install "any2vec[pyg]"')

HIDDEN, DROPOUT, RATE, DECAY = 128, 0.5, 0.01, 5e-4


def main() -> None:
    folder, name, epochs, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    array = {file.stem: np.load(file) for file in folder.glob("*.npy")}
    targets = np.repeat(np.arange(len(array["indptr"]) - 1), np.diff(array["indptr"]))
    edge_index = torch.from_numpy(np.stack([array["indices"], targets]).astype(np.int64))
    x, label = torch.from_numpy(array["features"]), torch.from_numpy(array["labels"].astype(np.int64))
    rows = [torch.from_numpy(np.flatnonzero(array["splits"][0] == part)) for part in range(3)]
    kind = GCNConv if name == "gcn" else SAGEConv
    layers = torch.nn.ModuleList([kind(x.shape[1], HIDDEN), kind(HIDDEN, int(label.max()) + 1)])
    optimizer = torch.optim.Adam(layers.parameters(), lr=RATE, weight_decay=DECAY)

    def scores(is_training: bool) -> torch.Tensor:
        hidden = torch.nn.functional.dropout(x, DROPOUT, is_training)
        hidden = torch.nn.functional.dropout(layers[0](hidden, edge_index).relu(), DROPOUT, is_training)
        return layers[1](hidden, edge_index)

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
