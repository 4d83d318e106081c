"""Text in the columns of tables in memory, and of CSV, TSV and JSON Lines; folders of saved Datasets."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from any2vec.data.text.documents import Documents
from any2vec.data.text.shards import cut_text
from any2vec.data.text.text import TextOptions, encode_text
from any2vec.errors import DataError, InputError

LINES = ["the cat sat", "a dog, they say", "the cat ran"]
WORDS = [line.split() for line in LINES]
IDS = [[3, 1], [1, 4, 1]]


class Dataset:
    """What is known of a Dataset of Hugging Face, which offers no capsule."""

    column_names = ("text",)

    def with_format(self, form: str) -> Dataset:
        assert form == "arrow"
        return self

    def iter(self, batch_size: int) -> Iterator[pa.Table]:
        yield from (pa.table({"n": [1], "text": [line]}) for line in LINES)


def keys(source: Any, tmp_path: Path, **options: Any) -> list[Any]:
    """Words of a source, in the order of its sentences."""
    corpus = encode_text(source, TextOptions(**options), cache_dir=tmp_path / "cache")
    return [corpus.vocabulary.keys[row] if row >= 0 else "|" for row in corpus.tokens.tolist()]


EXPECTED = [word for line in LINES for word in [*line.split(), "|"]]


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"text": LINES}), pa.table({"text": WORDS}), {"text": LINES}, {"text": np.array(LINES)},
        {"text": np.array(LINES, object), "n": np.arange(3)}, [{"text": line} for line in LINES], Dataset(),
        pa.table({"text": LINES}).to_reader(), pa.chunked_array([LINES[:1], LINES[1:]]), {"text": pa.array(LINES)},
        [{"text": LINES[0]}, {"text": None}, {"other": 5}, *[{"text": line} for line in LINES[1:]]],
    ],
    ids=lambda table: type(table).__name__,
)  # fmt: skip
def test_tables_are_read_by_their_column(table: Any, tmp_path: Path) -> None:
    named = {} if isinstance(table, pa.ChunkedArray) else {"column": "text"}
    assert keys(table, tmp_path, **named) == EXPECTED


def test_ids_in_tables(tmp_path: Path) -> None:
    expected = ["3", "1", "|", "1", "4", "1", "|"]
    assert keys({"walk": IDS}, tmp_path) == keys(pa.table({"walk": IDS}), tmp_path) == expected
    assert keys({"walk": np.array([[3, 1], [1, 4]])}, tmp_path) == ["3", "1", "|", "1", "4", "|"]


@pytest.mark.parametrize("library", ["pandas", "polars", "datasets"])
def test_frames_of_libraries(library: str, tmp_path: Path) -> None:
    module = pytest.importorskip(library)
    columns = {"n": [1, 2, 3], "text": LINES}
    if library == "datasets":
        frame = module.Dataset.from_dict(columns)
        assert keys(frame.select([1]), tmp_path) == ["a", "dog,", "they", "say", "|"]
        assert keys(frame.to_iterable_dataset(), tmp_path) == EXPECTED
        with pytest.raises(DataError, match=r"holds several tables: train; give one of them, data\['train'\]"):
            keys(module.DatasetDict({"train": frame}), tmp_path)
        frame.save_to_disk(tmp_path / "saved")
        assert keys(tmp_path / "saved", tmp_path) == EXPECTED
    else:
        frame = module.DataFrame(columns)
        assert keys(frame["text"], tmp_path) == EXPECTED
    assert keys(frame, tmp_path) == EXPECTED


@pytest.mark.parametrize(
    "source, options, sentence",
    [
        (pa.table({"a": LINES, "b": LINES}), {}, r"needs a column to be named .* its columns are: a \(string\), b"),
        ({"text": LINES}, {"column": "nosuch"}, "has no column 'nosuch'; its columns are: text"),
        ({"text": LINES, "n": [1]}, {"column": "text"}, "columns of different lengths: text 3, n 1"),
        (LINES, {"column": "text"}, "The list is no table, so it has no column 'text'"),
    ],
)
def test_tables_that_cannot_be_read(source: Any, options: dict[str, str], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=sentence):
        keys(source, tmp_path, **options)


# ---- files of records


def records(tmp_path: Path, name: str) -> Path:
    """LINES as the column text of a file, by its suffix."""
    path = tmp_path / name
    if ".csv" in name:
        text = "n,text\n" + "".join(f'{n},"{line}"\n' for n, line in enumerate(LINES))
    elif ".tsv" in name:
        text = "n\ttext\n" + "".join(f"{n}\t{line}\n" for n, line in enumerate(LINES))
    else:
        text = "\n\n".join(json.dumps({"n": n, "text": line}) for n, line in enumerate(LINES)) + '\n{"n": 5}\n'
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.ndjson", "t.csv.gz", "t.jsonl.gz"])
def test_files_of_records_are_read_by_column_or_refused(name: str, tmp_path: Path) -> None:
    path = records(tmp_path, name)
    assert keys(path, tmp_path, column="text") == EXPECTED
    for options, sentence in (
        ({}, r"name the column .*its columns are: n, text\. "),
        ({"column": "x"}, "no column 'x'"),
    ):
        with pytest.raises(DataError, match=sentence):
            keys(path, tmp_path, **options)
    with pytest.raises(InputError, match="cannot be cut"):
        cut_text(path, 2)


def test_lists_in_json_lines(tmp_path: Path) -> None:
    for name, rows in (("words", WORDS), ("ids", IDS)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"x": row}) + "\n" for row in rows))
    assert keys(tmp_path / "words.jsonl", tmp_path, column="x") == EXPECTED
    assert keys(tmp_path / "ids.jsonl", tmp_path, column="x") == ["3", "1", "|", "1", "4", "1", "|"]


@pytest.mark.parametrize("option", [{"lowercase": True}, {"token_pattern": "[0-9]"}])
def test_options_of_text_are_refused_for_integers(option: dict[str, Any], tmp_path: Path) -> None:
    """They did nothing."""
    (tmp_path / "ids.jsonl").write_text('{"x": [3, 1]}\n')
    for source, more in ((tmp_path / "ids.jsonl", {"column": "x"}), ([[3, 1]], {})):
        with pytest.raises(InputError, match=f"{next(iter(option))} says how text is read, and .* holds integers"):
            keys(source, tmp_path, **option, **more)


def test_a_quoted_value_over_lines_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('text;n\n"a b\nc";1\nd;2\n')
    assert keys(tmp_path / "t.csv", tmp_path, column="text") == ["a", "b", "c", "|", "d", "|"]


def test_json_lines_may_begin_with_a_mark_of_utf_8(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"text": "a b"}\n{"text": "c"}\n', encoding="utf-8-sig")
    assert keys(tmp_path / "t.jsonl", tmp_path, column="text") == ["a", "b", "|", "c", "|"]


@pytest.mark.parametrize(
    "name, text, sentence",
    [
        ("t.jsonl", '{"text": "a"}\n{"text": \n', "t.jsonl, line 2 is no JSON object"),
        ("t.jsonl", '{"text": "a"}\n[1]\n', "line 2 is no JSON object"),
        ("t.jsonl", '{"text": ' + "[" * 100_000 + "\n", "line 1 is no JSON object"),
        ("t.jsonl", '{"text": "a", "more": ' + "[" * 100 + "]" * 100 + "}\n", "line 1 is no JSON object"),
        ("t.jsonl", '{"text": "a"}\n{"text": 5}\n', "line 2 has int in 'text'"),
        ("t.jsonl", '{"text": "a"}\n{"text": ["b"]}\n', "should be a string like those before it"),
        ("t.csv", "text,n\na,1\nb\n", "t.csv cannot be read"),
        ("t.csv", "text,n,text\na,1,b\n", "t.csv has 2 columns named 'text'; rename one"),
        ("t.csv", "", "is empty"),
        ("t.jsonl", "", "is empty"),
        ("t.txt", "a b\n", "is plain text, so it has no column 'text'"),
    ],
)
def test_files_of_records_that_are_damaged(name: str, text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=sentence):
        keys(tmp_path / name, tmp_path, column="text")


def test_a_saved_dataset_is_its_arrow_files(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    for name in ("state.json", "dataset_info.json"):
        (saved / name).write_text('{"text": "no text"}')
    with pytest.raises(DataError, match="holds no files"):
        keys(saved, tmp_path)
    for number, part in enumerate((LINES[:2], LINES[2:])):
        table = pa.table({"text": part})
        with (
            pa.OSFile(str(saved / f"data-0000{number}-of-00002.arrow"), "wb") as file,
            pa.ipc.new_stream(file, table.schema) as writer,
        ):
            writer.write_table(table)
    assert keys(saved, tmp_path) == EXPECTED
    (tmp_path / "dataset_dict.json").write_text("{}")
    with pytest.raises(DataError, match=r"holds the splits .*saved"):
        keys(tmp_path, tmp_path)


def test_ids_end_below_the_largest_of_int64(tmp_path: Path) -> None:
    largest = np.iinfo(np.int64).max
    assert keys({"text": pa.array([[largest - 1, 0]], pa.list_(pa.uint64()))}, tmp_path) == [str(largest - 1), "0", "|"]
    with pytest.raises(DataError, match=rf"holds the id {largest}, which overflows"):
        keys({"text": pa.array([[largest]], pa.list_(pa.uint64()))}, tmp_path)


# ---- documents, one by one


def damaged(kind: str, tmp_path: Path) -> Any:
    """Two sentences with bytes that are no UTF-8, in the columns "text" of files and tables, or as they are."""
    lines = [b"caf\xe9 a na\xc3\xafve", b"b \xe2\x80 end"]
    texts = pa.array(lines).view(pa.string())
    if kind == "words":
        words = pa.array([word for line in lines for word in line.split()]).view(pa.string())
        return pa.table({"text": pa.ListArray.from_arrays([0, 3, 6], words)})
    if kind == "table":
        return pa.table({"text": texts})
    path = tmp_path / kind
    if kind == "t.arrow":
        with pa.ipc.new_file(path, pa.schema({"text": pa.string()})) as file:
            file.write_table(pa.table({"text": texts}))
    else:
        path.write_bytes(b"text\n" * kind.endswith(".csv") + b"\n".join([*lines, b""]))
    return path


@pytest.mark.parametrize("bad_bytes", ["replace", "skip", "error"])
@pytest.mark.parametrize("kind", ["words", "table", "t.arrow", "t.csv", "t.txt"])
def test_documents_treat_bad_bytes_as_reading_does(kind: str, bad_bytes: str, tmp_path: Path) -> None:
    source = damaged(kind, tmp_path)
    options = TextOptions(bad_bytes=bad_bytes, column=None if kind == "t.txt" else "text")
    documents = Documents.of_files([str(source)], options) if isinstance(source, Path) else Documents(source, options)
    if bad_bytes == "error":
        with pytest.raises(DataError, match=r"t\.txt, line 1 holds bytes" if kind == "t.txt" else "not UTF-8"):
            list(documents)
        with pytest.raises(DataError, match="not UTF-8"):
            keys(source, tmp_path, **asdict(options))
        return
    words = [[word for word in options.words(document) if word] for document in documents]
    read = keys(source, tmp_path, **asdict(options))
    assert [word for sentence in words for word in [*sentence, "|"]] == read
    assert ("caf" if bad_bytes == "skip" else "caf\ufffd") in read


@pytest.mark.parametrize("words", [[["a\0b"]], [["a", "b\0c", None]], [["a"], ["b", "c\0"], None, []]])
def test_a_nul_in_a_word_is_refused_wherever_it_stands(words: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a word with a NUL byte"):
        keys(pa.table({"text": words}), tmp_path)
