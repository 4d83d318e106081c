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
    (tmp_path / "t.txt").write_text("1 2\n")
    with pytest.raises(InputError, match=r"use_columns is for tables, and .*t\.txt is text"):
        edges(tmp_path / "t.txt", use_columns="u,v")


def test_what_is_no_graph(tmp_path: Path) -> None:
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
