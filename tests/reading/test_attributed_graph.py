"""Attributed graphs: what was given is in the folder, whatever it came from and however little memory there was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import any2vec
from any2vec import AttributedGraph, GraphOptions, write_graph
from any2vec.data.attributed import entries
from any2vec.errors import DataError, FormatError, InputError, StorageError
from any2vec.tasks.graphs.nodes import Nodes

Edge = tuple[int, int, float]
NUM = 60


def random_edges(seed: int = 0, num: int = 700) -> list[Edge]:
    """With equal ones, loops, and nodes without edges."""
    rng = np.random.default_rng(seed)
    ends = np.minimum(*rng.integers(0, NUM, (2, num, 2)))
    return [(int(u), int(v), float(np.float32(w))) for (u, v), w in zip(ends, rng.random(num) + 0.5, strict=True)]


def plain(edges: list[Edge], is_directed: bool, is_weighted: bool) -> list[dict[int, float]]:
    """In-neighbors of each node with their weights, one edge at a time."""
    rows: list[dict[int, float]] = [{} for _ in range(NUM)]
    for u, v, weight in edges:
        for source, target in [(u, v)] if is_directed or u == v else [(u, v), (v, u)]:
            rows[target][source] = rows[target].get(source, 0.0) + weight if is_weighted else 1.0
    return rows


def stored(graph: AttributedGraph) -> list[dict[int, float]]:
    indptr, indices, weights = graph.csr
    values = weights if len(weights) else np.ones(len(indices))
    rows = [slice(indptr[v], indptr[v + 1]) for v in range(len(graph))]
    assert all((np.diff(indices[row]) > 0).all() for row in rows)
    return [dict(zip(indices[row].tolist(), values[row].tolist(), strict=True)) for row in rows]


def text_of(folder: Path, edges: list[Edge], is_weighted: bool = False) -> Path:
    path = folder / "edges.tsv"
    path.write_text("".join(f"{u}\t{v}\t{w!r}\n" if is_weighted else f"{u}\t{v}\n" for u, v, w in edges))
    return path


def features(num: int = NUM, dim: int = 5) -> np.ndarray:
    return np.random.default_rng(3).standard_normal((num, dim)).astype(np.float32)


@pytest.mark.parametrize("bucket", [10_000, 50])
@pytest.mark.parametrize(("is_directed", "is_weighted"), [(True, False), (False, False), (True, True), (False, True)])
def test_edges_equal_plain_twin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_directed: bool, is_weighted: bool, bucket: int
) -> None:
    monkeypatch.setattr(entries, "_BUCKET", bucket)
    monkeypatch.setattr(entries, "_COLUMNS", bucket)
    monkeypatch.setattr(entries, "_PIECE", bucket - 13)
    edges = random_edges()
    graph = write_graph(
        text_of(tmp_path, edges, is_weighted), tmp_path / "g", features=features(), out_neighbors=True,
        graph=GraphOptions(directed=is_directed),
    )  # fmt: skip
    expected = plain(edges, is_directed, is_weighted)
    got = stored(graph)
    assert [set(row) for row in got] == [set(row) for row in expected]
    for mine, other in zip(got, expected, strict=True):
        assert all(mine[source] == pytest.approx(other[source], rel=1e-6) for source in mine)
    pairs = {(u, v) if is_directed else (min(u, v), max(u, v)) for u, v, _ in edges}
    assert graph.num_edges == len(pairs) and graph.is_directed == is_directed
    out = graph.out_csr
    backward = sparse.csr_array((np.arange(len(out.indices)) + 1, out.indices, out.indptr), (NUM, NUM)).T.tocsr()
    assert (backward.indices == graph.csr.indices).all() and (backward.indptr == graph.csr.indptr).all()
    if is_weighted:
        assert (graph.csr.weights == out.weights[backward.data - 1]).all()
    assert sorted(path.name for path in (tmp_path / "g").iterdir() if path.is_dir()) == []


def test_every_source_comes_to_the_same_folder(tmp_path: Path) -> None:
    networkx, torch = pytest.importorskip("networkx"), pytest.importorskip("torch")
    pyg = pytest.importorskip("torch_geometric.data")
    edges = [(u, v) for u, v, _ in random_edges()]
    src, dst = (np.array(column) for column in zip(*edges, strict=True))
    pq.write_table(pa.table({"src": src, "dst": dst}), tmp_path / "edges.parquet")
    drawn = networkx.DiGraph(edges)
    drawn.add_nodes_from(range(NUM))
    data = pyg.Data(edge_index=torch.tensor(np.stack([src, dst])), num_nodes=NUM)
    sources: dict[str, Any] = {
        "text": text_of(tmp_path, random_edges()), "parquet": tmp_path / "edges.parquet", "arrays": (src, dst),
        "networkx": drawn, "pyg": data, "matrix": sparse.coo_array((np.ones(len(src)), (src, dst)), (NUM, NUM)).tocsr(),
        "graph": any2vec.read_graph((src, dst), GraphOptions(directed=True)), "pairs": edges,
    }  # fmt: skip
    directed = GraphOptions(directed=True, weighted=False)
    sums = {}
    for name, source in sources.items():
        graph = write_graph(source, tmp_path / name, features=features(), graph=directed)
        assert graph.num_edges == len(set(edges)) and graph.is_directed, name
        sums[name] = {array: known["blake2b"] for array, known in graph.metadata["arrays"].items()}
    assert all(sums[name] == sums["text"] for name in sources)


def test_without_features_nodes_are_those_of_the_edges(tmp_path: Path) -> None:
    (tmp_path / "e").write_text("30 -7\n-7 4\n")
    (tmp_path / "words").write_text("b a\na c\n")
    (tmp_path / "labels").write_text("4 x\n30 y\n")
    graph = write_graph(tmp_path / "e", tmp_path / "g", labels=tmp_path / "labels", split={"train": [4], "test": [30]})
    assert list(graph.keys) == ["-7", "4", "30"] and stored(graph) == [{1: 1.0, 2: 1.0}, {0: 1.0}, {0: 1.0}]
    assert graph.labels is not None and graph.labels.tolist() == [-1, 0, 1] and graph.classes == ["x", "y"]
    assert graph.rows("train").tolist() == [1] and graph.rows("test").tolist() == [2] and not len(graph.rows("val"))
    (tmp_path / "split").write_text("30 val\n4 train\n")
    read = write_graph(tmp_path / "e", tmp_path / "file", split=tmp_path / "split")
    assert read.splits.tolist() == [[-1, 0, 1]]
    words = write_graph(tmp_path / "words", tmp_path / "h", split={"val": np.array([False, True, False])})
    assert list(words.keys) == ["b", "a", "c"] and words.rows("val").tolist() == [1]


def test_integers_in_memory_are_known_by_their_ids_as_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "e").write_text("1 2\n2 3\n")
    split = {"train": [1, 3], "test": [2]}
    for name, source in (("file", tmp_path / "e"), ("pairs", [(1, 2), (2, 3)])):
        graph = write_graph(source, tmp_path / name, split=split)
        assert list(graph.keys) == ["1", "2", "3"] and graph.splits.tolist() == [[0, 2, 0]], name
    with pytest.raises(DataError, match="node '0' is not there"):
        write_graph([(1, 2), (2, 3)], tmp_path / "none", split={"train": [0]})


@pytest.mark.parametrize("several", [False, True])
def test_labels_in_memory_may_be_names_and_dicts(tmp_path: Path, several: bool) -> None:
    (tmp_path / "labels").write_text("a 10\nc 9\n" + "c 10\n" * several)
    of_node: dict[str, Any] = {"a": 10, "c": [9, "10"] if several else [9], "b": None}
    edges = [("b", "a"), ("a", "c")]
    given = {"file": tmp_path / "labels", "dict": of_node}
    if not several:
        given |= {"names": [None, 10, "9"], "array": np.array(["", "10", "9"])}
    for name, labels in given.items():
        graph = write_graph(edges, tmp_path / name, labels=labels)
        assert graph.classes == ["9", "10"] and graph.labels is not None, name
        assert graph.labels.tolist() == ([[0, 0], [0, 1], [1, 1]] if several else [-1, 1, 0]), name
    for labels, said in (
        ({"z": "x"}, "node 'z' is not there"), ({"a": None}, "name no class of any node"), ({}, "name no class"),
        ([["x"], ["x", "y"], []], "give a dict of node -> classes"), (["x", "y"], "one for each of 3 nodes"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=said):
            write_graph(edges, tmp_path / "bad", labels=labels)


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\3\4" + b"x" * 40, b"\x93NUMPY"])
def test_splits_in_a_damaged_zip_are_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "split.npz"
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"split.npz cannot be read as splits"):
        write_graph([(0, 1), (1, 2)], tmp_path / "bad", split=path)
    assert not (tmp_path / "bad").exists()


def test_missing_names_of_pandas_are_no_classes(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    for kind in ("string", object):
        labels = pandas.Series(["x", None, "y"], dtype=kind)
        graph = write_graph([(0, 1), (1, 2)], tmp_path / str(kind), labels=labels)
        assert graph.labels is not None and graph.labels.tolist() == [0, -1, 1] and graph.classes == ["x", "y"]


def test_text_of_several_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some megabytes: ids are found, and wrong lines named, as in one piece."""
    monkeypatch.setattr("any2vec.tasks.graphs.pieces._FEW", 1000)
    rng = np.random.default_rng(5)
    src, dst = 3 * rng.integers(10**7, 10**7 + 40_000, (2, 200_000))
    lines = [f"{u} {v}\n" for u, v in zip(src.tolist(), dst.tolist(), strict=True)]
    (tmp_path / "e").write_text("# comment\n" + "".join(lines))
    graph = write_graph(tmp_path / "e", tmp_path / "g", graph=GraphOptions(directed=True))
    ids = np.unique([src, dst])
    assert list(graph.keys) == list(map(str, ids)) and graph.num_edges == len(set(lines))
    indptr, indices, _ = graph.csr
    found = ids[indices].tolist(), ids[np.repeat(np.arange(len(ids)), np.diff(indptr))].tolist()
    assert set(zip(*found, strict=True)) == set(zip(src.tolist(), dst.tolist(), strict=True))
    (tmp_path / "e").write_text("# comment\n" + "".join(lines) + "7\n")
    with pytest.raises(DataError, match=r"line 200002: one column"):
        write_graph(tmp_path / "e", tmp_path / "h")


@pytest.mark.parametrize(
    "ids",
    [
        [0, 1, 2, 3], [5, 7, 1_000_000, 4], [-3, 2, 0, -70], [1 << 40, 3, (1 << 28) - 1, 1 << 28],
        [-(1 << 62), (1 << 63) - 1, 0, 5],
    ],
)  # fmt: skip
def test_ids_dense_and_sparse_become_rows(ids: list[int], tmp_path: Path) -> None:
    """By a table or by search: in-neighbors by id are those of the lines."""
    src, dst = np.random.default_rng(0).integers(0, 4, (2, 40))
    src[:4], dst[:4] = np.arange(4), 0
    pairs = {(ids[one], ids[other]) for one, other in zip(src, dst, strict=True)}
    (tmp_path / "e.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in sorted(pairs)))
    graph = write_graph(str(tmp_path / "e.tsv"), tmp_path / "graph", graph=GraphOptions(directed=True))
    keys = [int(key) for key in graph.keys]
    assert keys == sorted(ids)
    neighbors = zip(keys, np.split(graph.csr.indices, graph.csr.indptr[1:-1]), strict=True)
    assert {(keys[row], key) for key, rows in neighbors for row in rows} == pairs
    nodes = Nodes.of_ids(np.array(sorted(ids)))
    if nodes.ids is not None:
        with pytest.raises(DataError, match="node '6' is not there"):
            nodes.rows_of_ids(np.array([ids[0], 6]), "here")


def test_text_that_begins_with_many_comments(tmp_path: Path) -> None:
    """More than a block of them, and a byte-order mark."""
    (tmp_path / "e").write_bytes(b"\xef\xbb\xbf" + b"# comment\n" * 300_000 + b"0 1 2.5\n1 2 3.5\n")
    graph = write_graph(tmp_path / "e", tmp_path / "g", graph=GraphOptions(directed=True))
    assert stored(graph) == [{}, {0: 2.5}, {1: 3.5}]
    (tmp_path / "e").write_bytes(b"\xef\xbb\xbf0 1\n1 2\n")
    assert write_graph(tmp_path / "e", tmp_path / "h").num_edges == 2
    (tmp_path / "e").write_bytes(b"# comment\n" * 300_000 + b"0 1\n1\n")
    with pytest.raises(DataError, match=r"line 300002: one column"):
        write_graph(tmp_path / "e", tmp_path / "i")
    (tmp_path / "e").write_bytes(b"# comment\n" * 300_000)
    with pytest.raises(DataError, match=r"holds no edges; give at least one"):
        write_graph(tmp_path / "e", tmp_path / "i")


def test_names_of_nodes_that_look_like_numbers(tmp_path: Path) -> None:
    (tmp_path / "e").write_text("10 20\n")
    for name in ("--10", "\u00b2", "9" * 19):
        (tmp_path / "split").write_text(f"10 val\n{name} train\n")
        with pytest.raises(DataError, match=f"node '{name}' is not there"):
            write_graph(tmp_path / "e", tmp_path / "g", split=tmp_path / "split")


def test_features_by_key(tmp_path: Path) -> None:
    vectors = any2vec.Embeddings(["c", "a", "b", "alone"], features(4))
    vectors.save(tmp_path / "vectors")
    (tmp_path / "e").write_text("b a\na c\n")
    graph = write_graph(tmp_path / "e", tmp_path / "g", features=tmp_path / "vectors")
    assert list(graph.keys) == ["c", "a", "b", "alone"] and [sorted(row) for row in stored(graph)] == [
        [1],
        [0, 2],
        [1],
        [],
    ]
    assert graph.features is not None and (graph.features.take(np.arange(4)) == vectors.vectors).all()


@pytest.mark.parametrize("kind", ["float32", "float16", "int8"])
@pytest.mark.parametrize("form", ["npy", "npz", "sparse"])
def test_features_are_kept_in_their_kind(tmp_path: Path, kind: str, form: str) -> None:
    x = features(dim=37) * np.logspace(-7, 3, 37, dtype=np.float32)
    x[3], x[np.abs(x) < 0.01 * (form == "sparse")] = 0, 0
    path = tmp_path / ("x.npy" if form == "npy" else "x.npz")
    if form == "npy":
        np.save(path, x)
    elif form == "npz":
        np.savez(path, x)
    else:
        sparse.save_npz(path, sparse.csr_array(x))
    graph = write_graph([(0, 1)], tmp_path / "g", features=path, feature_type=kind)
    ids = np.random.default_rng(1).integers(0, NUM, 90)
    assert graph.features is not None
    got = graph.features.take(ids)
    if kind == "int8":
        assert (np.abs(got - x[ids]) <= 0.5001 * np.abs(x[ids]).max(axis=1, keepdims=True) / 127).all()
        assert (got[ids == 3] == 0).all() and graph.features.row_ND.nbytes == x.size
    else:
        assert (got == x[ids].astype(kind).astype(np.float32)).all()
    assert graph.num_features == 37 and graph.describe()["feature_type"] == kind


def test_several_labels_and_splits(tmp_path: Path) -> None:
    (tmp_path / "labels").write_text("0 a b\n2 b\n")
    splits = np.array([[0, 1, 2], [2, 0, -1]], np.int8)
    np.savez(tmp_path / "s.npz", split=splits)
    given: dict[str, Any] = {"features": features(3), "labels": tmp_path / "labels", "split": tmp_path / "s.npz"}
    graph = write_graph([(0, 1)], tmp_path / "g", **given)
    assert graph.labels is not None and graph.labels.tolist() == [[1, 1], [0, 0], [0, 1]]
    assert graph.describe()["is_multi_label"] and graph.describe()["labeled"] == 2
    assert (graph.splits == splits).all() and graph.rows("test", 1).tolist() == [0]
    one = write_graph([(0, 1)], tmp_path / "one", **given, split_index=1)
    assert (one.splits == splits[1:]).all()


def test_pyg_data_brings_all_it_has(tmp_path: Path) -> None:
    torch, pyg = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
    data = pyg.Data(
        x=torch.arange(6.0).reshape(3, 2), y=torch.tensor([1, 0, 1]), edge_index=torch.tensor([[0, 1, 1], [2, 2, 0]]),
        edge_weight=torch.tensor([0.5, 2.0, 3.0]), edge_type=torch.tensor([1, 0, 1]),
        train_mask=torch.tensor([True, False, False]), test_mask=torch.tensor([False, True, True]),
    )  # fmt: skip
    graph = write_graph(data, tmp_path / "g")
    assert stored(graph) == [{1: 3.0}, {}, {0: 0.5, 1: 2.0}] and graph.edge_types.tolist() == [1, 1, 0]
    assert graph.features is not None and (graph.features.take(np.array([2, 0])) == [[4, 5], [0, 1]]).all()
    assert graph.labels is not None and graph.labels.tolist() == [1, 0, 1] and graph.rows("test").tolist() == [1, 2]
    assert graph.describe()["edge_types"] == 2


def bad(folder: Path, edges: str = "0 1\n1 2\n", **options: Any) -> Any:
    (folder / "edges").write_text(edges)
    return lambda: write_graph(folder / "edges", folder / "out", **({"features": features(3)} | options))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"edges": "0 1\n1 3\n"}, "edges: node '3' is not there; nodes are 0 to 2, the rows of features;"),
        ({"edges": "0 1\na 2\n"}, "node 'a' is not there"), ({"edges": "0 1\n-1 2\n"}, "'-1' is not there"),
        ({"edges": "0 1\n1\n"}, "line 2: one column"), ({"edges": "0 1 2\n1 2 x\n"}, "line 2: the weight 'x'"),
        ({"edges": "# none\n"}, "holds no edges"), ({"edges": "0 1 1\n1 2 nan\n"}, "line 2: the weight 'nan'"),
        ({"features": np.array([["a", "b"]])}, "features must be a matrix of numbers"),
        ({"features": np.array([[0.0], [np.nan], [1.0]])}, "features holds NaN"),
        ({"features": np.array([[0.0], [1e5], [1.0]]), "feature_type": "float16"}, "beyond what float16"),
        ({"feature_type": "int4"}, "feature_type must be one of float32, float16, int8, got 'int4'"),
        ({"labels": [0, 1]}, "one for each of 3 nodes"), ({"labels": [0, 1, -2]}, "labels must be"),
        ({"labels": np.array([0j, 1, 2])}, "labels must be"), ({"split": {"train": [0], "val": [0]}}, "a node twice"),
        ({"labels": [0, 1, 1 << 40]}, "whole numbers below 65,536"), ({"split": np.ones(3, bool)}, "must hold 0"),
        ({"split": {"val": np.ones(2, bool)}}, "a mask of (2,), not one of 3 nodes"),
        ({"split": {"train": [9]}}, "node '9' is not there"), ({"split": {"trian": [1]}}, "a part 'trian'"),
        ({"split": np.array([[0, 1]])}, "for each of 3 nodes"), ({"split": np.array([0, 1, 5])}, "must hold 0"),
        ({"split": np.zeros((2, 3), int), "split_index": 2}, "2 splits, 0 to 1; there is no 2"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_and_leaves_nothing(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises((DataError, InputError)) as found:
        bad(tmp_path, **options)()
    assert said in str(found.value) and "\n" not in str(found.value)
    assert [path.name for path in tmp_path.iterdir()] == ["edges"]


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("any2vec.data.io.array_file.ArrayFile.append", full)
    with pytest.raises(StorageError, match="disk is full"):
        bad(tmp_path)()
    assert [path.name for path in tmp_path.iterdir()] == ["edges"]


def test_masks_with_a_column_a_split_are_splits(tmp_path: Path) -> None:
    """As PyG has them of WebKB; of WikiCS those of test have one for all."""
    torch, pyg = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
    train = torch.tensor([[True, False], [False, True], [False, False]])
    data = pyg.Data(edge_index=torch.tensor([[0, 1], [2, 2]]), num_nodes=3, train_mask=train, val_mask=train.flip(1))
    data.test_mask = torch.tensor([False, False, True])
    graph = write_graph(data, tmp_path / "graph")
    assert graph.splits.tolist() == [[0, 1, 2], [1, 0, 2]]
    assert write_graph(data, tmp_path / "one", split_index=1).splits.tolist() == [[1, 0, 2]]
    data.test_mask = train
    with pytest.raises(DataError, match="a node twice in a split: in test_mask"):
        write_graph(data, tmp_path / "bad")
    for mask in (torch.zeros(3, 3, dtype=torch.bool), torch.zeros(2, 2, dtype=torch.bool), torch.zeros(3, 2)):
        data.test_mask = mask
        with pytest.raises(DataError, match=r"masks are of bool and \(3,\), or \(3, splits\)"):
            write_graph(data, tmp_path / "bad")


def test_numbers_of_edges_in_one_dimension_are_named(tmp_path: Path) -> None:
    torch, pyg = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
    data = pyg.Data(edge_index=torch.tensor([[0, 1], [2, 2]]), num_nodes=3, edge_attr=torch.ones(2))
    with pytest.warns(UserWarning, match="edge_attr of one dimension is left out") as caught:
        graph = write_graph(data, tmp_path / "graph")
    assert graph.edge_features is None and caught[0].filename == __file__


def test_damage_is_found(tmp_path: Path) -> None:
    graph = bad(tmp_path)()
    folder = tmp_path / "out"
    assert not any(found.problem for found in graph.check())
    path = folder / "features.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert [found.file for found in AttributedGraph.open(folder).check() if found.problem] == ["features.npy"]
    path.write_bytes(content[:-4])
    with pytest.raises(FormatError, match=r"is damaged \(features.npy has"):
        AttributedGraph.open(folder)
    path.unlink()
    with pytest.raises(FormatError, match=r"is damaged \(features.npy is missing\)"):
        AttributedGraph.open(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 3}, "version 3; this any2vec reads up to 2"), ({"format": "other"}, "is not an attributed graph"),
        ({"arrays": {}}, "indptr is missing"), ({"arrays": {"indptr": {"dtype": "object", "shape": [4]}}}, "cannot be"),
        ({"arrays": {"../up": {"dtype": "int8", "shape": [4]}}}, "missing"), ({"classes": None}, "is damaged"),
        ({"num_edges": [1]}, "of another type"), ({"is_directed": 1}, "of another type"),
        ({"classes": ["a", 7, "c", "d"]}, "no names"), ({"classes": ["a", "\ud800"]}, "meta.json cannot be read"),
        ({"arrays": {"indptr": {"dtype": "int64", "shape": [4], "blake2b": True}}}, "checksum of indptr that is none"),
    ],
)  # fmt: skip
def test_metadata_that_is_no_ours_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    bad(tmp_path)()
    path = tmp_path / "out" / "meta.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FormatError, match=said):
        AttributedGraph.open(tmp_path / "out")


def test_labels_of_classes_that_are_not_there_are_refused(tmp_path: Path) -> None:
    bad(tmp_path, labels=[0, 1, 1])()
    path = tmp_path / "out" / "meta.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"classes": ["0"]}))
    with pytest.raises(FormatError, match="labels are of classes that it has not"):
        AttributedGraph.open(tmp_path / "out").check_labels()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"classes": ["0", "1"]}))
    AttributedGraph.open(tmp_path / "out").check_labels()
    bad(tmp_path, labels=np.eye(3, 2, dtype=int), overwrite=True)()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"classes": ["0"]}))
    with pytest.raises(FormatError, match="do not fit together"):
        AttributedGraph.open(tmp_path / "out")


def test_a_graph_is_not_written_over_unasked(tmp_path: Path) -> None:
    build = bad(tmp_path)
    build()
    with pytest.raises(StorageError, match="exists; choose another folder"):
        build()
    bad(tmp_path, edges="0 2\n", overwrite=True)()
    assert AttributedGraph.open(tmp_path / "out").num_edges == 1


def test_out_neighbors_are_kept_when_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--out-neighbors"):
        _ = bad(tmp_path)().out_csr
