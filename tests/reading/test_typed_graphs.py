"""Graphs whose edges have types: from triples and tables, with the types' names kept and every edge of each once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import any2vec
from any2vec import AttributedGraph, GraphOptions, write_graph
from any2vec.errors import DataError, FormatError, InputError
from cli_runs import called

TRIPLES = [("ann", "knows", "bob"), ("bob", "knows", "cid"), ("ann", "likes", "bob"), ("ann", "likes", "cid")]
EDGES = sorted(TRIPLES)


def edges(graph: AttributedGraph) -> list[tuple[str, str, str]]:
    """(source, relation, target) by name, in order."""
    keys, csr = list(graph.keys), graph.csr
    targets = np.repeat(np.arange(len(graph)), np.diff(csr.indptr))
    found = zip(csr.indices, graph.edge_types, targets, strict=True)
    return sorted((keys[a], graph.relations[r], keys[b]) for a, r, b in found)


def table(folder: Path, kind: str) -> tuple[Any, str]:
    """(a source, where its relations stand)."""
    head, relation, tail = (list(column) for column in zip(*TRIPLES, strict=True))
    columns = {"src": head, "dst": tail, "kind": relation}
    if kind == "parquet":
        pq.write_table(pa.table(columns), folder / "edges.parquet")
        return folder / "edges.parquet", "kind"
    if kind == "dict":
        return columns, "kind"
    order = (0, 1, 2) if kind == "triples" else (0, 2, 1)
    lines = [" ".join(triple[place] for place in order) for triple in [*TRIPLES, TRIPLES[0]]]
    (folder / "edges.txt").write_text("\n".join(lines) + "\n")
    return folder / "edges.txt", kind


@pytest.mark.parametrize("kind", ["triples", "last", "parquet", "dict"])
def test_edges_keep_their_types_and_these_their_names(tmp_path: Path, kind: str) -> None:
    source, where = table(tmp_path, kind)
    graph = write_graph(source, tmp_path / "graph", edge_types=where)
    assert edges(graph) == EDGES and graph.is_directed and graph.num_edges == 4
    again = AttributedGraph.open(tmp_path / "graph")
    assert again.relations == ["knows", "likes"] and edges(again) == EDGES
    assert again.describe()["relations"] == {"knows": 2, "likes": 2} and again.describe()["edge_types"] == 2
    again.check_edges()


def test_names_that_were_not_known_are_nobody_elses(tmp_path: Path) -> None:
    known = any2vec.read_triples(TRIPLES)
    found = any2vec.read_triples([("ann", "likes", "eve")], known=known)
    with pytest.raises(DataError, match="not known when they were read"):
        write_graph(found, tmp_path / "graph", edge_types="triples")
    assert not (tmp_path / "graph").exists()


def test_whole_numbers_are_ascending_as_without_types(tmp_path: Path) -> None:
    triples = [("30", "7", "2"), ("2", "1", "10"), ("10", "7", "30")]
    graph = write_graph(triples, tmp_path / "graph", edge_types="triples", labels=_labels(tmp_path, "30 a\n2 b\n"))
    assert list(graph.keys) == ["2", "10", "30"] and edges(graph) == sorted(triples)
    assert np.asarray(graph.labels).tolist() == [1, -1, 0]
    rows = write_graph([("0", "r", "1"), ("1", "r", "2")], tmp_path / "rows", edge_types="triples")
    assert "words" not in rows.metadata["arrays"] and list(rows.keys) == ["0", "1", "2"]


def _labels(folder: Path, text: str) -> Path:
    (folder / "labels.txt").write_text(text)
    return folder / "labels.txt"


def test_features_say_which_nodes_there_are(tmp_path: Path) -> None:
    names = ["cid", "bob", "ann", "dan"]
    vectors = any2vec.Embeddings(names, np.eye(4, dtype=np.float32))
    graph = write_graph(TRIPLES, tmp_path / "graph", edge_types="triples", features=vectors)
    assert list(graph.keys) == names and edges(graph) == EDGES
    with pytest.raises(DataError, match=r"node 'ann' is not there"):
        few = any2vec.Embeddings(["bob", "cid"], np.eye(2, dtype=np.float32))
        write_graph(TRIPLES, tmp_path / "few", edge_types="triples", features=few)
    numbered = write_graph([("0", "r", "2")], tmp_path / "rows", edge_types="triples", features=np.eye(4))
    assert len(numbered) == 4 and edges(numbered) == [("0", "r", "2")]


def test_columns_of_ends_may_be_named(tmp_path: Path) -> None:
    columns = {"kind": ["knows"], "to_whom": ["bob"], "who": ["ann"]}
    options = GraphOptions(use_columns="who,to_whom")
    graph = write_graph(columns, tmp_path / "graph", edge_types="kind", graph=options)
    assert edges(graph) == [("ann", "knows", "bob")]
    graph = write_graph(columns, tmp_path / "other", edge_types="kind")
    assert edges(graph) == [("bob", "knows", "ann")]


def test_the_command_tells_the_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, _ = table(tmp_path, "triples")
    assert called(["graph", "build", str(source), "--edge-types", "triples", "--out", str(tmp_path / "g")]) == 0
    assert "2: knows 2, likes 2" in capsys.readouterr().out
    assert called(["graph", "show", str(tmp_path / "g"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["relations"] == {"knows": 2, "likes": 2}


@pytest.mark.parametrize(
    ("kind", "where", "options", "error", "says"),
    [
        ("triples", "kind", {}, InputError, "edge_types of text is triples or last, got 'kind'"),
        ("parquet", "last", {}, InputError, "edge_types last is for text; of a table give the name of the column"),
        ("parquet", "sort", {}, DataError, r"has no column 'sort'"),
        ("triples", "triples", {"weighted": True}, InputError, "Edges with types have no weights"),
    ],
)
def test_what_does_not_go_together_is_refused(
    tmp_path: Path, kind: str, where: str, options: dict[str, Any], error: type[Exception], says: str
) -> None:
    source, _ = table(tmp_path, kind)
    with pytest.raises(error, match=says):
        write_graph(source, tmp_path / "graph", edge_types=where, graph=GraphOptions(**options))
    assert not (tmp_path / "graph").exists()


def test_two_columns_have_no_type_behind_them(tmp_path: Path) -> None:
    (tmp_path / "edges.txt").write_text("a\tb\nb\tc\n")
    with pytest.raises(DataError, match="needs three columns, got two"):
        write_graph(tmp_path / "edges.txt", tmp_path / "graph", edge_types="last")
    graph = write_graph(tmp_path / "edges.txt", tmp_path / "graph", edge_types="triples")
    assert edges(graph) == [("a", "linked", "b"), ("b", "linked", "c")]


@pytest.mark.parametrize("change", [{"relations": ["knows"]}, {"relations": [1, 2]}, {"node_types": [["a", 9]]}])
def test_what_is_damaged_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    write_graph(TRIPLES, tmp_path / "graph", edge_types="triples")
    meta = json.loads((tmp_path / "graph" / "meta.json").read_text())
    (tmp_path / "graph" / "meta.json").write_text(json.dumps(meta | change))
    with pytest.raises(FormatError, match="is damaged"):
        AttributedGraph.open(tmp_path / "graph").check_edges()


@pytest.mark.parametrize("number", [-5, 1 << 30])
def test_types_that_are_not_there_are_told_by_all_who_read_them(tmp_path: Path, number: int) -> None:
    data, torch = pytest.importorskip("torch_geometric.data"), pytest.importorskip("torch")
    edge_index = torch.tensor([[0, 1], [1, 0]])
    given = data.Data(edge_index=edge_index, edge_type=torch.tensor([0, 1]), num_nodes=2)
    graph = write_graph(given, tmp_path / "graph")
    assert graph.relations == ["0", "1"]
    types = np.load(tmp_path / "graph" / "edge_types.npy", mmap_mode="r+")
    types[0] = number
    types.flush()
    for read in (AttributedGraph.describe, AttributedGraph.check_edges):
        with pytest.raises(FormatError, match="is damaged"):
            read(AttributedGraph.open(tmp_path / "graph"))
    given.edge_type[0] = number
    with pytest.raises(DataError, match=f"edge types from .*{number}"):
        write_graph(given, tmp_path / "other")
    given.edge_type = torch.tensor([0.5, 1])
    with pytest.raises(DataError, match="give whole numbers from 0"):
        write_graph(given, tmp_path / "other")
