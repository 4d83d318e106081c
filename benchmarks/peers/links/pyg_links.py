"""GraphSAGE of PyTorch Geometric that learns links, or vectors without classes; one JSON line.

links ARRAYS.npz RATE EPOCHS SEED: AUC of the test edges, in the epoch of the best AUC of the validation edges.
vectors ARRAYS.npz RATE EPOCHS SEED VECTORS: as its example of unsupervised GraphSAGE, by edges; writes vectors.
2 layers, 64 columns, fan-outs 10,5, batches of 512 edges, a negative each, Adam: RATE, 5e-4.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.loader import LinkNeighborLoader
from torch_geometric.nn import GraphSAGE

HIDDEN, FANOUTS, BATCH = 64, [10, 5], 512


def main(what: str, path: str, rate: str, epochs: str, seed: str, out: str = "") -> None:
    torch.set_num_threads(1)
    torch.manual_seed(int(seed))
    stored = np.load(path)
    x, edge_index = torch.from_numpy(stored["x"]), edges_of(stored["indptr"], stored["indices"])
    pairs = torch.from_numpy(stored["train"].astype(np.int64)) if what == "links" else edge_index
    loader = LinkNeighborLoader(
        Data(x=x, edge_index=edge_index), num_neighbors=FANOUTS, batch_size=BATCH, edge_label_index=pairs,
        neg_sampling_ratio=1.0, shuffle=True,
    )  # fmt: skip
    model = GraphSAGE(x.shape[1], HIDDEN, 2, HIDDEN)
    optimizer = torch.optim.Adam(model.parameters(), lr=float(rate), weight_decay=5e-4)
    best = (-1.0, 0.0)
    for _ in range(int(epochs)):
        model.train()
        for batch in loader:
            optimizer.zero_grad()
            z = model(batch.x, batch.edge_index)
            scores = (z[batch.edge_label_index[0]] * z[batch.edge_label_index[1]]).sum(dim=1)
            torch.nn.functional.binary_cross_entropy_with_logits(scores, batch.edge_label).backward()
            optimizer.step()
        if what == "links":
            z = vectors(model, x, edge_index)
            aucs = [auc(z, stored[part], stored[f"{part}_negatives"]) for part in ("val", "test")]
            best = max(best, (aucs[0], aucs[1]), key=lambda found: found[0])
    if out:
        z = vectors(model, x, edge_index)
        with Path(out).open("w", encoding="utf-8") as file:
            file.write(f"{len(z)} {HIDDEN}\n")
            file.writelines(f"{node} {' '.join(f'{value:.6g}' for value in row)}\n" for node, row in enumerate(z))
    print(json.dumps({"val_auc": best[0], "test_auc": best[1]}))


def vectors(model: torch.nn.Module, x: torch.Tensor, edge_index: torch.Tensor) -> np.ndarray:
    """Of all nodes, from all their neighbors."""
    model.eval()
    with torch.no_grad():
        found: np.ndarray = model(x, edge_index).numpy()
    return found


def auc(z: np.ndarray, edges: np.ndarray, others: np.ndarray) -> float:
    """A tie counts half."""
    positive, negative = ((z[src] * z[dst]).sum(axis=1) for src, dst in (edges, others))
    below = [np.searchsorted(np.sort(negative), positive, side) for side in ("left", "right")]
    return float(np.mean(below) / len(negative))


def edges_of(indptr: np.ndarray, indices: np.ndarray) -> torch.Tensor:
    targets = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return torch.from_numpy(np.stack([indices.astype(np.int64), targets]))


if __name__ == "__main__":
    main(*sys.argv[1:])
