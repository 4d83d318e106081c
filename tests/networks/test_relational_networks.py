"""Networks of edges with types: what relations alone tell is learned, by rows of nodes or by features, and goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import any2vec
from any2vec import AttributedGraph, FormatError, InputError, NetworkClassifier, NodeOptions
from any2vec.data.attributed.features import FeatureRows, NodeNumbers
from any2vec.data.attributed.relations import RelationalCsr, Relations, relational_csr
from any2vec.models.networks.config.base import NETWORK
from any2vec.models.networks.config.layers import GCN
from any2vec.models.networks.config.relational import RGCN
from any2vec.models.networks.inference import Inference
from any2vec.models.networks.network import block_of, blocks_of, network_of
from any2vec.models.networks.sizing import least_inference_bytes
from any2vec.sampling.neighbors import NeighborOptions, NeighborSampler
from cli_runs import called
from ended_runs import ended_at_record

PEOPLE, CLASSES, COLUMNS = 150, 3, 4
FULL: dict[str, Any] = {"hidden": 8, "sampling": "full-graph", "learning_rate": 0.05, "dropout": 0.2}
MODELS = [
    RGCN(**FULL),
    RGCN(**FULL, num_bases=2, jumping_knowledge="cat"),
    RGCN(hidden=8, batch_size=32, fanouts="6,4", num_bases=3, learning_rate=0.05, dropout=0.2),
    RGCN(hidden=8, batch_size=32, sampling="labor", learning_rate=0.05, dropout=0.0),
]


def planted(seed: int = 0) -> tuple[list[tuple[str, str, str]], dict[str, str]]:
    """(triples, class by person): people stand to the hub by the relation of their class, to one another by chance."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, CLASSES, PEOPLE)
    triples = [(f"p{person}", f"is{label[person]}", "hub") for person in range(PEOPLE)]
    triples += [(f"p{a}", "knows", f"p{b}") for a, b in rng.integers(0, PEOPLE, (3 * PEOPLE, 2))]
    rng.shuffle(triples)
    return [(a, b, c) for a, b, c in triples], {f"p{person}": f"c{label[person]}" for person in range(PEOPLE)}


def files(folder: Path, seed: int = 0) -> dict[str, Path]:
    triples, classes = planted(seed)
    folder.mkdir(parents=True, exist_ok=True)
    parts = ["train", "val", "test"]
    lines = {
        "triples": [" ".join(triple) for triple in triples],
        "labels": [f"{name} {label}" for name, label in classes.items()],
        "split": [f"{name} {parts[number % 3]}" for number, name in enumerate(classes)],
    }
    for name, found in lines.items():
        (folder / f"{name}.txt").write_text("\n".join(found) + "\n")
    return {name: folder / f"{name}.txt" for name in lines}


def built(folder: Path, seed: int = 0, has_features: bool = False) -> AttributedGraph:
    """With features a constant and noise; the graph of another seed has its names and relations in another order."""
    found = files(folder, seed)
    more: dict[str, Any] = {}
    if has_features:
        names = [f"p{person}" for person in range(PEOPLE)] + ["hub"]
        rows = np.random.default_rng(seed).normal(size=(len(names), COLUMNS)).astype(np.float32)
        rows[:, 0], rows[-1, 1:] = 1, 0
        more["features"] = any2vec.Embeddings(names, rows)
    return any2vec.write_graph(
        found["triples"], folder / "graph", labels=found["labels"], split=found["split"], edge_types="triples", **more
    )


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> AttributedGraph:
    return built(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def featured(tmp_path_factory: pytest.TempPathFactory) -> AttributedGraph:
    return built(tmp_path_factory.mktemp("featured"), has_features=True)


def trained(graph: Any, model: Any, **options: Any) -> any2vec.FitResult:
    return any2vec.fit(model, graph, **({"epochs": 12, "threads": 1} | options))


def named(model: RGCN) -> str:
    return f"{model.sampling}-{model.num_bases}"


@pytest.mark.parametrize("model", MODELS, ids=named)
def test_relations_tell_classes_by_rows_of_nodes(plain: AttributedGraph, model: RGCN) -> None:
    result = trained(plain, model, epochs=30)
    assert result.summary["test_accuracy"] > 0.9 and result.summary["data"]["num_relations"] == 8
    assert result.embeddings.vectors.shape == (PEOPLE + 1, model.dim)
    assert np.allclose(result.scorer.score(plain)[0], result.embeddings.vectors, atol=1e-5)


@pytest.mark.parametrize("model", MODELS[1:3], ids=named)
def test_with_features_a_network_scores_other_graphs(featured: AttributedGraph, model: RGCN, tmp_path: Path) -> None:
    result = trained(featured, model, epochs=30)
    assert result.summary["test_accuracy"] > 0.9
    other = built(tmp_path / "other", seed=1, has_features=True)
    assert other.relations != featured.relations
    known, places = np.asarray(other.labels) >= 0, [other.classes.index(name) for name in result.scorer.classes]
    said = np.array(places)[result.scorer.score(other)[1].argmax(axis=1)]
    assert (said == other.labels)[known].mean() > 0.9


def test_types_are_what_tells(featured: AttributedGraph) -> None:
    """A network that does not know them is no better than chance."""
    assert trained(featured, GCN(**FULL), epochs=30).summary["test_accuracy"] < 0.6


@pytest.mark.parametrize("model", MODELS, ids=named)
def test_a_run_goes_on_to_the_same_bits(plain: AttributedGraph, model: RGCN, tmp_path: Path) -> None:
    whole = trained(plain, model)
    ended_at_record(5, trained, plain, model, out=tmp_path / "run")
    again = trained(plain, model, out=tmp_path / "run", resume=True)
    assert np.array_equal(again.embeddings.vectors, whole.embeddings.vectors)
    assert again.summary["best_epoch"] == whole.summary["best_epoch"]


def random_weights(model: RGCN, columns: int, relations: Relations | None) -> Any:
    from any2vec.models.networks.network import Network

    torch.manual_seed(3)
    network = Network(model, columns, CLASSES, relations)
    return network_of(
        model, columns, CLASSES, {name: value.numpy() for name, value in network.state_dict().items()}, relations
    )


@pytest.mark.parametrize("num_bases", [None, 2])
@pytest.mark.parametrize("has_features", [True, False])
def test_batches_with_all_neighbors_and_layers_in_small_memory_are_the_whole_graph(
    has_features: bool, num_bases: int | None
) -> None:
    rng, num = np.random.default_rng(1), 1500
    degree = rng.integers(0, 9, num)
    edges, names = int(degree.sum()), ["a", "b", "c"]
    csr = RelationalCsr.of(
        np.concatenate([[0], np.cumsum(degree)]), rng.integers(0, num, edges).astype(np.int32),
        rng.integers(0, 3, edges).astype(np.int32), names,
    )  # fmt: skip
    rows = rng.normal(size=(num, COLUMNS)).astype(np.float32)
    features = FeatureRows(rows, np.empty(0, np.float32)) if has_features else NodeNumbers(num)
    network = random_weights(RGCN(hidden=5, num_bases=num_bases), features.columns, Relations.of(csr, features))
    x, every = torch.from_numpy(features.take(np.arange(num))), block_of(csr)
    with torch.no_grad():
        expected = network(x, [every])
        found = NeighborSampler(csr, NeighborOptions(fanouts=(-1, -1))).sample(np.arange(7), with_edges=True)
        blocks = blocks_of(found, degree.astype(np.float32), csr)
        batch = network(torch.from_numpy(features.take(found.node_M)), blocks)
    assert torch.allclose(batch[:7], expected[:7], atol=1e-5)
    columns = max(layer.edge_columns for layer in network.layers)
    small = Inference(csr, features, least_inference_bytes(network.widths, int(degree.max()), columns))
    assert np.allclose(small.hidden_and_scores(network)[1], expected, atol=1e-5)
    assert small.counts.batches > 4
    some = np.array([8, 3])
    assert np.allclose(small.scores(network, some), expected[some], atol=1e-5)


def test_sampled_edges_keep_their_types(plain: AttributedGraph) -> None:
    csr = relational_csr(plain, True)
    kept = set(zip(np.repeat(np.arange(len(plain)), np.diff(csr.indptr)), csr.indices, csr.type_E, strict=True))
    found = NeighborSampler(csr, NeighborOptions(fanouts=(3, 2))).sample(np.arange(20), with_edges=True)
    src, dst = found.edge_index()
    sampled = list(zip(found.node_M[dst], found.node_M[src], csr.type_E[found.edge_S], strict=True))
    assert len(sampled) > 60 and set(sampled) <= kept
    groups = blocks_of(found, np.diff(csr.indptr).astype(np.float32), csr)[0].relations
    assert groups is not None
    expected = {(int(r), int(d)) for d, r in zip(dst, csr.type_E[found.edge_S], strict=True)}
    assert len(groups.type_G) == len(expected) and set(groups.type_G) == {relation for relation, _ in expected}


def test_inverse_edges_are_relations_of_their_own(plain: AttributedGraph) -> None:
    both, once = relational_csr(plain, True), relational_csr(plain, False)

    def edges(csr: RelationalCsr) -> list[tuple[int, int, str]]:
        targets = np.repeat(np.arange(len(plain)), np.diff(csr.indptr))
        found = zip(csr.indices, targets, csr.type_E, strict=True)
        return sorted((int(a), int(b), csr.relations[r]) for a, b, r in found)

    assert once.relations == tuple(plain.relations)
    assert edges(both) == sorted([*edges(once), *((b, a, f"inverse of {name}") for a, b, name in edges(once))])
    turned = both.named(both.relations[::-1])
    assert edges(turned) == edges(both) and not np.array_equal(turned.type_E, both.type_E)


def test_the_command_trains_on_triples_and_scores_their_nodes_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, run = files(tmp_path), tmp_path / "run"
    options = ["--sampling", "full-graph", "--hidden", "8", "--learning-rate", "0.05", "--epochs", "25", "--json"]
    inputs = [str(found["triples"]), "--labels", str(found["labels"]), "--split", str(found["split"])]
    assert called(["train", "rgcn", *inputs, *options, "--threads", "1", "--out", str(run)]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["test_accuracy"] > 0.9 and summary["rows"] == PEOPLE + 1
    build = ["graph", "build", str(found["triples"]), "--edge-types", "triples", "--out"]
    assert called([*build, str(tmp_path / "graph"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["edge_types"] == 4 and set(shown["relations"]) == {"knows", "is0", "is1", "is2"}
    assert called(["score", str(run), str(tmp_path / "graph")]) == 0
    lines = dict(line.split("\t")[:2] for line in capsys.readouterr().out.splitlines())
    truth = planted()[1]
    assert np.mean([lines[name] == label for name, label in truth.items()]) > 0.9
    other = files(tmp_path / "other", seed=1)
    assert (
        called(["graph", "build", str(other["triples"]), "--edge-types", "triples", "--out", str(tmp_path / "g")]) == 0
    )
    capsys.readouterr()
    assert called(["score", str(run), str(tmp_path / "g")]) == 2
    assert "for they had no features" in capsys.readouterr().err
    (run / NETWORK).write_bytes((run / NETWORK).read_bytes()[:200])
    with pytest.raises(FormatError, match="is damaged"):
        NetworkClassifier.load(run)


def test_a_budget_of_memory_changes_no_bit(featured: AttributedGraph) -> None:
    plain, within = (trained(featured, MODELS[2], epochs=2, storage=budget) for budget in (None, "4GB"))
    assert np.array_equal(plain.embeddings.vectors, within.embeddings.vectors) and within.summary["features"]


def test_what_is_not_legal_is_refused(plain: AttributedGraph, featured: AttributedGraph, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="residual does nothing for rgcn"):
        RGCN(residual=True)
    with pytest.raises(InputError, match="num_bases must be"):
        RGCN(num_bases=0)
    with pytest.raises(InputError, match="node_order is for edges without types"):
        RGCN(sampling="full-graph", node_order="degree")
    untyped = any2vec.write_graph([("a", "b"), ("b", "c")], tmp_path / "untyped", labels=None)
    with pytest.raises(InputError, match=r"the graph has no labels"):
        trained(untyped, RGCN(**FULL))
    (tmp_path / "y.txt").write_text("a 1\nb 2\n")
    labeled = any2vec.write_graph([("a", "b"), ("b", "c")], tmp_path / "labeled", labels=tmp_path / "y.txt")
    with pytest.raises(InputError, match=r"have no types; build it of triples"):
        trained(labeled, RGCN(**FULL))
    with pytest.raises(InputError, match=r"gcn learns classes of nodes from features, and the graph has no features"):
        trained(plain, GCN(**FULL))
    result = trained(featured, MODELS[0], epochs=2)
    strange = any2vec.write_graph(
        [("a", "hates", "b")], tmp_path / "strange", edge_types="triples",
        features=any2vec.Embeddings(["a", "b"], np.ones((2, COLUMNS), np.float32)),
    )  # fmt: skip
    with pytest.raises(InputError, match=r"edges of 'hates', a relation that the network has not seen"):
        result.scorer.score(strange)
    with pytest.raises(InputError, match=r"takes 4 features a node, got 0"):
        result.scorer.score(plain)
    nodes = NodeOptions(labels=tmp_path / "y.txt")
    with pytest.raises(InputError, match=r"Edges with types have no weights"):
        any2vec.fit(RGCN(**FULL), [("a", "r", "b")], nodes=nodes, graph=any2vec.GraphOptions(weighted=True))
