"""Reading graphs: what each source means, counted and checked; what is stored comes back."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse
import zstandard
from arrow_tables import ArrayTable, StreamTable
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.data.graph.graph import Graph, is_graph
from any2vec.data.graph.reader import read_graph
from any2vec.data.options import GraphOptions
from any2vec.errors import DataError, FormatError, InputError, StorageError

Cells = dict[tuple[str, str], float]


def cells(graph: Graph) -> Cells:
    """(src key, dst key) -> weight, of all entries."""
    src = np.repeat(np.arange(len(graph)), np.diff(graph.csr.indptr))
    weights = graph.csr.weights if len(graph.csr.weights) else np.ones(len(src), np.float32)
    keys = list(graph.keys)
    found = {}
    for a, b, weight in zip(src.tolist(), graph.csr.indices.tolist(), weights.tolist(), strict=True):
        assert (keys[a], keys[b]) not in found
        found[keys[a], keys[b]] = weight
    for start, stop in zip(graph.csr.indptr[:-1], graph.csr.indptr[1:], strict=True):
        assert (np.diff(graph.csr.indices[start:stop]) > 0).all()
    return found


def both(*edges: tuple[Any, ...]) -> Cells:
    out: Cells = {}
    for src, dst, *weight in edges:
        out[str(src), str(dst)] = out[str(dst), str(src)] = weight[0] if weight else 1.0
    return out


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read_content(content: str | bytes, name: str = "edges.txt", **options: Any) -> Graph:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_graph(path, GraphOptions(**options), cache_dir=tmp_path / "cache")

    return read_content


@pytest.mark.parametrize(
    "text",
    [
        "0 1\n1 2\n", "0\t1\n1\t2", "0,1\n1,2\n", "0;1\n1;2\n", "  0   1 \r\n\r\n1 \t 2\r\n",
        "# a b c\n0 1\n% x\n1 2\n",
        "src,dst\n0,1\n1,2\n", "id_1 id_2\n0 1\n1 2\n", '"0","1"\n"1", "2"\n', "\ufeff0 1\n1 2\n", "\n\n0 1\n1 2\n\n",
        "0 1\n1 0\n1 2\n0 1\n",
    ],
)  # fmt: skip
def test_forms_of_the_same_list(text: str, read: Any) -> None:
    graph = read(text)
    assert cells(graph) == both((0, 1), (1, 2))
    assert list(graph.keys) == ["0", "1", "2"]
    assert not graph.report.is_weighted


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".xz"])
def test_packed(suffix: str, read: Any) -> None:
    pack = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.ZstdCompressor().compress}[suffix]
    assert cells(read(pack(b"0 1\n1 2\n"), f"edges.txt{suffix}")) == both((0, 1), (1, 2))
    assert cells(read(pack(MTX), f"graph.mtx{suffix}")) == both((0, 1, 2.5), (2, 2, 1))


MTX = b"%%MatrixMarket matrix coordinate real symmetric\n% c\n4 4 2\n2 1 2.5\n3 3 1\n"


def test_ids(read: Any) -> None:
    assert list(read("10 9\n-3 2\n").keys) == ["-3", "2", "9", "10"]
    assert list(read("b a\nc b\n").keys) == ["b", "a", "c"]
    assert list(read("7 x\n3 7\n").keys) == ["7", "x", "3"]
    assert list(read("007 7\n").keys) == ["007", "7"]
    assert list(read("9223372036854775807 -9223372036854775807\n").keys) == [
        "-9223372036854775807", "9223372036854775807",
    ]  # fmt: skip
    assert list(read("9223372036854775808 1\n").keys) == ["9223372036854775808", "1"]
    assert list(read("New York\tParis\nParis\tRome\n").keys) == ["New York", "Paris", "Rome"]
    assert list(read("ü 漢\n").keys) == ["ü", "漢"]
    assert read("ü 漢\n").row("漢") == 1
    assert read("1 2\n").row(2) == 1
    assert read("1 2\n").row("3") is None
    assert list(read("#love #peace\n#peace #joy", comment="").keys) == ["#love", "#peace", "#joy"]
    far = read("0 1000000000000\n5 0\n")
    assert list(far.keys) == ["0", "5", "1000000000000"]


def test_weights(read: Any) -> None:
    text = "0 1 0.5\n1 2 3\n1 0 2\n2 2 1e-3\n"
    graph = read(text)
    assert cells(graph) == both((0, 1, 2.5), (1, 2, 3), (2, 2, np.float32(1e-3)))
    assert graph.report.as_dict() | {"ignored_columns": 0} == {
        "num_nodes": 3, "num_edges": 3, "duplicates": 1, "self_loops": 1, "isolated": 0, "is_weighted": True,
        "ignored_columns": 0, "header": "", "notes": [],
    }  # fmt: skip
    plain = read(text, weighted=False)
    assert cells(plain) == both((0, 1), (1, 2), (2, 2))
    assert plain.report.ignored_columns == 1
    assert not read("0 1 1\n1 2 1.0\n").report.is_weighted
    assert read("a,b,w\nx,y,2\ny,z,3\n").report.num_nodes == 3
    assert read("0 1 2 77\n1 2 3 78\n").report.ignored_columns == 1
    mirrored = read("0 1 2\n1 0 2\n1 2 3\n2 1 3\n2 2 4\n")
    assert cells(mirrored) == both((0, 1, 2), (1, 2, 3), (2, 2, 4))
    assert mirrored.report.duplicates == 2


@given(st.lists(st.floats(1e-30, 1e30), min_size=1, max_size=20), st.sampled_from(["r", ".3f", ".17g", ".25e", "+.5E"]))
@settings(max_examples=100, deadline=None)
def test_weights_are_the_nearest_floats(weights: list[float], form: str) -> None:
    from any2vec.data.graph import edge_list

    spelled = [repr(weight) if form == "r" else format(weight, form) for weight in weights]
    if any(np.float32(word) == 0 for word in spelled):
        return
    text = "".join(f"{i} {i + 1} {word}\n" for i, word in enumerate(spelled)).encode()
    graph = edge_list.read_edge_list(np.frombuffer(text, np.uint8), "x", GraphOptions(directed=True)).graph()
    found = graph.csr.weights if len(graph.csr.weights) else np.ones(len(weights), np.float32)
    assert found.tolist() == [np.float32(float(word)) for word in spelled]


def test_directed(read: Any) -> None:
    graph = read("0 1\n1 0\n1 2\n1 2\n3 3\n", directed=True)
    assert cells(graph) == {("0", "1"): 1, ("1", "0"): 1, ("1", "2"): 1, ("3", "3"): 1}
    assert (graph.report.num_edges, graph.report.duplicates, graph.report.isolated) == (4, 1, 0)
    assert graph.is_directed


EDGES = st.lists(st.tuples(st.integers(-5, 12), st.integers(-5, 12)), min_size=1, max_size=60)


@given(EDGES, st.booleans(), st.sampled_from([" ", "\t", ",", ";"]), st.booleans(), st.booleans(), st.data())
@settings(max_examples=150, deadline=None)
def test_against_a_plain_count(
    edges: list[tuple[int, int]], directed: bool, mark: str, named: bool, weighted: bool, data: Any
) -> None:
    from any2vec.data.graph import edge_list

    weights = [data.draw(st.integers(1, 9)) if weighted else 1 for _ in edges]
    name = (lambda node: f"n{node}") if named else str
    ends = data.draw(st.sampled_from(["\n", "\r\n", "\n\n"]))
    lines = [
        mark.join([name(a), name(b), *([str(w)] if weighted else [])]) for (a, b), w in zip(edges, weights, strict=True)
    ]
    text = np.frombuffer(ends.join(lines).encode(), np.uint8)
    graph = edge_list.read_edge_list(text, "x", GraphOptions(directed=directed, header=False)).graph()
    total: Counter[tuple[str, str]] = Counter()
    for (a, b), weight in zip(edges, weights, strict=True):
        total[name(a), name(b)] += weight
    is_mirrored = not directed and all(total.get((b, a)) == weight for (a, b), weight in total.items())
    if not directed and not is_mirrored:
        swapped = Counter({(b, a): weight for (a, b), weight in total.items() if a != b})
        total = Counter({pair: total[pair] + swapped[pair] for pair in set(total) | set(swapped)})
    expected = {pair: float(weight) if weighted else 1.0 for pair, weight in total.items()}
    assert cells(graph) == expected
    loops = sum(a == b for a, b in expected)
    num_edges = len(expected) if directed else (len(expected) - loops) // 2 + loops
    assert graph.report.num_edges == num_edges
    assert graph.report.self_loops == loops
    assert graph.report.duplicates == len(edges) - num_edges
    nodes = list(dict.fromkeys(node for pair in edges for node in pair))
    assert list(graph.keys) == [name(node) for node in (nodes if named else sorted(nodes))]


def test_arrays_and_lists() -> None:
    expected = both((0, 1), (1, 2))
    src, dst = np.array([0, 1]), np.array([1, 2])
    for source in [(src, dst), np.stack([src, dst], 1), [(0, 1), (1, 2)], (src.astype(np.uint8), dst.astype(np.int16))]:
        assert cells(read_graph(source)) == expected
    assert cells(read_graph((src, dst, [0.5, 2]))) == both((0, 1, 0.5), (1, 2, 2))
    assert cells(read_graph(np.array([[0, 1, 0.5], [1, 2, 2]]))) == both((0, 1, 0.5), (1, 2, 2))
    assert list(read_graph([("b", "a"), ("a", "c")]).keys) == ["b", "a", "c"]
    assert list(read_graph(([5, "x"], ["x", 7])).keys) == ["5", "x", "7"]
    assert list(read_graph((np.array([2**64 - 1], np.uint64), np.array([1]))).keys) == ["18446744073709551615", "1"]
    assert list(read_graph([(2**70, 1)]).keys) == [str(2**70), "1"]
    graph = read_graph([(0, 1)])
    assert read_graph(graph) is graph


@pytest.mark.parametrize(
    "source",
    [
        [], [(1, 2, 3), (1, 2)], ([1, 2], [1]), ([], []), [(0, 1, -1)], [(0, 1, float("nan"))], [(0, 1, "x")],
        [(None, 1)], ([0.5], [1]), np.array([[0.5, 1.0]]), np.array([[np.nan, 1.0]]), [(0, 1, None)], ([[1]], [[2]]),
        scipy.sparse.csr_matrix((3, 3)), scipy.sparse.csr_matrix(np.ones((2, 3))),
        scipy.sparse.csr_matrix([[0, -1], [1, 0]]),
        scipy.sparse.csr_matrix(np.eye(2) * 1j), scipy.sparse.csr_matrix([[0, np.nan], [1, 0]]), networkx.Graph(),
        networkx.Graph([(1, "1")]), networkx.Graph([(0, 1, {"weight": 0})]), networkx.Graph([(0, 1, {"weight": "x"})]),
        SimpleNamespace(edge_index=np.zeros((3, 2), int)), SimpleNamespace(edge_index=np.array([[0], [-1]])),
        SimpleNamespace(edge_index=np.array([[0], [5]]), num_nodes=3),
        SimpleNamespace(edge_index=np.zeros((2, 0), int)),
        SimpleNamespace(edge_index=np.array([[0], [1]]), edge_weight=np.array([np.inf])),
    ],
)  # fmt: skip
def test_illegal_objects(source: Any) -> None:
    with pytest.raises(DataError):
        read_graph(source)


@pytest.mark.parametrize("source", [3, None, {"a": 1}, [1, 2], np.zeros(3), ("a", "b"), np.zeros((2, 5)), object()])
def test_no_graph_at_all(source: Any) -> None:
    with pytest.raises(InputError, match="cannot be made of"):
        read_graph(source)


def test_an_array_that_reads_both_ways_is_refused() -> None:
    for index in (np.array([[0, 1, 2], [1, 2, 3]]), np.array([[0, 1], [2, 3]])):
        with pytest.raises(InputError, match="may be an edge_index or two edges"):
            read_graph(index)
        assert len(read_graph(tuple(index)).keys) == 4
    assert list(read_graph(np.array([[0, 1], [1, 2]])).keys) == ["0", "1", "2"]  # the same both ways


def test_missing_ids_of_a_frame_are_named() -> None:
    frame = pa.table({"src": [1.0, 2.0, float("nan")], "dst": [2, 3, 1]})
    with pytest.raises(DataError, match=r"double in column src.*ids are missing"):
        read_graph(frame)


def test_matrices() -> None:
    upper = scipy.sparse.coo_array(np.array([[0, 2, 0, 0], [0, 0, 3.5, 0], [0, 0, 1, 0], [0, 0, 0, 0]]))
    expected = both((0, 1, 2), (1, 2, 3.5), (2, 2, 1))
    full = upper + upper.T - scipy.sparse.diags_array(upper.diagonal())
    for matrix in (upper, full, full.tocsr(), scipy.sparse.csc_matrix(full)):
        graph = read_graph(matrix)
        assert cells(graph) == expected
        assert (graph.report.num_edges, graph.report.isolated) == (3, 1)
        assert list(graph.keys) == ["0", "1", "2", "3"]
    assert cells(read_graph(upper.tocsr(), GraphOptions(directed=True, weighted=False))) == {
        ("0", "1"): 1, ("1", "2"): 1, ("2", "2"): 1,
    }  # fmt: skip
    assert not read_graph(full.tocsr() != 0).report.is_weighted


def test_matrix_market(read: Any) -> None:
    assert cells(read(MTX, "a.mtx")) == both((0, 1, 2.5), (2, 2, 1))
    assert read(MTX, "a.txt").report.isolated == 1
    pattern = b"%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n2 3\n"
    assert cells(read(pattern, "b.mtx")) == both((0, 1), (1, 2))
    file = io.BytesIO()
    scipy.io.mmwrite(file, scipy.sparse.random_array((20, 20), density=0.2, rng=np.random.default_rng(1)))
    assert read(file.getvalue(), "c.mtx", directed=True).report.is_weighted


def test_networkx() -> None:
    graph = networkx.path_graph(4)
    graph.add_node(9)
    found = read_graph(graph)
    assert cells(found) == both((0, 1), (1, 2), (2, 3))
    assert found.report.isolated == 1
    named = networkx.DiGraph([("b", "a", {"weight": 2}), ("a", "c")])
    assert cells(read_graph(named)) == {("b", "a"): 2, ("a", "c"): 1}
    assert read_graph(named).is_directed
    assert cells(read_graph(networkx.MultiGraph([(0, 1), (0, 1), (1, 2)]))) == both((0, 1), (1, 2))


def test_pyg() -> None:
    data = SimpleNamespace(edge_index=np.array([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=4)
    assert cells(read_graph(data)) == both((0, 1), (1, 2))
    assert read_graph(data).report.isolated == 1
    data.edge_attr = np.array([[2.0], [2.0], [3.0], [3.0]])
    assert cells(read_graph(data)) == both((0, 1, 2), (1, 2, 3))
    data.edge_attr = np.ones((4, 7))
    assert not read_graph(data).report.is_weighted


@pytest.mark.parametrize("form", ["parquet", "arrow", "stream", "feather", "memory"])
def test_tables(form: str, tmp_path: Path) -> None:
    def written(table: pa.Table) -> Any:
        if form == "memory":
            return StreamTable(table)
        path = tmp_path / f"edges.{form if form != 'stream' else 'arrows'}"
        if form == "parquet":
            pq.write_table(table, path)
        else:
            new = pa.ipc.new_stream if form == "stream" else pa.ipc.new_file
            with new(str(path), table.schema) as writer:
                writer.write_table(table)
        return path

    def read(table: pa.Table, **options: Any) -> Graph:
        return read_graph(written(table), GraphOptions(**options), cache_dir=tmp_path / "cache")

    assert cells(read(pa.table({"x": [0, 1], "y": [1, 2], "z": [5, 5]}))) == both((0, 1), (1, 2))
    mixed = pa.table({"weight": [0.5, 2.0], "dst": ["a", "c"], "src": ["b", "a"]})
    graph = read(mixed)
    assert cells(graph) == both(("b", "a", 0.5), ("a", "c", 2))
    assert list(graph.keys) == ["b", "a", "c"]
    assert not read(mixed, weighted=False).report.is_weighted
    coded = pa.table({"src": pa.array(["b", "a"]).dictionary_encode(), "dst": [1, 2]})
    assert list(read(coded).keys) == ["b", "1", "a", "2"]
    for wrong in [
        {"src": [0]}, {"src": [0, None], "dst": [1, 2]}, {"src": [0.5], "dst": [1]},
        {"src": [0], "dst": [1], "weight": [-1]},
        {"src": [0], "dst": [1], "weight": ["x"]}, {"src": pa.array([], pa.int64()), "dst": pa.array([], pa.int64())},
    ]:  # fmt: skip
        with pytest.raises(DataError):
            read(pa.table(wrong))
    if form == "memory":
        assert cells(read_graph(ArrayTable(mixed))) == cells(graph)
        return
    path = written(mixed)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError):
        read_graph(path, cache_dir=tmp_path / "cache")


def test_saved_and_opened(tmp_path: Path) -> None:
    graph = read_graph([("b", "a", 2.5), ("a", "ü", 1)], GraphOptions(directed=True))
    graph.save(tmp_path / "graph")
    again = Graph.open(tmp_path / "graph")
    assert cells(again) == cells(graph)
    assert (list(again.keys), again.report, again.is_directed) == (["b", "a", "ü"], graph.report, True)
    assert is_graph(tmp_path / "graph")
    assert not is_graph(tmp_path)
    assert cells(read_graph(tmp_path / "graph")) == cells(graph)
    with pytest.raises(StorageError, match="exists"):
        graph.save(tmp_path / "graph")
    graph.save(tmp_path / "graph", overwrite=True)
    for name in sorted((tmp_path / "graph").iterdir()):
        content = name.read_bytes()
        for damaged in (b"", content[:-1], content[: len(content) // 2], b"[]", content + b"xxxxxxxx"):
            name.write_bytes(damaged)
            try:
                Graph.open(tmp_path / "graph")
            except FormatError:
                continue
        name.write_bytes(content)
    newer = (tmp_path / "graph" / "meta.json").read_text().replace('"version": 1', '"version": 9')
    (tmp_path / "graph" / "meta.json").write_text(newer)
    with pytest.raises(FormatError, match="version 9"):
        Graph.open(tmp_path / "graph")


def test_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("0 1\n1 2\n")
    first = read_graph(path, cache_dir=tmp_path / "cache")
    monkeypatch.setattr("any2vec.data.graph.reader._parse", lambda *_: pytest.fail("was not taken from the cache"))
    reported: list[Any] = []
    second = read_graph(path, cache_dir=tmp_path / "cache", progress=lambda *at: reported.append(at))
    assert cells(first) == cells(second)
    assert reported == [(8, 8)]
    monkeypatch.undo()
    assert read_graph(path, GraphOptions(directed=True), cache_dir=tmp_path / "cache").is_directed
    path.write_text("0 1\n1 3\n")
    assert list(read_graph(path, cache_dir=tmp_path / "cache").keys) == ["0", "1", "3"]
    (tmp_path / "file").write_text("")
    assert len(read_graph(path, cache_dir=tmp_path / "file")) == 3  # a cache that cannot be written costs nothing


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"0 1\n1 2\n")))
    assert cells(read_graph("-")) == both((0, 1), (1, 2))


@pytest.mark.parametrize(
    "wrong",
    [
        {"directed": "yes"},
        {"weighted": 2},
        {"delimiter": "ab"},
        {"delimiter": "1"},
        {"delimiter": ""},
        {"comment": " "},
    ],
)
def test_illegal_options(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        GraphOptions(**wrong)


COUNTS = {
    "graph-blogcatalog/blogcatalog.edges.txt.gz": (10_312, 333_983, 0),
    "graph-ppi/ppi.edges.txt.gz": (3_890, 38_739, 894),
    "graph-pos/pos.edges.txt.gz": (4_777, 92_517, 222),
    "graph-slashdot/soc-Slashdot0902.txt.gz": (82_168, 582_533, 78_303),
    "graph-musae-github/github.edges.csv.gz": (37_700, 289_003, 0),
    "graph-musae-facebook/facebook.edges.csv.gz": (22_470, 171_002, 179),
    "graph-ego-facebook/facebook_combined.txt.gz": (4_039, 88_234, 0),
    "graph-dblp/dblp.ungraph.gz": (51_264, 127_968, 0),
}


@pytest.mark.data
@pytest.mark.parametrize("name", COUNTS)
def test_published_counts(name: str, tmp_path: Path) -> None:
    path = Path(os.environ.get("ANY2VEC_DATA", "")) / name
    if not os.environ.get("ANY2VEC_DATA") or not path.is_file():
        pytest.skip(f"ANY2VEC_DATA names no folder with {name}: this check of real data was left out")
    report = read_graph(path, cache_dir=tmp_path).report
    assert (report.num_nodes, report.num_edges, report.self_loops) == COUNTS[name]
    assert report.is_weighted == ("pos" in name)
    if "Slashdot" in name:
        report = read_graph(path, GraphOptions(directed=True), cache_dir=tmp_path).report
        assert (report.num_nodes, report.num_edges, report.duplicates) == (82_168, 948_464, 0)


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("a b\nb c\nc a\n", 3), ("u v\nv w\n", 2), ("source target\na b\nb c\n", 2),
        ("source target\ntarget sink\n", 2), ("from,to\n1,2\n", 1), ("x y w\na b 2\nb c 3\n", 2),
        ("Source\tTarget\tWeight\n1\t2\t3\n", 1), ("x y\n1 2\n", 1), ("head_id,tail_id\na,b\n", 1),
    ],
)  # fmt: skip
def test_the_first_edge_is_a_header_only_when_it_must_be(text: str, edges: int, tmp_path: Path) -> None:
    """A name that comes again is a node, whatever word it is; a line that is taken as a header is named."""
    (tmp_path / "edges").write_text(text)
    report = read_graph(str(tmp_path / "edges"), cache_dir=tmp_path / "cache").report
    assert report.num_edges == edges
    first, lines = text.split("\n")[0], text.count("\n")
    assert report.header == (first if lines > edges else "")


@pytest.mark.parametrize(
    ("name", "text", "is_said"),
    [
        ("t.csv", "person,friend\nann,bob\ncid,dee\n", True), ("t.csv", "person1,friend\nann,bob\ncid,dee\n", True),
        ("T.CSV", "person;friend;since\nann;bob;x1\ncid;dee;y\n", True), ("t.csv", "ann,bob\nbob,dee\n", False),
        ("t.csv", "n1,n2\nn3,n4\n", False), ("t.csv", "1,ann\n2,bob\n", False), ("t.csv", "ann,bob\n", False),
        ("t.csv", "a,b\n1,2\n", False), ("t.txt", "person,friend\nann,bob\ncid,dee\n", False),
    ],
)  # fmt: skip
def test_a_first_line_of_csv_that_may_be_a_header_is_said(name: str, text: str, is_said: bool, tmp_path: Path) -> None:
    """Its names became two nodes without a word."""
    for other in ("other.csv", "other.txt"):  # what the cache has
        (tmp_path / other).write_text(text)
        read_graph(tmp_path / other, GraphOptions(weighted=False), cache_dir=tmp_path / "cache")
    (tmp_path / name).write_text(text)

    def notes(header: bool | None) -> list[str]:
        options = GraphOptions(weighted=False, header=header)
        found = read_graph(tmp_path / name, options, cache_dir=tmp_path / "cache").report.notes
        return [note for note in found if note.startswith("first line read as data")]

    assert len(found := notes(None)) == is_said and notes(False) == []
    assert not is_said or (found[0].endswith(("person,friend", "person1,friend")) and "--header" in found[0])


@pytest.mark.parametrize(
    "text",
    ["1;2;0,5\n2;3;1,25\n", "a;b c;-0,5\nb c;d;2,0\n", "1 2 0,5\n2 3 1,5\n", "a;b;0,5\nb;c;2\n"],
)
def test_a_decimal_comma_splits_no_columns(text: str, tmp_path: Path) -> None:
    """It made nodes `1;2;0` and `5`. Weights are written with a point, and the sentence shows the one that is not."""
    path = tmp_path / "edges"
    path.write_text(text)
    with pytest.raises(DataError, match=r"line 1: the weight '-?0,5' is not a number"):
        read_graph(str(path), cache_dir=tmp_path / "cache")
    plain = read_graph(str(path), GraphOptions(weighted=False), cache_dir=tmp_path / "cache")
    assert (len(plain), plain.report.num_edges) == (3, 2)


@pytest.mark.parametrize("text", ["user 1,2\nuser 2,3\n", "a;b,c\nd;e,f\n", "1,2,0.5\n2,3,1\n", "a;b;1,c2\nd;e;2,c3\n"])
def test_commas_between_ids_split_columns(text: str, tmp_path: Path) -> None:
    """Whatever else stands in the ids."""
    (tmp_path / "edges").write_text(text)
    assert read_graph(str(tmp_path / "edges"), cache_dir=tmp_path / "cache").row(text.split(",")[0]) is not None
