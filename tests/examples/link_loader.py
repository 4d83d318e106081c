"""Links of Cora predicted by GraphSAGE on mini-batches of edges: the form of the example `link_pred` of PyG.

    python tests/examples/link_loader.py FOLDER_OF_GRAPH_PLANETOID [SEED]

With PyG's own loader the line below would be: from torch_geometric.loader import LinkNeighborLoader
"""

import gzip
import sys
from pathlib import Path

import torch
from scipy import sparse
from sklearn.metrics import roc_auc_score
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv
from torch_geometric.transforms import RandomLinkSplit

from any2vec import LinkNeighborLoader


def read(folder: Path) -> Data:
    with gzip.open(folder / "cora.edges.txt.gz", "rt") as file:
        edges = torch.tensor([[int(node) for node in line.split()] for line in file]).T
    x = torch.from_numpy(sparse.load_npz(folder / "cora.features.npz").toarray())
    both = torch.cat([edges, edges.flip(0)[:, edges[0] != edges[1]]], dim=1)
    return Data(x=x / x.sum(dim=1, keepdim=True).clamp(min=1), edge_index=both)


class Net(torch.nn.Module):
    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv1 = SAGEConv(in_channels, hidden_channels)
        self.conv2 = SAGEConv(hidden_channels, out_channels)

    def encode(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)

    def decode(self, z: torch.Tensor, edge_label_index: torch.Tensor) -> torch.Tensor:
        return (z[edge_label_index[0]] * z[edge_label_index[1]]).sum(dim=-1)


def split(data: Data) -> tuple[Data, Data, Data]:
    transform = RandomLinkSplit(num_val=0.05, num_test=0.1, is_undirected=True, add_negative_train_samples=False)
    return transform(data)


@torch.no_grad()
def auc(model: Net, data: Data) -> float:
    model.eval()
    loader = LinkNeighborLoader(
        data, num_neighbors=[-1, -1], edge_label_index=data.edge_label_index, edge_label=data.edge_label, batch_size=512
    )
    batches = [(model.decode(model.encode(b.x, b.edge_index), b.edge_label_index), b.edge_label) for b in loader]
    scores, labels = (torch.cat(part) for part in zip(*batches, strict=True))
    return float(roc_auc_score(labels, scores))


def main(folder: Path, seed: int, epochs: int = 15) -> float:
    """Test AUC at the best validation AUC."""
    torch.manual_seed(seed)
    train_data, val_data, test_data = split(read(folder))
    train_loader = LinkNeighborLoader(
        train_data, num_neighbors=[10, 10], edge_label_index=train_data.edge_label_index, neg_sampling="binary",
        batch_size=512, shuffle=True, num_workers=1,
    )  # fmt: skip
    model = Net(train_data.num_features, 128, 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    best = (0.0, 0.0)
    for _ in range(epochs):
        model.train()
        for batch in train_loader:
            optimizer.zero_grad()
            out = model.decode(model.encode(batch.x, batch.edge_index), batch.edge_label_index)
            torch.nn.functional.binary_cross_entropy_with_logits(out, batch.edge_label).backward()
            optimizer.step()
        best = max(best, (auc(model, val_data), auc(model, test_data)))
    return best[1]


if __name__ == "__main__":
    print(f"test AUC {main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0):.4f}")
