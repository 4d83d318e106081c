"""Edges whose ids are whole numbers, on their short way into a graph folder, equal those of the long one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from any2vec import DataError, GraphOptions
from any2vec.data.attributed import edges as reading
from any2vec.data.attributed import entries
from any2vec.data.attributed.graph import AttributedGraph
from any2vec.data.io.ahead import made_ahead
from any2vec.kernels.edge_files.id_pairs import parse_pairs
from any2vec.kernels.edge_files.radix import sort_keys
from any2vec.tasks.graphs.build import write_graph

LINES = [
    ("1\t2\n3\t44\n", 2), ("1 2\r\n3\t44\n", 2), ("0\t0\n", 1), ("123456789012345678 7\n", 1), ("1 2\n3 4", 1),
    ("1 2\n\n3 4\n", 1), ("1 2\n# 3 4\n", 1), ("1 2\n3  4\n", 1), ("1 2\n-3 4\n", 1), ("1 2\n03 4\n", 1),
    ("1 2\n1234567890123456789 4\n", 1), ("1 2\n3 4 \n", 1), ("1 2\n3 4 5\n", 1), ("1 2\n3\n", 1), ("1 2\n3 a\n", 1),
    ("1 2\n 3 4\n", 1), ("1 2\n3 4\r", 1), ("1 2\n3,4\n", 1), ("1 2\n3 4\r5 6\n", 1), ("1 2\n3", 1), ("1 2\n3 ", 1),
]  # fmt: skip
"""text, and how many lines of it are simple from its beginning"""


@pytest.mark.parametrize(("text", "num"), LINES)
def test_simple_lines_end_where_one_is_otherwise(text: str, num: int) -> None:
    id_2L = np.full((2, 9), -1)
    found, stop = parse_pairs(np.frombuffer(text.encode(), np.uint8), 0, 0, id_2L)
    lines = text.splitlines(keepends=True)[:num]
    assert found == num and stop == len("".join(lines))
    assert id_2L[:, :num].T.tolist() == [list(map(int, line.split())) for line in lines]


@pytest.mark.parametrize(("text", "delimiter", "num"), [("1\t2\n", 9, 1), ("1,2\n", 44, 1), ("1 2\n", 9, 0)])
def test_delimiters(text: str, delimiter: int, num: int) -> None:
    assert parse_pairs(np.frombuffer(text.encode(), np.uint8), 0, delimiter, np.zeros((2, 3), np.int64))[0] == num


def test_the_room_for_lines_may_end() -> None:
    text = np.frombuffer(b"1 2\n3 4\n5 6\n", np.uint8)
    assert parse_pairs(text, 4, 0, np.zeros((2, 1), np.int64)) == (1, 8)


@pytest.mark.parametrize("lowest", [0, 32])
@pytest.mark.parametrize("num", [0, 1, 2, 5_000])
def test_keys_in_order(num: int, lowest: int) -> None:
    rng = np.random.default_rng(num)
    key_M = rng.integers(0, 1 << 13, num) << 37 | rng.integers(0, 1 << 20, num)
    key_M[: num // 2] = key_M[num // 2 : num // 2 * 2]  # some are equal
    expected = key_M[np.argsort(key_M >> lowest, kind="stable")]
    sort_keys(key_M, np.empty_like(key_M), lowest)
    assert (key_M == expected).all()


def test_work_is_done_ahead_in_order_and_no_further() -> None:
    asked: list[int] = []

    def items() -> Iterator[int]:
        for item in range(20):
            asked.append(item)
            yield item

    def half(item: int) -> float:
        return 1 / (item - 12)

    made = made_ahead(half, items(), 2, "test")
    assert next(made) == 1 / -12 and asked == [0, 1, 2, 3]
    assert [next(made) for _ in range(11)] == [1 / (item - 12) for item in range(1, 12)]
    with pytest.raises(ZeroDivisionError):
        next(made)
    assert list(made_ahead(abs, [-1, 2], 4, "test")) == [1, 2] and list(made_ahead(abs, [], 1, "test")) == []


def stored(graph: AttributedGraph) -> dict[str, str]:
    return {name: known["blake2b"] for name, known in graph.metadata["arrays"].items()}


@pytest.mark.parametrize("is_directed", [True, False])
@pytest.mark.parametrize(
    ("first", "last"), [(0, 300), (70, 5_000), (0, 1 << 27), (-5, 900), (1 << 40, (1 << 40) + 300)]
)
def test_all_ways_come_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, last: int, is_directed: bool
) -> None:
    """Simple lines and others, ids marked, searched, or too large for both; runs and stretches of any length."""
    src, dst = np.random.default_rng(4).integers(first, last, (2, 4_000))
    src[:500] = dst[3_500:]
    lines = [f"{u} {v}\n" for u, v in zip(src.tolist(), dst.tolist(), strict=True)]
    (tmp_path / "simple").write_text("".join(lines))
    (tmp_path / "other").write_text("".join(line.replace(" ", "  ") for line in lines))
    options = GraphOptions(directed=is_directed, weighted=False)
    expected = write_graph((src, dst), tmp_path / "arrays", graph=options)
    for name in ("simple", "other"):
        assert stored(write_graph(tmp_path / name, tmp_path / f"{name} graph", graph=options)) == stored(expected)
    monkeypatch.setattr(entries, "_BUCKET", 150)
    monkeypatch.setattr(entries, "_FEW_RUNS", 4)
    monkeypatch.setattr(reading, "_BATCH_ROWS", 70)
    graph = write_graph(tmp_path / "simple", tmp_path / "short", graph=options)
    assert stored(graph) == stored(expected) and graph.num_edges == expected.num_edges


def test_nothing_is_left_where_it_goes_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_BUCKET", 10)
    (tmp_path / "e").write_text("".join(f"{node} {node + 1}\n" for node in range(1_000)))
    for wrong in ({"labels": {"2000": "x"}}, {"edge_features": np.zeros((3, 2), np.float32)}):
        with pytest.raises(DataError):
            write_graph(tmp_path / "e", tmp_path / "g", graph=GraphOptions(directed=True), **wrong)
        assert [path.name for path in tmp_path.iterdir()] == ["e"]


def test_ids_beyond_int64_keep_their_names(tmp_path: Path) -> None:
    table = pa.table({"src": pa.array([(1 << 63) + 5, 1], pa.uint64()), "dst": pa.array([1, 2], pa.uint64())})
    pq.write_table(table, tmp_path / "e.parquet")
    graph = write_graph(tmp_path / "e.parquet", tmp_path / "g", graph=GraphOptions(directed=True))
    assert set(graph.keys) == {str((1 << 63) + 5), "1", "2"}
