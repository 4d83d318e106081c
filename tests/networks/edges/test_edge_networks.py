"""Networks that heed features of edges: a graph in which nothing else tells the classes, by every way of sampling."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from any2vec import APPNP, GAT, GCN, RGCN, SGC, AttributedGraph, GATv2, GraphOptions, fit, write_graph
from any2vec.errors import InputError
from any2vec.models.networks.classifier import NetworkClassifier, edges_for
from any2vec.models.networks.inference import Inference
from any2vec.models.networks.node_order import in_order
from any2vec.tasks.graphs.prepare import prepare_graph
from any2vec.tasks.graphs.task import Graphs
from cli_runs import called, done
from marks import uint64_wraps

pytestmark = uint64_wraps
NODES, CLASSES, EACH = 600, 3, 6


def planted(folder: Path, keep: bool = True, seed: int = 1) -> AttributedGraph:
    """Each node has neighbors of all classes; its own class is that of those whose edges are marked."""
    rng = np.random.default_rng(seed)
    shown = rng.integers(0, CLASSES, NODES)
    src = np.concatenate([rng.choice(NODES, EACH, replace=False) for _ in range(NODES)])
    dst = np.repeat(np.arange(NODES), EACH)
    label = rng.integers(0, CLASSES, NODES)
    is_marked = shown[src] == label[dst]
    features = np.eye(CLASSES, dtype=np.float32)[shown]
    rows = np.stack([2.0 * is_marked - 1, rng.normal(size=len(src))], axis=1).astype(np.float32)
    has_one = np.bincount(dst, is_marked, NODES) > 0
    told = np.flatnonzero(has_one)
    split = {"train": told[::2], "val": told[1::4], "test": told[3::4]}
    return write_graph(
        (src, dst), folder, features=features, labels=label, split=split, edge_features=rows if keep else None,
        graph=GraphOptions(directed=True),
    )  # fmt: skip


OPTIONS: dict[str, Any] = {"hidden": 16, "heads": 2, "dropout": 0.0, "learning_rate": 0.05, "weight_decay": 0.0}
WAYS: dict[str, dict[str, Any]] = {
    "neighbors": {"fanouts": "6,6", "batch_size": 64},
    "full-graph": {"node_order": "rcm"},
    "cluster": {"num_parts": 4, "parts_per_batch": 2, "partitioner": "ldg"},
}
EPOCHS = {"neighbors": 20, "full-graph": 120, "cluster": 40}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", [GAT, GATv2])
def test_classes_that_edges_alone_tell_are_learned(tmp_path: Path, model: Any, way: str) -> None:
    options = OPTIONS | WAYS[way] | {"sampling": way}
    found = fit(model(**options), planted(tmp_path / "graph"), epochs=EPOCHS[way], seed=1)
    assert found.summary["test_accuracy"] > 0.6


def test_without_them_nothing_is_learned(tmp_path: Path) -> None:
    found = fit(GATv2(**OPTIONS, sampling="full-graph"), planted(tmp_path / "graph", keep=False), epochs=120, seed=1)
    assert found.summary["test_accuracy"] < 0.45


@pytest.mark.parametrize("model", [GAT, GATv2])
def test_batches_of_nodes_are_scored_as_all_at_once(tmp_path: Path, model: Any) -> None:
    graph = planted(tmp_path / "graph")
    fit(model(**OPTIONS, residual=True), graph, epochs=1, seed=1, out=tmp_path / "run")
    classifier = NetworkClassifier.load(tmp_path / "run")
    assert classifier.num_edge_features == 2
    whole = classifier.score(graph)[1]
    csr = edges_for(classifier.model, graph)
    small = Inference(csr, graph.features, budget_bytes=150_000)
    np.testing.assert_allclose(small.hidden_and_scores(classifier._network())[1], whole, atol=1e-5)
    assert small.counts.batches > 4
    some = np.array([5, 99, 5, 300])
    np.testing.assert_allclose(classifier.score(graph, some)[1], whole[some], atol=1e-5)


@pytest.mark.parametrize("model", [GAT, GATv2])
def test_the_network_in_pyg_gives_the_same(tmp_path: Path, model: Any) -> None:
    pytest.importorskip("torch_geometric")
    graph = planted(tmp_path / "graph")
    fit(model(**OPTIONS), graph, epochs=1, seed=1, out=tmp_path / "run")
    classifier = NetworkClassifier.load(tmp_path / "run")
    assert graph.features is not None and graph.edge_features is not None
    targets = np.repeat(np.arange(NODES), np.diff(graph.csr.indptr))
    edge_index = torch.from_numpy(np.stack([graph.csr.indices, targets]).astype(np.int64))
    x, edge_attr = (torch.from_numpy(np.array(rows.row_ND)) for rows in (graph.features, graph.edge_features))
    with torch.no_grad():
        expected = classifier.to_pyg()(x, edge_index, edge_attr)
    np.testing.assert_allclose(classifier.score(graph)[1], expected.numpy(), atol=1e-5)
    with pytest.raises(InputError, match="ONNX files are of networks that take x and edge_index alone"):
        classifier.to_onnx(tmp_path / "network.onnx")


def test_links_that_are_held_out_and_orders_of_nodes_leave_each_edge_its_features(tmp_path: Path) -> None:
    graph = planted(tmp_path / "graph")
    prepared = prepare_graph(GATv2(objective="links", hidden=16, heads=2), graph, None, None, None).data
    ordered = in_order(prepared, np.random.default_rng(1).permutation(NODES))
    assert graph.edge_features is not None
    whole = dict(zip(pairs(graph.csr), graph.edge_features.row_ND.tolist(), strict=True))
    order = ordered.features.order_N  # type: ignore[union-attr]
    for csr, names in ((prepared.csr, np.arange(NODES)), (ordered.csr, order)):
        assert 0 < len(csr.indices) < len(graph.csr.indices)
        found = zip(pairs(csr), csr.take().tolist(), strict=True)  # type: ignore[attr-defined]
        assert all(whole[int(names[src]), int(names[dst])] == row for (src, dst), row in found)
    result = fit(GATv2(objective="links", hidden=16, heads=2, fanouts="4,4"), graph, epochs=1, seed=1)
    assert result.summary["test_auc"] > 0


def test_walks_of_weighted_edges_heed_their_weights_beside_features(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    code = rng.choice(60 * 60, 300, replace=False)
    (tmp_path / "edges.txt").write_text("".join(f"{at // 60} {at % 60} {1 + at % 7}\n" for at in code))
    features, reading = rng.normal(size=(60, 4)).astype(np.float32), GraphOptions(directed=True)
    graphs = [
        write_graph(tmp_path / "edges.txt", tmp_path / f"g{rows is None}", features=features, edge_features=rows,
                    graph=reading)
        for rows in (None, np.arange(300, dtype=np.float32)[:, None])
    ]  # fmt: skip
    order = np.random.default_rng(2).permutation(60)
    for objective in ("unsupervised", "links"):
        model = GAT(objective=objective, hidden=8, heads=2)
        data = [prepare_graph(model, graph, None, None, None).data for graph in graphs]
        for without, beside in (data, [in_order(one, order) for one in data]):
            assert 0 < len(beside.csr.weights) <= 300 and beside.csr.weights.dtype == np.float32
            for part, right in zip(beside.csr, without.csr, strict=True):
                np.testing.assert_array_equal(part, right)


def pairs(csr: Any) -> list[tuple[int, int]]:
    targets = np.repeat(np.arange(len(csr.indptr) - 1), np.diff(csr.indptr))
    return list(zip(csr.indices.tolist(), targets.tolist(), strict=True))


def test_graphs_that_do_not_fit_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, plain = planted(tmp_path / "graph"), planted(tmp_path / "plain", keep=False)
    fit(GAT(**OPTIONS), graph, epochs=1, out=tmp_path / "run")
    fit(GAT(**OPTIONS), plain, epochs=1, out=tmp_path / "other")
    with pytest.raises(InputError, match="takes 2 features an edge, got 0"):
        NetworkClassifier.load(tmp_path / "run").score(plain)
    capsys.readouterr()
    assert called(["score", str(tmp_path / "run"), str(tmp_path / "plain")]) == 2
    assert "takes 2 features an edge, got 0" in " ".join(capsys.readouterr().err.split())
    assert called(["score", str(tmp_path / "other"), str(tmp_path / "graph")]) == 2
    assert "takes 0 features an edge, got 2" in " ".join(capsys.readouterr().err.split())


def test_the_command_trains_and_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    planted(tmp_path / "graph")
    train = ["train", "gat", str(tmp_path / "graph"), "--hidden", "16", "--heads", "2", "--threads", "1", "--json"]
    found = [json.loads(done(*train, "--epochs", "2", "--out", str(tmp_path / name))) for name in ("run", "again")]
    assert found[0]["test_accuracy"] == found[1]["test_accuracy"]
    one, other = ((tmp_path / name / "network.safetensors").read_bytes() for name in ("run", "again"))
    assert one == other
    lines = done("score", str(tmp_path / "run"), str(tmp_path / "graph")).splitlines()
    assert len(lines) == NODES


def test_a_pyg_graph_trains_networks_that_make_nothing_of_them(tmp_path: Path) -> None:
    data = pytest.importorskip("torch_geometric.data")
    generator = torch.Generator().manual_seed(1)
    given = data.Data(
        x=torch.randn(40, 4, generator=generator), edge_index=torch.randint(0, 40, (2, 200), generator=generator),
        y=torch.arange(40) % 2, edge_attr=torch.randn(200, 3, generator=generator),
    )  # fmt: skip
    assert fit(GCN(hidden=8), given, epochs=1).summary["train_accuracy"] >= 0
    found = fit(GAT(hidden=8, heads=2), given, epochs=1, out=tmp_path / "run")
    assert found is not None and NetworkClassifier.load(tmp_path / "run").num_edge_features == 3


def test_networks_that_make_nothing_of_them_leave_them_out(tmp_path: Path) -> None:
    """As PyG's layers without edge_dim: the same bits as without them, in training and in `score`; one line says so."""
    graph, plain = planted(tmp_path / "graph"), planted(tmp_path / "plain", keep=False)
    for model in (GCN(hidden=8), SGC(), APPNP(hidden=8), GCN(hidden=8, objective="links")):
        one, other = (fit(model, given, epochs=1, threads=1) for given in (graph, plain))
        np.testing.assert_array_equal(one.embeddings.vectors, other.embeddings.vectors)
        assert "note" in dict(Graphs().lines(one.summary)) and "note" not in dict(Graphs().lines(other.summary))
    rng = np.random.default_rng(1)
    for name, rows in (("typed", rng.normal(size=(300, 2))), ("untyped", None)):
        edge = torch.from_numpy(np.random.default_rng(2).integers(0, 60, (2, 300)))
        more = {} if rows is None else {"edge_attr": torch.from_numpy(rows)}
        data = pytest.importorskip("torch_geometric.data").Data(
            edge_index=edge, edge_type=torch.arange(300) % 2, y=torch.arange(60) % 2, num_nodes=60, **more
        )  # fmt: skip
        write_graph(data, tmp_path / name)
    one, other = (fit(RGCN(hidden=8), tmp_path / name, epochs=1, threads=1) for name in ("typed", "untyped"))
    np.testing.assert_array_equal(one.embeddings.vectors, other.embeddings.vectors)
    said = done("train", "gcn", str(tmp_path / "graph"), "--epochs", "1", "--out", str(tmp_path / "run"))
    assert "gcn makes nothing of features of edges: the 2 are not used" in " ".join(said.split())
    classifier = NetworkClassifier.load(tmp_path / "run")
    assert classifier.num_edge_features == 0
    np.testing.assert_array_equal(classifier.score(graph)[1], classifier.score(plain)[1])
