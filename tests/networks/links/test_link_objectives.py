"""Networks that learn links, or without classes: no held-out edge is seen, runs go on to the bit, results score."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import any2vec
from any2vec import GAT, GCN, AttributedGraph, DataError, FormatError, GraphSAGE, InputError, NodeOptions
from any2vec.evaluate.graph.links import evaluate_links
from any2vec.evaluate.graph.scores import auc_of, pair_scores, ranking_of_pairs
from any2vec.evaluate.graph.split import split_graph
from any2vec.models.networks.batches import batches_of
from any2vec.models.networks.classifier import NetworkClassifier
from any2vec.models.networks.encoder import NetworkEncoder
from any2vec.models.networks.inference import Inference
from any2vec.models.networks.learner import GraphLearner
from any2vec.models.networks.network import Network
from any2vec.models.networks.objectives import Links, Unsupervised, objective_of
from any2vec.sampling.walks import is_symmetric
from any2vec.tasks.graphs.planning import _fixed, plan_network
from any2vec.tasks.graphs.prepare import prepare_graph
from any2vec.tasks.graphs.task import Graphs
from any2vec.types import Csr
from cli_runs import called
from ended_runs import ended_at_record

NODES, CLASSES, COLUMNS = 240, 3, 8
LINKS = GraphSAGE(hidden=16, batch_size=256, fanouts="5,5", objective="links", dropout=0.0)
WALKS = GraphSAGE(hidden=16, batch_size=64, fanouts="5,5", objective="unsupervised", dropout=0.0)


def written(folder: Path, is_random: bool = False, directed: bool = False) -> AttributedGraph:
    """Blocks, whose nodes have most edges among themselves and features that say a little; or all by chance.

    directed: each edge but one has its reverse.
    """
    rng = np.random.default_rng(0)
    label_N = rng.integers(0, CLASSES, NODES)
    src, dst = rng.integers(0, NODES, (2, 6000))
    kept = ((label_N[src] == label_N[dst]) | (rng.random(6000) < 0.06)) & (src != dst)
    features = 0.3 * rng.normal(size=(CLASSES, COLUMNS))[label_N] + rng.normal(size=(NODES, COLUMNS))
    if is_random:
        kept, features = src != dst, rng.normal(size=(NODES, 64))
    edges = folder / "edges.tsv"
    folder.mkdir(parents=True, exist_ok=True)
    src, dst = src[kept], dst[kept]
    if directed:
        codes = np.unique(np.concatenate([src * NODES + dst, dst * NODES + src]))
        src, dst = np.divmod(codes[1:], NODES)
    edges.write_text("".join(f"{a}\t{b}\n" for a, b in zip(src, dst, strict=True)))
    np.save(folder / "x.npy", features.astype(np.float32))
    (folder / "labels.tsv").write_text("".join(f"{node}\t{label}\n" for node, label in enumerate(label_N)))
    options = any2vec.GraphOptions(directed=directed)
    return any2vec.write_graph(edges, folder / "graph", features=folder / "x.npy", graph=options)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> AttributedGraph:
    return written(tmp_path_factory.mktemp("planted"))


def trained(graph: Any, model: Any, **options: Any) -> any2vec.FitResult:
    return any2vec.fit(model, graph, **({"epochs": 6, "threads": 1} | options))


def test_links_of_blocks_are_found_by_epochs_that_validation_chooses(graph: AttributedGraph) -> None:
    """Who knows the classes reaches 0.5 + (0.94 - 0.35) / 2 = 0.8.

    Of a hundred candidates without an edge from the source some 29 are of its class, and so are 9 of 10 targets. Who
    orders by class, and within one by chance, has Hits@10 of 0.9 * 10 / 30 = 0.3 and MRR 0.9 * H(30) / 30 = 0.12; by
    chance alone these are 0.1 and 0.05.
    """
    found = trained(graph, LINKS, epochs=12)
    assert found.summary["test_auc"] > 0.72 and found.summary["val_auc"] > 0.72
    for part in ("val", "test"):
        assert 0.08 < found.summary[f"{part}_mrr"] < 0.2 and 0.2 < found.summary[f"{part}_hits_at_10"] < 0.45
    best = found.summary["validation"][found.summary["best_epoch"] - 1]
    assert best["val_mrr"] == pytest.approx(found.summary["val_mrr"], rel=0.02)
    assert found.summary["num_ranking_negatives"] == 100
    assert found.summary["dim"] == 16 == found.embeddings.dim and len(found.embeddings) == NODES
    assert "accuracy" not in " ".join(found.summary)
    short = trained(graph, LINKS, epochs=50, patience=2)
    assert short.summary["epochs_done"] == short.summary["best_epoch"] + 2 < 50
    upto = trained(graph, LINKS, epochs=short.summary["best_epoch"])
    assert np.array_equal(upto.embeddings.vectors, short.embeddings.vectors)


@pytest.mark.parametrize(
    ("objective", "rate", "wanted"),
    [("classes", None, 0.01), ("links", None, 0.001), ("unsupervised", None, 0.001), ("links", 0.02, 0.02)],
)
def test_pairs_are_learned_in_smaller_steps(objective: Any, rate: float | None, wanted: float) -> None:
    assert GraphSAGE(objective=objective, learning_rate=rate).rate == wanted


def test_links_of_nodes_with_many_features_are_learned_by_default(tmp_path: Path) -> None:
    """Nodes have some 270 of 600 features, 100 of them their block's: with ten times larger steps most runs end with
    one vector for all nodes."""
    rng = np.random.default_rng(0)
    label_N = np.arange(NODES) % CLASSES
    src, dst = rng.integers(0, NODES, (2, 12000))
    kept = (label_N[src] == label_N[dst]) & (src != dst)
    x = np.zeros((NODES, 600), np.float32)
    for node, label in enumerate(label_N):
        x[node, rng.choice(200, 100, replace=False) + 200 * label] = 1
        x[node, rng.choice(600, 200, replace=False)] = 1
    graph = any2vec.write_graph(np.stack([src[kept], dst[kept]]), tmp_path / "graph", features=x)
    found = trained(graph, replace(LINKS, hidden=64))
    assert found.summary["test_auc"] > 0.75 and not found.summary["warnings"]


@pytest.mark.parametrize("others", [0, 12, 60])
def test_a_run_whose_nodes_have_one_vector_says_so(others: int, tmp_path: Path) -> None:
    """Nodes without features are alike, but for the rounding of means; the first have features and one another."""
    rng = np.random.default_rng(0)
    edges = np.concatenate([rng.integers(others, NODES, (2, 8000)), rng.integers(0, others or 1, (2, 500))], axis=1)
    x = np.zeros((NODES, 8), np.float32)
    x[:others] = rng.normal(size=(others, 8))
    said = trained(any2vec.write_graph(edges, tmp_path / "graph", features=x), LINKS, epochs=1).summary["warnings"]
    if others / NODES > 0.1:
        assert not said
    else:
        assert said[-1].startswith(f"{1 - others / NODES:.0%} of the nodes have the same vector")
        assert said[-1].endswith("(--learning-rate 0.0001; this run: 0.001).")


def test_degrees_fall_by_the_edges_that_are_left_out(tmp_path: Path) -> None:
    """Of a directed graph some edges have no reverse, and of two opposite ones both may be in a batch."""
    whole = written(tmp_path, directed=True)
    kept = np.random.default_rng(1).random(whole.num_edges) < 0.5
    target = np.repeat(np.arange(NODES), np.diff(whole.csr.indptr))[kept]
    edges = np.stack([whole.csr.indices[kept], target]).astype(np.int64)
    options = any2vec.GraphOptions(directed=True)
    graph = any2vec.write_graph((edges[0], edges[1]), tmp_path / "half", features=tmp_path / "x.npy", graph=options)
    data = prepare_graph(LINKS, graph, None, None, None).data
    there = set(
        zip(np.repeat(np.arange(NODES), np.diff(data.csr.indptr)).tolist(), data.csr.indices.tolist(), strict=True)
    )
    seeds = Links(LINKS, data, 1).seeds(0, 0, 0, 256)
    assert seeds.left_out is not None
    left_out = list(zip(*seeds.node_B[seeds.left_out].tolist(), strict=True))
    learned = {
        (int(seeds.node_B[b]), int(seeds.node_B[a]))
        for a, b in zip(*(part[:256].tolist() for part in seeds.target[:2]), strict=True)
    }
    assert set(left_out) == {pair for a, b in learned for pair in ((a, b), (b, a)) if pair in there}
    assert len(left_out) == len(set(left_out)) and learned < set(left_out) < {*learned, *((b, a) for a, b in learned)}


@pytest.mark.parametrize(
    ("sampling", "directed"), [("neighbors", False), ("full-graph", False), ("neighbors", True), ("full-graph", True)]
)
def test_of_edges_by_chance_nothing_is_known(tmp_path: Path, sampling: str, directed: bool) -> None:
    """Were held-out edges unlike the pairs that they are told from, AUC would not be 0.5, within 4 sigma; were they
    known by their reverses, where all edges of a directed graph but one have them, it would be 0.77."""
    more = {"batch_size": 256, "fanouts": "all"} if sampling == "neighbors" else {"sampling": sampling}
    model = GraphSAGE(hidden=32, objective="links", val_share=0.0, test_share=0.2, dropout=0.0, **more)  # type: ignore[arg-type]
    graph = written(tmp_path, True, directed)
    summary = trained(graph, model, epochs=20).summary
    assert abs(summary["test_auc"] - 0.5) < 4 / np.sqrt(6 * graph.num_edges * 0.2)
    assert summary["val_auc"] is None is summary["val_mrr"] and summary["loss"] < 0.75
    assert abs(summary["test_hits_at_10"] - 10 / 101) < 0.1 and summary["test_mrr"] < 0.15


@pytest.mark.parametrize("model", [LINKS, GraphSAGE(objective="links", sampling="full-graph")], ids=["sampled", "full"])
def test_no_message_goes_along_a_held_out_edge(graph: AttributedGraph, model: Any) -> None:
    data = prepare_graph(model, graph, None, None, None).data
    learner = GraphLearner(model, data, 1, 1)
    assert data.links is not None
    out = {pair for part in (data.links.val, data.links.test) for pair in zip(*part.tolist(), strict=True)}
    for csr in (data.csr, learner.inference.csr):
        dst, src = _entries(csr)
        sent = set(zip(src.tolist(), dst.tolist(), strict=True))
        assert len(sent) == 2 * data.links.train.shape[1] and not sent & (out | {pair[::-1] for pair in out})


def test_a_batch_sends_nothing_along_the_edges_that_it_learns(graph: AttributedGraph) -> None:
    model = GraphSAGE(hidden=16, batch_size=128, fanouts="all", objective="links")
    data = prepare_graph(model, graph, None, None, None).data
    objective, links = objective_of(model, data, 1), data.links
    assert isinstance(objective, Links) and links is not None
    batches = batches_of(model, data, objective, Network(model, COLUMNS, 16), 1)
    drawn, seeds = batches.draw(0, 1), objective.seeds(0, 1, 128, 256)
    assert drawn.node_M is not None
    batch = batches.make(drawn, batches.reader.rows(drawn.node_M))
    src, dst, is_edge = (array.numpy() for array in batch.target)
    learned = {(int(a), int(b)) for a, b in zip(src[is_edge > 0], dst[is_edge > 0], strict=True)}
    assert len(learned) == 128 == batch.size
    stop, neighbor = batch.blocks[-1].neighbors.stop_F1, batch.blocks[-1].neighbors.neighbor_S
    nodes = range(len(seeds.node_B))
    sent = {(int(source), node) for node in nodes for source in neighbor[stop[node] : stop[node + 1]]}
    assert not sent & (learned | {pair[::-1] for pair in learned})
    degree = np.diff(data.csr.indptr)[seeds.node_B]
    assert len(sent) == degree.sum() - 2 * len(learned)
    assert np.array_equal(batch.blocks[0].degree_M1.numpy()[: len(degree), 0], np.diff(stop)[: len(degree)])
    x_ND = np.load(graph.folder.parent / "x.npy")
    assert np.array_equal(batch.x_MD.numpy()[: len(degree)], x_ND[seeds.node_B])


def test_losses_are_the_equations(graph: AttributedGraph) -> None:
    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    for model in (LINKS, WALKS):
        objective = objective_of(model, prepare_graph(model, graph, None, None, None).data, 3)
        seeds = objective.seeds(1, 0, 0, 32)
        z = np.random.default_rng(0).normal(size=(len(seeds.node_B), 16))
        loss = float(objective.loss(torch.from_numpy(z), seeds.target))
        src, dst, third = (array.numpy() for array in seeds.target)
        if isinstance(objective, Unsupervised):  # Hamilton et al. 2017, equation 1
            z /= np.linalg.norm(z, axis=1, keepdims=True)
            wanted = np.mean([
                -np.log(sigmoid(z[u] @ z[v])) - 20 * np.mean([np.log(sigmoid(-z[u] @ z[n])) for n in third])
                for u, v in zip(src, dst, strict=True)
            ])  # fmt: skip
            assert len(third) == 20 and 20 < len(src) <= 32
        else:
            wanted = np.mean([
                -np.log(sigmoid(z[u] @ z[v] if is_edge else -z[u] @ z[v]))
                for u, v, is_edge in zip(src, dst, third, strict=True)
            ])  # fmt: skip
            assert len(src) == 64 and third.sum() == 32
        assert loss == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize(
    "model",
    [LINKS, WALKS, GCN(hidden=8, objective="links", sampling="full-graph"),
     GAT(hidden=8, heads=2, objective="unsupervised", batch_size=64, fanouts="4,4", jumping_knowledge="cat")],
    ids=["links", "unsupervised", "links-full-graph", "gat"],
)  # fmt: skip
def test_a_run_goes_on_to_the_same_bits(graph: AttributedGraph, model: Any, tmp_path: Path) -> None:
    whole = trained(graph, model)
    ended_at_record(3, trained, graph, model, out=tmp_path / "run")
    again = trained(graph, model, out=tmp_path / "run", resume=True)
    assert np.array_equal(again.embeddings.vectors, whole.embeddings.vectors)
    assert again.summary.get("test_auc") == whole.summary.get("test_auc")
    assert again.embeddings.dim == model.hidden and np.isfinite(again.embeddings.vectors).all()


def test_vectors_without_classes_tell_classes(graph: AttributedGraph) -> None:
    from any2vec.evaluate.graph.nodes import evaluate_nodes

    found = trained(graph, replace(WALKS, num_negatives=5), epochs=30)
    labels, x_ND = graph.folder.parent / "labels.tsv", np.load(graph.folder.parent / "x.npy")
    scores = [
        evaluate_nodes(vectors, labels, fractions=(0.5,), shuffles=4).scores[0].micro_f1
        for vectors in (found.embeddings, any2vec.Embeddings(list(graph.keys), x_ND))
    ]
    assert scores[0] > 0.9 > 0.72 > scores[1]


@pytest.mark.parametrize("model", [LINKS, WALKS], ids=["links", "unsupervised"])
def test_threads_and_budgets_change_no_batch(
    graph: AttributedGraph, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("any2vec.machine.process_bytes", lambda: 0)
    monkeypatch.setattr("any2vec.tasks.graphs.planning._LIBRARIES", 0)
    plain, two = (trained(graph, model, threads=threads) for threads in (1, 2))
    assert two.summary["rows_read"] == plain.summary["rows_read"]
    metadata = prepare_graph(model, graph, None, None, None).metadata
    for budget in range(100_000, 4_000_000, 1000):
        with suppress(InputError):
            if plan_network(model, metadata, budget, 0, 1).rows:
                break
    small = trained(graph, model, storage=budget)
    assert ("features", small.summary["features"]) in Graphs().lines(small.summary)
    assert np.array_equal(small.embeddings.vectors, plain.embeddings.vectors)
    assert small.summary["rows_missed"] > 0 == plain.summary["rows_missed"]


def test_pairs_a_row_each_are_refused(graph: AttributedGraph) -> None:
    scorer, pairs = trained(graph, LINKS, epochs=1).scorer, np.array([[0, 1], [2, 3], [4, 5]])
    vectors = scorer.vectors(graph)
    np.testing.assert_allclose(scorer.score(graph, pairs.T), (vectors[pairs[:, 0]] * vectors[pairs[:, 1]]).sum(1), 1e-4)
    with pytest.raises(InputError, match=r"pairs must be whole numbers \(2, pairs\).* got shape \(3, 2\)"):
        scorer.score(graph, pairs)


def test_a_symmetric_graph_of_pyg_is_cut_as_an_undirected_one(graph: AttributedGraph, tmp_path: Path) -> None:
    src, dst = _entries(graph.csr)
    twice = np.stack([src, dst])
    np.savetxt(tmp_path / "twice.tsv", twice.T, fmt="%d", delimiter="\t")
    both = any2vec.write_graph(
        tmp_path / "twice.tsv", tmp_path / "graph", features=graph.folder.parent / "x.npy",
        graph=any2vec.GraphOptions(directed=True),
    )  # fmt: skip
    one, two = (prepare_graph(LINKS, each, None, None, None).data for each in (graph, both))
    assert both.is_directed and one.links is not None and two.links is not None
    assert np.array_equal(one.links.test, two.links.test) and is_symmetric(two.csr)


def _entries(csr: Csr) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(np.arange(len(csr.indptr) - 1), np.diff(csr.indptr)), np.asarray(csr.indices)


@pytest.mark.parametrize("objective", ["links", "unsupervised"])
def test_nodes_in_another_order_have_their_vectors(graph: AttributedGraph, objective: Any) -> None:
    model = GCN(hidden=8, objective=objective, sampling="full-graph", node_order="degree")
    found = trained(graph, model, epochs=3)
    data = prepare_graph(model, graph, None, None, None).data
    features = any2vec.AttributedGraph.open(graph.folder).features
    assert features is not None and isinstance(found.scorer, NetworkEncoder)
    wanted = found.scorer.vectors_with(Inference(data.csr, features))
    np.testing.assert_allclose(found.embeddings.vectors, wanted, atol=1e-5)
    if data.links is not None:
        scores = [pair_scores(wanted, pairs) for pairs in (data.links.test, data.links.test_negatives)]
        assert found.summary["test_auc"] == pytest.approx(auc_of(*scores), abs=1e-3)
        assert found.summary["val_auc"] > 0.6
        ranked = ranking_of_pairs(wanted, data.links.test_ranking)
        assert found.summary["test_mrr"] == pytest.approx(ranked["mrr"], abs=5e-3)


def test_auc_counts_ties_by_half() -> None:
    positive, negative = np.array([3.0, 1.0, 1.0]), np.array([1.0, 0.0])
    pairs = [(p > n) + 0.5 * (p == n) for p in positive for n in negative]
    assert auc_of(positive, negative) == pytest.approx(np.mean(pairs))


def test_the_scorer_gives_vectors_of_graphs_and_scores_of_pairs(graph: AttributedGraph, tmp_path: Path) -> None:
    found = trained(graph, LINKS, epochs=2, out=tmp_path / "run")
    scorer = NetworkEncoder.load(tmp_path / "run")
    nodes = np.array([5, 17, 200])
    np.testing.assert_allclose(scorer.vectors(graph, nodes), scorer.vectors(graph)[nodes], atol=1e-5)
    z = scorer.vectors(graph)
    pairs = np.array([[5, 17, 5], [200, 3, 5]])
    np.testing.assert_allclose(scorer.score(graph, pairs), (z[pairs[0]] * z[pairs[1]]).sum(1), atol=1e-4)
    with pytest.raises(FormatError, match=r"vectors of nodes and no classes; NetworkEncoder.load opens it"):
        NetworkClassifier.load(tmp_path / "run")
    assert not np.allclose(z, found.embeddings.vectors)  # these are without messages along held-out edges


def test_commands(graph: AttributedGraph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = graph.folder.parent, str(tmp_path / "run")
    split = split_graph(source / "edges.tsv", tmp_path / "split", test_share=0.1, negatives=20)
    train = ["train", "graphsage", str(split.train_edges), "--features", str(source / "x.npy"), "--hidden", "16"]
    short = ["--epochs", "4", "--threads", "1", "--fanouts", "4,4", "--batch-size", "256", "--quiet"]
    links = ["--objective", "links", "--test-share", "0", "--json", "--out", out]
    assert called([*train, *short, *links]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert 0.4 < summary["val_auc"] <= 1 and summary["test_auc"] is None and summary["best_epoch"] >= 1
    assert called(["evaluate", out, "--task", "links", "--data", str(split.path), "--json"]) == 0
    judged = json.loads(capsys.readouterr().out)
    assert judged["auc"] == pytest.approx(evaluate_links(any2vec.Embeddings.load(out), split).auc)
    (tmp_path / "pairs.tsv").write_text("3\t5\n7\t200\n")
    assert called(["score", out, str(tmp_path / "pairs.tsv")]) == 0
    z = any2vec.Embeddings.load(out)
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[:2] for line in lines] == [["3", "5"], ["7", "200"]]
    assert float(lines[1][2]) == pytest.approx(float(z["7"] @ z["200"]), rel=1e-4, abs=1e-6)
    (tmp_path / "pairs.tsv").write_text("3\t5\n7\tnobody\n")
    assert called(["score", out, str(tmp_path / "pairs.tsv")]) == 2
    assert "line 2: node 'nobody' has no vector" in capsys.readouterr().err
    assert called([*train, *short, "--objective", "unsupervised", "--json", "--out", str(tmp_path / "walks")]) == 0
    assert "test_auc" not in json.loads(capsys.readouterr().out)
    assert called(["evaluate", str(tmp_path / "walks"), "--task", "nodes", "--data", str(source / "labels.tsv")]) == 0
    estimate = ["estimate", "graphsage", str(split.train_edges), "--features", str(source / "x.npy"), "--json"]
    capsys.readouterr()
    sizes = []
    for objective in ("links", "unsupervised"):
        assert called([*estimate, "--objective", objective, "--batch-size", "16"]) == 0
        sizes.append(json.loads(capsys.readouterr().out))
    assert all(one["dim"] == 128 for one in sizes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_negatives": 2}, "num_negatives does nothing with objective classes"),
        ({"objective": "links", "walk_length": 3}, "walk_length does nothing with objective links"),
        ({"objective": "unsupervised", "test_share": 0.3}, "test_share does nothing with objective unsupervised"),
        ({"objective": "links", "batch_order": "proximity"}, "batch_order proximity mixes batches by class"),
        ({"objective": "links", "val_share": 0.5, "test_share": 0.5}, "leave 0.1 or more"),
        ({"objective": "edges"}, "objective must be one of"),
    ],
)
def test_options_that_do_nothing_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        GraphSAGE(**options)


def test_what_is_missing_is_said(graph: AttributedGraph, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no labels; give --labels.*--objective links or unsupervised"):
        trained(graph, GraphSAGE())
    with pytest.raises(InputError, match=r"learns links from features, and .* no features; give --features.*node2vec"):
        trained(graph.folder.parent / "edges.tsv", LINKS)
    nodes = NodeOptions(features=graph.folder.parent / "x.npy", labels=graph.folder.parent / "labels.tsv")
    with pytest.raises(InputError, match="labels does nothing with objective links"):
        trained(graph.folder.parent / "edges.tsv", LINKS, nodes=nodes)
    for model in (WALKS, GraphSAGE(objective="links", val_share=0.0)):
        with pytest.raises(InputError, match=r"patience waits .* nothing validates"):
            trained(graph, model, patience=2)
    (tmp_path / "loops.tsv").write_text("0\t0\n1\t1\n")
    loops = any2vec.write_graph(tmp_path / "loops.tsv", tmp_path / "loops", features=np.ones((2, 3), np.float32))
    with pytest.raises(DataError, match="no edges between different nodes"):
        trained(loops, LINKS)


def test_plans_count_the_nodes_that_links_are_ranked_among(graph: AttributedGraph) -> None:
    """20,000 edges of a part at most; validation looks up places of its nodes, and what that takes is measured."""
    model = GraphSAGE(objective="links", hidden=8)
    metadata = prepare_graph(model, graph, None, None, None).metadata
    none, most, more = (
        _fixed(model, metadata | {"num_val": num, "num_test": num})["the graph"] for num in (0, 20_000, 90_000)
    )
    kept, of_val = 2 * 4 * 102 * 20_000, np.random.default_rng(1).integers(0, 5000, 102 * 20_000).astype(np.int32)
    tracemalloc.start()
    np.unique(of_val, return_inverse=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most == more and peak <= most - none - kept <= 2 * peak
    classes = prepare_graph(GraphSAGE(hidden=8, objective="unsupervised"), graph, None, None, None).metadata
    assert _fixed(GraphSAGE(hidden=8, objective="unsupervised"), classes | {"num_val": 90_000})["the graph"] < most
