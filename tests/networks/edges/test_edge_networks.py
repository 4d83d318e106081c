"""Networks that heed features of edges: a graph in which nothing else tells the classes, by every way of sampling."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from scipy import sparse
from tests.networks.edges.planted_edges import CLASSES, NODES, arguments, planted

from any2vec import (
    APPNP,
    GAMLP,
    GAT,
    GCN,
    GIN,
    GINE,
    RGCN,
    SGC,
    GATv2,
    GraphOptions,
    NodeOptions,
    fit,
    write_graph,
)  # fmt: skip
from any2vec.errors import InputError
from any2vec.models.networks.classifier import NetworkClassifier, edges_for
from any2vec.models.networks.inference import Inference
from any2vec.models.networks.network import Block, GineLayer
from any2vec.models.networks.node_order import in_order
from any2vec.nn.aggregate import Neighbors
from any2vec.tasks.graphs.planning import batch_bytes, reached_by_hop
from any2vec.tasks.graphs.prepare import prepare_graph
from any2vec.tasks.graphs.task import Graphs
from cli_runs import called, done
from ended_runs import ended_at_record
from marks import uint64_wraps

pytestmark = uint64_wraps

PLAIN: dict[str, Any] = {"hidden": 16, "dropout": 0.0, "learning_rate": 0.05, "weight_decay": 0.0}
OPTIONS: dict[str, Any] = PLAIN | {"heads": 2}
HEEDING = (GAT, GATv2, GINE)
WAYS: dict[str, dict[str, Any]] = {
    "neighbors": {"fanouts": "6,6", "batch_size": 64},
    "full-graph": {"node_order": "rcm"},
    "cluster": {"num_parts": 4, "parts_per_batch": 2, "partitioner": "ldg"},
    "walks": {"batch_size": 64, "walk_steps": 2},
}
EPOCHS = {"neighbors": 20, "full-graph": 120, "cluster": 40, "walks": 30}


def options_of(model: Any) -> dict[str, Any]:
    return PLAIN if model is GINE else OPTIONS


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", HEEDING)
def test_classes_that_edges_alone_tell_are_learned(tmp_path: Path, model: Any, way: str) -> None:
    options = options_of(model) | WAYS[way] | {"sampling": way}
    found = fit(model(**options), planted(tmp_path / "graph"), epochs=EPOCHS[way], seed=1)
    assert found.summary["test_accuracy"] > 0.6


def test_without_them_nothing_is_learned(tmp_path: Path) -> None:
    found = fit(GATv2(**OPTIONS, sampling="full-graph"), planted(tmp_path / "graph", keep=False), epochs=120, seed=1)
    assert found.summary["test_accuracy"] < 0.45


@pytest.mark.parametrize("model", HEEDING)
def test_batches_of_nodes_are_scored_as_all_at_once(tmp_path: Path, model: Any) -> None:
    graph = planted(tmp_path / "graph")
    fit(model(**options_of(model), residual=True), graph, epochs=1, seed=1, out=tmp_path / "run")
    classifier = NetworkClassifier.load(tmp_path / "run")
    assert classifier.num_edge_features == 2
    whole = classifier.score(graph)[1]
    csr = edges_for(classifier.model, graph)
    small = Inference(csr, graph.features, budget_bytes=150_000)
    np.testing.assert_allclose(small.hidden_and_scores(classifier._network())[1], whole, atol=1e-5)
    assert small.counts.batches > 4
    some = np.array([5, 99, 5, 300])
    np.testing.assert_allclose(classifier.score(graph, some)[1], whole[some], atol=1e-5)


@pytest.mark.parametrize("model", HEEDING)
def test_the_network_in_pyg_gives_the_same(tmp_path: Path, model: Any) -> None:
    pytest.importorskip("torch_geometric")
    graph = planted(tmp_path / "graph")
    fit(model(**options_of(model)), graph, epochs=1, seed=1, out=tmp_path / "run")
    classifier = NetworkClassifier.load(tmp_path / "run")
    x, edge_index, edge_attr = arguments(graph)
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


def as_files(folder: Path) -> list[str]:
    """The planted graph as files that `train` takes: edges, and flags of what stands beside them."""
    graph = planted(folder / "planted")
    assert graph.features is not None and graph.edge_features is not None and graph.labels is not None
    order = np.random.default_rng(5).permutation(len(graph.csr.indices))
    src, dst = np.array(pairs(graph.csr))[order].T
    (folder / "edges.txt").write_text("".join(f"{one} {other}\n" for one, other in zip(src, dst, strict=True)))
    np.save(folder / "x.npy", graph.features.row_ND)
    np.save(folder / "rows.npy", graph.edge_features.row_ND[order])
    (folder / "y.tsv").write_text("".join(f"{node}\t{label}\n" for node, label in enumerate(graph.labels)))
    parts = "".join(f"{node}\t{part}\n" for part in ("train", "val", "test") for node in graph.rows(part))
    (folder / "s.tsv").write_text(parts)
    beside = {"--features": "x.npy", "--labels": "y.tsv", "--split": "s.tsv", "--edge-features": "rows.npy"}
    return [str(folder / "edges.txt"), "--directed", *(str(one) for key, name in beside.items()
                                                         for one in (key, folder / name))]  # fmt: skip


def test_train_takes_features_of_edges_beside_the_edges(tmp_path: Path) -> None:
    """The bits are those of a folder that was built before."""
    given = as_files(tmp_path)
    small = ["--hidden", "16", "--heads", "2", "--threads", "1", "--epochs", "2", "--json"]
    found = json.loads(done("train", "gat", *given, *small, "--out", str(tmp_path / "run")))
    assert found["data"]["num_edge_features"] == 2
    built = json.loads(done("train", "gat", str(tmp_path / "planted"), *small, "--out", str(tmp_path / "built")))
    assert found["test_accuracy"] == built["test_accuracy"]
    one, other = ((tmp_path / name / "network.safetensors").read_bytes() for name in ("run", "built"))
    assert one == other
    estimate = ["estimate", "gat", *given, "--hidden", "16", "--heads", "2", "--json"]
    known, without = (json.loads(done(*one))["memory"] for one in (estimate, [*estimate[:-7], *estimate[-5:]]))
    assert sum(known.values()) > sum(without.values())


def test_features_of_edges_are_refused_where_they_do_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    given, folder = as_files(tmp_path), str(tmp_path / "planted")
    rows = str(tmp_path / "rows.npy")
    np.save(tmp_path / "few.npy", np.ones((7, 2), np.float32))
    few = [*given[:-1], str(tmp_path / "few.npy")]
    out = str(tmp_path / "run")
    for command, message in (
        (["train", "gcn", *given], "edge_features does nothing for gcn"),
        (["train", "gat", folder, "--edge-features", rows], "has its own edge_features; leave out --edge-features"),
        (["train", "gat", *few], "few.npy has 7 rows for 3,600 edges"),
        (["train", "ga-mlp", *given], "ga-mlp has no --edge-features"),
    ):
        assert called([*command, "--out", out]) == 2
        assert message in " ".join(capsys.readouterr().err.split())
    assert not Path(out).exists()
    rows_given = NodeOptions(edge_features=np.ones((3, 1)))
    with pytest.raises(InputError, match="edge_features is for graph networks"):
        fit(GAMLP(), np.array([[0, 1], [1, 2], [2, 0]]), nodes=rows_given)


def test_rows_in_memory_and_attributes_of_networkx(tmp_path: Path) -> None:
    graph = planted(tmp_path / "graph")
    assert graph.features is not None and graph.edge_features is not None
    networkx = pytest.importorskip("networkx")
    made = networkx.DiGraph()
    made.add_nodes_from(range(NODES))
    rows = graph.edge_features.row_ND
    made.add_edges_from((*pair, {"kind": row}) for pair, row in zip(pairs(graph.csr), rows, strict=True))
    edges = (graph.csr.indices, np.repeat(np.arange(NODES), np.diff(graph.csr.indptr)))
    beside = {"features": graph.features.row_ND, "labels": graph.labels}
    small, reading = GAT(hidden=16, heads=2), GraphOptions(directed=True)
    given: list[tuple[Any, Any]] = [(edges, rows), (edges, tmp_path / "graph" / "rows.npz"), (made, "kind")]
    sparse.save_npz(given[1][1], sparse.csr_array(rows))
    found = [
        fit(small, source, nodes=NodeOptions(edge_features=one, **beside), graph=reading, epochs=1, threads=1)
        for source, one in given
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].embeddings.vectors, other.embeddings.vectors)
    without = fit(small, edges, nodes=NodeOptions(**beside), graph=reading, epochs=1, threads=1)
    assert np.abs(without.embeddings.vectors - found[0].embeddings.vectors).max() > 1e-3


def test_gine_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    graph, model = planted(tmp_path / "graph"), GINE(hidden=8, fanouts="4,3", batch_size=32, train_eps=True)
    whole = fit(model, graph, epochs=3, threads=1)
    ended_at_record(3, fit, model, graph, epochs=3, threads=1, out=tmp_path / "run")
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()
    again = fit(model, graph, epochs=3, threads=1, out=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(again.embeddings.vectors, whole.embeddings.vectors)


def test_gine_learns_links_and_jumps_and_has_pygs_numbers(tmp_path: Path) -> None:
    graph = planted(tmp_path / "graph")
    links = fit(GINE(objective="links", hidden=8, fanouts="4,4"), graph, epochs=1, threads=1)
    assert links.summary["test_auc"] > 0 and links.scorer.vectors(graph).shape == (NODES, 8)
    pytest.importorskip("torch_geometric")
    fit(GINE(hidden=8, jumping_knowledge="cat", train_eps=True), graph, epochs=1, out=tmp_path / "run")
    classifier = NetworkClassifier.load(tmp_path / "run")
    assert graph.features is not None and graph.edge_features is not None
    edge_index = torch.from_numpy(np.array(pairs(graph.csr)).T)
    given = [torch.from_numpy(np.array(rows.row_ND)) for rows in (graph.features, graph.edge_features)]
    with torch.no_grad():
        expected = classifier.to_pyg()(given[0], edge_index, given[1]).numpy()
    found = classifier.score(graph)[1]
    np.testing.assert_allclose(found, expected, atol=1e-5 * max(1, np.abs(expected).max()))


def test_gine_needs_features_of_edges(tmp_path: Path) -> None:
    plain, graph = planted(tmp_path / "plain", keep=False), planted(tmp_path / "graph")
    with pytest.raises(InputError, match="the graph has none; give --edge-features"):
        fit(GINE(hidden=8), plain, epochs=1)
    fit(GINE(hidden=8), graph, epochs=1, out=tmp_path / "run")
    with pytest.raises(InputError, match="takes 2 features an edge, got 0"):
        NetworkClassifier.load(tmp_path / "run").score(plain)


@pytest.mark.parametrize("has_weights", [False, True])
def test_a_sample_of_equal_neighbors_stands_for_all(has_weights: bool) -> None:
    """Two of six neighbors that are alike, with edges that are alike, give what all six give."""
    torch.manual_seed(1)
    layer, found = GineLayer(GINE(hidden=4), 3, 2, 2), []
    x_MD, degree_M1 = torch.randn(1, 3).repeat(7, 1), torch.full((7, 1), 6.0)
    for size in (6, 2):
        weight_S = np.full(size, 1 / size, np.float32) if has_weights else None
        neighbors = Neighbors(np.array([0, size]), np.arange(1, size + 1, dtype=np.int32), None, weight_S)
        edge_SK = torch.tensor([[1.0, -2.0]]).repeat(size, 1)
        found.append(layer(x_MD, Block(neighbors, degree_M1, edge_SK=edge_SK)))
    assert torch.allclose(*found, atol=1e-5) and not torch.allclose(found[0], layer.last.bias.detach(), atol=1e-5)


@pytest.mark.parametrize("num", [1, 2, 5])
def test_few_edges_give_the_bits_of_many(num: int) -> None:
    """A batch of inference that has few edges; libraries add up products of few rows in another order."""
    torch.manual_seed(1)
    layer, edge_SK, x_MD = GineLayer(GINE(hidden=16), 64, 16, 16), torch.randn(500, 16), torch.randn(500, 64)
    degree_M1, found = torch.ones(500, 1), []
    with torch.no_grad():
        for size in (500, num):  # each node is its own neighbor
            neighbors = Neighbors(np.arange(501).clip(max=size), np.arange(size, dtype=np.int32))
            found.append(layer(x_MD, Block(neighbors, degree_M1, edge_SK=edge_SK[:size]))[:num])
    assert torch.equal(*found)


def test_plans_count_features_of_edges(tmp_path: Path) -> None:
    metadata = prepare_graph(GINE(hidden=16), planted(tmp_path / "graph"), None, None, None).metadata
    for model in (GINE(hidden=16, fanouts="3,3", batch_size=50), GINE(hidden=16, sampling="full-graph")):
        plain = GIN(**{name: value for name, value in model.as_dict().items() if name not in ("model", "train_eps")})
        edges = reached_by_hop(model, metadata)[1]
        more = batch_bytes(model, metadata, 1)[0] - batch_bytes(plain, metadata, 1)[0]
        assert 4 * edges * 2 <= more <= 4 * edges * (2 + 3 * (CLASSES + 16))
    wide = metadata | {"num_edge_features": 200}
    budget = [plan_needs(GINE(hidden=16, batch_size=4), one) for one in (metadata, wide)]
    assert budget[1] > budget[0] + 4 * 198 * metadata["most_neighbors"]


def plan_needs(model: Any, metadata: Any) -> int:
    """The least memory that inference takes."""
    from any2vec.models.networks.sizing import least_inference_bytes
    from any2vec.tasks.graphs.planning import _edge_columns

    widths = model.widths(metadata["num_features"], metadata["num_classes"])
    return least_inference_bytes(widths, metadata["most_neighbors"], _edge_columns(model, metadata))
