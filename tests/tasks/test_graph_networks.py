"""Graph networks: layers as their equations say, batches as the whole graph, training that goes on to the bit."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("torch")

import torch

import any2vec
from any2vec import GCN, AttributedGraph, DataError, FormatError, GraphSAGE, InputError, NetworkClassifier, NodeOptions
from any2vec.data.attributed.predictions import Predicted
from any2vec.evaluate.graph.scores import score_of
from any2vec.models.networks.config.base import NETWORK
from any2vec.models.networks.config.layers import APPNP, GAT, GIN, SGC, GATv2
from any2vec.models.networks.config.relational import RGCN
from any2vec.models.networks.learner import GraphLearner
from any2vec.models.networks.network import Block, GcnLayer, Network, SageLayer, block_of, blocks_of
from any2vec.plan.sharding.node_orders import node_order
from any2vec.sampling.neighbors import NeighborOptions, NeighborSampler
from any2vec.tasks.graphs.prepare import prepare_graph
from any2vec.tasks.graphs.task import Graphs
from cli_runs import called
from ended_runs import ended_at_record
from marks import with_metis

NODES, CLASSES, COLUMNS = 240, 3, 8


def planted(folder: Path, several: bool = False) -> AttributedGraph:
    """Classes whose nodes have most edges among themselves, and features that say little of one node alone."""
    rng = np.random.default_rng(0)
    label_N = rng.integers(0, CLASSES, NODES)
    src, dst = rng.integers(0, NODES, (2, 6000))
    kept = ((label_N[src] == label_N[dst]) | (rng.random(6000) < 0.06)) & (src != dst)
    means = rng.normal(size=(CLASSES, COLUMNS))
    features = (0.3 * means[label_N] + rng.normal(size=(NODES, COLUMNS))).astype(np.float32)
    split = np.repeat([0, 1, 2], [60, 60, NODES - 120])
    labels = np.eye(CLASSES, dtype=np.uint8)[label_N] if several else label_N
    if several:
        labels[label_N == 0, 1] = 1
    edges = folder / "edges.tsv"
    folder.mkdir(parents=True, exist_ok=True)
    edges.write_text("".join(f"{a}\t{b}\n" for a, b in zip(src[kept], dst[kept], strict=True)))
    return any2vec.write_graph(edges, folder / "graph", features=features, labels=labels, split=split)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> AttributedGraph:
    return planted(tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> AttributedGraph:
    return planted(tmp_path_factory.mktemp("several"), several=True)


def dense(graph: AttributedGraph) -> np.ndarray:
    """0 and 1 (N, N): row i has its in-neighbors."""
    found = np.zeros((len(graph), len(graph)))
    for node in range(len(graph)):
        found[node, graph.csr.indices[graph.csr.indptr[node] : graph.csr.indptr[node + 1]]] = 1
    return found


def array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().double().numpy()


def forward(network: Network, x: torch.Tensor, block: Block) -> tuple[np.ndarray, np.ndarray]:
    """(what the last hidden layer gives, scores) of all nodes at once."""
    with torch.no_grad():
        for layer in network.layers[:-1]:
            x = network.activation(layer(x, block))
        return x.numpy(), network.layers[-1](x, block).numpy()


@pytest.mark.parametrize("size_out", [3, 20])  # narrower than what comes in, and wider
def test_layers_are_their_equations(graph: AttributedGraph, size_out: int) -> None:
    edges, block = dense(graph), block_of(graph.csr)
    assert graph.features is not None
    x = graph.features.take(np.arange(len(graph)))
    degree = edges.sum(axis=1)
    sage, gcn = SageLayer(COLUMNS, size_out), GcnLayer(COLUMNS, size_out)
    means = edges @ x / np.maximum(degree, 1)[:, None]
    expected = (
        means @ array(sage.conv.lin_l.weight).T + array(sage.conv.lin_l.bias) + x @ array(sage.conv.lin_r.weight).T
    )
    np.testing.assert_allclose(array(sage(torch.from_numpy(x), block)), expected, atol=1e-5)
    root = 1 / np.sqrt(degree + 1)
    propagated = root[:, None] * ((edges + np.eye(len(x))) @ (root[:, None] * x))
    expected = propagated @ array(gcn.linear.weight).T + array(gcn.linear.bias)
    np.testing.assert_allclose(array(gcn(torch.from_numpy(x), block)), expected, atol=1e-5)


@pytest.mark.parametrize(
    "model",
    [
        GraphSAGE(num_layers=3, hidden=7), GraphSAGE(hidden=7, aggregator="max"), GCN(hidden=7),
        GAT(hidden=8, heads=2, output_heads=3), GATv2(hidden=8), GIN(num_layers=3, hidden=7, train_eps=True),
    ],
    ids=lambda model: model.name,
)  # fmt: skip
def test_batches_with_all_neighbors_are_the_whole_graph(graph: AttributedGraph, model: Any) -> None:
    assert graph.features is not None
    network, degree = Network(model, COLUMNS, CLASSES), np.diff(graph.csr.indptr).astype(np.float32)
    sampler = NeighborSampler(graph.csr, NeighborOptions(fanouts=(-1,) * model.num_layers))
    seeds = np.array([200, 3, 77])
    found = sampler.sample(seeds)
    x = torch.from_numpy(graph.features.take(found.node_M))
    scores = network(x, blocks_of(found, degree))
    every = torch.from_numpy(graph.features.take(np.arange(len(graph))))
    whole = forward(network, every, block_of(graph.csr))[1]
    np.testing.assert_allclose(array(scores), whole[seeds], atol=1e-5)


@pytest.mark.parametrize("kind", [SageLayer, GcnLayer])
def test_samples_are_right_in_the_mean(graph: AttributedGraph, kind: Any) -> None:
    """A layer is linear: over many samples its mean is what all neighbors give, within four standard errors."""
    assert graph.features is not None
    layer, degree = kind(COLUMNS, 2), np.diff(graph.csr.indptr).astype(np.float32)
    every = torch.from_numpy(graph.features.take(np.arange(len(graph))))
    exact = array(layer(every, block_of(graph.csr)))
    found = []
    for seed in range(400):
        hood = NeighborSampler(graph.csr, NeighborOptions(fanouts=(3,), seed=seed)).sample(np.arange(20))
        found.append(array(layer(every[hood.node_M.astype(np.int64)], blocks_of(hood, degree)[0])))
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - exact[:20]) <= 4 * error + 1e-6).all()


def trained(graph: Any, model: Any, **options: Any) -> any2vec.FitResult:
    return any2vec.fit(model, graph, **({"epochs": 12, "threads": 1} | options))


MODELS = [
    GraphSAGE(hidden=16, batch_size=16, fanouts="5,3"),
    GCN(hidden=16, batch_size=16, sampling="labor", sample_key="batch"),
    GCN(hidden=16, sampling="full-graph", learning_rate=0.05),
    GAT(hidden=16, batch_size=16, sampling="labor"),
    GATv2(hidden=16, heads=2, output_heads=2, sampling="full-graph", learning_rate=0.02),
    GIN(hidden=16, batch_size=16, fanouts="5,3", train_eps=True),
    APPNP(hidden=16, hops=4, learning_rate=0.05),
    GraphSAGE(hidden=16, batch_size=32, sample_key="batch", aggregator="pool"),
    GraphSAGE(hidden=16, batch_size=16, fanouts="5,3", batch_order="proximity", residual=True, jumping_knowledge="cat"),
    GCN(hidden=16, sampling="full-graph", learning_rate=0.05, residual=True, jumping_knowledge="max"),
    GAT(hidden=16, heads=4, batch_size=32, residual=True, jumping_knowledge="lstm"),
    SGC(dropout=0.1),
    GCN(hidden=16, sampling="cluster", num_parts=12, parts_per_batch=2, partitioner="ldg"),
    GAT(hidden=16, sampling="cluster", num_parts=200, parts_per_batch=1, halo=1, partitioner="ldg"),
    GraphSAGE(hidden=16, sampling="walks", batch_size=10),
    GIN(hidden=16, sampling="walks", batch_size=20, walk_steps=3, sample_coverage=0),
    GraphSAGE(hidden=16, batch_size=16, fanouts="5,3", batch_order="cluster", num_parts=12, partitioner="ldg"),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model.name}-{model.sampling}")
def test_neighbors_tell_what_features_alone_do_not(graph: AttributedGraph, model: Any) -> None:
    result = trained(graph, model, epochs=30)
    summary = result.summary
    assert summary["test_accuracy"] > 0.9 and summary["epochs_done"] == 30
    assert result.embeddings.vectors.shape == (NODES, model.dim or COLUMNS) and summary["dim"] in (model.dim, COLUMNS)
    vectors, scores = result.scorer.score(graph)
    assert np.array_equal(vectors, result.embeddings.vectors)
    some = np.array([5, 239, 5])
    for found, expected in zip(result.scorer.score(graph, some), (vectors, scores), strict=True):
        np.testing.assert_allclose(found, expected[some], atol=1e-5)
    with pytest.raises(InputError, match=r"nodes must be from 0 to 239, got 240"):
        result.scorer.score(graph, np.array([240]))
    with pytest.raises(InputError, match=r"or a mask \(240,\), got bool of \(3,\)"):
        result.scorer.score(graph, np.ones(3, bool))
    is_asked = np.isin(np.arange(NODES), [5, 239])
    np.testing.assert_allclose(result.scorer.score(graph, is_asked)[1], scores[[5, 239]], atol=1e-5)
    with pytest.raises(InputError, match=r"an AttributedGraph, got dict; any2vec.write_graph makes one"):
        result.scorer.score({})
    for part in ("train", "val", "test"):
        assert summary[f"{part}_accuracy"] == score_of(scores, np.asarray(graph.labels), graph.rows(part))
    assert graph.features is not None
    x = np.c_[graph.features.take(np.arange(NODES)), np.ones(NODES)]
    train = graph.rows("train")
    weights = np.linalg.lstsq(x[train], np.eye(CLASSES)[np.asarray(graph.labels)[train]], rcond=None)[0]
    assert score_of(x @ weights, np.asarray(graph.labels), graph.rows("test")) < 0.75


@pytest.mark.parametrize("method", ["degree", "rcm", "communities", *map(with_metis, ("metis", "gcod"))])
@pytest.mark.parametrize("kind", [GCN, SGC])
def test_an_order_of_nodes_changes_nothing_but_rounding(
    graph: AttributedGraph, kind: Any, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows and predictions are in the user's order; of METIS's parts there are several."""
    monkeypatch.setattr("any2vec.plan.sharding.node_orders.BLOCK", 60)
    options = {"sampling": "full-graph", "dropout": 0.0, "learning_rate": 0.05}
    found = []
    for order in ("none", method):
        out = tmp_path / order
        result = trained(graph, kind(**options, node_order=order), out=out)
        table = pq.read_table(out / "predictions.parquet")
        found.append((result, table))
    (plain, plain_table), (ordered, ordered_table) = found
    assert not np.array_equal(node_order(graph.csr, method), np.arange(NODES))
    assert ordered.embeddings.keys == plain.embeddings.keys
    np.testing.assert_allclose(ordered.embeddings.vectors, plain.embeddings.vectors, rtol=2e-3, atol=2e-3)
    assert ordered.summary["test_accuracy"] == plain.summary["test_accuracy"] > 0.6
    for name in plain_table.column_names:
        one, other = (table[name].to_pylist() for table in (plain_table, ordered_table))
        assert one == (pytest.approx(other, abs=5e-3) if isinstance(one[0], float) else other)


def test_several_classes_a_node(several: AttributedGraph) -> None:
    result = trained(several, MODELS[0], epochs=30)
    assert result.summary["test_micro_f1"] > 0.85 and "test_accuracy" not in result.summary
    share_NC = result.scorer.probabilities(result.scorer.score(several)[1])
    assert (share_NC.sum(axis=1) > 1.2).any()


@pytest.mark.parametrize("more", [{}, {"residual": True}, {"dropout": 0.1}, {"hidden": COLUMNS - 1}])
def test_fixed_features_are_summed_once_to_the_same_bits(
    graph: AttributedGraph, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a graph convolution that sums before it multiplies, and drops nothing; others sum in each step."""
    from any2vec.models.networks import network

    convolve = network.convolve
    model = GCN(**{"hidden": 16, "sampling": "full-graph", "dropout": 0.0} | more)
    columns: list[int] = []
    monkeypatch.setattr(network, "convolve", lambda x, *block: columns.append(x.shape[1]) or convolve(x, *block))
    found = trained(graph, model, epochs=4)
    is_once = not more
    assert (columns.count(COLUMNS) == 1) == is_once and len(columns) > 8
    monkeypatch.setattr("any2vec.models.networks.batches.fixed_sums", lambda *_: None)
    columns.clear()
    plain = trained(graph, model, epochs=4)
    assert columns.count(COLUMNS) > 4 or "hidden" in more
    assert np.array_equal(found.embeddings.vectors, plain.embeddings.vectors)
    assert found.summary["val_accuracy"] == plain.summary["val_accuracy"]


def test_what_full_graph_reads_once_is_counted_once(graph: AttributedGraph) -> None:
    """Rows of nodes, and, where layers learn nothing, messages."""
    num_nodes, num_edges = len(graph), len(graph.csr.indices)
    for model, later in ((GCN(hidden=16, sampling="full-graph"), num_edges), (SGC(), 0)):
        assert trained(graph, model, epochs=3).summary["rows_read"] == num_nodes
        batches = GraphLearner(model, prepare_graph(model, graph, None, None, None).data, 1, 1).batches
        drawn = [batches.draw(epoch, 0) for epoch in range(3)]
        assert [one.num_nodes for one in drawn] == [num_nodes, 0, 0]
        assert [one.num_edges for one in drawn] == [num_edges, later, later]


def test_speed_counts_what_is_learned() -> None:
    items = [Graphs().nouns(GraphSAGE(objective=name)).items for name in ("classes", "links", "unsupervised")]  # type: ignore[arg-type]
    assert items == ["nodes", "edges", "walks"] and Graphs().nouns(RGCN()).items == "nodes"


ORDERED = GCN(hidden=16, sampling="full-graph", node_order="communities")


@pytest.mark.parametrize("model", [*MODELS, ORDERED], ids=lambda model: f"{model.name}-{model.sampling}")
def test_a_run_goes_on_to_the_same_bits(graph: AttributedGraph, model: Any, tmp_path: Path) -> None:
    whole = trained(graph, model)
    ended_at_record(5, trained, graph, model, out=tmp_path / "run")
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()
    again = trained(graph, model, out=tmp_path / "run", resume=True)
    assert np.array_equal(again.embeddings.vectors, whole.embeddings.vectors)
    for name in ("test_accuracy", "best_epoch", "epochs_done", "rows_read", "items"):
        assert again.summary[name] == whole.summary[name]


def test_two_threads_read_the_same_batches(graph: AttributedGraph) -> None:
    one, two = (trained(graph, MODELS[0], threads=threads) for threads in (1, 2))
    assert one.summary["rows_read"] == two.summary["rows_read"]
    np.testing.assert_allclose(one.embeddings.vectors, two.embeddings.vectors, atol=1e-3)
    for summary in (one.summary, two.summary):
        spent = summary["seconds_by_stage"]
        assert {name for name, seconds in spent.items() if seconds} == {"sample", "gather", "train", "validate"}
        assert sum(spent.values()) > 0 < summary["edges_per_s"] and summary["trace_bytes_spilled"] == 0
    assert one.summary["waits_by_stage"] == {} and two.summary["waits_by_stage"]["train"]["for_input"] > 0


def test_patience_ends_a_run_and_the_best_epoch_is_the_result(graph: AttributedGraph) -> None:
    model = GraphSAGE(hidden=16, batch_size=16)
    short, long = (trained(graph, model, epochs=100, patience=patience) for patience in (3, 0))
    assert short.summary["epochs_done"] == short.summary["best_epoch"] + 3 < 100 == long.summary["epochs_done"]
    upto = trained(graph, model, epochs=short.summary["best_epoch"])
    assert np.array_equal(upto.embeddings.vectors, short.embeddings.vectors)


def test_edges_with_features_are_the_graph_that_they_make(graph: AttributedGraph, tmp_path: Path) -> None:
    assert graph.features is not None
    np.save(tmp_path / "x.npy", graph.features.take(np.arange(NODES)))
    names = ["train", "val", "test"]
    parts = "".join(f"{node}\t{names[part]}\n" for node, part in enumerate(graph.splits[0]))
    (tmp_path / "split.tsv").write_text(parts)
    classes = "".join(f"{node}\t{label}\n" for node, label in enumerate(np.asarray(graph.labels)))
    (tmp_path / "labels.tsv").write_text(classes)
    nodes = NodeOptions(features=tmp_path / "x.npy", labels=tmp_path / "labels.tsv", split=tmp_path / "split.tsv")
    one = trained(graph.folder.parent / "edges.tsv", MODELS[0], nodes=nodes)
    assert np.array_equal(one.embeddings.vectors, trained(graph, MODELS[0]).embeddings.vectors)


@pytest.mark.parametrize(("weights", "is_said"), [((1, 2), True), ((2, 2), False)])
def test_weights_that_a_network_does_not_use_are_said(weights: tuple[int, int], is_said: bool) -> None:
    ring = [(node, (node + 1) % 12, weights[node % 2]) for node in range(12)]
    nodes = NodeOptions(features=np.eye(12, dtype=np.float32), labels=[*range(2)] * 6)
    found = any2vec.fit(GCN(hidden=4), ring, nodes=nodes, epochs=1)
    assert any("weights of edges" in remark for remark in found.summary["warnings"]) == is_said


def test_keys_are_of_the_type_of_the_nodes(tmp_path: Path) -> None:
    ring = [(7 + node, 7 + (node + 1) % 12) for node in range(12)]
    x_ND = np.eye(12, dtype=np.float32)
    label = {7 + node: ("even", "odd")[node % 2] for node in range(12)}
    named = {"rows": x_ND, "ids": any2vec.Embeddings(range(7, 19), x_ND)}
    named["names"] = any2vec.Embeddings([str(node) for node in range(7, 19)], x_ND)
    edges = {"rows": [(a - 7, b - 7) for a, b in ring], "ids": ring, "names": [(str(a), str(b)) for a, b in ring]}
    keys: dict[str, list[Any]] = {"rows": [*range(12)], "ids": [*range(7, 19)], "names": [*map(str, range(7, 19))]}
    for kind, features in named.items():
        labels: Any = [*label.values()] if kind == "rows" else label
        nodes = NodeOptions(features=features, labels=labels)
        found = any2vec.fit(GCN(hidden=4), edges[kind], nodes=nodes, epochs=1, out=tmp_path / kind)
        assert found.scorer.classes == ["even", "odd"]
        for vectors in (found.embeddings, any2vec.Embeddings.load(tmp_path / kind)):
            assert list(vectors) == keys[kind], kind
            assert type(vectors.nearest(keys[kind][0], 1)[0][0]) is type(keys[kind][0])
            assert (vectors[str(keys[kind][3])] == vectors.vectors[3]).all()


def test_keys_of_triples_are_of_their_type(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("0 r 1\n1 r 2\n")
    sources: dict[str, tuple[Any, type]] = {
        "text": (tmp_path / "text", int), "integers": ([(0, 4, 1), (1, 4, 2)], int),
        "names": ([("0", "r", "1"), ("1", "r", "2")], str),
    }  # fmt: skip
    for source, kind in sources.values():
        found = any2vec.fit(RGCN(hidden=4), source, nodes=NodeOptions(labels=[0, 1, 1]), epochs=1)
        assert list(found.embeddings) == [kind(key) for key in "012"]


def test_the_command(graph: AttributedGraph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    arguments = ["train", "gcn", str(graph.folder), "--hidden", "16", "--epochs", "15", "--threads", "1", "--json"]
    assert called([*arguments, "--batch-size", "16", "--out", str(run)]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["test_accuracy"] > 0.8 and summary["model"] == "gcn" and summary["rows"] == NODES
    assert called(["score", str(run), str(graph.folder)]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    test = graph.rows("test")
    right = sum(int(lines[node][1]) == np.asarray(graph.labels)[node] for node in test)
    assert right / len(test) == pytest.approx(summary["test_accuracy"])
    assert all(0 < float(share) <= 1 for _, _, share in lines) and [key for key, _, _ in lines] == list(graph.keys)
    assert called(["score", str(run), str(graph.folder.parent / "edges.tsv")]) == 2
    assert "is no graph folder" in capsys.readouterr().err
    loaded = NetworkClassifier.load(run)
    assert np.array_equal(loaded.score(graph)[0], any2vec.Embeddings.load(run).vectors)
    (run / NETWORK).write_bytes((run / NETWORK).read_bytes()[:200])
    with pytest.raises(FormatError, match="is damaged"):
        NetworkClassifier.load(run)


def test_what_is_damaged_is_refused(graph: AttributedGraph, tmp_path: Path) -> None:
    result = trained(graph, MODELS[0], epochs=1, out=tmp_path / "run")
    file = tmp_path / "run" / NETWORK
    whole = file.read_bytes()
    for change in (
        lambda data: data[:-64] + b"\xff" * 64,  # weights that are no numbers
        lambda data: data.replace(b'\\"num_features\\": 8', b'\\"num_features\\": 9'),
        lambda data: data.replace(b'\\"num_features\\": 8', b'\\"num_features\\":-8'),
        lambda data: data.replace(b'\\"hidden\\": 16', b'\\"hidden\\": 17'),
    ):
        file.write_bytes(change(whole))
        assert file.read_bytes() != whole
        with pytest.raises(FormatError, match=r"is damaged[^\n]*\Z"):
            NetworkClassifier.load(tmp_path / "run")
    odd = planted(tmp_path / "odd").folder
    indices = np.load(odd / "indices.npy", mmap_mode="r+")
    indices[7] = NODES
    indices.flush()
    for use in (result.scorer.score, lambda folder: trained(folder, MODELS[0])):
        with pytest.raises(FormatError, match="edges lead outside its nodes"):
            use(str(odd))


def test_what_is_predicted_of_each_node_is_kept(
    graph: AttributedGraph, several: AttributedGraph, tmp_path: Path
) -> None:
    one = trained(graph, MODELS[0], epochs=2, out=tmp_path / "one")
    found = Predicted.read(tmp_path / "one")
    score_NC = one.scorer.score(graph)[1]
    assert found is not None and found.node == list(graph.keys)
    assert found.predicted == [one.scorer.classes[at] for at in score_NC.argmax(axis=1)]
    whole = zip(found.predicted, found.label, found.split, strict=True)
    hits = [said == known for said, known, part in whole if part == "test"]
    assert np.mean(hits) == one.summary["test_accuracy"] and len(hits) == NODES - 120
    many = trained(several, MODELS[0], epochs=2, out=tmp_path / "many")
    listed = Predicted.read(tmp_path / "many")
    share_NC = many.scorer.probabilities(many.scorer.score(several)[1])
    assert listed is not None and all(len(names) >= 1 for names in listed.predicted)
    for names, share_C in zip(listed.predicted, share_NC, strict=True):
        if (share_C > 0.5).any():
            assert names == [many.scorer.classes[at] for at in np.flatnonzero(share_C > 0.5)]


def test_scoring_draws_nothing(graph: AttributedGraph) -> None:
    scorer = trained(graph, MODELS[0], epochs=1).scorer
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    scorer.score(graph.folder)
    assert torch.equal(torch.rand(2), expected)


BAD_OPTIONS = [
    ({"fanouts": "3"}, "fanouts must be 2 whole numbers"),
    ({"fanouts": "3,x"}, "fanouts must be 2 whole numbers"),
    ({"fanouts": "3,0"}, "fanouts must be 2 whole numbers"),
    ({"node_order": "rcm"}, "node_order is of sampling full-graph, and does nothing with neighbors"),
    ({"sampling": "full-graph", "node_order": "random"}, "node_order must be one of none"),
    ({"sampling": "full-graph", "batch_size": 7}, "batch_size does nothing with sampling full-graph"),
    ({"sampling": "full-graph", "batch_order": "proximity"}, "batch_order does nothing with sampling full-graph"),
    ({"batch_order": "near"}, "batch_order must be"),
    ({"num_parts": 7}, "num_parts does nothing with sampling neighbors; leave it out"),
    ({"sampling": "labor", "partitioner": "ldg"}, "partitioner does nothing with sampling labor"),
    ({"sampling": "full-graph", "parts_per_batch": 7}, "parts_per_batch does nothing with sampling full-graph"),
    (
        {"sampling": "cluster", "num_parts": 9, "batch_size": 7},
        "batch_size does nothing with sampling cluster where num",
    ),
    (
        {"batch_order": "cluster", "num_parts": 9, "parts_per_batch": 7},
        "parts_per_batch does nothing with sampling neigh",
    ),
    ({"sampling": "cluster", "fanouts": "3,3"}, "fanouts does nothing with sampling cluster"),
    ({"sampling": "walks", "sample_key": "batch"}, "sample_key does nothing with sampling walks"),
    ({"sampling": "cluster", "batch_order": "cluster"}, "batch_order does nothing with sampling cluster"),
    ({"sampling": "walks", "halo": 1}, "halo does nothing with sampling walks"),
    ({"sampling": "cluster", "walk_steps": 9}, "walk_steps does nothing with sampling cluster"),
    ({"sample_coverage": 9}, "sample_coverage does nothing with sampling neighbors"),
    ({"sampling": "cluster", "num_parts": 0}, "num_parts must be a whole number from 1 to 65,536"),
    ({"sampling": "walks", "walk_steps": 0}, "walk_steps must be"),
    ({"partitioner": "hash"}, "partitioner must be one of metis, ldg"),
    ({"num_layers": 1}, "num_layers"),
    ({"dropout": 1.0}, "dropout"),
    ({"sampling": "none"}, "sampling"),
]


@pytest.mark.parametrize(("options", "words"), BAD_OPTIONS)
def test_bad_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        GraphSAGE(**options)
    with pytest.raises(InputError, match=words):
        GATv2(**options)


@pytest.mark.parametrize("more", [{"sampling": "cluster"}, {"batch_order": "cluster"}])
def test_metis_is_missed_before_anything_is_read(more: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(InputError, match="metis needs the package pymetis"):
        trained("nowhere.tsv", GraphSAGE(partitioner="metis", **more))


def test_heads_share_the_columns() -> None:
    with pytest.raises(InputError, match="hidden must be a multiple of heads, 8, got 12; 16 is the nearest"):
        GAT(hidden=12)
    with pytest.raises(InputError, match="output_heads must be a whole number from 1"):
        GAT(output_heads=0)


def test_fanouts_may_be_a_list() -> None:
    assert GraphSAGE(fanouts=[5, 3]) == GraphSAGE(fanouts="5,3")  # type: ignore[arg-type]


def test_bad_data(graph: AttributedGraph, tmp_path: Path) -> None:
    edges = graph.folder.parent / "edges.tsv"
    with pytest.raises(InputError, match="the graph has no features; give --features"):
        trained(edges, MODELS[0])
    with pytest.raises(InputError, match="A graph folder has its own labels; leave out --labels"):
        trained(graph, MODELS[0], nodes=NodeOptions(labels="labels.tsv"))
    with pytest.raises(InputError, match=r"graphsage has no --hosts .*: graph networks train on one host"):
        trained(graph, MODELS[0], hosts=2)
    assert graph.features is not None
    x, labels = graph.features.take(np.arange(NODES)), np.asarray(graph.labels).copy()

    def built(name: str, **options: Any) -> AttributedGraph:
        return any2vec.write_graph(edges, tmp_path / name, **({"features": x, "labels": labels} | options))

    with pytest.raises(DataError, match="training nodes have the same class"):
        trained(built("one", split={"train": np.flatnonzero(labels == 1)}), MODELS[0])
    with pytest.raises(DataError, match="The training split is empty"):
        trained(built("none", split={"val": np.arange(5)}), MODELS[0])
    with pytest.raises(InputError, match="patience waits for a better validation score"):
        trained(built("no-val", split={"train": np.arange(50)}), GraphSAGE(), patience=2)
    with pytest.raises(DataError, match=r"There is no nowhere\.tsv"):
        trained("nowhere.tsv", MODELS[0])
    labels[7] = -1
    with pytest.raises(DataError, match="1 nodes of the train split have no class"):
        trained(built("unlabeled", split={"train": np.arange(20)}), MODELS[0])
    with pytest.raises(InputError, match="takes 8 features a node, got 5"):
        trained(graph, MODELS[0], epochs=1).scorer.score(built("narrow", features=x[:, :5]))
    with pytest.raises(InputError, match="the training has diverged; lower learning_rate"):
        trained(built("huge", features=x * 5e37), GraphSAGE(learning_rate=10, hidden=4), epochs=20)


@pytest.mark.parametrize("size_out", [3, 20])
def test_gcn_gives_pygs_numbers(graph: AttributedGraph, size_out: int) -> None:
    nn = pytest.importorskip("torch_geometric.nn")
    layer, theirs = GcnLayer(COLUMNS, size_out), nn.GCNConv(COLUMNS, size_out)
    with torch.no_grad():
        theirs.lin.weight.copy_(layer.linear.weight)
        theirs.bias.copy_(layer.linear.bias)
    targets = np.repeat(np.arange(NODES), np.diff(graph.csr.indptr))
    edge_index = torch.from_numpy(np.stack([graph.csr.indices, targets]).astype(np.int64))
    assert graph.features is not None
    x = torch.from_numpy(graph.features.take(np.arange(NODES)))
    np.testing.assert_allclose(array(layer(x, block_of(graph.csr))), array(theirs(x, edge_index)), atol=1e-5)


@pytest.mark.parametrize("hops", [1, 2, 6])
def test_appnp_propagates_what_an_mlp_predicts_as_pygs_does(graph: AttributedGraph, hops: int) -> None:
    nn = pytest.importorskip("torch_geometric.nn")
    network = Network(APPNP(hidden=7, num_layers=3, hops=hops, teleport=0.2), COLUMNS, CLASSES)
    targets = np.repeat(np.arange(NODES), np.diff(graph.csr.indptr))
    edge_index = torch.from_numpy(np.stack([graph.csr.indices, targets]).astype(np.int64))
    assert graph.features is not None
    x = torch.from_numpy(graph.features.take(np.arange(NODES)))
    dense = [layer.linear for layer in network.layers if hasattr(layer, "linear")]
    assert len(dense) == 3 and dense[-1].bias is None
    predicted = dense[2](dense[1](dense[0](x).relu()).relu())
    expected = nn.APPNP(hops, 0.2)(predicted, edge_index)
    hidden, scores = forward(network, x, block_of(graph.csr))
    np.testing.assert_allclose(scores, array(expected), atol=1e-5)
    assert hidden.shape == (NODES, 7)


def test_appnp_takes_the_full_graph_alone() -> None:
    with pytest.raises(InputError, match="sampling must be one of full-graph, got 'labor'"):
        APPNP(sampling="labor")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="batch_size does nothing with sampling full-graph"):
        APPNP(batch_size=64)


@pytest.mark.parametrize("hops", [1, 3])
def test_sgc_is_pygs(graph: AttributedGraph, hops: int) -> None:
    nn = pytest.importorskip("torch_geometric.nn")
    network, peer = Network(SGC(hops=hops), COLUMNS, CLASSES), nn.SGConv(COLUMNS, CLASSES, K=hops)
    peer.lin.load_state_dict(network.layers[-1].linear.state_dict())
    targets = np.repeat(np.arange(NODES), np.diff(graph.csr.indptr))
    edge_index = torch.from_numpy(np.stack([graph.csr.indices, targets]).astype(np.int64))
    assert graph.features is not None
    x = torch.from_numpy(graph.features.take(np.arange(NODES)))
    hidden, scores = forward(network, x, block_of(graph.csr))
    np.testing.assert_allclose(scores, array(peer(x, edge_index)), atol=1e-5)
    assert hidden.shape == (NODES, COLUMNS)


def test_what_sgc_smooths_is_computed_once(graph: AttributedGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    from any2vec.models.networks import network

    calls = []
    convolve = network.convolve
    monkeypatch.setattr(network, "convolve", lambda x, *block: calls.append(len(x)) or convolve(x, *block))
    result = trained(graph, SGC(hops=3), epochs=5)
    assert calls == [NODES] * 3
    again = any2vec.NetworkClassifier(SGC(hops=3), result.scorer.weights, COLUMNS, result.scorer.classes, False)
    assert np.array_equal(again.score(graph)[1], result.scorer.score(graph)[1])


@pytest.mark.parametrize("options", [{"hidden": 8}, {"num_layers": 2}, {"sampling": "labor"}, {"hops": 0}])
def test_sgc_has_no_hidden_layer(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        SGC(**options)


@pytest.mark.parametrize(
    "model",
    [
        GraphSAGE(hidden=16, batch_size=16, fanouts="4,3", residual=True, jumping_knowledge="lstm"),
        GCN(hidden=16, num_layers=3, batch_size=64, fanouts="3,2,2", jumping_knowledge="cat"),
        SGC(hops=3),
    ],
    ids=lambda model: model.name,
)
def test_a_budget_of_memory_changes_no_bit(graph: AttributedGraph, model: Any) -> None:
    plain, within = (trained(graph, model, epochs=2, storage=budget) for budget in (None, "4GB"))
    assert np.array_equal(plain.embeddings.vectors, within.embeddings.vectors) and within.summary["features"]
