"""Text of every source becomes the same corpus; what cannot be read is refused in one sentence."""

from __future__ import annotations

import errno
import gzip
import io
import json
import lzma
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import zstandard

import any2vec.data.io.array_file
from any2vec.data.text.corpus import Corpus
from any2vec.data.text.text import TextOptions, encode_text
from any2vec.errors import Any2VecError, DataError, InputError, StorageError
from naive.text import tokens as naive

LINES = ["the cat sat on the mat", "", "Ünïcode ΟΔΟΣ 東京\u3000tower", "the end"]
TEXT = "\n".join(LINES)
WORDS = [line.split() for line in LINES if line]


@pytest.fixture(autouse=True)
def _no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cache"
    assert not list((tmp_path / "cache").rglob("*.tmp")), "half-written files were left"


def content(corpus: Corpus) -> tuple[list[int], list[str], list[int]]:
    return corpus.tokens.tolist(), list(corpus.vocabulary.keys), corpus.vocabulary.counts.tolist()


PACKED = {
    "a.txt": lambda data: data,
    "a.gz": gzip.compress,
    "a.txt.zst": zstandard.compress,
    "long.zst": lambda data: zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(window_log=31, enable_ldm=False)
    ).compress(data),
    "a.xz": lzma.compress,
    "members.gz": lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:]) + bytes(64),
    "frames.zst": lambda data: zstandard.compress(data[:9]) + zstandard.compress(data[9:]),
    "streams.xz": lambda data: lzma.compress(data[:9]) + lzma.compress(data[9:]) + bytes(8),
    "no-suffix": gzip.compress,
    "bom": lambda data: b"\xef\xbb\xbf" + data,
    "crlf": lambda data: data.replace(b"\n", b"\r\n") + b"\r\n",
}


@pytest.mark.parametrize("name", PACKED)
def test_every_packing(name: str, tmp_path: Path, cache: Path) -> None:
    path = tmp_path / name
    path.write_bytes(PACKED[name](TEXT.encode()))
    calls: list[tuple[int, int | None]] = []
    corpus = encode_text(path, cache_dir=cache, progress=lambda *call: calls.append(call))
    assert content(corpus) == naive.encode(WORDS)
    assert (corpus.num_tokens, corpus.num_sentences, corpus.kind) == (12, 3, "text")
    assert corpus.meta["bad_bytes"] == 0 and corpus.meta["options"]["bad_bytes"] == "replace"
    assert calls[-1] == (path.stat().st_size,) * 2


@pytest.mark.data
@pytest.mark.skipif(
    "ANY2VEC_DATA" not in os.environ, reason="ANY2VEC_DATA does not name the folder of public data sets"
)
@pytest.mark.parametrize("token_pattern", [None, r"(?u)\b\w+\b"])
def test_wikipedia_equals_twin(token_pattern: str | None, cache: Path) -> None:
    path = Path(os.environ["ANY2VEC_DATA"]) / "text-enwiki2015" / "enwiki2015.raw-sample.txt.zst"
    options: dict[str, Any] = {"lowercase": True, "token_pattern": token_pattern}
    corpus = encode_text(path, TextOptions(**options), cache_dir=cache)
    with path.open("rb") as file:
        data = zstandard.ZstdDecompressor(max_window_size=1 << 31).stream_reader(file).read()
    assert content(corpus) == naive.encode(naive.sentences_of(data, **options))


def test_cache_is_by_content_and_options(tmp_path: Path, cache: Path) -> None:
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text(TEXT)
    two.write_text(TEXT)
    first = encode_text(one, cache_dir=cache)
    written = (first.path / "meta.json").stat().st_mtime_ns
    assert encode_text(two, cache_dir=cache).path == first.path
    assert (first.path / "meta.json").stat().st_mtime_ns == written
    assert encode_text(one, TextOptions(lowercase=True), cache_dir=cache).path != first.path
    two.write_text(TEXT + " more")
    assert encode_text(two, cache_dir=cache).path != first.path
    (first.path / "tokens.npy").write_bytes(b"")
    assert content(encode_text(one, cache_dir=cache)) == naive.encode(WORDS)
    assert encode_text(first.path).path == first.path and encode_text(first) is first


def test_known_hash_of_a_large_file_is_dropped_when_it_changes(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "large.txt"
    path.write_bytes(b"some words " * 1_600_000)
    os.utime(path, (1e9, 1e9))
    first = encode_text(path, cache_dir=cache)
    path.write_bytes(b"some other " * 1_600_000)
    os.utime(path, (1e9, 1e9))
    assert "other" in encode_text(path, cache_dir=cache).vocabulary
    assert "other" not in first.vocabulary


def test_folders_globs_and_lists(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "b.txt").write_text("second")
    (tmp_path / "in" / "a.txt").write_text("first")
    (tmp_path / "in" / "deep" / "c.gz").write_bytes(gzip.compress(b"third"))
    (tmp_path / "in" / ".hidden").write_text("never")
    (tmp_path / "in" / "empty.txt").write_text("")
    monkeypatch.chdir(tmp_path)
    expected = naive.encode([["first"], ["second"], ["third"]])
    assert content(encode_text("in", cache_dir=cache)) == expected
    assert content(encode_text("in/**/*.*", cache_dir=cache)) == expected
    assert content(encode_text(["in/a.txt", tmp_path / "in" / "b.txt", "in/deep"], cache_dir=cache)) == expected
    assert content(encode_text(["in/b.txt", "in/a.txt"], cache_dir=cache)) == naive.encode([["second"], ["first"]])


def test_standard_input_and_pipes(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (TEXT.encode(), gzip.compress(TEXT.encode())):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert content(encode_text("-", cache_dir=cache)) == naive.encode(WORDS)
    read, write = os.pipe()
    os.write(write, TEXT.encode())
    os.close(write)
    assert content(encode_text(f"/dev/fd/{read}", cache_dir=cache)) == naive.encode(WORDS)
    os.close(read)
    assert len([path for path in (cache / "corpora").iterdir() if path.is_dir()]) == 2


def test_sentences_in_memory(cache: Path) -> None:
    expected = naive.encode(WORDS)
    assert content(encode_text(LINES, cache_dir=cache)) == expected
    assert content(encode_text(iter(LINES), cache_dir=cache)) == expected
    assert content(encode_text(WORDS, cache_dir=cache)) == expected
    assert content(encode_text([["New York", "a\nb"], [], ["New York"]], cache_dir=cache))[1] == ["New York", "a\nb"]
    assert content(encode_text(["one\nsentence here"], cache_dir=cache))[0] == [0, 1, 2, -1]
    folded = encode_text([["Straße", "ABC"], ["abc"]], TextOptions(lowercase=True), cache_dir=cache)
    assert content(folded)[1] == ["abc", "straße"]
    assert content(encode_text(["half \udc80 pair"], cache_dir=cache))[1] == ["half", "\ufffd", "pair"]


def test_ids(tmp_path: Path, cache: Path) -> None:
    sentences = [[7, 7, 3], [10**12, 7]]
    expected = naive.encode([[str(item) for item in sentence] for sentence in sentences])
    flat = np.array([7, 7, 3, -1, 10**12, 7])
    np.save(tmp_path / "flat.npy", flat)
    np.save(tmp_path / "rows.npy", np.array([[7, 7, 3], [10**12, 7, -1]]))
    np.savez(tmp_path / "both.npz", a=np.array([7, 7, 3], np.uint8), b=np.array([10**12, 7], np.uint64))
    table = pa.table({"ids": pa.array([*sentences, [], None])})
    pq.write_table(table, tmp_path / "ids.parquet")
    for source in (
        sentences, [np.array(item) for item in sentences], flat, iter(sentences), tmp_path / "flat.npy",
        tmp_path / "rows.npy", tmp_path / "both.npz", tmp_path / "ids.parquet",
    ):  # fmt: skip
        corpus = encode_text(source, cache_dir=cache)
        assert content(corpus) == expected
        assert corpus.kind == "ids" and corpus.vocabulary.row("7") == 0


def test_a_text_of_integers_is_text(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "numbers.txt").write_text("007 7\n-1")
    corpus = encode_text(tmp_path / "numbers.txt", cache_dir=cache)
    assert corpus.kind == "text" and list(corpus.vocabulary.keys) == ["007", "7", "-1"]


def write_tables(tmp_path: Path, table: pa.Table) -> list[Path]:
    paths = [tmp_path / name for name in ("t.parquet", "t.feather", "t.arrow", "t.arrows")]
    pq.write_table(table, paths[0], row_group_size=2)
    pyarrow.feather.write_feather(table, paths[1])
    with pa.OSFile(str(paths[2]), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    with pa.OSFile(str(paths[3]), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    return paths


@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary", "list", "large_list"])
def test_columns(kind: str, tmp_path: Path, cache: Path) -> None:
    values: dict[str, Any] = {
        "string": pa.array([*LINES, None]),
        "large_string": pa.array(LINES, pa.large_string()),
        "dictionary": pa.array(LINES).dictionary_encode(),
        "list": pa.array([*WORDS, [], None, [None]]),
        "large_list": pa.array(WORDS, pa.large_list(pa.large_string())),
    }
    table = pa.table({"number": pa.array(range(len(values[kind]))), "text": values[kind]})
    for path in write_tables(tmp_path, table):
        assert content(encode_text(path, cache_dir=cache)) == naive.encode(WORDS), path
        with pytest.raises(DataError, match=r"no column 'other'.*number \(int64\), text"):
            encode_text(path, TextOptions(column="other"), cache_dir=cache)
        with pytest.raises(DataError, match="holds int64"):
            encode_text(path, TextOptions(column="number"), cache_dir=cache)


def test_a_column_must_be_named_when_there_are_two(tmp_path: Path, cache: Path) -> None:
    pq.write_table(pa.table({"a": ["x\ny"], "b": ["z"]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"--column.*a \(string\), b \(string\)"):
        encode_text(tmp_path / "t.parquet", cache_dir=cache)
    corpus = encode_text(tmp_path / "t.parquet", TextOptions(column="a"), cache_dir=cache)
    assert content(corpus)[0] == [0, 1, -1]


BAD_FILES = {
    "missing.txt": (None, "There is no file"),
    "empty.txt": (b"", "is empty"),
    "empty.gz": (gzip.compress(b""), "holds no words"),
    "blank.txt": (b" \n\n\t", "holds no words"),
    "cut.gz": (gzip.compress(TEXT.encode())[:-9], "truncated"),
    "cut.zst": (zstandard.compress(TEXT.encode())[:-3], "truncated"),
    "cut.xz": (lzma.compress(TEXT.encode())[:-9], "truncated"),
    "noise.gz": (b"\x1f\x8b" + os.urandom(99), "damaged"),
    "tail.gz": (gzip.compress(b"a b") + b"tail", "damaged"),
    "misnamed.gz": (b"plain text", "not a gz file"),
    "nul.txt": (b"text" * 9 + b"\0", "NUL byte at offset 36.*looks like a binary file"),
    "latin.txt": ("привет мир".encode("cp1251"), "looks like a binary file or text in another encoding"),
    "utf16.txt": (TEXT.encode("utf-16"), "UTF-16"),
    "utf32.txt": (TEXT.encode("utf-32"), "UTF-32"),
    "word.txt": (b"x" * 2_000_000, "a word of more than 1 MiB"),
    "a.npy": (b"\x93NUMPY", "cannot be read as a NumPy array"),
    "a.npz": (b"PK\x03\x04", "cannot be read as a NumPy array"),
    "a.parquet": (b"PAR1PAR1", "cannot be read as a table"),
    "a.arrow": (b"", "cannot be read as a table"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_get_one_sentence(name: str, tmp_path: Path, cache: Path) -> None:
    data, message = BAD_FILES[name]
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=message) as caught:
        encode_text(tmp_path / name, cache_dir=cache)
    assert "\n" not in str(caught.value) and name in str(caught.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([[1, -2]], "the id -2"),
        ([[1.5]], "should be a list of integers"),
        ([[2**63]], "overflows"),
        ([[2**70]], "should be a list of integers"),
        ([[1], ["a"]], "Sentence 2"),
        ([["a"], [1]], "Sentence 2"),
        (["a b", 3], "Sentence 2"),
        ([["a\0b"]], "NUL"),
        (["a\0 b"], "NUL"),
        ([b"bytes"], "Sentence 1"),
        ([], "holds no words"),
        ([[], []], "holds no words"),
        (5, "iterable"),
        (np.zeros(3), "float64"),
        (np.zeros((2, 2, 2), int), "shape"),
        (np.array([2**64 - 1], np.uint64), "overflows"),
        (["no/such/file.txt"], "There is no file"),
        ("no/such/*.txt", "No file matches"),
        ("a text, not a path. " * 300, "Cannot read a text.*File name too long"),
        ("nul\0.txt", "There is no file"),
    ],
)  # fmt: skip
def test_bad_sentences_get_one_sentence(source: Any, message: str, cache: Path) -> None:
    with pytest.raises(DataError, match=message):
        encode_text(source, cache_dir=cache)


def test_bad_bytes(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(b"good words here\ncaf\xe9 na\xc3\xafve \xe2\x80 end")
    replaced = encode_text(path, cache_dir=cache)
    assert (
        list(replaced.vocabulary.keys)[3:] == ["caf\ufffd", "naïve", "\ufffd", "end"]
        and replaced.meta["bad_bytes"] == 3
    )
    skipped = encode_text(path, TextOptions(bad_bytes="skip"), cache_dir=cache)
    assert list(skipped.vocabulary.keys)[3:] == ["caf", "naïve", "end"] and skipped.meta["bad_bytes"] == 3
    with pytest.raises(DataError, match=r"bad\.txt, line 2: the byte at offset 19 is not UTF-8"):
        encode_text(path, TextOptions(bad_bytes="error"), cache_dir=cache)


def test_options_are_checked() -> None:
    for options, message in (
        ({"bad_bytes": "drop"}, "error, replace, skip"),
        ({"token_pattern": "("}, "not a regular expression"),
        ({"token_pattern": "(a)(b)"}, "one group at most"),
        ({"token_pattern": "\udcff"}, "not valid Unicode"),
        ({"token_pattern": 5}, "must be a regular expression as a string, got 5"),
    ):
        with pytest.raises(InputError, match=message):
            TextOptions(**options)  # type: ignore[arg-type]


class FullDisk(io.FileIO):
    """A file on a disk that is full after 300 bytes."""

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > 300:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


def test_full_disk(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_text(TEXT * 20)
    with monkeypatch.context() as patch:
        patch.setattr(any2vec.data.io.array_file, "FileIO", FullDisk)
        with pytest.raises(StorageError, match="the disk is full"):
            encode_text(path, cache_dir=cache)

    def full(*_: Any, **__: Any) -> None:
        raise OSError("1000 requested and 12 written")

    with monkeypatch.context() as patch:
        patch.setattr(np, "save", full)
        for source in (path, [TEXT]):
            with pytest.raises(StorageError, match="the disk is full"):
                encode_text(source, cache_dir=cache)
    assert not list((cache / "corpora").iterdir())


def test_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="Cannot write"):
        encode_text(LINES, cache_dir=tmp_path / "file" / "cache")


def test_interrupted_encoding_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    def interrupt(_done: int, _total: int | None) -> None:
        raise KeyboardInterrupt

    (tmp_path / "a.txt").write_bytes(b"some words\n" * 300_000)
    with pytest.raises(KeyboardInterrupt):
        encode_text(tmp_path / "a.txt", cache_dir=cache, progress=interrupt)
    assert not list((cache / "corpora").iterdir())


def seeds(folder: Path) -> list[tuple[str, bytes]]:
    """One sound file of each format, as (suffix, bytes)."""
    text = (TEXT * 50).encode()
    table = pa.table({"text": LINES * 50})
    made = [
        (".gz", gzip.compress(text)),
        (".zst", zstandard.compress(text)),
        (".xz", lzma.compress(text)),
        (".txt", text),
    ]
    for path in [*write_tables(folder, table), *write_tables(folder, pa.table({"words": WORDS * 50}))]:
        made.append((path.suffix, path.read_bytes()))
    pq.write_table(pa.table({"ids": [[1, 2, 3]] * 99}), folder / "ids.parquet", compression="none")
    np.save(folder / "a.npy", np.arange(300, dtype=np.int32))
    np.savez_compressed(folder / "a.npz", a=np.arange(300))
    return made + [(path.suffix, path.read_bytes()) for path in (folder / n for n in ("ids.parquet", "a.npy", "a.npz"))]


@pytest.mark.slow
def test_seven_hundred_malformed_files(tmp_path: Path, cache: Path) -> None:
    """Cut, flipped or overwritten: a file is read, or refused with one of our errors, and nothing is left behind."""
    random = np.random.default_rng(2)
    tried = refused = 0
    for suffix, data in seeds(tmp_path):
        for number in range(47):
            bad = bytearray(data)
            if number % 3 == 0:
                del bad[int(random.integers(len(bad))) :]
            for _ in range(int(random.integers(0 if number % 3 == 0 else 1, 6))):
                if bad:
                    bad[int(random.integers(len(bad)))] = int(random.integers(256))
            path = tmp_path / f"bad{suffix}"
            path.write_bytes(bad)
            tried += 1
            try:
                corpus = encode_text(path, cache_dir=cache)
                assert corpus.tokens.max() < len(corpus.vocabulary)
            except Any2VecError as error:
                refused += 1
                assert "\n" not in str(error)
            assert not list(cache.rglob("*.tmp"))
    assert tried >= 700 and refused > 250, json.dumps([tried, refused])
