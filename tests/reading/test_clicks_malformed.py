"""What is wrong in a file of clicks, a schema or a stored folder is said in one sentence; nothing is left behind."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import any2vec.data.clicks.clicks
from any2vec.data.clicks.clicks import Clicks, read_clicks
from any2vec.data.clicks.encoder import ClickEncoder
from any2vec.data.clicks.rows import FoundRows
from any2vec.data.clicks.schema import ClickSchema
from any2vec.data.vocab.vocabulary import Vocabulary
from any2vec.errors import Any2VecError, DataError, FormatError, InputError


@pytest.fixture(autouse=True)
def _no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


def schema(**more: Any) -> ClickSchema:
    return ClickSchema(**({"label": "y", "dense": ["x"], "categorical": ["a"], "hash_rows": 50} | more))


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Clicks]:
    def read(content: str | bytes, name: str = "clicks.csv", **more: Any) -> Clicks:
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return read_clicks(tmp_path / name, schema(**more), cache_dir=tmp_path / "cache")

    return read


GOOD = "y,x,a\n1,2,k\n0,3,m\n"
WRONG = {
    "empty": ("", {}, r"clicks.csv is empty"),
    "blank": ("\n\r\n\n", {}, r"clicks.csv holds no rows"),
    "header alone": ("y,x,a\n", {}, r"clicks.csv holds no rows"),
    "no label": ("label,x,a\n1,2,k\n", {}, r"has no column 'y'; known are label, x, a"),
    "no column": ("y,x,aa\n1,2,k\n", {}, r"has no column 'a'; did you mean 'aa'\?"),
    "twice": ("y,x,a,a\n1,2,k,m\n", {}, r"two columns named 'a'"),
    "no header": ("1,2,k\n", {}, r"has no column 'x'; known are 1, 2, k"),
    "semicolons": ("y;x;a\n1;2;k\n", {}, r"known are y;x;a\. Its columns seem .* write delimiter = \"semicolon\""),
    "one name": ("1\n", {"column_names": ["y", "x", "a"]}, r"has 1 column in its first line, but.*names 3"),
    "too few names": ("1,2\n", {"column_names": ["y", "x", "a"]}, r"has 2 columns in its first line.*names 3"),
    "label 2": (GOOD + "2,3,k\n", {}, r"line 4: the label must be 0 or 1, got 2 in column 'y'; .*label_from"),
    "label behind blank lines": ("\n" + GOOD + "\r\n\n0.5,3,k\n", {}, r"line 7: the label must be 0 or 1, got 0.5"),
    "label word": (GOOD + "yes,3,k\n", {}, r"line 4: column 'y' holds 'yes', which is no number"),
    "label missing": (GOOD + ",3,k\n", {}, r"line 4: the label is missing"),
    "label nan": (GOOD + "nan,3,k\n", {}, r"line 4: column 'y' holds nan"),
    "number word": (GOOD + "1,three,k\n", {}, r"line 4: column 'x' holds 'three', which is no number \(empty"),
    "nan": (GOOD + "1,NaN,k\n", {}, r"line 4: column 'x' holds nan; numbers must be finite"),
    "infinite": (GOOD + "1,-inf,k\n", {}, r"line 4: column 'x' holds -inf"),
    "overflow": (GOOD + "1,1e999,k\n", {}, r"line 4: column 'x' holds inf"),
    "one more": (GOOD + "1,2,k,\n", {}, r"line 4: 4 columns, but the first line has 3; give every line the same"),
    "one less": (GOOD + "\n\n1,2\n" + "1,2,k\n", {}, r"line 6: 2 columns, but the first line has 3"),
    "line end": (GOOD + '1,2,"k\nm"\n', {}, r"clicks.csv holds a quoted value with a line end"),
    "open quote": (GOOD + '1,2,"k\n', {}, r"line 4: a quoted value does not end"),
    "open quote above": (GOOD + '1,2,"k\n' + GOOD, {}, r"clicks.csv"),
    "NUL": (GOOD + "1,2,k\0\n", {"ids": "vocabulary"}, r"clicks.csv, column 'a': The value 'k\\x00' holds a NUL byte"),
    "not UTF-8": (GOOD.encode() + b"\n1,2,caf\xe9\n", {}, r"line 5: the byte 0xe9 is not UTF-8, .*; convert"),
    "header not UTF-8": (b"y,x,a\xe9\n1,2,k\n", {}, r"line 1: the byte 0xe9 is not UTF-8"),
    "cut in a character": (GOOD.encode() + b"1,2,caf\xc3", {}, r"line 4: the byte 0xc3 is not UTF-8, unexpected end"),
    "gz": (gzip.compress(GOOD.encode())[:-9], {}, r"clicks.csv is truncated"),
    "gz head": (b"\x1f\x8b" + b"nothing" * 9, {}, r"clicks.csv is damaged"),
    "named as missing": (GOOD + "1,2,<missing>\n", {"ids": "vocabulary"}, r"Column 'a' holds the value '<missing>'.*"
                         r"row of missing values; .*an empty one is missing"),
    "named as rare": (GOOD + "1,2,<rare>\n", {"ids": "vocabulary"}, r"Column 'a' holds the value '<rare>'"),
    "keys of another column": ("y,x,a,a=b\n1,2,b=c,c\n0,1,k,m\n", {"ids": "vocabulary", "categorical": ["a", "a=b"]},
                               r"Column 'a' holds values that begin with 'b=', and column 'a=b' is named so"),
    "keys of buckets": ("y,x,a,a=b\n1,2,b#4,c\n0,1,k,m\n", {"categorical": ["a", "a=b"],
                        "column": {"a": {"ids": "vocabulary"}}}, r"begin with 'b#', and column 'a=b' is named so"),
    "huge": ("y,x,a\n0,1," + "k" * ((1 << 20) + 1) + "\n", {"ids": "vocabulary"}, r"longer than 1 MiB"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file(case: str, read: Callable[..., Clicks], tmp_path: Path) -> None:
    content, more, message = WRONG[case]
    with pytest.raises(DataError, match=message):
        read(content, **more)
    assert not [path for path in (tmp_path / "cache" / "clicks").iterdir() if path.name != "index"]


@pytest.mark.parametrize("block_bytes", [7, 100, 1 << 20])
def test_lines_are_named_whatever_the_block(block_bytes: int, tmp_path: Path) -> None:
    lines = ["y,x,a", *["0,1,k"] * 40, "0,one,k", *["0,1,k"] * 40]
    for name, end in (("unix.csv", "\n"), ("dos.csv", "\r\n")):
        path = tmp_path / name
        path.write_bytes(end.join(lines).encode())
        with pytest.raises(DataError, match=rf"{name}, line 42: column 'x' holds 'one'"):
            read_clicks(path, schema(), cache_dir=tmp_path / "cache", block_bytes=block_bytes)
        path.write_bytes(end.join([*lines[:41], "0,1", *lines[42:]]).encode())
        with pytest.raises(DataError, match=rf"{name}, line 42: 2 columns, but the first line has 3"):
            read_clicks(path, schema(), cache_dir=tmp_path / "cache", block_bytes=block_bytes)


TABLES = {
    "list": ({"a": [["k"]]}, r"column 'a': expected one value a row, found lists; name it in multi_valued"),
    "fraction": ({"a": [0.5]}, r"t.parquet, row 1: column 'a' holds 0.5, which is no category"),
    "infinite": ({"a": [float("inf")]}, r"row 1: column 'a' holds inf"),
    "struct": ({"a": [{"k": 1}]}, r"column 'a': expected one value a row, found struct"),
    "text": ({"x": ["one"]}, r"row 1: column 'x' holds 'one', which is no number"),
    "dates": ({"x": [[1.0]]}, r"column 'x': expected numbers, found list"),
    "nan": ({"x": [float("nan")]}, r"row 1: column 'x' holds nan"),
    "label": ({"y": [3]}, r"row 1: the label must be 0 or 1, got 3"),
    "null label": ({"y": pa.array([None], pa.int64())}, r"row 1: the label is missing"),
    "no label": ({"z": [1], "y": None}, r"has no column 'y'"),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_wrong_table(case: str, tmp_path: Path) -> None:
    change, message = TABLES[case]
    columns: dict[str, Any] = {"y": [1], "x": [2.0], "a": ["k"]} | change
    pq.write_table(
        pa.table({name: values for name, values in columns.items() if values is not None}), tmp_path / "t.parquet"
    )
    with pytest.raises(DataError, match=message):
        read_clicks(tmp_path / "t.parquet", schema(), cache_dir=tmp_path / "cache")


def test_the_row_of_a_bag_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"y": [1, 0, 1], "b": [[1.0, 2.0], [], [3.5]]}), tmp_path / "t.parquet")
    bags = ClickSchema(label="y", multi_valued=("b",))
    with pytest.raises(DataError, match=r"t.parquet, row 3: column 'b' holds 3.5"):
        read_clicks(tmp_path / "t.parquet", bags, cache_dir=tmp_path / "cache")


def test_a_row_of_a_later_batch_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"y": [0] * 30 + [7], "x": [1] * 31, "a": ["k"] * 31}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t.parquet, row 31: the label"):
        read_clicks(tmp_path / "t.parquet", schema(), cache_dir=tmp_path / "cache", block_rows=4)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_a_table_that_is_none(name: str, read: Callable[..., Clicks]) -> None:
    with pytest.raises(DataError, match=rf"{name} cannot be read as a table"):
        read(b"PAR1 and then nothing", name)


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_damaged_tables_never_crash(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("damaged", numbered=True)
    table = pa.table({"y": [0, 1] * 4, "x": [1.0] * 8, "a": ["k", "much longer"] * 4, "g": [["p", "q"], []] * 4})
    with pa.OSFile(str(folder / "t.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    content = bytearray((folder / "t.arrow").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (folder / "t.arrow").write_bytes(content)
    try:
        clicks = read_clicks(folder / "t.arrow", schema(multi_valued=["g"]), cache_dir=folder / "cache")
    except Any2VecError as error:
        assert "\n" not in str(error)
    else:
        assert clicks.batch(0, len(clicks)).id_M.max(initial=0) < 100


def test_missing_files_and_arrays(read: Callable[..., Clicks], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"There is no file .*nothing.csv"):
        read_clicks(tmp_path / "nothing.csv", "criteo")
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(DataError, match=r"a.npy is a NumPy file"):
        read_clicks(tmp_path / "a.npy", schema(), cache_dir=tmp_path / "cache")


def test_numbers_at_the_ends_of_float32(read: Callable[..., Clicks], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 2: column 'x' holds 1e\+300; numbers must be finite in float32"):
        read("y,x,a\n0,1e300,k\n", dense_transform="none")
    clicks = read("y,x,a\n0,1e-300,k\n0,-1e-300,k\n0,0,k\n", dense_transform="standard")
    assert np.isfinite(clicks.dense).all()
    (tmp_path / "new.csv").write_text("x,a\n3e38,k\n")
    assert np.isfinite(next(clicks.encoder.encode(tmp_path / "new.csv")).dense_BX).all()


def test_a_file_that_changes(read: Callable[..., Clicks], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    encode = any2vec.data.clicks.clicks.encode_block

    def late(*of: Any, **more: Any) -> Any:
        (tmp_path / "clicks.csv").write_text(GOOD + "1,1,k\n")
        return encode(*of, **more)

    monkeypatch.setattr(any2vec.data.clicks.clicks, "encode_block", late)
    with pytest.raises(DataError, match="changed while it was read"):
        read(GOOD)


# ---- schemas --------------------------------------------------------------------------------------------------------

SCHEMAS = {
    "labell": ({"labell": "y"}, r"there is no schema key 'labell'; did you mean 'label'\?"),
    "nothing": ({"categorical": []}, r"at least one column"),
    "both": ({"multi_valued": ["a"]}, r"'a' is named in categorical and in multi_valued"),
    "twice": ({"categorical": ["a", "a"]}, r"categorical names 'a' twice"),
    "string": ({"categorical": "a"}, r"categorical must be a list of names of columns, got 'a'"),
    "label as input": ({"categorical": ["a", "y"]}, r"the label 'y' is named as an input"),
    "ids": ({"ids": "hashed"}, r"ids must be one of hash, vocabulary, got 'hashed'"),
    "pooling": ({"pooling": "max"}, r"pooling must be one of sum, mean"),
    "transform": ({"dense_transform": "exp"}, r"dense_transform must be one of log, none, standard"),
    "rows": ({"hash_rows": 2}, r"hash_rows must be a whole number from 3 to 2,147,483,647, got 2"),
    "count": ({"min_count": 0}, r"min_count must be a whole number from 1"),
    "stars": ({"label_from": "4"}, r"label_from must be a number"),
    "delimiter": ({"delimiter": "ab"}, r"delimiter must be tab, comma"),
    "header": ({"header": "yes"}, r"header must be true or false, got 'yes'"),
    "no names": ({"header": False}, r"needs column_names"),
    "names": ({"column_names": ["y", "x", "b"]}, r"column_names lacks 'a'"),
    "separator": ({"separator": ""}, r"separator must be a text"),
    "no column": ({"column": {"b": {}}}, r"column.b has options, but is no column; known are a, x"),
    "no option": ({"column": {"a": {"row": 5}}}, r"column.a: there is no option 'row'; known are ids"),
    "no kind": ({"column": {"x": {"ids": "hash"}}}, r"column.x cannot have ids"),
    "no bag": ({"column": {"a": {"pooling": "sum"}}}, r"column.a cannot have pooling"),
    "unused count": ({"min_count": 5}, r'min_count is for ids = "vocabulary"; set that'),
    "own unused count": ({"column": {"a": {"min_count": 5}}}, r"column.a.min_count is for ids"),
    "unused rows": (
        {"ids": "vocabulary", "column": {"a": {"hash_rows": 9}}},
        r'column.a.hash_rows is for ids = "hash"',
    ),
    "own rows": ({"column": {"a": {"hash_rows": 0}}}, r"column.a.hash_rows must be a whole number"),
    "characters": ({"column": {"a": {"characters": [3, 3]}}}, r"column.a.characters must be \[start, stop\]"),
    "no table": ({"column": ["a"]}, r"column must hold a table of options"),
}


@pytest.mark.parametrize("case", SCHEMAS)
def test_a_wrong_schema(case: str, tmp_path: Path) -> None:
    change, message = SCHEMAS[case]
    content = {"label": "y", "dense": ["x"], "categorical": ["a"]} | change
    with pytest.raises(InputError, match=message):
        ClickSchema.from_dict(content)


def test_a_wrong_schema_file(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text('label = "y"\ncategorical = ["a"]\nhash_row = 5\n')
    with pytest.raises(InputError, match=r"In the schema .*schema.toml: .*did you mean 'hash_rows'\?"):
        ClickSchema.of(path)
    path.write_text("label = \n")
    with pytest.raises(DataError, match=r"The schema .*schema.toml is not TOML"):
        ClickSchema.of(path)
    with pytest.raises(InputError, match=r"There is no schema 'criteoo'; give a TOML file, or one of criteo, avazu"):
        ClickSchema.of("criteoo")
    with pytest.raises(InputError, match=r"There is no schema 'avazo'; did you mean 'avazu'"):
        ClickSchema.known("avazo")
    with pytest.raises(DataError, match=r"Cannot read the schema"):
        ClickSchema.of(tmp_path)


# ---- stored folders -------------------------------------------------------------------------------------------------


def test_a_damaged_folder_is_refused_and_the_cache_made_anew(read: Callable[..., Clicks]) -> None:
    for name in ("labels.npy", "dense.npy", "ids.npy", "counts.npy", "schema.json", "values.parquet"):
        path = read(GOOD, ids="vocabulary").path
        whole = (path / name).read_bytes()
        (path / name).write_bytes(whole[:-3])
        with pytest.raises(FormatError, match=rf"{path.name}"):
            Clicks.open(path)
        (path / name).unlink()
        with pytest.raises(FormatError):
            Clicks.open(path)
        assert read(GOOD, ids="vocabulary").num_examples == 2
        assert (path / name).read_bytes() == whole


def test_folders_that_are_not_ours(read: Callable[..., Clicks], tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="is not a folder of any2vec clicks"):
        Clicks.open(tmp_path)
    path = read(GOOD).path
    meta = json.loads((path / "meta.json").read_text())
    (path / "meta.json").write_text(json.dumps(meta | {"version": 2}))
    with pytest.raises(FormatError, match="has clicks version 2"):
        Clicks.open(path)
    (path / "meta.json").write_text(json.dumps(meta | {"num_rows": 7}))
    with pytest.raises(FormatError, match="is damaged"):
        Clicks.open(path)


def test_schemas_that_are_not_ours(read: Callable[..., Clicks]) -> None:
    path = read(GOOD).path
    content = json.loads((path / "schema.json").read_text())
    for change, message in [
        ({"format": "other"}, "not a schema of clicks"),
        ({"version": 2}, "has version 2"),
        ({"schema": {"labels": 1}}, "there is no schema key"),
        ({"mean": []}, "do not fit"),
        ({"std": [0.0]}, "do not fit"),
        ({"schema": content["schema"] | {"ids": "vocabulary"}}, "values.parquet cannot be read"),
    ]:
        (path / "schema.json").write_text(json.dumps(content | change))
        with pytest.raises(FormatError, match=message):
            ClickEncoder.open(path)


def test_vocabularies_must_be_those_of_the_schema() -> None:
    with pytest.raises(InputError, match=r"needs vocabularies of the columns \['a'\], got \[\]"):
        ClickEncoder.of(schema(ids="vocabulary"))
    encoder = ClickEncoder.of(schema(ids="vocabulary"), {"a": Vocabulary.from_keys(["k"], [1])})
    assert encoder.num_rows_F.tolist() == [3]


def test_bytes_of_a_table_that_are_no_text_are_kept(tmp_path: Path) -> None:
    """Of a column of bytes, that is: text must be UTF-8."""
    values = pa.array([b"k", b"m", b"\xff\xfe", b"\xff\xfe"], pa.binary())
    pq.write_table(pa.table({"y": [1, 0, 1, 1], "x": [2.0, 3, 2, 2], "a": values}), tmp_path / "clicks.parquet")
    clicks = read_clicks(tmp_path / "clicks.parquet", schema(ids="vocabulary"), cache_dir=tmp_path / "cache")
    assert clicks.counts_V.tolist() == [0, 0, 2, 1, 1]
    batch = next(Clicks.open(clicks.path).encoder.encode(tmp_path / "clicks.parquet"))
    assert batch.id_M.tolist() == [3, 4, 2, 2]


def test_a_block_of_text_may_end_in_any_line(tmp_path: Path) -> None:
    """Lines are whole where text is checked: no character is cut."""
    (tmp_path / "clicks.csv").write_text("y,x,a\n" + "1,2,é\n0,3,größe\n" * 50, encoding="utf-8")
    clicks = read_clicks(tmp_path / "clicks.csv", schema(), cache_dir=tmp_path / "cache", block_bytes=7)
    assert clicks.num_examples == 100


def test_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("any2vec.data.vocab.found_texts._MAX_TYPES", 2 * 1000)
    with pytest.raises(DataError, match="more than 1,000 different values"):
        FoundRows().rows_of(pa.array([str(at).encode() for at in range(5000)], pa.large_binary()))
