"""Networks of PyTorch Geometric over a whole graph, as its examples train them; run in any2vec's environment.

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
    from torch_geometric.nn import GATConv, GATv2Conv, GCNConv, GINConv, SAGEConv
except ImportError:
    sys.exit('no PyTorch Geometric: pip install "any2vec[pyg]"')

DECAY, HEADS = 5e-4, 8
SETTINGS = {
    "gcn": (128, 0.5, 0.01), "graphsage": (128, 0.5, 0.01), "gat": (64, 0.6, 0.005), "gatv2": (64, 0.6, 0.005),
    "gin": (64, 0.5, 0.01),
}  # fmt: skip
"""model -> columns of the hidden layer, dropout, learning rate"""


def main() -> None:
    folder, name, epochs, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    array = {file.stem: np.load(file) for file in folder.glob("*.npy")}
    targets = np.repeat(np.arange(len(array["indptr"]) - 1), np.diff(array["indptr"]))
    edge_index = torch.from_numpy(np.stack([array["indices"], targets]).astype(np.int64))
    x, label = torch.from_numpy(array["features"]), torch.from_numpy(array["labels"].astype(np.int64))
    rows = [torch.from_numpy(np.flatnonzero(array["splits"][0] == part)) for part in range(3)]
    hidden, dropout, rate = SETTINGS[name]
    layers = torch.nn.ModuleList(layers_of(name, x.shape[1], hidden, int(label.max()) + 1, dropout))
    between = torch.nn.functional.elu if name in ("gat", "gatv2") else torch.relu
    optimizer = torch.optim.Adam(layers.parameters(), lr=rate, weight_decay=DECAY)

    def scores(is_training: bool) -> torch.Tensor:
        layers.train(is_training)
        rows = torch.nn.functional.dropout(x, dropout, is_training)
        rows = torch.nn.functional.dropout(between(layers[0](rows, edge_index)), dropout, is_training)
        return layers[1](rows, edge_index)

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
    main()
