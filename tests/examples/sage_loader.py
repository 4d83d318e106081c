"""GraphSAGE on Cora by mini-batches and, layer by layer, all nodes at the end: the form of the example `reddit` of PyG.

    python tests/examples/sage_loader.py FOLDER_OF_GRAPH_PLANETOID [SEED]

With PyG's own loader the line below would be: from torch_geometric.loader import NeighborLoader
"""

import copy
import gzip
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as PyG writes it
from scipy import sparse
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

from any2vec import NeighborLoader


def read(folder: Path) -> Data:
    def lines(name: str) -> list[list[str]]:
        with gzip.open(folder / f"cora.{name}.txt.gz", "rt") as file:
            return [line.split() for line in file]

    edges = torch.tensor([[int(u), int(v)] for u, v in lines("edges")]).T
    x = torch.from_numpy(sparse.load_npz(folder / "cora.features.npz").toarray())
    y = torch.empty(len(x), dtype=torch.long)
    for node, label in lines("labels"):
        y[int(node)] = int(label)
    parts = np.array([part for _, part in sorted((int(node), part) for node, part in lines("split"))])
    rows = torch.tensor(sorted(int(node) for node, _ in lines("split")))
    masks = {f"{part}_mask": torch.zeros(len(x), dtype=torch.bool) for part in ("train", "val", "test")}
    for part in ("train", "val", "test"):
        masks[f"{part}_mask"][rows[torch.from_numpy(parts == part)]] = True
    both = torch.cat([edges, edges.flip(0)[:, edges[0] != edges[1]]], dim=1)
    return Data(x=x / x.sum(dim=1, keepdim=True).clamp(min=1), y=y, edge_index=both, **masks)


class SAGE(torch.nn.Module):
    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList(
            [SAGEConv(in_channels, hidden_channels), SAGEConv(hidden_channels, out_channels)]
        )

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        for i, conv in enumerate(self.convs):
            x = conv(F.dropout(x, p=0.5, training=self.training), edge_index)
            x = x.relu() if i == 0 else x
        return x

    @torch.no_grad()
    def inference(self, x_all: torch.Tensor, subgraph_loader: NeighborLoader) -> torch.Tensor:
        for i, conv in enumerate(self.convs):
            xs = []
            for batch in subgraph_loader:
                x = conv(x_all[batch.n_id], batch.edge_index)[: batch.batch_size]
                xs.append(x.relu() if i == 0 else x)
            x_all = torch.cat(xs)
        return x_all


def main(folder: Path, seed: int) -> float:
    """Test accuracy at the best validation accuracy."""
    torch.manual_seed(seed)
    data = read(folder)
    kwargs = {"batch_size": 128, "num_workers": 1, "persistent_workers": True}
    train_loader = NeighborLoader(data, input_nodes=data.train_mask, num_neighbors=[10, 10], shuffle=True, **kwargs)
    subgraph_loader = NeighborLoader(copy.copy(data), input_nodes=None, num_neighbors=[-1], shuffle=False, **kwargs)
    del subgraph_loader.data.x, subgraph_loader.data.y
    subgraph_loader.data.num_nodes = data.num_nodes
    subgraph_loader.data.n_id = torch.arange(data.num_nodes)

    model = SAGE(data.num_features, 64, int(data.y.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best = (0.0, 0.0)
    for epoch in range(1, 41):
        model.train()
        for batch in train_loader:
            optimizer.zero_grad()
            y_hat = model(batch.x, batch.edge_index)[: batch.batch_size]
            F.cross_entropy(y_hat, batch.y[: batch.batch_size]).backward()
            optimizer.step()
        if epoch % 10:
            continue
        model.eval()
        is_right = model.inference(data.x, subgraph_loader).argmax(dim=-1) == data.y
        val, test = (float(is_right[mask].float().mean()) for mask in (data.val_mask, data.test_mask))
        best = max(best, (val, test))
    return best[1]


if __name__ == "__main__":
    print(f"test accuracy {main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0):.4f}")
