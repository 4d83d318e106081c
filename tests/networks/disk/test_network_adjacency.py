"""Graph networks that sample lists of neighbors from the disk: the same bits, and reads that are counted."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import any2vec
from any2vec import GAT, GCN, GIN, AttributedGraph, FormatError, GraphSAGE, InputError
from any2vec.data.attributed.adjacency_file import AdjacencyFile
from any2vec.data.io.array_file import ArrayFile
from any2vec.models.networks.hot_rows import most_useful_lists
from any2vec.sampling.disk_neighbors import CachedLists
from any2vec.tasks.graphs.adjacency import plan_of
from any2vec.tasks.graphs.options import CacheOptions
from any2vec.tasks.graphs.planning import _DRAWN, size_of_network
from any2vec.tasks.graphs.prepare import prepare_graph
from any2vec.types import Csr
from cli_runs import called
from ended_runs import ended_at_record

NODES, COLUMNS, CLASSES, EDGES = 3000, 32, 4, 60_000
MODEL = GraphSAGE(hidden=16, batch_size=64, fanouts="4,3")
ROOMY = 20_000_000
"""bytes that hold all"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> AttributedGraph:
    return written(tmp_path_factory.mktemp("lists"))


def written(folder: Path, **more: Any) -> AttributedGraph:
    rng = np.random.default_rng(3)
    dst, src = rng.integers(0, NODES, EDGES), (NODES * rng.random(EDGES) ** 3).astype(int)  # some are asked for often
    label_N = rng.integers(0, CLASSES, NODES)
    features = rng.normal(size=(NODES, COLUMNS)).astype(np.float32) + np.eye(CLASSES, COLUMNS)[label_N]
    split = rng.choice(4, NODES, p=(0.1, 0.1, 0.1, 0.7)) - 1
    edges = (src, dst)
    return any2vec.write_graph(
        edges, folder / "graph", features=features, labels=label_N, split=split,
        graph=any2vec.GraphOptions(directed=True), **more,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def process_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("any2vec.machine.process_bytes", lambda: 0)
    monkeypatch.setattr("any2vec.tasks.graphs.planning._LIBRARIES", 0)


def trained(graph: Any, model: Any = MODEL, **options: Any) -> any2vec.FitResult:
    return any2vec.fit(model, graph, **({"epochs": 3, "threads": 1} | options))


def from_disk(cache: int | None = 20_000, memory: int = ROOMY, **more: Any) -> dict[str, Any]:
    size = None if cache is None else str(cache)
    return {"storage": memory, "reading": {"cache": CacheOptions(adjacency="disk", neighbor_cache=size, **more)}}


@pytest.mark.parametrize(
    "model",
    [
        MODEL, GCN(hidden=16, num_layers=3, batch_size=64, fanouts="3,2,2", sample_key="batch"),
        GIN(hidden=16, batch_size=64, fanouts="all"), GAT(hidden=16, batch_size=64, fanouts="4,3"),
    ],
    ids=["sage", "gcn", "gin", "gat"],
)  # fmt: skip
@pytest.mark.parametrize("threads", [1, 2])
def test_lists_on_disk_give_the_bits_of_memory(graph: AttributedGraph, model: Any, threads: int) -> None:
    plain, disk = trained(graph, model, threads=threads), trained(graph, model, threads=threads, **from_disk())
    assert np.array_equal(plain.embeddings.vectors, disk.embeddings.vectors)
    for name in ("val_accuracy", "test_accuracy", "best_epoch", "rows_read", "loss"):
        assert plain.summary[name] == disk.summary[name]
    assert "adjacency" not in plain.summary and "lists_missed" not in plain.summary
    found = disk.summary
    assert found["lists_missed"] > 0 and found["adjacency_bytes_read"] >= 512 and found["rows_missed"] == 0
    assert 19_000 < found["adjacency_bytes_filled"] <= 20_000
    assert found["adjacency"].startswith("20 kB of ") and found["adjacency"].endswith("the others on disk")


@pytest.mark.parametrize("residency", ["degree", "presampled", "belady"])
def test_features_and_lists_on_disk_together(graph: AttributedGraph, residency: Any) -> None:
    plain = trained(graph, threads=2)
    metadata = prepare_graph(MODEL, graph, None, None, None).metadata
    for memory in range(1_000_000, ROOMY, 20_000):
        options = from_disk(memory=memory, residency=residency)
        try:
            rows = plan_of(MODEL, metadata, memory, 0, 2, options["reading"]["cache"]).rows or 0
        except InputError:
            continue
        if rows > NODES // 5:
            break
    disk = trained(graph, threads=2, **options)
    assert np.array_equal(plain.embeddings.vectors, disk.embeddings.vectors)
    assert 0 < disk.summary["rows_missed"] < disk.summary["rows_read"] and disk.summary["lists_missed"] > 0


def test_more_lists_in_memory_miss_less(graph: AttributedGraph) -> None:
    found = [trained(graph, **from_disk(cache)).summary for cache in (0, 30_000, 100_000, 10**7)]
    missed, num_bytes, filled = (
        [one[name] for one in found] for name in ("lists_missed", "adjacency_bytes_read", "adjacency_bytes_filled")
    )
    assert missed[0] > missed[1] > missed[2] > missed[3] == 0
    assert num_bytes[0] > num_bytes[1] > num_bytes[2] > num_bytes[3] == 0
    assert filled[0] == 0 and filled[3] == 4 * len(graph.csr.indices)
    share = len(graph.csr.indices) * 4 / 30_000  # what is sampled most is kept: far more than its share of the bytes
    assert missed[0] - missed[1] > 2 * missed[0] / share


def test_lists_are_chosen_by_out_degree_over_in_degree() -> None:
    """In-neighbors of 0: 1, 2, 3; of 1: 0; of 2: 0, 1; of 3: none; of 4: 0, 1."""
    csr = Csr(np.array([0, 3, 4, 6, 6, 8]), np.array([1, 2, 3, 0, 0, 1, 0, 1], np.int32), np.empty(0, np.float32))
    by_use = [1, 0, 2, 4]  # 3 / 1, 3 / 3, 1 / 2, 0 / 2
    for num_bytes, num in ((0, 0), (3, 0), (4, 1), (15, 1), (16, 2), (23, 2), (24, 3), (31, 3), (32, 4), (99, 4)):
        assert most_useful_lists(csr, num_bytes).tolist() == sorted(by_use[:num])


def test_plans_count_what_stands_in_memory(graph: AttributedGraph) -> None:
    metadata = prepare_graph(MODEL, graph, None, None, None).metadata | {"num_entries": 5_000_000}
    whole, disk = CacheOptions(), CacheOptions(adjacency="disk", neighbor_cache="1MB")
    plans = [plan_of(MODEL, metadata, 40_000_000, 0, 1, cache) for cache in (whole, disk)]
    sizes = [size_of_network(MODEL, metadata, 1, plan).resident["neighbors"] for plan in plans]
    edges = 64 * metadata["mean_sampled"][0]  # and those of the nodes that these find
    drawn = sizes[1] - (sizes[0] - 4 * 5_000_000) - 1_000_000 - 8 * NODES
    assert _DRAWN * edges < drawn < _DRAWN * 5 * edges
    with pytest.raises(InputError, match="too small: graphsage needs"):
        plan_of(MODEL, metadata, 20_000_000, 0, 1, whole)
    free = plan_of(MODEL, metadata, 20_000_000, 0, 1, disk)
    assert free.list_bytes == 1_000_000
    chosen = plan_of(MODEL, metadata, 20_000_000, 0, 1, CacheOptions(adjacency="disk"))
    assert chosen.list_bytes is not None and 3_000_000 < chosen.list_bytes < 5_000_000
    all_of_it = plan_of(MODEL, metadata, 200_000_000, 0, 1, CacheOptions(adjacency="disk"))
    assert all_of_it.list_bytes == 20_000_000


def test_plans_count_what_drawing_takes(tmp_path: Path) -> None:
    """Measured, of 20 neighbors of each of 5,000 nodes, none of whose lists is in memory."""
    nodes, degree, taken = 10_000, 40, 20
    csr = Csr(np.arange(0, nodes * degree + 1, degree), np.zeros(nodes * degree, np.int32), np.empty(0, np.float32))
    file = ArrayFile(tmp_path / "indices.npy", np.int32)
    file.append(csr.indices)
    file.close()
    lists = CachedLists(csr, AdjacencyFile(file.path, len(csr.indices), nodes), np.empty(0, np.int64))
    node_F = np.arange(0, nodes, 2, dtype=np.int32)
    start_F, stop_F1 = csr.indptr[node_F], np.arange(0, taken * len(node_F) + 1, taken)
    lists.take(node_F[:1], start_F[:1], stop_F1[:2], start_F[0] + np.arange(taken))  # what compiling takes is not meant
    tracemalloc.start()
    place_S = (start_F[:, None] + np.arange(taken)).ravel()
    lists.take(node_F, start_F, stop_F1, place_S)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    lists.file.close()
    assert peak <= _DRAWN * len(place_S) <= 1.5 * peak


@pytest.mark.parametrize("first", ["memory", "disk"])
def test_a_run_goes_on_to_the_same_counts(graph: AttributedGraph, tmp_path: Path, first: str) -> None:
    """And to the same bits where lists were in memory before."""
    options = {"epochs": 2, **from_disk()}
    whole = trained(graph, **options)
    ended_at_record(3, trained, graph, out=tmp_path / "run", **(options if first == "disk" else {"epochs": 2}))
    again = trained(graph, out=tmp_path / "run", resume=True, **options)
    assert np.array_equal(again.embeddings.vectors, whole.embeddings.vectors)
    for name in ("lists_missed", "adjacency_bytes_read"):
        if first == "disk":
            assert again.summary[name] == whole.summary[name]
        else:
            assert 0 < again.summary[name] < whole.summary[name]


def test_features_of_edges_follow_their_entries(tmp_path: Path) -> None:
    rows = np.random.default_rng(4).normal(size=(EDGES, 3)).astype(np.float32)
    graph, model = written(tmp_path, edge_features=rows), GAT(hidden=16, batch_size=64, fanouts="4,3")
    plain, disk = trained(graph, model, epochs=1), trained(graph, model, epochs=1, **from_disk())
    assert np.array_equal(plain.embeddings.vectors, disk.embeddings.vectors) and disk.summary["lists_missed"] > 0


@pytest.mark.parametrize(("damage", "words"), [("cut", "is cut: it ends before byte"), ("other", "is damaged")])
def test_a_file_damaged_meanwhile_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, words: str
) -> None:
    graph, made = written(tmp_path), CachedLists.__init__
    path = graph.folder / "indices.npy"

    def then_damaged(self: CachedLists, *given: Any) -> None:
        made(self, *given)
        with path.open("r+b") as file:
            if damage == "cut":
                file.truncate(4096)
            else:
                file.seek(128)
                file.write(np.full_like(graph.csr.indices, NODES).tobytes())

    monkeypatch.setattr(CachedLists, "__init__", then_damaged)
    with pytest.raises(FormatError, match=rf"indices\.npy {words}") as raised:
        trained(graph, GraphSAGE(hidden=16, batch_size=1024, fanouts="all"), out=tmp_path / "run", **from_disk(0))
    assert "\n" not in str(raised.value) and not (tmp_path / "run" / "run.json").exists()


REFUSED = [
    (GraphSAGE(sampling="labor"), {}, "for sampling neighbors, got labor: it looks at each neighbor"),
    (GraphSAGE(sampling="full-graph"), {}, "for sampling neighbors, got full-graph: it takes whole lists"),
    (GraphSAGE(sampling="cluster"), {}, "for sampling neighbors, got cluster"),
    (GraphSAGE(sampling="walks"), {}, "for sampling neighbors, got walks"),
    (any2vec.RGCN(), {}, "not for rgcn"),
    (GraphSAGE(objective="links"), {}, "for objective classes, got links"),
    (GraphSAGE(objective="unsupervised"), {}, "for objective classes, got unsupervised"),
    (GraphSAGE(batch_order="proximity"), {}, "for batch_order random, got proximity"),
    (MODEL, {"storage": None}, "give a budget, like --memory 2GB"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "options", "words"), REFUSED)
def test_what_does_not_apply_is_refused(graph: AttributedGraph, model: Any, options: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        trained(graph, model, **(from_disk() | options))


def test_options_and_edges_that_do_not_apply(graph: AttributedGraph, tmp_path: Path) -> None:
    (tmp_path / "edges.tsv").write_text("0\t1\n1\t2\n")
    with pytest.raises(InputError, match="adjacency disk reads lists from a graph folder"):
        trained(str(tmp_path / "edges.tsv"), **from_disk())
    with pytest.raises(InputError, match="neighbor_cache is of adjacency disk"):
        CacheOptions(neighbor_cache="1MB")
    with pytest.raises(InputError, match="neighbor_cache must be a number of bytes"):
        CacheOptions(adjacency="disk", neighbor_cache="many")
    with pytest.raises(InputError, match="adjacency must be one of"):
        CacheOptions(adjacency="tape")  # type: ignore[arg-type]


def test_the_command(graph: AttributedGraph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "graphsage", str(graph.folder), "--hidden", "16", "--batch-size", "64", "--fanouts", "4,3"]
    arguments += ["--epochs", "1", "--threads", "1", "--out", str(tmp_path / "run")]
    assert called([*arguments, "--adjacency", "disk"]) == 2
    assert "give a budget, like --memory 2GB" in " ".join(capsys.readouterr().err.split())
    disk = ["--adjacency", "disk", "--neighbor-cache", "50kB", "--memory", "20MB"]
    assert called([*arguments, *disk]) == 0
    assert "50 kB of " in " ".join(capsys.readouterr().out.split())
    assert called([*arguments, *disk, "--json", "--overwrite"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["lists_missed"] > 0 and found["adjacency_bytes_read"] > 0
    assert called(["estimate", *arguments[1:9], *disk, "--threads", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["adjacency"] == found["adjacency"]
