"""Clicks of every format become the same rows; small files by hand, and the public samples."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import zstandard
from arrow_tables import ArrayTable, StreamTable
from hypothesis import given, settings
from hypothesis import strategies as st

import any2vec.data.clicks.clicks
from any2vec.data.clicks.clicks import Clicks, read_clicks
from any2vec.data.clicks.encoder import ClickEncoder
from any2vec.data.clicks.reader import read_rows
from any2vec.data.clicks.rows import FoundRows, HashedRows, KnownRows
from any2vec.data.clicks.schema import KNOWN, ClickSchema
from any2vec.data.io.arrow import TableReader
from any2vec.data.vocab.vocabulary import Vocabulary
from any2vec.errors import DataError, InputError
from naive.text import hash_strings as naive

Write = Callable[[str, str | bytes], Path]


@pytest.fixture(autouse=True)
def _small_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return put


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Clicks]:
    return lambda data, schema, **more: read_clicks(data, schema, cache_dir=tmp_path / "cache", **more)


def schema(**more: Any) -> ClickSchema:
    return ClickSchema(**({"label": "y", "dense": ["x"], "categorical": ["a", "b"], "hash_rows": 50} | more))


def bags(clicks: Any) -> list[list[list[int]]]:
    """Rows of the table by example and column."""
    batch = clicks if isinstance(clicks, tuple) else clicks.batch(0, len(clicks))
    flat = [batch.id_M[start:stop].tolist() for start, stop in zip(batch.start_P[:-1], batch.start_P[1:], strict=True)]
    width = len(flat) // len(batch.label_B)
    return [flat[at : at + width] for at in range(0, len(flat), width)]


TEXT = "y,x,a,b\n1,3,red,7\n0,,blue,\n0,-1,,7\n1,0,red,8\n"


def hashed(value: str) -> int:
    return naive.hash_row(value.encode(), 50)


def test_a_small_file_by_hand(write: Write, read: Callable[..., Clicks]) -> None:
    clicks = read(write("clicks.csv", TEXT), schema())
    batch = clicks.batch(0, 4)
    assert [array.dtype for array in batch] == [np.float32, np.float32, np.int64, np.int64]
    assert batch.label_B.tolist() == [1, 0, 0, 1]
    assert batch.dense_BX.ravel() == pytest.approx([math.log(4), 0, -math.log(2), 0])
    red, blue, seven, eight = (hashed(value) for value in ("red", "blue", "7", "8"))
    assert bags(clicks) == [[[red], [50 + seven]], [[blue], [50]], [[0], [50 + seven]], [[red], [50 + eight]]]
    assert batch.start_P.tolist() == list(range(9))
    counts = np.bincount(batch.id_M, minlength=100)
    assert clicks.counts_V.tolist() == counts.tolist()
    assert (clicks.columns, clicks.dense_names, clicks.num_rows, clicks.num_clicks) == (("a", "b"), ("x",), 100, 2)
    assert clicks.num_rows_F.tolist() == [50, 50]
    assert clicks.offset_F.tolist() == [0, 50, 100]
    keys = clicks.key_of_rows()
    assert len(keys) == 100
    assert [keys[0], keys[1], keys[2], keys[49], keys[50], keys[-1]] == [
        "a=<missing>", "a=<rare>", "a#0", "a#47", "b=<missing>", "b#47",
    ]  # fmt: skip


def test_part_of_the_examples(write: Write, read: Callable[..., Clicks]) -> None:
    clicks = read(write("clicks.csv", TEXT), schema())
    whole, parts = clicks.batch(0, 4), [clicks.batch(0, 1), clicks.batch(1, 4)]
    assert np.array_equal(np.concatenate([part.id_M for part in parts]), whole.id_M)
    assert np.array_equal(np.concatenate([part.dense_BX for part in parts]), whole.dense_BX)
    assert clicks.batch(2, 2).id_M.shape == (0,)
    with pytest.raises(InputError, match=r"0 <= start <= stop <= 4, got 3 and 5"):
        clicks.batch(3, 5)


VOCABULARY = "y,a\n" + "".join(f"0,{value}\n" for value in ["u", "t", "s", "t", "", "s", "r", "s"])


def test_vocabulary_ranks_by_count_and_drops_rare_values(write: Write, read: Callable[..., Clicks]) -> None:
    clicks = read(write("v.csv", VOCABULARY), schema(dense=[], categorical=["a"], ids="vocabulary"))
    assert list(clicks.key_of_rows()) == ["a=<missing>", "a=<rare>", "a=s", "a=t", "a=u", "a=r"]
    assert clicks.counts_V.tolist() == [1, 0, 3, 2, 1, 1]
    assert bags(clicks) == [[[row]] for row in (4, 3, 2, 3, 0, 2, 5, 2)]
    rare = read(write("v.csv", VOCABULARY), schema(dense=[], categorical=["a"], ids="vocabulary", min_count=2))
    assert list(rare.key_of_rows()) == ["a=<missing>", "a=<rare>", "a=s", "a=t"]
    assert rare.counts_V.tolist() == [1, 2, 3, 2]
    assert bags(rare) == [[[row]] for row in (1, 3, 2, 3, 0, 2, 1, 2)]


def test_columns_have_options_of_their_own(write: Write, read: Callable[..., Clicks]) -> None:
    own = {"a": {"ids": "vocabulary", "min_count": 2}, "b": {"hash_rows": 9}, "x": {"transform": "none"}}
    clicks = read(write("clicks.csv", TEXT), schema(column=own))
    assert clicks.num_rows_F.tolist() == [3, 9]
    assert clicks.batch(0, 4).dense_BX.ravel().tolist() == [3, 0, -1, 0]
    assert [row[0] for row in bags(clicks)] == [[2], [1], [0], [2]]
    assert bags(clicks)[0][1] == [3 + naive.hash_row(b"7", 9)]


def test_a_column_read_in_parts_and_twice(write: Write, read: Callable[..., Clicks]) -> None:
    """Two columns of one in the file: the day and the hour of a time."""
    own = {"day": {"source": "t", "characters": [0, 2]}, "hour": {"source": "t", "characters": [2, 4]}}
    made = schema(dense=[], categorical=["day", "hour"], column=own, ids="vocabulary")
    clicks = read(write("t.csv", "y,t\n0,2100\n0,2107\n1,2207\n1,\n"), made)
    assert list(clicks.key_of_rows()[2:4]) == ["day=21", "day=22"]
    assert list(clicks.key_of_rows()[6:]) == ["hour=07", "hour=00"]
    assert bags(clicks)[3] == [[0], [4]]


# ---- bags -----------------------------------------------------------------------------------------------------------

BAGS = [["p", "q"], [], ["q"], ["q", "q", "p"]]


def bag_schema(**more: Any) -> ClickSchema:
    return schema(**({"dense": [], "categorical": ["a"], "multi_valued": ["g", "h"], "ids": "vocabulary"} | more))


def test_bags_of_many_values(write: Write, read: Callable[..., Clicks]) -> None:
    text = "y\ta\tg\th\n" + "".join(f"0\tk\t{'|'.join(bag)}\t{'z' if at == 2 else ''}\n" for at, bag in enumerate(BAGS))
    clicks = read(write("bags.tsv", text), bag_schema(column={"g": {"pooling": "mean"}}))
    assert clicks.columns == ("a", "g", "h")
    assert clicks.is_mean_F.tolist() == [False, True, False]
    q, p, z = 3 + 2, 3 + 3, 7 + 2  # a has the rows 0..2, g 3..6, h 7..9
    assert bags(clicks) == [[[2], [p, q], []], [[2], [], []], [[2], [q], [z]], [[2], [q, q, p], []]]
    assert bags(clicks.batch(1, 4)) == bags(clicks)[1:]
    assert clicks.counts_V.tolist() == [0, 0, 4, 0, 0, 4, 2, 0, 0, 1]


def test_empty_values_of_a_bag_are_none(write: Write, read: Callable[..., Clicks]) -> None:
    made = schema(dense=[], categorical=[], multi_valued=["g"], ids="vocabulary", separator="; ")
    clicks = read(write("bags.csv", "y,g\n0,; p; ; q; \n1,;\n"), made)
    assert list(clicks.key_of_rows()[2:]) == ["g=p", "g=q", "g=;"]
    assert bags(clicks) == [[[2, 3]], [[4]]]


def test_lists_of_a_table_are_bags(tmp_path: Path, write: Write, read: Callable[..., Clicks]) -> None:
    text = "y,a,g,h\n" + "".join(f"0,k,{'|'.join(bag)},5|12\n" for bag in BAGS)
    lists: list[Any] = [["p", None, "q"], None, ["q", ""], ["q", "q", "p"]]
    for kind in (pa.list_(pa.string()), pa.large_list(pa.large_string()), pa.list_(pa.binary())):
        table = pa.table(
            {
                "h": pa.array([[5, 12]] * 4, pa.list_(pa.int64(), 2)),
                "g": pa.array(lists, kind),
                "a": pa.array(["k"] * 4).dictionary_encode(),
                "y": pa.array([False] * 4),
            }
        )
        pq.write_table(table, tmp_path / "bags.parquet")
        clicks = read(tmp_path / "bags.parquet", bag_schema())
        assert bags(clicks) == bags(read(write("bags.csv", text), bag_schema()))


def test_text_of_a_table_is_split_too(tmp_path: Path, read: Callable[..., Clicks]) -> None:
    made = schema(dense=[], categorical=[], multi_valued=["g"])
    pq.write_table(pa.table({"y": [0, 1], "g": ["p|q", None]}), tmp_path / "t.parquet")
    assert bags(read(tmp_path / "t.parquet", made)) == [[[hashed("p"), hashed("q")]], [[]]]


# ---- formats --------------------------------------------------------------------------------------------------------


def table() -> pa.Table:
    return pa.table(
        {
            "b": pa.array([7, None, 7, 8], pa.int32()),
            "more": ["left", "out", "of", "it"],
            "a": pa.array(["red", "blue", None, "red"]),
            "x": pa.array([3, None, -1, 0], pa.int64()),
            "y": pa.array([1, 0, 0, 1], pa.int8()),
        }
    )


def same(one: Clicks, other: Clicks) -> None:
    for mine, yours in zip(one.batch(0, len(one)), other.batch(0, len(other)), strict=True):
        assert np.array_equal(mine, yours)
    assert np.array_equal(one.counts_V, other.counts_V)


@pytest.mark.parametrize("ids", ["hash", "vocabulary"])
def test_every_format_gives_the_same_rows(ids: str, tmp_path: Path, write: Write, read: Callable[..., Clicks]) -> None:
    made = schema(ids=ids)
    expected = read(write("plain.csv", TEXT), made)
    data = TEXT.encode()
    quoted = 'y,x,a,b\n"1",3,"red",7\n0,,"blue",""\n0,-1,"",7\n1,0,red,8\n'
    files = [
        write("a.tsv", TEXT.replace(",", "\t")),
        write("a.csv.gz", gzip.compress(data)),
        write("two.gz", gzip.compress(data[:20]) + gzip.compress(data[20:])),
        write("a.csv.zst", zstandard.compress(data)),
        write("a.csv.xz", lzma.compress(data)),
        write("crlf.csv", TEXT.replace("\n", "\r\n")),
        write("no_end.csv", TEXT.rstrip("\n")),
        write("mark.csv", "\ufeff" + TEXT),
        write("blank.csv", "\n" + TEXT.replace("\n0,,", "\n\r\n\n0,,") + "\n\n"),
        write("quoted.csv", quoted),
        write("floats.csv", TEXT.replace("1,3,", "1.0,3e0,").replace("-1,", " -1.0 ,")),
    ]
    t = table()
    floats = t.set_column(0, "b", pa.array([7.0, float("nan"), 7.0, 8.0]))
    for name, one in {
        "t": t,
        "floats": floats,
        "named": t.set_column(2, "a", t.column("a").dictionary_encode()),
    }.items():
        pq.write_table(one, tmp_path / f"{name}.parquet", row_group_size=3)
        pyarrow.feather.write_feather(one, tmp_path / f"{name}.feather")
        with pa.OSFile(str(tmp_path / f"{name}.arrows"), "wb") as sink, pa.ipc.new_stream(sink, one.schema) as stream:
            stream.write_table(one)
        files += [tmp_path / f"{name}.{form}" for form in ("parquet", "feather", "arrows")]
    for path in [*files, StreamTable(t), ArrayTable(floats)]:
        same(read(path, made), expected)


def test_true_and_false_are_one_and_zero(write: Write, read: Callable[..., Clicks]) -> None:
    """As pandas writes columns of bool; missing values and numbers beside them stay what they are."""
    written = read(write("words.csv", "y,x,a,b\nTrue, true,r,7\nfalse,,r,7\nFALSE,0.5,s,8\n1,False,s,8\n"), schema())
    same(written, read(write("numbers.csv", "y,x,a,b\n1,1,r,7\n0,,r,7\n0,0.5,s,8\n1,0,s,8\n"), schema()))
    with pytest.raises(DataError, match="line 3: column 'y' holds 'truth', which is no number"):
        read(write("wrong.csv", "y,x,a,b\nTrue,1,r,7\ntruth,1,r,7\n"), schema())


def test_tables_in_memory(read: Callable[..., Clicks]) -> None:
    made, t = schema(ids="vocabulary", dense=["x"], categorical=["a", "b"]), table()
    first, again = read(StreamTable(t), made), read(StreamTable(t), made)
    other = read(StreamTable(t.slice(0, 2)), made)
    assert first.path == again.path and first.path != other.path  # found again by what they hold
    (batch,) = first.encoder.encode(StreamTable(t.drop(["y"])))
    assert np.isnan(batch.label_B).all() and np.array_equal(batch.id_M, first.batch(0, len(first)).id_M)
    with pytest.raises(DataError, match="The StreamTable has no column 'a'"):
        read(StreamTable(t.drop(["a"])), made)
    with pytest.raises(DataError, match="The StreamTable, row 3: the label must be 0 or 1"):
        read(StreamTable(t.set_column(t.schema.get_field_index("y"), "y", pa.array([0, 1, 7, 1][: len(t)]))), made)
    with pytest.raises(DataError, match="The StreamTable holds no rows"):
        read(StreamTable(t.slice(0, 0)), made)


def test_an_index_without_a_name_is_no_column(read: Callable[..., Clicks]) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"y": [1, 0, 1], "a": ["k", "l", "k"]})
    shuffled = frame.iloc[[2, 0, 1]]
    assert TableReader(shuffled, None).names == ["y", "a"]
    found = [batch["a"].to_pylist() for batch in TableReader(shuffled, None).batches(["a"], 9)]
    assert found == [[b"k", b"k", b"l"]]
    assert TableReader(frame.set_index("a"), None).names == ["y", "a"]  # this one has a name


def test_a_table_of_other_types_is_not_taken_for_one_of_before(read: Callable[..., Clicks]) -> None:
    days = np.array(["2020-01-01", "2020-01-02"], "datetime64[ns]")
    one = ClickSchema(label="y", categorical=("day",), ids="vocabulary")
    keys = [list(read({"y": [1, 0], "day": column}, one).encoder.keys()) for column in (days, days.view(np.int64))]
    assert "2020" in keys[0][2] and "2020" not in keys[1][2]


def test_delimiters_and_names(write: Write, read: Callable[..., Clicks]) -> None:
    expected = read(write("plain.csv", TEXT), schema())
    semicolon = write("semi.csv", TEXT.replace(",", ";"))
    same(read(semicolon, schema(delimiter="semicolon")), expected)
    bare = write("bare.csv", TEXT.partition("\n")[2])
    names = ["y", "x", "a", "b"]
    same(read(bare, schema(column_names=names)), expected)
    same(read(bare, schema(column_names=names, header=False)), expected)
    same(read(write("plain.csv", TEXT), schema(column_names=names)), expected)


def test_many_files_are_one_stream(tmp_path: Path, write: Write, read: Callable[..., Clicks]) -> None:
    lines = TEXT.splitlines(keepends=True)
    (tmp_path / "parts").mkdir()
    write("parts/0.csv", "".join(lines[:3]))
    write("parts/1.csv", "b,y,x,a\n7,0,-1,\n8,1,0,red\n")  # columns in another order
    expected = read(write("plain.csv", TEXT), schema())
    same(read(tmp_path / "parts", schema()), expected)
    same(read(str(tmp_path / "parts/*.csv"), schema()), expected)
    same(read([tmp_path / "parts/0.csv", tmp_path / "parts/1.csv"], schema()), expected)


def test_standard_input_and_the_cache(
    monkeypatch: pytest.MonkeyPatch, write: Write, read: Callable[..., Clicks]
) -> None:
    expected = read(write("plain.csv", TEXT), schema())
    for _ in range(2):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(TEXT.encode())))
        clicks = read("-", schema())
        same(clicks, expected)
    assert len(list(clicks.path.parent.glob("*/meta.json"))) == 2
    assert not list(clicks.path.parent.glob(".*"))

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(any2vec.data.clicks.clicks, "read_rows", refuse)
    reported: list[Any] = []
    again = read(write("renamed.csv", TEXT), schema(), progress=lambda *done: reported.append(done))
    assert (again.path, again.digest) == (expected.path, expected.digest)
    assert reported == [(len(TEXT), len(TEXT))]
    with pytest.raises(AssertionError, match="read again"):
        read(write("plain.csv", TEXT), schema(hash_rows=51))


def test_encoded_clicks_are_opened_as_they_are(write: Write, read: Callable[..., Clicks]) -> None:
    clicks = read(write("plain.csv", TEXT), schema())
    assert read(clicks, None) is clicks
    same(read(clicks.path, schema()), clicks)
    with pytest.raises(InputError, match="another schema"):
        read(clicks.path, schema(hash_rows=51))
    with pytest.raises(InputError, match=r"A schema is needed.* a ClickSchema or a dict of its fields"):
        read(write("plain.csv", TEXT), None)


def test_progress_ends_at_the_size(write: Write, read: Callable[..., Clicks]) -> None:
    reported: list[Any] = []
    path = write("a.csv.gz", gzip.compress(TEXT.encode()))
    read(path, schema(), progress=lambda *done: reported.append(done))
    assert reported[-1] == (path.stat().st_size, path.stat().st_size)


# ---- numbers --------------------------------------------------------------------------------------------------------


def test_standardized_numbers(write: Write, read: Callable[..., Clicks]) -> None:
    rows = "y,x,z,c,a\n0,1,1,5,k\n1,,10,5,k\n0,3,100,5,k\n"
    made = schema(
        dense=["x", "z", "c"], categorical=["a"], dense_transform="standard", column={"z": {"transform": "log"}}
    )
    clicks = read(write("s.csv", rows), made)
    dense = clicks.batch(0, 3).dense_BX
    assert dense[:, 0].tolist() == [-1, 0, 1]  # mean 2, standard deviation 1 of what is there; missing is the mean
    assert dense[:, 1] == pytest.approx(np.log1p([1, 10, 100]))
    assert dense[:, 2].tolist() == [0, 0, 0]  # a constant
    assert not (clicks.path / "raw.npy").exists()
    fresh = next(clicks.encoder.encode(write("new.csv", "x,z,c,a\n5,0,7,k\n")))
    assert fresh.dense_BX.tolist() == [[3, 0, 2]]


def test_stars_become_labels(write: Write, read: Callable[..., Clicks]) -> None:
    made = schema(label="stars", label_from=4, dense=[], categorical=["a"])
    clicks = read(write("stars.csv", "stars,a\n5,k\n4,k\n3.5,k\n-1,k\n"), made)
    assert clicks.batch(0, 4).label_B.tolist() == [1, 1, 0, 0]


# ---- new rows -------------------------------------------------------------------------------------------------------


def test_new_rows_are_encoded_as_the_first_ones(tmp_path: Path, write: Write, read: Callable[..., Clicks]) -> None:
    own = {"b": {"ids": "vocabulary"}, "g": {"ids": "vocabulary", "min_count": 2}}
    made = schema(multi_valued=["g"], column=own, dense_transform="standard")
    text = "y,x,a,b,g\n1,3,red,7,p|q\n0,,blue,,q\n0,-1,,7,\n1,0,red,8,r|q\n"
    clicks = read(write("train.csv", text), made)
    (tmp_path / "model").mkdir()
    clicks.encoder.save(tmp_path / "model")
    encoder = ClickEncoder.open(tmp_path / "model")
    assert encoder.schema == made
    parts = list(encoder.encode(tmp_path / "train.csv", batch_size=3, needs_label=True))
    assert [len(part.label_B) for part in parts] == [3, 1]
    for part, expected in zip(parts, (clicks.batch(0, 3), clicks.batch(3, 4)), strict=True):
        for mine, yours in zip(part, expected, strict=True):
            assert mine.dtype == yours.dtype
            assert np.array_equal(mine, yours)
    new = next(encoder.encode(write("new.csv", "g,b,a,x\nq|never,never,never,0\n")))
    assert np.isnan(new.label_B).all()
    start = clicks.offset_F
    assert bags(new) == [[[hashed("never")], [start[1] + 1], [start[2] + 2, start[2] + 1]]]


def test_labels_of_new_rows_are_kept_where_they_are(write: Write) -> None:
    encoder = ClickEncoder.of(schema(dense=[], column_names=["y", "a", "b"]))
    named = next(encoder.encode(write("n.csv", "a,b,y\nk,k,1\nk,k,\n")))
    assert named.label_B[0] == 1 and np.isnan(named.label_B[1])
    bare = next(encoder.encode(write("b.csv", "k,m\n")))
    full = next(encoder.encode(write("f.csv", "1,k,m\n")))
    assert np.isnan(bare.label_B[0]) and full.label_B[0] == 1
    assert np.array_equal(bare.id_M, full.id_M)


def test_new_rows_are_encoded_alike_again_and_side_by_side(write: Write, read: Callable[..., Clicks]) -> None:
    encoder = read(write("v.csv", VOCABULARY), schema(dense=[], categorical=["a"], ids="vocabulary")).encoder
    rows = {"a": ["new", *(key.partition("=")[2] for key in list(encoder.keys())[2:]), "other"]}
    one, other = encoder.encode(rows, batch_size=1), encoder.encode(rows, batch_size=1)
    beside = [(next(one).id_M.tolist(), next(other).id_M.tolist()) for _ in rows["a"]]
    again = [batch.id_M.tolist() for batch in encoder.encode(rows, batch_size=1)]
    assert beside == [(ids, ids) for ids in again] and again[0] == again[-1] == [1] and again[1] == [2]
    assert [len(encoder._spare), next(one, None), next(other, None), len(encoder._spare)] == [1, None, None, 3]


def test_unseen_values_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long stream of new values takes no memory."""
    monkeypatch.setattr("any2vec.data.clicks.rows._FORGET", 10)
    known = KnownRows(Vocabulary.from_keys(["a", "b"], [2, 1]))
    for at in range(0, 100, 5):
        texts = pa.array([b"b", *(f"new {at + more}".encode() for more in range(5)), b"a", b""], pa.large_binary())
        assert known.rows_of(texts).tolist() == [3, 1, 1, 1, 1, 1, 2, 0]
        assert known._found.num_values <= 2 + 14


# ---- twins and metamorphoses ----------------------------------------------------------------------------------------

words = st.one_of(
    st.sampled_from([b"", b"a", b"b", b"a" * 7, b"a" * 8, b"a" * 9, b"1234567\x01", b"x" * 40, "Ünï".encode()]),
    st.binary(max_size=20).map(lambda data: data.replace(b"\0", b"")),
)


@settings(deadline=None, max_examples=60)
@given(
    texts=st.lists(words, max_size=60),
    num_rows=st.integers(3, 1 << 31),
    min_count=st.integers(1, 3),
    cut=st.integers(0, 60),
)
def test_rows_equal_their_plain_twins(texts: list[bytes], num_rows: int, min_count: int, cut: int) -> None:
    column = pa.array([b"skipped", *texts], pa.large_binary()).slice(1)
    num_rows = num_rows % 5000 + 3
    hash_rows = HashedRows(num_rows)
    assert hash_rows.rows_of(column).tolist() == [naive.hash_row(text, num_rows) for text in texts]
    assert hash_rows.counts.sum() == len(texts)
    found = FoundRows()
    rows = np.concatenate([found.rows_of(column.slice(0, cut)), found.rows_of(column.slice(cut))])
    rank, vocabulary, counts = found.rank(min_count)
    expected = naive.vocabulary_of(texts, min_count)
    final = [naive.value_row(text, expected) for text in texts]
    assert rank[rows].tolist() == final
    assert [
        vocabulary.keys.arena[a:b].tobytes()
        for a, b in zip(vocabulary.keys.offsets, vocabulary.keys.offsets[1:], strict=False)
    ] == expected
    assert counts.tolist() == np.bincount(np.array(final, int), minlength=len(expected) + 2).tolist()
    assert KnownRows(vocabulary).rows_of(column).tolist() == final


@pytest.mark.parametrize("held_out", [0.1, 0.5])
def test_examples_that_are_held_out_teach_nothing(held_out: float, read: Callable[..., Clicks]) -> None:
    """All is encoded as by who has read the other ones alone, and then the rest as new data."""
    rng, size = np.random.default_rng(2), 400
    kept = size - round(held_out * size)
    table: dict[str, Any] = {
        "y": rng.integers(0, 2, size),
        "x": np.concatenate([rng.normal(size=kept), rng.normal(1e6, 9, size - kept)]),
        "z": rng.normal(size=size),
        "a": [f"a{number}" for number in (rng.zipf(1.5, size) % 60).tolist()],
        "b": ["new" if at >= kept else f"b{at % 3}" for at in range(size)],
        "t": [[f"t{value}" for value in rng.integers(0, 2 + at // 20, at % 4)] for at in range(size)],
    }
    chosen = schema(
        dense=["x", "z"], categorical=["a", "b"], multi_valued=["t"], ids="vocabulary", min_count=2,
        column={"x": {"transform": "standard"}, "b": {"ids": "hash", "hash_rows": 9}},
    )  # fmt: skip
    head, tail = ({name: values[part] for name, values in table.items()} for part in (slice(kept), slice(kept, None)))
    found, wanted = read(table, chosen, held_out=held_out), read(head, chosen)
    for name, vocabulary in wanted.encoder.vocabularies.items():
        assert found.encoder.vocabularies[name].keys == vocabulary.keys
        assert np.array_equal(found.encoder.vocabularies[name].counts, vocabulary.counts)
    assert np.array_equal(found.encoder.mean_X, wanted.encoder.mean_X)
    assert np.array_equal(found.encoder.std_X, wanted.encoder.std_X)
    for one, other in (
        (found.batch(0, kept), wanted.batch(0, kept)),
        (found.batch(kept, size), next(wanted.encoder.encode(tail, needs_label=True))),
    ):
        for array, same in zip(one, other, strict=True):
            assert np.array_equal(array, same)
    assert np.array_equal(found.counted_to(kept).counts_V, wanted.counts_V)
    whole = np.bincount(found.batch(0, size).id_M, minlength=found.num_rows)
    assert np.array_equal(found.counts_V, whole) and found.digest != read(table, chosen).digest
    plain = schema(dense=["z"], categorical=["b"])
    assert read(table, plain, held_out=held_out).path == read(table, plain).path, "there is nothing to learn"


def test_a_hash_is_forever() -> None:
    """Models on disk hold rows by these numbers."""
    texts = [b"", b"a", b"12345678", b"123456789", b"68fd1e64", "Ünïcode".encode()]
    rows = HashedRows(100_000).rows_of(pa.array(texts, pa.large_binary()))
    assert rows.tolist() == [0, 35965, 49774, 86353, 3375, 2047]


def test_thousands_of_values_make_the_table_grow() -> None:
    values = [f"{'long ' * (number % 9)}{number}".encode() for number in range(5000)]
    found = FoundRows()
    rows = found.rows_of(pa.array(values + values[::-1], pa.large_binary()))
    assert rows.tolist() == [*range(2, 5002), *range(5001, 1, -1)]
    assert list(found.rank(1)[1].keys) == [value.decode() for value in values]


cells = st.text(st.characters(blacklist_characters="\r\n\0", blacklist_categories=("Cs",)), max_size=12)
numbers = st.one_of(st.none(), st.floats(-1e6, 1e6))
row_of_cells = st.tuples(st.integers(0, 1), numbers, cells, st.integers(-50, 50), st.lists(cells, max_size=3))
rows_of_cells = st.lists(row_of_cells, min_size=1, max_size=25)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("clicks")


@settings(deadline=None, max_examples=25)
@given(
    rows=rows_of_cells,
    ids=st.sampled_from(["hash", "vocabulary"]),
    block=st.integers(1, 300),
    min_count=st.integers(1, 2),
)
def test_blocks_and_formats_do_not_matter(rows: list[Any], ids: str, block: int, min_count: int, room: Path) -> None:
    rows = [(*row[:4], [cell.replace("|", "/") for cell in row[4]]) for row in rows]
    made = ClickSchema(
        label="y", dense=["x"], categorical=["a", "b"], multi_valued=["g"], delimiter="comma", ids=ids, hash_rows=11,
        min_count=min_count if ids == "vocabulary" else 1, dense_transform="standard",
    )  # fmt: skip
    with (room / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["y", "x", "a", "b", "g"])
        out.writerows([(y, "" if x is None else repr(x), a, b, "|".join(g)) for y, x, a, b, g in rows])
    names = ["y", "x", "a", "b", "g"]
    kinds = [pa.int64(), pa.float64(), pa.string(), pa.int64(), pa.list_(pa.string())]
    columns = {
        name: pa.array(values, kind) for name, values, kind in zip(names, zip(*rows, strict=True), kinds, strict=True)
    }
    pq.write_table(pa.table(columns), room / "rows.parquet")
    one, small, other = (
        read_clicks(room / name, made, cache_dir=room / f"cache{at}", block_bytes=size, block_rows=size)
        for at, (name, size) in enumerate([("rows.csv", 1 << 20), ("rows.csv", block), ("rows.parquet", block)])
    )
    same(one, small)
    same(one, other)
    texts = [row[2].encode() for row in rows]
    known = naive.vocabulary_of(texts, min_count)
    expected = [naive.hash_row(text, 11) if ids == "hash" else naive.value_row(text, known) for text in texts]
    assert one.ids[:, 0].tolist() == expected


def test_memory_is_bounded_by_the_block(tmp_path: Path, write: Write) -> None:
    lines = 3000
    text = write("long.csv", "y,x,a,b\n" + "0,1,red,7\n" * lines)
    blocks = list(read_rows([str(text)], schema(), block_bytes=1000))
    assert len(blocks) == -(-text.stat().st_size // 1000)
    assert max(len(block.text or b"") for block in blocks) < 1000 + 10
    assert sum(block.num_rows for block in blocks) == lines
    pq.write_table(
        pa.table({"y": [0] * lines, "x": [1] * lines, "a": ["red"] * lines, "b": [7] * lines}), tmp_path / "l.parquet"
    )
    sizes = [block.num_rows for block in read_rows([str(tmp_path / "l.parquet")], schema(), block_rows=700)]
    assert sizes == [700, 700, 700, 700, 200]


# ---- schemas --------------------------------------------------------------------------------------------------------


def test_a_schema_of_every_origin(write: Write) -> None:
    path = write(
        "schema.toml",
        'label = "y"\ndense = ["x"]\ncategorical = ["a", "b"]\nhash_rows = 50\n'
        '[column.a]\nids = "vocabulary"\nmin_count = 3\n[column.b]\ncharacters = [0, 2]\n',
    )
    made = ClickSchema.of(path)
    assert made == schema(column={"a": {"ids": "vocabulary", "min_count": 3}, "b": {"characters": (0, 2)}})
    assert ClickSchema.of(str(path)) == made
    assert ClickSchema.of(made) is made
    assert ClickSchema.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    for name in KNOWN:
        known = ClickSchema.of(name)
        assert ClickSchema.from_dict(json.loads(json.dumps(known.to_dict()))) == known


CRITEO = "\t".join(["1", "5", *[""] * 12, "68fd1e64", *[""] * 25])
AVAZU = (
    "1000009418151094273,0,14102107,1005,0,1fbe01fe,f3845767,28905ebd,ecad2386,7801e8d9,07d7df22,a99f214a,ddd2926e,"
    "44956a24,1,2,15706,320,50,1722,0,35,-1,79"
)


def test_criteo_and_avazu_by_name(write: Write, read: Callable[..., Clicks]) -> None:
    clicks = read(write("criteo.txt", CRITEO + "\n"), "criteo")
    batch = clicks.batch(0, 1)
    assert batch.label_B.tolist() == [1]
    assert batch.dense_BX[0] == pytest.approx([math.log(6), *[0] * 12])
    assert batch.id_M.tolist() == [naive.hash_row(b"68fd1e64", 100_000), *(100_000 * f for f in range(1, 26))]
    scored = next(clicks.encoder.encode(write("test.txt", CRITEO[2:] + "\n")))
    assert np.array_equal(scored.id_M, batch.id_M)
    bare = read(write("avazu", AVAZU + "\n"), "avazu")
    named = read(write("avazu.csv", ",".join(KNOWN["avazu"]["column_names"]) + "\n" + AVAZU + "\n"), "avazu")
    same(bare, named)
    assert len(bare.columns) == 22
    assert bare.batch(0, 1).id_M[0] == naive.hash_row(b"07", 100_000)
    test_names = [name for name in KNOWN["avazu"]["column_names"] if name != "click"]
    test_row = AVAZU.replace(",0,", ",", 1)
    scored = next(bare.encoder.encode(write("test.csv", ",".join(test_names) + "\n" + test_row + "\n")))
    assert np.array_equal(scored.id_M, bare.batch(0, 1).id_M)


# ---- public samples -------------------------------------------------------------------------------------------------


def public(name: str) -> Path:
    path = Path(os.environ.get("ANY2VEC_DATA", "")) / name
    if not os.environ.get("ANY2VEC_DATA") or not path.is_file():
        pytest.skip(f"ANY2VEC_DATA names no folder with {name}: this check of real data was left out")
    return path


@pytest.mark.data
def test_the_criteo_sample(read: Callable[..., Clicks]) -> None:
    """The counts are those that its README states, by another reader."""
    path = public("ctr-criteo10k/criteo_train_first10k.txt.gz")
    hashed_clicks = read(path, "criteo")
    assert (len(hashed_clicks), hashed_clicks.num_clicks) == (10_000, 2_182)
    clicks = read(path, ClickSchema.from_dict(KNOWN["criteo"] | {"ids": "vocabulary"}))
    assert clicks.num_rows - 2 * 26 == 43_579
    assert clicks.counts_V.sum() == 260_000
    lines = [line.split("\t") for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    for at in (0, 9_999):
        batch, hash_batch = clicks.batch(at, at + 1), hashed_clicks.batch(at, at + 1)
        keys = clicks.key_of_rows()
        assert [keys[row] for row in batch.id_M] == [
            f"C{column + 1}={value or '<missing>'}" for column, value in enumerate(lines[at][14:])
        ]
        rows = [naive.hash_row(value.encode(), 100_000) for value in lines[at][14:]]
        assert (hash_batch.id_M - hashed_clicks.offset_F[:-1]).tolist() == rows


@pytest.mark.data
def test_the_avazu_sample(read: Callable[..., Clicks]) -> None:
    train, test = public("ctr-avazu10k/avazu_train.csv.gz"), public("ctr-avazu10k/avazu_test.csv.gz")
    first, second, both = (read(data, "avazu") for data in (train, test, [train, test]))
    assert [(len(clicks), clicks.num_clicks) for clicks in (first, second)] == [(8_999, 1_563), (1_000, 143)]
    assert np.array_equal(both.batch(8_999, 9_999).id_M, second.batch(0, 1_000).id_M)
    assert len(np.unique(both.ids[:, 0])) == 1  # all from one hour


@pytest.mark.data
def test_movielens_stars(read: Callable[..., Clicks]) -> None:
    names = ["user", "movie", "stars", "seconds"]
    made = ClickSchema(label="stars", label_from=4, categorical=["user", "movie"], ids="vocabulary", column_names=names)
    clicks = read(public("rec-ml100k/u.data.gz"), made)
    assert (len(clicks), clicks.num_clicks) == (100_000, 34_174 + 21_201)
    assert clicks.num_rows_F.tolist() == [943 + 2, 1_682 + 2]
