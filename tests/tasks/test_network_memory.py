"""Graph networks within a budget of memory: features on disk and layers in pieces, and the same training."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import any2vec
from any2vec import GCN, AttributedGraph, GraphSAGE, InputError
from any2vec.tasks.graphs.options import CacheOptions
from any2vec.tasks.graphs.planning import batches_ahead, plan_network, reached_by_hop
from any2vec.tasks.graphs.prepare import prepare_graph
from cli_runs import called
from ended_runs import ended_at_record

NODES, COLUMNS, CLASSES = 3000, 96, 4
DIRECTED = any2vec.GraphOptions(directed=True)
MODELS = [
    GraphSAGE(hidden=16, batch_size=16, fanouts="4,3"), GCN(hidden=32, num_layers=3, batch_size=16, fanouts="3,2,2")
]  # fmt: skip


@pytest.fixture(scope="module", params=["float32", "int8"])
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AttributedGraph:
    rng, folder = np.random.default_rng(3), tmp_path_factory.mktemp("memory")
    dst, src = rng.integers(0, NODES, 12_000), (NODES * rng.random(12_000) ** 3).astype(int)  # some are asked for often
    (folder / "edges.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(src, dst, strict=True) if a != b))
    label_N = rng.integers(0, CLASSES, NODES)
    features = rng.normal(size=(NODES, COLUMNS)).astype(np.float32) + np.eye(CLASSES, COLUMNS)[label_N]
    split = rng.integers(0, 3, NODES)
    return any2vec.write_graph(
        folder / "edges.tsv", folder / "graph", features=features, labels=label_N, split=split,
        feature_type=request.param, graph=DIRECTED,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def process_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("any2vec.machine.process_bytes", lambda: 0)
    monkeypatch.setattr("any2vec.tasks.graphs.planning._LIBRARIES", 0)


def trained(graph: Any, model: Any, **options: Any) -> any2vec.FitResult:
    return any2vec.fit(model, graph, **({"epochs": 3, "threads": 1} | options))


def budget_of(graph: AttributedGraph, model: Any = MODELS[0]) -> int:
    """The smallest one that holds a fifth of the features, the process left out."""
    metadata = prepare_graph(model, graph, None, None, None).metadata
    for budget in range(100_000, 10_000_000, 20_000):
        with suppress(InputError):
            if (plan_network(model, metadata, budget, 0, 1).rows or 0) > NODES // 5:
                return budget
    raise AssertionError("no budget holds some of the features")


@pytest.mark.parametrize("model", MODELS, ids=["sage", "gcn"])
@pytest.mark.parametrize("residency", ["degree", "weighted-reverse-pagerank", "presampled", "lru", "belady"])
def test_a_budget_gives_the_bits_of_none(graph: AttributedGraph, model: Any, residency: str) -> None:
    reading = {"cache": CacheOptions(residency=residency)}  # type: ignore[arg-type]
    plain, small = trained(graph, model), trained(graph, model, storage=budget_of(graph, model), reading=reading)
    assert np.array_equal(plain.embeddings.vectors, small.embeddings.vectors)
    for name in ("val_accuracy", "test_accuracy", "best_epoch", "rows_read", "loss"):
        assert plain.summary[name] == small.summary[name]
    found = small.summary
    assert plain.summary["rows_missed"] == plain.summary["bytes_read"] == plain.summary["bytes_filled"] == 0
    assert 0 < found["rows_missed"] < 0.8 * found["rows_read"]
    assert found["bytes_read"] >= found["rows_missed"] * COLUMNS // 40
    assert (found["bytes_filled"] > 0) == (residency not in ("lru", "belady"))
    assert "rows in memory, the others on disk" in found["features"] and plain.summary["features"] == ""
    pieces, at_once = found["inference"], plain.summary["inference"]
    assert pieces["batches"] > at_once["batches"] or pieces["by_columns"] > 0 == at_once["by_columns"]
    assert found["seconds_by_stage"]["read"] > 0 == plain.summary["seconds_by_stage"]["read"]
    assert (found["seconds_by_stage"]["look_ahead"] > 0) == (residency == "belady")


@pytest.mark.parametrize(
    "model",
    [
        GraphSAGE(hidden=16, sampling="cluster", num_parts=1500, parts_per_batch=4, halo=1, partitioner="ldg"),
        GCN(hidden=16, sampling="walks", batch_size=32, sample_coverage=2),
        GraphSAGE(hidden=16, batch_size=16, fanouts="4,3", batch_order="cluster", partitioner="ldg"),
    ],
    ids=["cluster", "walks", "order"],
)
@pytest.mark.parametrize("residency", ["presampled", "belady"])
def test_subgraphs_within_a_budget_have_the_bits_of_none(graph: AttributedGraph, model: Any, residency: str) -> None:
    reading = {"cache": CacheOptions(residency=residency)}  # type: ignore[arg-type]
    plain, small = trained(graph, model), trained(graph, model, storage=budget_of(graph, model), reading=reading)
    assert np.array_equal(plain.embeddings.vectors, small.embeddings.vectors)
    assert plain.summary["rows_read"] == small.summary["rows_read"]
    assert 0 < small.summary["rows_missed"] < small.summary["rows_read"]


@pytest.mark.parametrize(
    "model",
    [GraphSAGE(hidden=10, batch_size=16, fanouts="4,3"),
     any2vec.GAT(hidden=16, heads=4, batch_size=16, fanouts="4,3")],
    ids=["odd columns", "attention"],
)  # fmt: skip
def test_a_budget_trains_the_same_weights_whatever_the_columns(graph: AttributedGraph, model: Any) -> None:
    """Scores in pieces of columns that are no multiple of 4, or by attention, are sums in another order."""
    plain, small = trained(graph, model), trained(graph, model, storage=budget_of(graph, model))
    assert small.summary["rows_missed"] > 0 and plain.summary["best_epoch"] == small.summary["best_epoch"]
    for name, value in plain.scorer.weights.items():
        assert np.array_equal(value, small.scorer.weights[name]), name
    np.testing.assert_allclose(small.embeddings.vectors, plain.embeddings.vectors, atol=1e-5)


def test_more_parts_than_nodes_are_refused_before_memory_is_planned(graph: AttributedGraph) -> None:
    most, more = (GraphSAGE(sampling="cluster", num_parts=num) for num in (NODES, NODES + 1))
    assert prepare_graph(most, graph, None, None, None).metadata["num_nodes"] == NODES
    with pytest.raises(InputError, match="num_parts must be a whole number from 1 to 3,000, got 3001"):
        prepare_graph(more, graph, None, None, None)


def test_a_batch_of_a_subgraph_is_as_large_as_planned() -> None:
    """Of 3,000 nodes with 4 neighbors each: parts of a hundredth, 5 of them; hops and walks that find new nodes."""
    metadata = {"num_nodes": 3000, "num_train": 500, "mean_sampled": [4.0, 4.0]}
    parts = {"sampling": "cluster", "num_parts": 100, "parts_per_batch": 5}
    assert reached_by_hop(GraphSAGE(**parts), metadata) == ([150.0] * 3, 600.0)  # type: ignore[arg-type]
    around = 150 + 2850 * (1 - np.exp(-600 / 3000))
    assert reached_by_hop(GraphSAGE(**parts, halo=1), metadata)[0] == pytest.approx([around] * 3)  # type: ignore[arg-type]
    walks = GraphSAGE(sampling="walks", batch_size=600, walk_steps=2)
    assert reached_by_hop(walks, metadata)[0][0] == pytest.approx(500 + 2500 * (1 - np.exp(-1000 / 3000)))


def rows_moved(graph: AttributedGraph, residency: str, **more: Any) -> int:
    """Rows of features that a run has read from the disk, those that stand in memory from the start, too."""
    cache = CacheOptions(residency=residency)  # type: ignore[arg-type]
    options: dict[str, Any] = {"storage": budget_of(graph) + 200_000, "epochs": 6, **more}
    found = trained(graph, MODELS[0], reading={"cache": cache}, **options).summary
    kept = int(found["features"].split()[0].replace(",", "")) if found["bytes_filled"] else 0
    return int(found["rows_missed"]) + kept


def test_a_run_looks_ahead_by_what_stands_in_memory(graph: AttributedGraph) -> None:
    """Four times the rows in memory, in batches of so many different rows; no more than a quarter of what is free."""
    assert [batches_ahead(rows, 250.0) for rows in (0, 1000, 1001, 50_000)] == [1, 16, 17, 800]
    metadata = prepare_graph(MODELS[0], graph, None, None, None).metadata
    budget = budget_of(graph) + 3 * metadata["feature_bytes"] * NODES // 16
    chosen, asked = (plan_network(MODELS[0], metadata, budget, 0, 1, ahead) for ahead in (None, 3))
    assert chosen.rows is not None and asked.num_ahead == 3 <= chosen.num_ahead
    most = batches_ahead(metadata["num_nodes"], reached_by_hop(MODELS[0], metadata)[0][-1])
    assert chosen.num_ahead < most and f"the next {chosen.num_ahead} batches" in chosen.sentence


def test_who_knows_what_is_read_next_reads_less(graph: AttributedGraph) -> None:
    if graph.features is None or graph.features.row_ND.dtype != np.float32:
        pytest.skip("what a run needs besides is as large as rows of 8 bits are together")
    found = {name: rows_moved(graph, name) for name in ("belady", "presampled", "degree", "lru", "lfu", "fifo")}
    assert found["belady"] < min(found[name] for name in ("degree", "lru", "lfu", "fifo")), found
    assert found["presampled"] <= found["degree"], found
    assert rows_moved(graph, "belady", threads=2) < found["fifo"]


def test_a_run_within_a_budget_goes_on_to_the_same_counts(graph: AttributedGraph, tmp_path: Path) -> None:
    options = {"storage": budget_of(graph), "epochs": 2}
    whole = trained(graph, MODELS[0], **options)
    ended_at_record(5, trained, graph, MODELS[0], out=tmp_path / "run", **options)
    again = trained(graph, MODELS[0], out=tmp_path / "run", resume=True, **options)
    assert np.array_equal(again.embeddings.vectors, whole.embeddings.vectors)
    for name in ("rows_read", "rows_missed", "bytes_read"):
        assert again.summary[name] == whole.summary[name]


def test_edges_whose_folder_is_gone_are_read_from_disk(graph: AttributedGraph, tmp_path: Path) -> None:
    assert graph.features is not None and graph.labels is not None
    np.save(tmp_path / "x.npy", graph.features.take(np.arange(NODES)))
    nodes = any2vec.NodeOptions(features=tmp_path / "x.npy", labels=graph.labels)  # type: ignore[arg-type]
    edges, options = graph.folder.parent / "edges.tsv", {"nodes": nodes, "graph": DIRECTED, "epochs": 1, "threads": 2}
    found = any2vec.fit(MODELS[0], edges, storage=budget_of(graph) + 60_000, **options)
    assert found.summary["rows_missed"] > 0


def test_the_command_says_what_a_budget_gives(
    graph: AttributedGraph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "graphsage", str(graph.folder), "--hidden", "16", "--batch-size", "16", "--fanouts", "4,3"]
    arguments += ["--epochs", "1", "--threads", "1", "--out", str(tmp_path / "run")]
    assert called([*arguments, "--memory", str(budget_of(graph)), "--residency", "fifo"]) == 0
    assert "rows in memory, the others on disk" in " ".join(capsys.readouterr().out.split())
    assert called([*arguments, "--memory", "100kB", "--overwrite"]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "--memory 100 kB is too small: graphsage needs" in error and "a batch" in error
    assert called([*arguments, "--residency", "fifo", "--overwrite"]) == 2
    assert "give a budget" in " ".join(capsys.readouterr().err.split())
    assert called([*arguments, "--residency", "lru", "--superbatch", "8", "--memory", "1GB", "--overwrite"]) == 2
    assert "superbatch is of residency belady, and does nothing with lru" in " ".join(capsys.readouterr().err.split())
    model = arguments[1:9]
    assert called(["estimate", *model, "--threads", "1", "--json", "--memory", str(budget_of(graph))]) == 0
    assert "the others on disk" in json.loads(capsys.readouterr().out)["features"]
    assert called(["plan", *model]) == 2
    assert "graph networks train on one host: any2vec estimate says" in " ".join(capsys.readouterr().err.split())


METADATA = {
    "num_nodes": 100_000, "num_entries": 2_000_000, "num_features": 256, "num_classes": 10, "num_train": 10_000,
    "feature_bytes": 1024, "most_neighbors": 500, "label_bytes": 400_000,
    "mean_sampled": [9.5, 5.0],
}  # fmt: skip


def test_plans() -> None:
    model = GraphSAGE(batch_size=256, fanouts="10,5")
    assert plan_network(model, METADATA, 0, 0, 1) == (None, 0, "", 0, 0, None, "")
    roomy = plan_network(model, METADATA, 2_000_000_000, 100_000_000, 1)
    assert roomy.rows is None and "in memory" in roomy.sentence
    assert roomy.inference_bytes < 2_000_000_000 - 100_000_000 - 102_400_000
    rows = [plan_network(model, METADATA, 10**6 * budget, 100_000_000, 1).rows for budget in (200, 230, 260)]
    assert all(row is not None for row in rows) and rows == sorted(rows) and rows[0] < rows[2] < 100_000
    with pytest.raises(InputError, match=r"too small: graphsage needs .* \(.*the process"):
        plan_network(model, METADATA, 10**8, 100_000_000, 1)
    full = GraphSAGE(sampling="full-graph")
    with pytest.raises(InputError, match=r"the features, which full-graph holds"):
        plan_network(full, METADATA, 200_000_000, 100_000_000, 1)
