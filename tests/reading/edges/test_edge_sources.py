"""Features of edges change neither the nodes of a graph, nor their order, edges and weights, whatever the source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from any2vec import AttributedGraph, GraphOptions, write_graph
from any2vec.data.graph.reader import read_edges, read_graph
from any2vec.errors import DataError, InputError

NAMES = [("b", "a"), ("c", "d"), ("b", "c"), ("a", "b"), ("e", "e"), ("c", "d"), ("01", "e")]
IDS = [(30, 4), (4, 100), (7, 30), (4, 30), (5, 5), (4, 100), (100, 7)]
WEIGHTS = [2.0, 3.0, 0.25, 1.5, 1.0, 0.5, 4.0]
MIRRORED = [(1, 2, 0.1), (2, 3, 2.5), (2, 1, 0.1), (3, 2, 2.5), (3, 3, 0.75)]


def text(edges: Any, mark: str, name: str = "edges.txt", first: str = "") -> Callable[[Path], Any]:
    def write(folder: Path) -> Path:
        (folder / name).write_text(first + "".join(mark.join(map(str, edge)) + "\n" for edge in edges))
        return folder / name

    return write


def networkx(edges: Any, kind: str = "Graph", **attributes: Any) -> Callable[[Path], Any]:
    def make(_: Path) -> Any:
        made = getattr(pytest.importorskip("networkx"), kind)()
        for (src, dst), weight in zip(edges, WEIGHTS, strict=False):
            made.add_edge(src, dst, **dict.fromkeys(attributes, weight))
        made.add_node(edges[0][0])
        return made

    return make


def parquet(edges: Any) -> Callable[[Path], Any]:
    def write(folder: Path) -> Path:
        pq.write_table(table(edges), folder / "edges.parquet", row_group_size=2)
        return folder / "edges.parquet"

    return write


def table(edges: Any) -> pa.Table:
    names = ["src", "dst", "weight"]
    return pa.table({name: list(column) for name, column in zip(names, zip(*edges, strict=True), strict=False)})


def weighted(edges: Any) -> Any:
    return [(*edge, weight) for edge, weight in zip(edges, WEIGHTS, strict=True)]


MATRIX = sparse.coo_array(([1.0, 2, 0, 3], ([3, 0, 2, 1], [0, 1, 1, 3])), shape=(6, 6))
MARKET = "%%MatrixMarket matrix coordinate {}\n% a comment\n5 5 3\n"
SOURCES: dict[str, tuple[Callable[[Path], Any], dict[str, Any]]] = {
    "names by tabs": (text(NAMES, "\t"), {}),
    "names by spaces": (text(NAMES, " ", first="# src dst\n"), {}),
    "csv with a header": (text(NAMES, ",", "edges.csv", "from,to\n"), {}),
    "csv with a header that is said": (text(NAMES, ",", "edges.csv", "x,y\n"), {"header": True}),
    "another comment": (text(NAMES, "\t", first="$ b a\n"), {"comment": "$"}),
    "weights that are left out": (text(weighted(NAMES), "\t"), {"weighted": False}),
    "names with weights": (text(weighted(NAMES), "\t"), {}),
    "ids": (text(IDS, " "), {}),
    "ids with weights": (text(weighted(IDS), " "), {}),
    "both directions with weights": (text(MIRRORED, " "), {}),
    "weights of one": (text([(*pair, 0.5) for pair in NAMES[:2] * 2], "\t"), {}),
    "ids and names": (text([(1, "a"), ("a", 2), (2, 1)], "\t"), {}),
    "list of names": (lambda _: NAMES, {}),
    "list of weights": (lambda _: weighted(NAMES), {}),
    "list of digits as texts": (lambda _: [("7", "5"), ("9", "7"), ("5", "10")], {}),
    "list of ids": (lambda _: IDS, {}),
    "dict": (lambda _: {"a": [src for src, _ in NAMES], "b": [dst for _, dst in NAMES]}, {}),
    "table with weights": (lambda _: table(weighted(NAMES)), {}),
    "parquet of names": (parquet(NAMES), {}),
    "parquet of weights": (parquet(weighted(IDS)), {}),
    "columns that are said": (parquet(NAMES), {"use_columns": "dst,src"}),
    "arrays": (lambda _: tuple(np.array(IDS).T), {}),
    "array with weights": (lambda _: np.array(MIRRORED), {}),
    "edge_index": (lambda _: np.array(IDS).T, {}),
    "SciPy": (lambda _: MATRIX, {}),
    "SciPy in rows": (lambda _: MATRIX.tocsr(), {}),
    "Matrix Market": (text([(2, 1), (4, 2), (2, 4)], " ", "m.mtx", MARKET.format("pattern general")), {}),
    "Matrix Market with weights": (text(MIRRORED[:3], " ", "m.mtx", MARKET.format("real general")), {}),
    "symmetric Matrix Market": (text([(2, 1), (4, 2), (3, 3)], " ", "m.mtx", MARKET.format("pattern symmetric")), {}),
    "NetworkX": (networkx(IDS), {}),
    "NetworkX of names": (networkx(NAMES, "DiGraph"), {}),
    "NetworkX of NumPy's integers": (networkx(list(np.array(IDS))), {}),
    "NetworkX with weights": (networkx(IDS, weight=True), {}),
    "NetworkX with weights that are left out": (networkx(NAMES, weight=True), {"weighted": False}),
    "NetworkX of several edges": (networkx(IDS, "MultiDiGraph", weight=True), {}),
    "NetworkX of negative ids": (networkx([(-3, 4), (4, 7)]), {}),
}


@pytest.mark.parametrize("is_directed", [True, False])
@pytest.mark.parametrize("kind", SOURCES)
def test_features_of_edges_change_nothing_else(tmp_path: Path, kind: str, is_directed: bool) -> None:
    make, more = SOURCES[kind]
    source, reading = make(tmp_path), GraphOptions(directed=is_directed, **more)
    given = read_edges(source, reading)
    ends = np.stack([given.src_M, given.dst_M], axis=1)
    rows = (ends if given.is_directed else np.sort(ends, axis=1)).astype(np.float32)
    without = write_graph(source, tmp_path / "without", graph=reading)
    graph = write_graph(source, tmp_path / "with", graph=reading, edge_features=rows)
    same(graph, without)
    read = read_graph(source, reading)
    assert list(graph.keys) == list(given.keys) == list(read.keys) and graph.num_edges == read.report.num_edges
    target_E = np.repeat(np.arange(len(graph)), np.diff(graph.csr.indptr))
    told = np.stack([graph.csr.indices, target_E], axis=1)
    assert graph.edge_features is not None
    np.testing.assert_array_equal(graph.edge_features.take(np.arange(len(told))), told if given.is_directed else
                                  np.sort(told, axis=1))  # fmt: skip


def same(graph: AttributedGraph, other: AttributedGraph) -> None:
    assert list(graph.keys) == list(other.keys) and graph.is_directed == other.is_directed
    assert graph.keys.are_integers == other.keys.are_integers and graph.num_edges == other.num_edges
    for part, right in zip(graph.csr, other.csr, strict=True):
        np.testing.assert_array_equal(part, right)


def test_edges_come_in_the_order_in_which_they_are_given(tmp_path: Path) -> None:
    for kind, pairs in {"names by spaces": NAMES, "dict": NAMES, "ids": IDS, "edge_index": IDS}.items():
        given = read_edges(SOURCES[kind][0](tmp_path))
        keys = list(given.keys)
        assert [(keys[src], keys[dst]) for src, dst in zip(given.src_M, given.dst_M, strict=True)] == [
            (str(src), str(dst)) for src, dst in pairs
        ]


def test_classes_go_to_the_same_nodes(tmp_path: Path) -> None:
    pairs = [("a", "b"), ("c", "d"), ("a", "c")]
    for rows in (None, np.ones((3, 1))):
        graph = write_graph(pairs, tmp_path / f"graph{rows is None}", labels=["A", "B", "C", "D"], edge_features=rows)
        assert graph.labels is not None
        named = {key: graph.classes[label] for key, label in zip(graph.keys, graph.labels, strict=True)}
        assert named == {"a": "A", "b": "B", "c": "C", "d": "D"}


def test_features_of_nodes_by_name_and_of_edges(tmp_path: Path) -> None:
    from any2vec import Embeddings

    vectors = Embeddings(["01", "a", "b", "c", "d", "e"], np.arange(12, dtype=np.float32).reshape(6, 2))
    rows = np.arange(7, dtype=np.float32)[:, None]
    found = [
        write_graph(NAMES, tmp_path / f"graph{of_edges is None}", features=vectors, edge_features=of_edges)
        for of_edges in (None, rows)
    ]
    same(*found)
    assert list(found[1].keys) == ["01", "a", "b", "c", "d", "e"]


def test_sources_without_an_order_of_edges_are_refused(tmp_path: Path) -> None:
    graph = read_graph(NAMES)
    graph.save(tmp_path / "saved")
    for source in (graph, tmp_path / "saved"):
        with pytest.raises(InputError, match="equal edges merged, and their order is lost; give the edges"):
            write_graph(source, tmp_path / "graph", edge_features=np.ones((7, 1)))


def test_nodes_of_networkx_with_the_same_name_are_refused(tmp_path: Path) -> None:
    made = pytest.importorskip("networkx").Graph()
    made.add_edge(1, "1", vector=1.0)
    made.add_edge("1", 2, vector=2.0)
    with pytest.raises(DataError, match="different nodes with the same name"):
        write_graph(made, tmp_path / "graph", edge_features="vector")


def test_nodes_of_typed_edges_stand_by_first_appearance(tmp_path: Path) -> None:
    triples = [("c", "r", "a"), ("b", "s", "a"), ("d", "r", "c"), ("e", "s", "b")]
    graph = write_graph(triples, tmp_path / "graph", edge_types="triples", labels=["C", "A", "B", "D", "E"])
    assert list(graph.keys) == ["c", "a", "b", "d", "e"] and graph.labels is not None
    assert [graph.classes[label].lower() for label in graph.labels] == list(graph.keys)
    keys, types = list(graph.keys), [graph.relations[kind] for kind in graph.edge_types]
    targets = np.repeat(np.arange(5), np.diff(graph.csr.indptr))
    found = {(keys[src], kind, keys[dst]) for src, kind, dst in zip(graph.csr.indices, types, targets, strict=True)}
    assert found == set(triples)


@pytest.mark.parametrize("missing", ["NaN", "NA", "NaT"])
def test_missing_nodes_are_refused(missing: str) -> None:
    """They became nodes called 'nan', '<NA>' and 'NaT'."""
    pandas, made = pytest.importorskip("pandas"), pytest.importorskip("networkx").Graph()
    gap = float("nan") if missing == "NaN" else getattr(pandas, missing)
    made.add_edges_from([("x", "y"), ("z", gap)])
    with pytest.raises(DataError, match="The NetworkX graph has 1 empty values among its nodes; fill or drop them"):
        read_graph(made)
    with pytest.raises(DataError, match="missing or a fraction"):
        read_graph([("x", "y"), ("z", gap)])
    made.remove_node(gap)
    made.add_edge("z", 1.5)
    assert list(read_graph(made).keys) == ["x", "y", "z", "1.5"]
