"""Scripts of PyG's form on our loaders: they run on planted data, and reach on real data what full graphs reach."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from marks import uint64_wraps

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from sklearn.metrics import roc_auc_score  # noqa: E402
from torch_geometric.nn import to_hetero  # noqa: E402
from torch_geometric.utils import negative_sampling  # noqa: E402

from examples import hetero_sage, link_loader  # noqa: E402

pytestmark = uint64_wraps
DATA = Path(os.environ.get("ANY2VEC_DATA", "nowhere"))
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="needs the folder that ANY2VEC_DATA names")
CLASSES = 3


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def written(file: Path, rows: Iterable[Sequence[Any]]) -> None:
    with gzip.open(file, "wt") as target:
        target.write("".join(" ".join(map(str, row)) + "\n" for row in rows))


def test_the_hetero_script_learns_planted_papers(tmp_path: Path) -> None:
    """Papers of a class share authors and subjects; their features say nothing."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, CLASSES, 240)
    written(
        tmp_path / "acm.pa.txt.gz", [(p, label[p] * 20 + rng.integers(0, 20)) for p in range(240) for _ in range(3)]
    )
    written(tmp_path / "acm.ps.txt.gz", [(p, label[p] * 3 + rng.integers(0, 3)) for p in range(240)])
    written(tmp_path / "acm.labels.txt.gz", enumerate(label))
    features = sparse.csr_matrix((rng.random((240, 12)) < 0.3).astype(np.float32))
    sparse.save_npz(tmp_path / "acm.paper.features.npz", features)
    np.savez(tmp_path / "acm.splits.npz", split=np.tile(np.arange(240) % 3, (3, 1)).astype(np.int8))
    assert hetero_sage.main(tmp_path, seed=0, epochs=10) > 0.9


def test_the_link_script_learns_planted_links(tmp_path: Path) -> None:
    """Nodes of a class are linked, and their features tell the class."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, CLASSES, 150)
    u, v = np.triu_indices(150, 1)
    chosen = (label[u] == label[v]) & (rng.random(len(u)) < 0.2)
    written(tmp_path / "cora.edges.txt.gz", zip(u[chosen], v[chosen], strict=True))
    features = np.eye(CLASSES)[label].repeat(4, axis=1) * (rng.random((150, 4 * CLASSES)) < 0.8)
    sparse.save_npz(tmp_path / "cora.features.npz", sparse.csr_matrix(features.astype(np.float32)))
    assert link_loader.main(tmp_path, seed=0, epochs=4) > 0.75  # of pairs that are none, a third are of a class: 0.83


@pytest.mark.slow
@pytest.mark.data
@needs_data
def test_papers_are_told_as_well_as_on_the_full_graph() -> None:
    folder = DATA / "graph-hetero-acm"
    found = np.mean([hetero_sage.main(folder, seed) for seed in range(2)])
    reference = np.mean([full_hetero_accuracy(hetero_sage.read(folder), seed) for seed in range(2)])
    assert found > reference - 0.025 and found > 0.83, (found, reference)


def full_hetero_accuracy(data: Any, seed: int) -> float:
    torch.manual_seed(seed)
    model = to_hetero(hetero_sage.SAGE(64, CLASSES), data.metadata(), aggr="sum")
    with torch.no_grad():
        model(data.x_dict, data.edge_index_dict)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    paper, best = data["paper"], (0.0, 0.0)
    for step in range(1, 61):
        model.train()
        optimizer.zero_grad()
        out = model(data.x_dict, data.edge_index_dict)["paper"][paper.train_mask]
        torch.nn.functional.cross_entropy(out, paper.y[paper.train_mask]).backward()
        optimizer.step()
        if step % 15 == 0:
            model.eval()
            with torch.no_grad():
                is_right = model(data.x_dict, data.edge_index_dict)["paper"].argmax(dim=-1) == paper.y
            best = max(best, tuple(float(is_right[mask].float().mean()) for mask in (paper.val_mask, paper.test_mask)))
    return best[1]


@pytest.mark.slow
@pytest.mark.data
@needs_data
def test_links_are_told_as_well_as_on_the_full_graph() -> None:
    folder = DATA / "graph-planetoid"
    found = np.mean([link_loader.main(folder, seed) for seed in range(2)])
    reference = np.mean([full_link_auc(folder, seed) for seed in range(2)])
    assert found > reference - 0.025 and found > 0.84, (found, reference)


def full_link_auc(folder: Path, seed: int) -> float:
    """The same model and number of steps, on messages along all training edges, with PyG's negatives."""
    torch.manual_seed(seed)
    train, *held_out = link_loader.split(link_loader.read(folder))
    model = link_loader.Net(train.num_features, 128, 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    best = (0.0, 0.0)
    for step in range(1, 136):
        model.train()
        optimizer.zero_grad()
        positive = train.edge_label_index[:, torch.randperm(train.edge_label_index.shape[1])[:512]]
        pairs = torch.cat([positive, negative_sampling(train.edge_index, train.num_nodes, 512)], dim=1)
        out = model.decode(model.encode(train.x, train.edge_index), pairs)
        label = torch.cat([torch.ones(512), torch.zeros(pairs.shape[1] - 512)])
        torch.nn.functional.binary_cross_entropy_with_logits(out, label).backward()
        optimizer.step()
        if step % 9 == 0:
            model.eval()
            with torch.no_grad():
                scores = [model.decode(model.encode(d.x, d.edge_index), d.edge_label_index) for d in held_out]
            best = max(best, tuple(roc_auc_score(d.edge_label, s) for d, s in zip(held_out, scores, strict=True)))
    return float(best[1])
