"""Hundreds of malformed graphs: each is read or refused in one sentence, and leaves nothing behind."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from any2vec.data.graph import edge_list
from any2vec.data.graph.reader import read_graph, read_matrix_market
from any2vec.data.options import GraphOptions
from any2vec.errors import Any2VecError, DataError


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "is empty"),
        (b"\n \n\t\n", "no edges"),
        (b"# only\n% comments\n", "no edges"),
        (b"src,dst\n", ""),
        (b"0 1\n2\n", "line 2: one column"),
        (b"5\n", "line 1: one column"),
        (b"0 1\n1 2 3\n", "line 2: 3 columns, but the first edge has 2"),
        (b"0 1 1\n# x\n1 2\n", "line 3: 2 columns, but the first edge has 3"),
        (b"0 1 2\n1 2 nan\n", "line 2: the weight 'nan' is not a finite number"),
        (b"0 1 2\n1 2 inf\n", "line 2: the weight 'inf'"),
        (b"0 1 2\n\n1 2 -3\n", "line 3: the weight '-3'"),
        (b"0 1 2\n1 2 0\n", "line 2: the weight '0'"),
        (b"0 1 2\n1 2 1e300\n", "line 2: the weight '1e300'"),
        (b"0 1 2\n1 2 1e-300\n", "line 2: the weight '1e-300'"),
        (b"0 1 2\n1 2 x\n", "line 2: the weight 'x' is not a number"),
        (b"0 1 {}\n1 2 {}\n", "line 1: the weight '{}' is not a number"),
        (b"0 1 1_0\n1 2 3\n", "line 1: the weight '1_0' is not a number"),
        (b"0,1,2\n1,2,\n", "line 2: the weight is empty"),
        (b"0\t1\t2\n1\t2\t\r\n", "line 2: the weight is empty"),
        (b"src,dst,w,x\n0,1,2,3\n1,2,3,\n", "line 3: the last column is empty"),
        (b"<?xml version='1.0'?>\n<graphml xmlns='x'>\n", "is GraphML and no list of edges; read it with NetworkX"),
        (b"<gexf>\n", "is GEXF and no list of edges; read it with NetworkX (networkx.read_gexf)"),
        (b'Creator "igraph"\nVersion 1\ngraph\n[\n  node\n  [\n', "is GML and no list of edges"),
        (b"graph [\n  directed 1\n", "networkx.read_gml), and give the graph."),
        (b"graph tree\nversion graph\n", ""),
        (b"a,b\n,c\n", "line 2"),
        (b"a\xff b\nc d\n", "line 1: the id"),
        (b"0 1\n\x00\x01\x02\n", "NUL byte"),
        ("0 1\n1 2\n".encode("utf-16"), "NUL byte"),
        (b"0 1 3e38\n0 1 3e38\n", "beyond float32"),
        (b"0 1\r2 3\r", "carriage returns within its lines"),
        (b"0 1\n" * 99 + b"7 8\r9\n", r"line 100: the id '8\r9' has a carriage return in it"),
    ],
)  # fmt: skip
def test_message(text: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_bytes(text)
    try:
        read_graph(path, cache_dir=tmp_path / "cache")
    except DataError as error:
        assert said in str(error)
        assert "edges.txt" in str(error)
        assert "\n" not in str(error)
    else:
        assert said == ""
    assert not list(tmp_path.glob("cache/graphs/*")) or said == ""


def test_missing_truncated_and_folders(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file"):
        read_graph(tmp_path / "nothing.txt")
    packed = gzip.compress(b"".join(b"%d %d\n" % (i, i + 1) for i in range(9999)))
    (tmp_path / "cut.gz").write_bytes(packed[:-30])
    with pytest.raises(DataError):
        read_graph(tmp_path / "cut.gz", cache_dir=tmp_path / "cache")
    with pytest.raises(Any2VecError):
        read_graph(tmp_path, cache_dir=tmp_path / "cache")


def attempt(text: bytes, options: GraphOptions) -> None:
    """A graph or an Any2VecError of one line."""
    if b"\0" in text:
        return
    try:
        if text.startswith(b"%%MatrixMarket"):
            given = read_matrix_market(np.frombuffer(text, np.uint8), "x", options)
        else:
            given = edge_list.read_edge_list(np.frombuffer(text, np.uint8), "x", options)
        graph = given.graph()
    except Any2VecError as error:
        assert str(error)
        return
    indptr, indices, weights = graph.csr
    assert indptr[0] == 0
    assert indptr[-1] == len(indices) > 0
    assert 0 <= indices.min() <= indices.max() < len(graph.keys)
    assert (weights > 0).all()
    assert np.isfinite(weights).all()
    assert "" not in list(graph.keys)


OPTIONS = st.builds(
    GraphOptions,
    directed=st.booleans(),
    weighted=st.sampled_from([None, True, False]),
    delimiter=st.sampled_from([None, "tab", "comma", "space", "|"]),
    header=st.sampled_from([None, True, False]),
    comment=st.sampled_from(["#%", "", "/"]),
)
PIECES = st.sampled_from(
    [b"0", b"1", b"22", b"-7", b"x", b"\xc3\xbc", b"\xff", b"1e5", b".5", b"-0", b"nan", b"1e999", b" ", b"  ", b"\t",
     b",", b";", b"|", b'"', b'""', b"#", b"%", b"\n", b"\n", b"\r\n", b"\r", b"9223372036854775808", b"\xef\xbb\xbf",
     b"+1", b"\x1a"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=40), OPTIONS)
@settings(max_examples=400, deadline=None)
def test_pieces(pieces: list[bytes], options: GraphOptions) -> None:
    attempt(b"".join(pieces), options)


@given(st.binary(max_size=200), OPTIONS)
@example(b'{"', GraphOptions())
@settings(max_examples=150, deadline=None)
def test_bytes(text: bytes, options: GraphOptions) -> None:
    attempt(text, options)


def damaged(content: bytes, rng: random.Random) -> bytes:
    out = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out))
        kind = rng.randrange(4)
        if kind == 0:
            out[at] = rng.randrange(1, 256)
        elif kind == 1:
            del out[at : at + rng.randint(1, 20)]
        elif kind == 2:
            out[at:at] = bytes(rng.choice(b"0123456789 -.,\n%e") for _ in range(rng.randint(1, 8)))
        else:
            del out[at:]
        if not out:
            return b"0"
    return bytes(out)


MARKETS = [
    b"%%MatrixMarket matrix coordinate real symmetric\n% c\n4 4 3\n2 1 2.5\n3 3 1\n4 1 7\n",
    b"%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n2 3\n",
    b"%%MatrixMarket matrix array integer general\n2 2\n1\n2\n3\n4\n",
]


@pytest.mark.parametrize("market", MARKETS)
def test_damaged_matrix_market(market: bytes) -> None:
    rng = random.Random(3)
    for _ in range(100):
        text = damaged(market, rng)
        attempt(b"%%MatrixMarket" + text[14:] if rng.random() < 0.8 else text, GraphOptions())


def test_damaged_tables_and_packed(tmp_path: Path) -> None:
    table = pa.table({"src": list(range(50)), "dst": [f"n{i}" for i in range(50)], "weight": [0.5] * 50})
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"".join(b"%d %d\n" % (i, i * i) for i in range(500))))
    rng = random.Random(5)
    counts = {"read": 0, "refused": 0}
    for suffix in ("parquet", "arrow", "gz"):
        content = (tmp_path / f"a.{suffix}").read_bytes()
        path = tmp_path / f"b.{suffix}"
        for _ in range(60):
            path.write_bytes(damaged(content, rng))
            counts[_outcome(path, tmp_path / "cache")] += 1
    assert counts["refused"] > 60


def _outcome(path: Path, cache: Path) -> Any:
    try:
        read_graph(path, cache_dir=cache)
    except Any2VecError:
        return "refused"
    return "read"
