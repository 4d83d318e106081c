"""Features of edges: rows in the order of the edges as given, which stand by each edge's place, from every source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from any2vec import AttributedGraph, GraphOptions, write_graph
from any2vec.data.attributed import entries
from any2vec.errors import DataError
from cli_runs import called, done

PAIRS = np.array([[7, 2], [2, 9], [9, 7], [7, 7], [2, 11], [7, 2]])
"""the first one and the last one are equal"""
ROWS = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)


def expected(pairs: Any, rows: np.ndarray, is_directed: bool) -> dict[tuple[str, str], np.ndarray]:
    """The mean of the rows of each (source, target)."""
    found: dict[tuple[str, str], list[np.ndarray]] = {}
    for (src, dst), row in zip(pairs, rows, strict=True):
        for pair in {(str(src), str(dst)), (str(src if is_directed else dst), str(dst if is_directed else src))}:
            found.setdefault(pair, []).append(row)
    return {pair: np.mean(given, axis=0) for pair, given in found.items()}


def kept(graph: AttributedGraph) -> dict[tuple[str, str], np.ndarray]:
    keys, csr = list(graph.keys), graph.csr
    targets = np.repeat(np.arange(len(graph)), np.diff(csr.indptr))
    assert graph.edge_features is not None
    rows = graph.edge_features.take(np.arange(len(csr.indices)))
    return {(keys[src], keys[dst]): row for src, dst, row in zip(csr.indices, targets, rows, strict=True)}


def check(graph: AttributedGraph, pairs: Any, rows: np.ndarray, is_directed: bool, near: float = 1e-6) -> None:
    found, right = kept(graph), expected(pairs, rows, is_directed)
    assert found.keys() == right.keys()
    for pair, row in right.items():
        np.testing.assert_allclose(found[pair], row, atol=near, err_msg=str(pair))


def source_of(kind: str, folder: Path, pairs: np.ndarray) -> Any:
    if kind == "parquet":
        pq.write_table(pa.table({"src": pairs[:, 0], "dst": pairs[:, 1]}), folder / "edges.parquet")
        return folder / "edges.parquet"
    if kind == "text":
        (folder / "edges.txt").write_text("# a comment\n" + "".join(f"{src} {dst}\n" for src, dst in pairs))
        return folder / "edges.txt"
    return (pairs[:, 0], pairs[:, 1]) if kind == "arrays" else {"src": pairs[:, 0], "dst": pairs[:, 1]}


@pytest.mark.parametrize("is_directed", [True, False])
@pytest.mark.parametrize("kind", ["text", "parquet", "arrays", "dict"])
def test_rows_go_with_their_edges(tmp_path: Path, kind: str, is_directed: bool) -> None:
    source = source_of(kind, tmp_path, PAIRS)
    graph = write_graph(
        source, tmp_path / "graph", edge_features=ROWS, graph=GraphOptions(directed=is_directed)
    )  # fmt: skip
    check(graph, PAIRS, ROWS, is_directed)
    assert graph.num_edge_features == 3 and graph.describe()["edge_features"] == 3
    assert json.loads((tmp_path / "graph" / "meta.json").read_text())["version"] == 2
    assert not [found for found in graph.check() if found.problem]


@pytest.mark.parametrize("is_directed", [True, False])
def test_names_of_nodes(tmp_path: Path, is_directed: bool) -> None:
    pairs = [("ann", "bob"), ("bob", "cid"), ("ann", "bob")]
    (tmp_path / "edges.txt").write_text("".join(f"{src}\t{dst}\n" for src, dst in pairs))
    for number, source in enumerate((tmp_path / "edges.txt", pairs)):
        reading = GraphOptions(directed=is_directed)
        graph = write_graph(source, tmp_path / f"graph{number}", edge_features=ROWS[:3], graph=reading)
        check(graph, pairs, ROWS[:3], is_directed)


def test_buckets_and_pieces_and_files_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    pairs, rows = rng.integers(0, 50, (900, 2)), rng.normal(size=(900, 2)).astype(np.float32)
    source = source_of("text", tmp_path, pairs)
    np.save(tmp_path / "rows.npy", rows)
    monkeypatch.setattr(entries.EntrySorter.__init__, "__defaults__", (40,))
    monkeypatch.setattr(entries, "_PIECE", 70)
    monkeypatch.setattr("any2vec.data.attributed.features._CHUNK_BYTES", 8 * 9)
    graph = write_graph(source, tmp_path / "graph", edge_features=tmp_path / "rows.npy", out_neighbors=True)
    check(graph, pairs, rows, is_directed=False)


def test_halves_and_sparse_rows_and_weights(tmp_path: Path) -> None:
    (tmp_path / "edges.txt").write_text("".join(f"{src} {dst} {src}.5\n" for src, dst in PAIRS))
    sparse.save_npz(tmp_path / "rows.npz", sparse.csr_array(ROWS))
    graph = write_graph(
        tmp_path / "edges.txt", tmp_path / "graph", edge_features=tmp_path / "rows.npz", edge_feature_type="float16",
        graph=GraphOptions(directed=True),
    )  # fmt: skip
    check(graph, PAIRS, ROWS, is_directed=True, near=2e-3)
    assert graph.edge_features is not None and graph.edge_features.row_ND.dtype == np.float16
    by_pair = dict(zip(kept(graph), graph.csr.weights.tolist(), strict=True))
    assert by_pair["7", "2"] == 15.0 and by_pair["2", "9"] == 2.5
    other = write_graph(tmp_path / "edges.txt", tmp_path / "other", edge_features=ROWS)
    check(other, PAIRS, ROWS, is_directed=False)
    by_pair = dict(zip(kept(other), other.csr.weights.tolist(), strict=True))
    assert by_pair["2", "7"] == by_pair["7", "2"] == 15.0 and by_pair["7", "7"] == 7.5


def test_objects_of_other_libraries(tmp_path: Path) -> None:
    torch, data = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
    pairs = PAIRS % 5
    given = data.Data(edge_index=torch.from_numpy(pairs.T), edge_attr=torch.from_numpy(ROWS), num_nodes=5)
    check(write_graph(given, tmp_path / "pyg"), pairs, ROWS, is_directed=True)
    assert write_graph(given, tmp_path / "without", edge_features=False).edge_features is None
    given.edge_attr = torch.ones(6)
    with pytest.warns(UserWarning, match="edge_attr of one dimension is left out"):
        assert write_graph(given, tmp_path / "weights").edge_features is None
    networkx = pytest.importorskip("networkx")
    for made, is_directed in ((networkx.Graph(), False), (networkx.DiGraph(), True)):
        for (src, dst), row in zip(PAIRS[:5].tolist(), ROWS, strict=False):
            made.add_edge(src, dst, vector=row)
        made.add_node(100)
        graph = write_graph(made, tmp_path / f"networkx{is_directed}", edge_features="vector")
        check(graph, PAIRS[:5], ROWS[:5], is_directed)
        assert list(graph.keys) == ["2", "7", "9", "11", "100"]
    made.add_edge(2, 100)
    with pytest.raises(DataError, match="edges without 'vector'"):
        write_graph(made, tmp_path / "lacks", edge_features="vector")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (ROWS[:5], "has 5 rows for 6 edges; give one an edge, in the order of the edges"),
        (np.where(ROWS[2, 1] == ROWS, np.nan, ROWS), "holds NaN or an infinite number"),
        (np.array([["a"] * 3] * 6, object), "Python objects in dtype"),
        (ROWS[:, 0], "must be a matrix of numbers"),
    ],
)
def test_rows_that_are_none_are_refused(
    tmp_path: Path, rows: np.ndarray, said: str, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    source = source_of("text", tmp_path, PAIRS)
    np.save(tmp_path / "rows.npy", rows, allow_pickle=True)
    flags = ["--edge-features", str(tmp_path / "rows.npy"), "--out", str(tmp_path / "g"), "--quiet"]
    assert called(["graph", "build", str(source), *flags]) == 2
    told = capsys.readouterr().err
    assert said in " ".join(told.split()) and "Traceback" not in told
    assert not (tmp_path / "g").exists()


def test_the_command_builds_and_shows_them(tmp_path: Path) -> None:
    source = source_of("text", tmp_path, PAIRS)
    np.save(tmp_path / "rows.npy", ROWS)
    flags = ["--edge-features", str(tmp_path / "rows.npy"), "--edge-feature-type", "float16", "--quiet"]
    done("graph", "build", str(source), "--out", str(tmp_path / "g"), *flags)
    assert json.loads(done("graph", "show", str(tmp_path / "g"), "--json"))["edge_features"] == 3
    assert "edge features" in done("graph", "show", str(tmp_path / "g"))
    check(AttributedGraph.open(tmp_path / "g"), PAIRS, ROWS, is_directed=False, near=2e-3)


def test_folders_without_them_are_of_the_version_before(tmp_path: Path) -> None:
    write_graph(source_of("text", tmp_path, PAIRS), tmp_path / "graph")
    assert json.loads((tmp_path / "graph" / "meta.json").read_text())["version"] == 1
    assert AttributedGraph.open(tmp_path / "graph").describe()["edge_features"] == 0


def test_batches_of_the_loader_have_the_rows_of_their_edges(tmp_path: Path) -> None:
    pytest.importorskip("torch_geometric")
    from any2vec import NeighborLoader

    graph = write_graph(source_of("text", tmp_path, PAIRS), tmp_path / "graph", edge_features=ROWS)
    known, keys = kept(graph), list(graph.keys)
    for batch in NeighborLoader(graph, [2, 2], batch_size=2):
        assert batch.edge_attr.shape == (batch.edge_index.shape[1], 3)
        for (src, dst), row in zip(batch.n_id[batch.edge_index].T.tolist(), batch.edge_attr, strict=True):
            np.testing.assert_allclose(row, known[keys[src], keys[dst]], atol=1e-6)
