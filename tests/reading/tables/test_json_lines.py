"""Files of JSON Lines as edges, triples, interactions and clicks: their columns, by the door of Parquet."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from any2vec.data.clicks.reader import read_rows
from any2vec.data.clicks.schema import ClickSchema
from any2vec.data.graph.reader import read_graph
from any2vec.data.interactions.interactions import read_interactions
from any2vec.data.interactions.options import InteractionOptions
from any2vec.data.io import json_lines
from any2vec.data.io.arrow import TableReader
from any2vec.data.options import GraphOptions, TripleOptions
from any2vec.data.triples.triples import read_triples
from any2vec.errors import DataError, InputError

CLICKS = ClickSchema(label="y", dense=("x",), categorical=("c",), multi_valued=("g",))
EDGES = [{"weight": 0.5, "src": 5, "dst": 7}, {"weight": 2, "src": 7, "dst": 9}]
READERS: dict[str, Callable[[str], Any]] = {
    "edges": read_graph, "triples": read_triples, "interactions": read_interactions,
    "clicks": lambda name: list(read_rows(name, CLICKS)),
}  # fmt: skip


def written(path: Path, rows: list[dict[str, Any]]) -> str:
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return str(path)


@pytest.mark.parametrize("name", ["e.jsonl", "e.ndjson", "e.json", "e.jsonl.gz"])
def test_edges_by_the_names_of_columns(tmp_path: Path, name: str) -> None:
    graph = read_graph(written(tmp_path / name, EDGES))
    assert list(graph.keys) == ["5", "7", "9"] and graph.keys.are_integers
    assert sorted({*graph.csr.weights.tolist()}) == [0.5, 2.0]
    back = read_graph(str(tmp_path / name), GraphOptions(use_columns="dst,src", directed=True, weighted=False))
    assert back.csr.indptr.tolist() == [0, 0, 1, 2] and not len(back.csr.weights)


def test_triples_and_interactions_and_clicks(tmp_path: Path) -> None:
    triples = read_triples(written(tmp_path / "k.jsonl", [{"tail": "b", "head": "a", "relation": "r"}]))
    assert list(triples.entities) == ["a", "b"] and list(triples.relations) == ["r"]
    asked = read_triples(str(tmp_path / "k.jsonl"), TripleOptions(use_columns="tail,relation,head"))
    assert list(asked.entities) == ["b", "a"]
    found = read_interactions(
        written(tmp_path / "i.jsonl", [{"when": "2020-01-01", "item_id": 3, "user_id": "u"}]),
        InteractionOptions(use_columns="when,item_id"),
    )
    assert list(found.users) == ["2020-01-01"] and list(found.items) == ["3"] and found.items.are_integers
    rows = [{"y": True, "x": 1, "c": "2020-01-01", "g": ["a", "b"], "no": {"a": 1}}, {"y": False, "x": 0.5, "g": []}]
    (block,) = read_rows(written(tmp_path / "c.jsonl", rows), CLICKS)
    assert block.columns["c"].to_pylist() == [b"2020-01-01", None]
    assert block.columns["g"].to_pylist() == [[b"a", b"b"], []] and block.columns["x"].to_pylist() == [1.0, 0.5]


def test_pieces_agree_on_the_types_of_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[dict[str, Any]] = [{"a": None, "b": 1}, {"a": "2020-01-01", "b": 2}, {"a": "x", "b": 0.5, "late": 1}]
    monkeypatch.setattr(json_lines, "_PIECE", 20)
    table = TableReader(written(tmp_path / "t.jsonl", rows), "jsonl")
    assert table.schema == pa.schema([("a", pa.string()), ("b", pa.float64()), ("late", pa.int64())])
    batches = list(table.batches(["late", "a"], 100))
    assert len(batches) > 1
    assert [value for batch in batches for value in batch["a"].to_pylist()] == [None, b"2020-01-01", b"x"]
    assert [value for batch in batches for value in batch["late"].to_pylist()] == [None, None, 1]


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("name", ["rows.txt", "rows.csv", "rows.gz"])
def test_objects_under_another_suffix_are_no_text(tmp_path: Path, kind: str, name: str) -> None:
    with pytest.raises(DataError, match=r"holds JSON objects, .* a file named \.jsonl"):
        READERS[kind](written(tmp_path / name, EDGES))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"a":1}\n[2]\n', "line 2 is no JSON object"), (b'[{"a":1},\n{"a":2}]', "line 1 is no JSON object"),
        (b'{"a":1}\n{"a":"x"}\n', "changed from number to string"), (b'{"a":1 2}\n', "from line 1 on"),
        (b'{"src":{"0":1},"dst":{"0":2}}', r"line 1 holds columns.*lines=True"), (b'{"a":"\xff"}\n', "no UTF-8"),
        (b'{"a":' + b"[" * 10**6 + b"]" * 10**6 + b"}", "more than 100"), (b"\n\n", "0 column|no column"),
    ],
    ids=["list", "array", "types", "damaged", "by column", "bytes", "deep", "blank"],
)  # fmt: skip
@pytest.mark.parametrize("kind", READERS)
def test_what_is_no_table(tmp_path: Path, kind: str, text: bytes, said: str) -> None:
    (tmp_path / "t.jsonl").write_bytes(text)
    with pytest.raises(DataError, match=said):
        READERS[kind](str(tmp_path / "t.jsonl"))


def test_options_of_lines_are_for_text(tmp_path: Path) -> None:
    name = written(tmp_path / "e.jsonl", EDGES)
    with pytest.raises(InputError, match="is a table"):
        read_graph(name, GraphOptions(delimiter="comma"))
    with pytest.raises(InputError, match="the column that holds relations"):
        read_triples(name, is_relation_last=True)
