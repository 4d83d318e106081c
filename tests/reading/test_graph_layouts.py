"""Graphs of several types, laid behind each other: PyG's `HeteroData`, and planted files as OGB has them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any2vec import AttributedGraph, Embeddings, GraphOptions, GraphSAGE, NeighborLoader, write_graph
from any2vec.errors import DataError, InputError
from cli_runs import called

PAPERS, AUTHORS, TOPICS = 4, 3, 2
WRITTEN = np.array([[0, 0, 1, 3], [0, 2, 1, 2]])
ABOUT = np.array([[0, 1, 2, 3], [1, 1, 0, 0]])
LABELS = [1, 0, -1, 2]


def edges(graph: AttributedGraph) -> list[tuple[int, str, int]]:
    targets = np.repeat(np.arange(len(graph)), np.diff(graph.csr.indptr))
    names = graph.relations
    found = zip(graph.csr.indices.tolist(), graph.edge_types.tolist(), targets.tolist(), strict=True)
    return sorted((src, names[relation], dst) for src, relation, dst in found)


def expected() -> list[tuple[int, str, int]]:
    written = [(p, "paper__by__author", PAPERS + a) for p, a in WRITTEN.T.tolist()]
    about = [(p, "paper__about__topic", PAPERS + AUTHORS + t) for p, t in ABOUT.T.tolist()]
    return sorted([*written, *about])


def hetero(**features: int) -> Any:
    """features: type -> columns."""
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torch_geometric.data").HeteroData()
    for kind, num in (("paper", PAPERS), ("author", AUTHORS), ("topic", TOPICS)):
        data[kind].num_nodes = num
        if kind in features:
            data[kind].x = torch.from_numpy(rows_of(kind, num, features[kind]))
    data["paper", "by", "author"].edge_index = torch.from_numpy(WRITTEN)
    data["paper", "about", "topic"].edge_index = torch.from_numpy(ABOUT)
    data["paper"].y = torch.tensor(LABELS)
    data["paper"].train_mask = torch.tensor([True, False, False, False])
    data["paper"].test_mask = torch.tensor([False, True, False, True])
    return data


def rows_of(kind: str, num: int, columns: int) -> np.ndarray:
    return np.random.default_rng(len(kind)).normal(size=(num, columns)).astype(np.float32)


def test_types_of_nodes_are_laid_behind_each_other(tmp_path: Path) -> None:
    graph = write_graph(hetero(paper=5), tmp_path / "graph")
    assert edges(graph) == expected() and graph.is_directed
    assert graph.node_types == {"paper": PAPERS, "author": AUTHORS, "topic": TOPICS}
    assert graph.describe()["relations"] == {"paper__by__author": 4, "paper__about__topic": 4}
    assert np.asarray(graph.labels).tolist() == [*LABELS, *[-1] * (AUTHORS + TOPICS)]
    assert graph.rows("train").tolist() == [0] and graph.rows("test").tolist() == [1, 3]
    assert graph.features is not None
    found = graph.features.take(np.arange(len(graph)))
    assert np.array_equal(found[:PAPERS], rows_of("paper", PAPERS, 5)) and not found[PAPERS:].any()


def test_features_of_edges_are_left_out_and_said(tmp_path: Path) -> None:
    data = hetero(paper=5)
    data["paper", "by", "author"].edge_attr = data["paper", "by", "author"].edge_index.T.float()
    with pytest.warns(UserWarning, match="edge_attr of paper__by__author is left out") as found:
        graph = write_graph(data, tmp_path / "graph")
    assert found[0].filename == __file__ and edges(graph) == expected() and graph.edge_features is None
    write_graph(data, tmp_path / "meant", edge_features=False)
    rows = np.arange(8, dtype=np.float32)[:, None]
    assert write_graph(data, tmp_path / "own", edge_features=rows).num_edge_features == 1


def test_weights_of_pyg_data_are_read_as_the_options_say(tmp_path: Path) -> None:
    torch, pyg = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
    data = pyg.Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    weighted, plain = GraphOptions(weighted=True), GraphOptions(weighted=False)
    with pytest.raises(DataError, match="has no edge_weight"):
        write_graph(data, tmp_path / "none", graph=weighted)
    data.edge_weight = torch.tensor([0.5, 2.0])
    for name, options in (("guessed", None), ("weighted", weighted)):
        assert write_graph(data, tmp_path / name, graph=options).csr.weights.tolist() == [0.5, 2.0]
    assert not len(write_graph(data, tmp_path / "plain", graph=plain).csr.weights)
    typed = hetero(paper=5)
    typed["paper", "by", "author"].edge_weight = torch.ones(4)
    with pytest.warns(UserWarning, match="edge_weight of paper__by__author is left out") as found:
        graph = write_graph(typed, tmp_path / "typed")
    assert found[0].filename == __file__ and not len(graph.csr.weights)
    write_graph(typed, tmp_path / "meant", graph=plain)
    with pytest.raises(InputError, match="are not read"):
        write_graph(typed, tmp_path / "asked", graph=weighted)


def test_features_with_keys_go_to_the_nodes_of_these_keys(tmp_path: Path) -> None:
    torch, pyg = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
    row_33 = np.eye(3, dtype=np.float32)
    data = pyg.Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    typed = pyg.HeteroData({"paper": {"num_nodes": 3}})
    typed["paper", "cites", "paper"].edge_index = data.edge_index
    for name, source in (("plain", data), ("typed", typed)):
        for number, keys in enumerate(([2, 0, 1], ["2", "0", "1"])):
            graph = write_graph(source, tmp_path / f"{name}{number}", features=Embeddings(keys, row_33))
            assert graph.features is not None and np.array_equal(graph.features.take(np.arange(3)), row_33[[1, 2, 0]])
    with pytest.raises(DataError, match="node '2' is not there"):
        write_graph(data, tmp_path / "lacks", features=Embeddings([3, 0, 1], row_33))
    with pytest.raises(DataError, match="4 rows for 3 nodes"):
        write_graph(data, tmp_path / "more", features=Embeddings([2, 0, 1, 9], np.eye(4, dtype=np.float32)))


def test_features_of_one_width_share_columns_and_others_do_not(tmp_path: Path) -> None:
    shared = write_graph(hetero(paper=3, topic=3), tmp_path / "shared").features
    apart = write_graph(hetero(paper=3, topic=2), tmp_path / "apart").features
    assert shared is not None and apart is not None and (shared.columns, apart.columns) == (3, 5)
    topics = np.arange(PAPERS + AUTHORS, PAPERS + AUTHORS + TOPICS)
    assert np.array_equal(shared.take(topics), rows_of("topic", TOPICS, 3))
    assert np.array_equal(apart.take(topics), np.pad(rows_of("topic", TOPICS, 2), ((0, 0), (3, 0))))
    assert np.array_equal(apart.take(np.arange(2)), np.pad(rows_of("paper", PAPERS, 3)[:2], ((0, 0), (0, 2))))


def test_hetero_data_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    outside, several, measured, single, split, few = (hetero() for _ in range(6))
    outside["paper", "by", "author"].edge_index = torch.tensor([[0], [AUTHORS]])
    several["author"].y = torch.zeros(AUTHORS, dtype=torch.long)
    measured["paper"].y = torch.arange(PAPERS) + 0.5
    single["paper"].y = torch.tensor(1)
    split["paper"].train_mask = torch.ones(PAPERS, 2, dtype=torch.bool)
    few["paper"].test_mask = torch.arange(2)
    for data, says in (
        (measured, "classes of paper that are no whole numbers"), (single, "has 1 classes for 4 nodes of paper"),
        (split, r"train masks of paper must be bool \(4,\), got bool \(4, 2\)"),
        (few, r"test masks of paper must be bool \(4,\), got int64 \(2,\)"),
        (outside, "edges of paper__by__author lead outside the 3 nodes of author"),
        (several, "classes of paper, author; a network learns those of one type"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=says):
            write_graph(data, tmp_path / "graph")
    assert not (tmp_path / "graph").exists()
    ours = np.zeros(PAPERS + AUTHORS + TOPICS, int)
    assert write_graph(several, tmp_path / "graph", labels=ours).classes == ["0"]


def test_batches_of_the_folder_have_the_types_of_their_edges(tmp_path: Path) -> None:
    graph = write_graph(hetero(paper=3), tmp_path / "graph")
    authors = np.arange(PAPERS, PAPERS + AUTHORS)
    (batch,) = NeighborLoader(graph, num_neighbors=[-1, -1], batch_size=9, input_nodes=authors)
    src, dst = batch.n_id[batch.edge_index].tolist()
    found = [(a, graph.relations[r], b) for a, r, b in zip(src, batch.edge_type.tolist(), dst, strict=True)]
    assert sorted(found) == [edge for edge in expected() if edge[1] == "paper__by__author"]


def packed(file: Path, rows: Any, header: str = "") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [header] * bool(header) + [",".join(map(str, row)) for row in rows]
    with gzip.open(file, "wt") as target:
        target.write("\n".join(lines) + "\n")


def plain_folder(folder: Path) -> Path:
    """A graph of one type, as OGB's archives have it."""
    packed(folder / "raw" / "edge.csv.gz", [(0, 1), (1, 2), (3, 0)])
    packed(folder / "raw" / "num-node-list.csv.gz", [(5,)])
    packed(folder / "raw" / "num-edge-list.csv.gz", [(3,)])
    packed(folder / "raw" / "node-feat.csv.gz", rows_of("node", 5, 2).tolist())
    packed(folder / "raw" / "node-label.csv.gz", [("1",), ("0",), ("nan",), ("2",), ("1",)])
    for name, rows in (("train", [0, 3]), ("valid", [1]), ("test", [4])):
        packed(folder / "split" / "time" / f"{name}.csv.gz", [(row,) for row in rows])
    return folder


def typed_folder(folder: Path) -> Path:
    """A graph of several types, likewise."""
    raw = folder / "raw"
    packed(raw / "num-node-dict.csv.gz", [(PAPERS, AUTHORS, TOPICS)], "paper,author,topic")
    packed(raw / "triplet-type-list.csv.gz", [("paper", "by", "author"), ("paper", "about", "topic")])
    packed(raw / "relations" / "paper___by___author" / "edge.csv.gz", WRITTEN.T.tolist())
    packed(raw / "relations" / "paper___about___topic" / "edge.csv.gz", ABOUT.T.tolist())
    packed(raw / "node-feat" / "paper" / "node-feat.csv.gz", rows_of("paper", PAPERS, 3).tolist())
    packed(raw / "node-label" / "paper" / "node-label.csv.gz", [(max(label, 0),) for label in LABELS])
    for name, rows in (("train", [0]), ("valid", [2]), ("test", [1, 3])):
        packed(folder / "split" / "time" / "paper" / f"{name}.csv.gz", [(row,) for row in rows])
    return folder


@pytest.mark.parametrize("is_directed", [False, True])
def test_the_command_reads_a_folder_of_ogb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_directed: bool
) -> None:
    flags = ["--directed"] if is_directed else []
    folder, out = plain_folder(tmp_path / "planted"), tmp_path / "graph"
    assert called(["graph", "build", str(folder), "--out", str(out), "--json", *flags]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["nodes"], shown["edges"], shown["features"], shown["classes"]) == (5, 3, 2, 3)
    assert (shown["train"], shown["val"], shown["test"], shown["labeled"]) == ([2], [1], [1], 4)
    graph = AttributedGraph.open(out)
    once = [[3], [0], [1], [], []] if is_directed else [[1, 3], [0, 2], [1], [0], []]
    csr = graph.csr
    assert [csr.indices[a:b].tolist() for a, b in zip(csr.indptr[:-1], csr.indptr[1:], strict=True)] == once
    assert graph.features is not None and np.allclose(graph.features.take(np.arange(5)), rows_of("node", 5, 2))
    assert np.asarray(graph.labels).tolist() == [1, 0, -1, 2, 1] and not graph.relations


def test_a_folder_of_ogb_with_types_is_laid_likewise(tmp_path: Path) -> None:
    graph = write_graph(typed_folder(tmp_path / "planted"), tmp_path / "graph")
    assert edges(graph) == expected() and graph.node_types == {"paper": PAPERS, "author": AUTHORS, "topic": TOPICS}
    assert graph.rows("val").tolist() == [2] and graph.num_features == 3
    assert (
        np.asarray(graph.labels)[:PAPERS].tolist() == [1, 0, 0, 2] and (np.asarray(graph.labels)[PAPERS:] == -1).all()
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda raw: packed(raw / "triplet-type-list.csv.gz", [("paper", "author")]), "lines source,relation,target"),
        (lambda raw: packed(raw / "num-node-dict.csv.gz", [], "paper,author"), "num-node-dict.csv.gz should hold"),
        (lambda raw: packed(raw / "num-node-dict.csv.gz", [(1, 1.5)], "paper,author"), "num-node-dict.csv.gz should"),
    ],
)
def test_damaged_files_of_ogb_with_types_are_refused(tmp_path: Path, change: Any, says: str) -> None:
    folder = typed_folder(tmp_path / "planted")
    change(folder / "raw")
    with pytest.raises(DataError, match=says):
        write_graph(folder, tmp_path / "graph")
    assert not (tmp_path / "graph").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda raw: (raw / "num-node-list.csv.gz").unlink(), "There is no .*num-node-list"),
        (lambda raw: packed(raw / "edge.csv.gz", [(0, 5)]), "edges of edge.csv.gz lead outside the 5 nodes"),
        (lambda raw: packed(raw / "edge.csv.gz", [(0, 1.5)]), "numbers that are not whole"),
        (lambda raw: packed(raw / "edge.csv.gz", [(0, "x")]), "cannot be read"),
        (
            lambda raw: packed(raw / "node-feat.csv.gz", [(0, 1)]),
            "features of the graph must be numbers, a row",
        ),
        (lambda raw: packed(raw / "node-label.csv.gz", [(0,)]), "has 1 classes for 5 nodes"),
        (lambda raw: packed(raw.parent / "split" / "time" / "test.csv.gz", [(7,)]), "names nodes beyond the 5"),
        (lambda raw: (raw / "edge.csv.gz").write_bytes(b"\x1f\x8b damaged"), "cannot be read"),
    ],
)
def test_damaged_files_of_ogb_are_refused(tmp_path: Path, change: Any, says: str) -> None:
    folder = plain_folder(tmp_path / "planted")
    change(folder / "raw")
    with pytest.raises(DataError, match=says):
        write_graph(folder, tmp_path / "graph")
    assert not (tmp_path / "graph").exists()


@pytest.mark.parametrize("objective", ["links", "unsupervised"])
def test_classes_and_masks_that_nothing_learns_may_be_anything(objective: Any) -> None:
    torch, pyg = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
    from any2vec.tasks.graphs.prepare import prepare_graph

    model = GraphSAGE(hidden=4, fanouts="2,2", objective=objective)
    ends = torch.from_numpy(np.random.default_rng(0).integers(0, 40, (2, 200)))
    data = pyg.Data(x=torch.ones(40, 3), edge_index=ends, y=torch.arange(40))
    data.train_mask = torch.arange(40) < 20
    assert {"labels", "splits"} <= set(prepare_graph(model, data, None, None, None).graph.metadata["arrays"])
    data.y = torch.linspace(0, 1, 40)
    for mask in (data.train_mask, torch.ones(40), torch.ones(40, 2), torch.ones(3, dtype=torch.bool)):
        data.train_mask = mask
        found = prepare_graph(model, data, None, None, None).graph
        assert found.labels is None and not len(found.splits)
    typed = pyg.HeteroData({"paper": {"x": data.x, "y": data.y, "train_mask": torch.ones(40)}})
    typed["paper", "cites", "paper"].edge_index = ends
    assert prepare_graph(model, typed, None, None, None).graph.labels is None
    with pytest.raises(DataError, match="labels must be"):
        prepare_graph(GraphSAGE(), data, None, None, None)


@pytest.mark.filterwarnings("ignore:Sparse CS:UserWarning")
@pytest.mark.parametrize("form", ["coo", "csr", "csc", "bfloat16", "sparse bfloat16"])
def test_features_in_sparse_tensors_and_bfloat16_are_read(tmp_path: Path, form: str) -> None:
    torch, pyg = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
    rows = np.array([[0, 2.5, 0], [0, 0, 0], [-1, 0, 4]], np.float32)
    x = torch.from_numpy(rows)
    x = x.bfloat16() if "bfloat16" in form else x
    x = {"csr": x.to_sparse_csr, "csc": x.to_sparse_csc, "bfloat16": x.clone}.get(form, x.to_sparse)()
    ends = torch.tensor([[0, 1], [1, 2]])
    typed = pyg.HeteroData({"paper": {"x": x, "num_nodes": 3}})
    typed["paper", "cites", "paper"].edge_index = ends
    for name, data in (("plain", pyg.Data(x=x, edge_index=ends, num_nodes=3)), ("typed", typed)):
        features = write_graph(data, tmp_path / name).features
        assert features is not None and np.array_equal(features.take(np.arange(3)), rows)
