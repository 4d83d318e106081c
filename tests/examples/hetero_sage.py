"""GraphSAGE on papers, authors and subjects by mini-batches: the form of the example `to_hetero_mag` of PyG, on ACM.

    python tests/examples/hetero_sage.py FOLDER_OF_GRAPH_HETERO_ACM [SEED]

With PyG's own loader the line below would be: from torch_geometric.loader import NeighborLoader
"""

import gzip
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as PyG writes it
from scipy import sparse
from torch_geometric.data import HeteroData
from torch_geometric.nn import SAGEConv, to_hetero
from torch_geometric.transforms import ToUndirected

from any2vec import NeighborLoader


def read(folder: Path, split: int = 2) -> HeteroData:
    def lines(name: str) -> torch.Tensor:
        with gzip.open(folder / f"acm.{name}.txt.gz", "rt") as file:
            return torch.tensor([[int(value) for value in line.split()] for line in file]).T

    data, papers = HeteroData(), sparse.load_npz(folder / "acm.paper.features.npz")
    papers = sparse.diags(1 / np.maximum(papers.sum(axis=1).A1, 1)) @ papers
    written, about = lines("pa"), lines("ps")
    num_authors, num_subjects = int(written[1].max()) + 1, int(about[1].max()) + 1
    by_author = sparse.csr_matrix((np.ones(written.shape[1]), written.flip(0).numpy()), (num_authors, papers.shape[0]))
    data["paper"].x = torch.from_numpy(papers.toarray()).float()
    data["author"].x = torch.from_numpy((by_author @ papers).toarray()).float()
    data["subject"].x = torch.eye(num_subjects)
    labels, parts = lines("labels"), np.load(folder / "acm.splits.npz")["split"][split]
    data["paper"].y = torch.empty(papers.shape[0], dtype=torch.long)
    data["paper"].y[labels[0]] = labels[1]
    for number, part in enumerate(("train", "val", "test")):
        data["paper"][f"{part}_mask"] = torch.from_numpy(parts == number)
    data["paper", "author"].edge_index, data["paper", "subject"].edge_index = written, about
    return ToUndirected()(data)


class SAGE(torch.nn.Module):
    def __init__(self, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv1 = SAGEConv((-1, -1), hidden_channels)
        self.dropout = torch.nn.Dropout(p=0.5)  # a module, for what is traced knows no self.training
        self.conv2 = SAGEConv((-1, -1), out_channels)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        x = self.conv1(x, edge_index).relu()
        return self.conv2(self.dropout(x), edge_index)


@torch.no_grad()
def accuracy(model: torch.nn.Module, loader: NeighborLoader) -> float:
    model.eval()
    right = total = 0
    for batch in loader:
        batch_size = batch["paper"].batch_size
        found = model(batch.x_dict, batch.edge_index_dict)["paper"][:batch_size].argmax(dim=-1)
        right += int((found == batch["paper"].y[:batch_size]).sum())
        total += batch_size
    return right / total


def main(folder: Path, seed: int, epochs: int = 20) -> float:
    """Test accuracy at the best validation accuracy."""
    torch.manual_seed(seed)
    data = read(folder)
    kwargs = {"num_neighbors": [10, 10], "batch_size": 64, "num_workers": 1}
    train_loader = NeighborLoader(data, input_nodes=("paper", data["paper"].train_mask), shuffle=True, **kwargs)
    val_loader = NeighborLoader(data, input_nodes=("paper", data["paper"].val_mask), **kwargs)
    test_loader = NeighborLoader(data, input_nodes=("paper", data["paper"].test_mask), **kwargs)

    model = to_hetero(SAGE(64, int(data["paper"].y.max()) + 1), data.metadata(), aggr="sum")
    with torch.no_grad():  # lazy modules are initialized
        model(data.x_dict, data.edge_index_dict)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best = (0.0, 0.0)
    for epoch in range(1, epochs + 1):
        model.train()
        for batch in train_loader:
            optimizer.zero_grad()
            batch_size = batch["paper"].batch_size
            out = model(batch.x_dict, batch.edge_index_dict)["paper"][:batch_size]
            F.cross_entropy(out, batch["paper"].y[:batch_size]).backward()
            optimizer.step()
        if epoch % 5 == 0:
            best = max(best, (accuracy(model, val_loader), accuracy(model, test_loader)))
    return best[1]


if __name__ == "__main__":
    print(f"test accuracy {main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0):.4f}")
