"""Edges and triples as people have them: tables by their columns' names, dicts, tensors; and keys of their types."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import any2vec
from any2vec.data.graph.reader import read_graph
from any2vec.data.options import GraphOptions, TripleOptions
from any2vec.data.triples.triples import Triples, read_triples
from any2vec.errors import DataError, InputError

SRC, DST, WEIGHT = [5, 5, 7, 9], [7, 9, 9, 2], [1.0, 2.0, 0.5, 3.0]
HEAD, RELATION, TAIL = ["a", "b", "a"], ["r", "s", "s"], ["b", "c", "c"]


def edges(source: Any, **options: Any) -> list[tuple[str, str, float]]:
    graph = read_graph(source, GraphOptions(**options))
    weights = graph.csr.weights if len(graph.csr.weights) else np.ones(len(graph.csr.indices))
    rows = np.repeat(np.arange(len(graph)), np.diff(graph.csr.indptr))
    found = zip(rows.tolist(), graph.csr.indices.tolist(), weights.tolist(), strict=True)
    return sorted((graph.keys[a], graph.keys[b], w) for a, b, w in found if a <= b)


PLAIN = edges((np.array(SRC), np.array(DST)))
WEIGHTED = edges((np.array(SRC), np.array(DST), np.array(WEIGHT)))


def pairs() -> Iterator[tuple[int, int]]:
    yield from zip(SRC, DST, strict=True)


@pytest.mark.parametrize(
    "source",
    [
        {"src": SRC, "dst": DST}, {"note": WEIGHT, "source": SRC, "Target": np.array(DST)}, pairs(),
        [{"from": a, "to": b} for a, b in pairs()], np.array([SRC, DST]), np.array([SRC, DST]).T,
        pa.table({"first": SRC, "second": DST}),
    ],
    ids=["dict", "names", "iterator", "rows", "edge_index", "columns", "first two"],
)  # fmt: skip
def test_edges_of_tables_and_arrays(source: Any) -> None:
    assert edges(source) == PLAIN


def test_edges_of_tensors() -> None:
    torch = pytest.importorskip("torch")
    index = torch.tensor([SRC, DST])
    assert edges(index) == edges(index.T) == PLAIN
    assert edges(index[:, :2]) == edges((SRC[:2], DST[:2]))  # of a tensor (2, 2) a column is an edge, as in PyG
    assert edges({"src": index[0], "dst": index[1], "w": torch.tensor(WEIGHT)}) == WEIGHTED


@pytest.mark.parametrize("library", ["pandas", "polars", "datasets"])
def test_edges_and_triples_of_frames(library: str, tmp_path: Path) -> None:
    module = pytest.importorskip(library)
    make = module.Dataset.from_dict if library == "datasets" else module.DataFrame
    assert edges(make({"w": WEIGHT, "u": SRC, "v": DST}), use_columns=["u", "v", "w"]) == WEIGHTED
    found = read_triples(make({"tail": TAIL, "head": HEAD, "relation": RELATION}))
    assert triples(found) == list(zip(HEAD, RELATION, TAIL, strict=True))


def test_columns_are_named(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2, 3, 4], "u": SRC, "v": DST, "strength": WEIGHT})
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        assert (
            edges(source, use_columns="u,v") == PLAIN and edges(source, use_columns=("u", "v", "strength")) == WEIGHTED
        )
    with pytest.raises(DataError, match=r"The Table has no column 'stength'; did you mean 'strength'\?"):
        edges(table, use_columns="u,v,stength")
    with pytest.raises(InputError, match="use_columns must be src,dst or src,dst,weight, got 'u'"):
        GraphOptions(use_columns="u")
    (tmp_path / "t.txt").write_text("1 2\n3 4\n")
    with pytest.raises(DataError, match=r"t\.txt has no column 'u'; known are 1, 2"):
        edges(tmp_path / "t.txt", use_columns="u,v")
    with pytest.raises(InputError, match=r"use_columns names columns by the header, and .*t\.txt is read without"):
        edges(tmp_path / "t.txt", use_columns="u,v", header=False)


@pytest.mark.parametrize(
    ("header", "options"),
    [
        ("id,source,target", {}), ("source,weight,target", {}), (",source,target", {}), (";src;dst;Weight", {}),
        ("\tsource\ttarget\tw", {}), ('"","from","to"', {}), ("source,target,id,weight", {}),
        ("id Target x SOURCE", {}), ("from_id,to_id", {}), ("target_id,source_id,weight", {}),
        ("id\tsrc_id\tDST_ID", {}),
        ("a,b,c,d", {"use_columns": "b,d"}), ("a,b,c,d", {"use_columns": "d,a,c"}), ("a,b,W", {"use_columns": "b,a"}),
        ("source,target,weight,id", {"use_columns": "weight,id"}), ("id,src,dst,w", {"weighted": False}),
    ],
)  # fmt: skip
def test_text_with_names_is_read_as_a_table(header: str, options: dict[str, Any], tmp_path: Path) -> None:
    """The edges of `id,source,target` went from id to source, with the target as weight."""
    mark = next(mark for mark in ",;\t " if mark in header)
    names = [name.strip('"') for name in header.split(mark)]
    rows = np.random.default_rng(4).permutation(4 * len(names)).reshape(-1, len(names)) + 1
    (tmp_path / "t.txt").write_text("\n".join([header, *(mark.join(map(str, row)) for row in rows.tolist())]) + "\n")
    table = dict(zip(names, rows.T, strict=True))
    assert edges(tmp_path / "t.txt", **options) == edges(table, **options)
    read, given = (read_graph(source, GraphOptions(**options)).report for source in (tmp_path / "t.txt", table))
    assert (read.ignored_columns, read.header) == (given.ignored_columns, header.strip())


def test_what_a_header_does_not_say(tmp_path: Path) -> None:
    """Without a column of weights the third is one, behind two ends; a name that comes again is that of a node."""
    path = tmp_path / "t.txt"
    path.write_text("source target rating\na b 2\nb c 3\n")
    assert edges(path) == [("a", "b", 2.0), ("b", "c", 3.0)]
    path.write_text("x,source,target\ny,source,sink\n")
    assert len(edges(path, weighted=False)) == 2
    path.write_text("id,source,target\n1,2,3\n")
    with pytest.raises(DataError, match="line 2: no column named weight; add one or pass --no-weighted"):
        edges(path, weighted=True)
    path.write_text("id,source,target\n1,2\n")
    with pytest.raises(DataError, match="line 2: 2 columns, and the header names more"):
        edges(path)
    path.write_text("source,source,target\n1,2,3\n")
    with pytest.raises(DataError, match="two columns named 'source' in its header"):
        edges(path)


@pytest.mark.parametrize("name", ["Weight", "WEIGHTS", "W"])
def test_weights_are_found_in_any_case(name: str) -> None:
    assert edges({"note": SRC, "SRC": SRC, "dst": DST, name: WEIGHT}) == WEIGHTED


@pytest.mark.parametrize("make", ["dict", "records", "frame", "frame by name", "frame by rows"])
def test_only_columns_that_are_read_have_to_be_of_one_type(make: str) -> None:
    """A frame with a note of any kind could not be read, nor its `to_dict("records")`."""

    def made(columns: dict[str, list[Any]]) -> Any:
        if make == "dict":
            return columns
        if make == "records":
            return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        frame = pytest.importorskip("pandas").DataFrame(columns)
        if make == "frame by rows":
            return frame.set_index(np.array(["x", 1, 2, 3], object))
        return frame.set_index("src") if make == "frame by name" and "src" in columns else frame

    notes = [float("nan"), "x", 1, {2}]
    assert edges(made({"note": notes, "src": SRC, "dst": DST})) == PLAIN
    assert edges(made({"src": SRC, "dst": DST, "w": notes}), weighted=False) == PLAIN
    with pytest.raises(
        DataError, match=r"column dst of int and set and str, which cannot be read; make all .* strings"
    ):
        edges(made({"src": SRC, "dst": notes}))
    with pytest.raises(DataError, match="column w; weights are numbers"):
        edges(made({"src": SRC, "dst": DST, "w": notes}))


def test_columns_of_one_name_are_refused_where_they_are_read() -> None:
    """The advice was to give columns of one type each."""
    frame = pytest.importorskip("pandas").DataFrame([[*row, 1, 1] for row in pairs()], columns=["src", "dst", "x", "x"])
    assert edges(frame) == PLAIN == edges(pa.table([SRC, DST, SRC, SRC], ["src", "dst", "x", "x"]))
    for names in (["src", "dst", "dst", "x"], ["dst", "src", "x", "dst"]):
        with pytest.raises(DataError, match="has two columns named 'dst'; rename one"):
            edges(frame.set_axis(names, axis=1))


def test_a_matrix_is_no_table_of_edges(tmp_path: Path) -> None:
    """The numbers of an adjacency matrix were read as nodes."""
    four, five = ({str(node): SRC for node in range(count)} for count in (4, 5))
    assert read_graph(four).report.ignored_columns == 2  # src, dst, weight and time without names
    pq.write_table(pa.table(five), tmp_path / "t.parquet")
    for source in (five, tmp_path / "t.parquet", pa.table(five | {"w": WEIGHT}), five | {"source": SRC}):
        with pytest.raises(DataError, match=r"[56] columns, without the usual names of both ends; .*SciPy sparse adj"):
            edges(source)
    assert (
        edges(five | {"source": SRC, "target": DST}) == edges(five | {"a": SRC, "b": DST}, use_columns="a,b") == PLAIN
    )


def test_a_run_says_what_it_did_not_read() -> None:
    result = any2vec.fit("deepwalk", {"src": SRC, "dst": DST, "km": WEIGHT}, threads=1, epochs=1)
    (said,) = result.summary["warnings"]
    assert said == "columns that were not read (--use-columns SRC,DST,WEIGHT or use_columns= names others): km"


BY_PLACE = "columns taken by their place (--use-columns SRC,DST,WEIGHT or use_columns= names others): "


@pytest.mark.parametrize(
    ("names", "options", "said"),
    [
        ("at,one,other", {}, [BY_PLACE + "at as src, one as dst", "not read"]),
        ("at,one,w", {"weighted": False}, [BY_PLACE + "at as src, one as dst"]),
        ("one,other,Weight", {"directed": True}, [BY_PLACE + "one as src, other as dst, Weight as weight"]),
        ("one,other", {"directed": True}, [BY_PLACE + "one as src, other as dst"]),
        ("one,other", {}, []),  # either may be first
        ("SRC,dst,w", {}, []),
        ("one,other,x", {"use_columns": "one,other"}, ["not read"]),
    ],
)
def test_columns_that_are_taken_by_their_place_are_said(names: str, options: dict[str, Any], said: list[str]) -> None:
    found = notes_of({name: [1, 2, 3] for name in names.split(",")}, options)
    assert all(part in note for part, note in zip(said, found, strict=True))


def notes_of(source: Any, options: dict[str, Any]) -> list[str]:
    return read_graph(source, GraphOptions(**options)).report.notes


def test_columns_of_text_are_said_as_those_of_tables(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("at,one,other,w\n1,2,3,4\n")
    table = {"at": [1], "one": [2], "other": [3], "w": [4]}
    assert notes_of(tmp_path / "t.txt", {"use_columns": "one,other"}) == notes_of(table, {"use_columns": "one,other"})
    (tmp_path / "t.txt").write_text("source,target,time\n1,2,3\n")
    assert notes_of(tmp_path / "t.txt", {}) == [BY_PLACE + "source as src, target as dst, time as weight"]
    (tmp_path / "t.txt").write_text("1,2,3,4,5\n2,3,4,5,6\n")
    assert [note[-3:] for note in notes_of(tmp_path / "t.txt", {})] == [": 2"]
    (note,) = notes_of({"src": SRC, "dst": DST} | {f"c{at}": SRC for at in range(12)}, {})
    assert note.endswith("c6, c7 and 4 more")


@pytest.mark.parametrize("option", [{"delimiter": "comma"}, {"header": False}, {"comment": "x"}])
@pytest.mark.parametrize("kind", ["table", "parquet", "market", "pairs"])
def test_options_of_text_are_refused_elsewhere(kind: str, option: dict[str, Any], tmp_path: Path) -> None:
    source: Any = pa.table({"src": SRC, "dst": DST}) if kind != "pairs" else list(pairs())
    if kind == "parquet":
        pq.write_table(source, source := tmp_path / "t.parquet")
    elif kind == "market":
        source = tmp_path / "t.mtx"
        source.write_text("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n")
    with pytest.raises(InputError, match=f"{next(iter(option))} says how text is read, and .*; leave it out"):
        edges(source, **option)


def test_sparse_tensors_and_graphs_of_several_types_are_refused() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match="A sparse tensor is no list of edges; give"):
        read_graph(torch.eye(3).to_sparse())
    with pytest.raises(InputError, match=r"HeteroData has edges of several types.*to_homogeneous"):
        read_graph(pytest.importorskip("torch_geometric.data").HeteroData())


def test_what_is_no_graph(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"from one table, got a list of 2; join them \(pandas.concat"):
        read_graph([pa.table({"src": SRC, "dst": DST})] * 2)
    with pytest.raises(InputError, match="A graph cannot be made of dict"):
        read_graph({1: [2, 3]})
    with pytest.raises(DataError, match="columns of different lengths: src 4, dst 1"):
        read_graph({"src": SRC, "dst": [1]})


# ---- triples


def triples(found: Triples) -> list[tuple[Any, Any, Any]]:
    names, relations = found.entities, found.relations
    return [(names[head], relations[relation], names[tail]) for head, relation, tail in found.rows().tolist()]


@pytest.mark.parametrize(
    "source",
    [
        {"head": HEAD, "relation": RELATION, "tail": TAIL}, pa.table({"t": TAIL, "r": RELATION, "h": HEAD}),
        pa.table({"Object": TAIL, "Subject": HEAD, "Predicate": RELATION}), np.array([HEAD, RELATION, TAIL]).T,
        [dict(zip("abc", row, strict=True)) for row in zip(HEAD, RELATION, TAIL, strict=True)],
        tuple(map(np.array, (HEAD, RELATION, TAIL))), zip(HEAD, RELATION, TAIL, strict=True),
    ],
    ids=["dict", "letters", "words", "array", "rows", "columns", "iterator"],
)  # fmt: skip
def test_triples_of_tables_and_arrays(source: Any) -> None:
    assert triples(read_triples(source)) == list(zip(HEAD, RELATION, TAIL, strict=True))


def test_columns_of_triples_are_named() -> None:
    table = pa.table({"id": [1, 2, 3], "x": HEAD, "how": RELATION, "y": TAIL})
    found = read_triples(table, TripleOptions(use_columns=["x", "how", "y"]))  # type: ignore[arg-type]
    assert triples(found) == list(zip(HEAD, RELATION, TAIL, strict=True))
    assert read_triples(table, TripleOptions(use_columns="x,y")).report.num_relations == 1
    with pytest.raises(DataError, match="has no column 'z'"):
        read_triples(table, TripleOptions(use_columns="x,how,z"))
    with pytest.raises(DataError, match=r"as many names of each kind, got \[3, 1\]"):
        read_triples((np.array([1, 2, 3]), np.array([1])))


def test_integers_stay_integers(tmp_path: Path) -> None:
    rows = np.array([[4, 0, 7], [7, 1, 4], [9, 0, 4]])
    read_triples(rows).save(tmp_path / "stored")
    again = Triples.open(tmp_path / "stored")
    assert again.entities.are_integers and again.relations.are_integers
    result = any2vec.fit(any2vec.ComplEx(dim=4), tmp_path / "stored", threads=1, epochs=1, out=tmp_path / "run")
    assert sorted(result.embeddings) == [4, 7, 9]
    assert sorted(key for key, _ in result.scorer.tails(4, 0)) == [4, 7, 9]
    opened = any2vec.TripleScorer.load(tmp_path / "run")
    assert opened.tails("4", "0") == opened.tails(4, 0) and {type(key) for key, _ in opened.heads(1, 4)} == {int}
    mixed = read_triples({"head": [4, 7], "relation": ["r", "s"], "tail": [7, 4]})
    assert mixed.entities.are_integers and not mixed.relations.are_integers
    assert not read_triples([("4", "r", "7")]).entities.are_integers
