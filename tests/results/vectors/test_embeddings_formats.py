"""Every format: written, read back, and read by the libraries it belongs to."""

from __future__ import annotations

import errno
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from vector_files import NAMES

from any2vec.data.io.files import BLOCK_BYTES
from any2vec.data.vocab.user_keys import UserKeys
from any2vec.embeddings import Embeddings
from any2vec.errors import FormatError, InputError, StorageError
from any2vec.formats import FORMATS, guess_format, native, table, tensorboard, vocabulary
from any2vec.formats.vocabulary import parse_vocabulary
from any2vec.formats.word2vec import LONGEST_KEY

INDEXES = ("usearch", "faiss")
WITH_OUTPUT = {"folder", "safetensors", "parquet", "arrow", "npz"}
WITHOUT_COUNTS = {"word2vec", "word2vec-binary", "glove"}
WITHOUT_BLANKS = {"word2vec", "word2vec-binary", "glove", "fasttext"}


def toy(rows: int = 50, dim: int = 7) -> Embeddings:
    rng = np.random.default_rng(3)
    vectors = (rng.standard_normal((rows, dim)) * 10.0 ** rng.integers(-12, 12, (rows, 1))).astype(np.float32)
    keys = [f"ключ{i}" for i in range(rows - 4)] + ['"', "a,b", "12", "\xa0x"]
    output = rng.standard_normal((rows, dim)).astype(np.float32)
    return Embeddings(keys, vectors, output, np.arange(rows)[::-1] * 10**9, {"model": "skipgram", "window": 5})


def assert_same(found: Embeddings, expected: Embeddings, format: str) -> None:
    assert list(found.keys) == list(expected.keys)
    np.testing.assert_array_equal(found.vectors, expected.vectors)
    if format in WITH_OUTPUT:
        np.testing.assert_array_equal(found.output, expected.output)
        if format != "npz":
            assert found.meta == expected.meta
    if format not in WITHOUT_COUNTS:
        np.testing.assert_array_equal(found.counts, expected.counts)


def test_every_format_is_tried_here() -> None:
    assert {*NAMES, *INDEXES} == FORMATS.keys() and all(FORMATS[name].is_index for name in INDEXES)


@pytest.mark.parametrize("format", NAMES)
@pytest.mark.parametrize("block_bytes", [64, 16 << 20])
def test_round_trip_keeps_every_bit(tmp_path: Path, format: str, block_bytes: int, monkeypatch) -> None:
    monkeypatch.setattr(table, "BLOCK_BYTES", block_bytes)
    path = tmp_path / NAMES[format]
    toy().save(path) if format not in ("tensorboard",) else toy().save(path, format=format)
    assert guess_format(path) == format
    for mmap in (True, False):
        if format != "kv":  # a pickle is opened only by name
            assert_same(Embeddings.load(path, mmap=mmap), toy(), format)
        assert_same(Embeddings.load(path, format=format, mmap=mmap), toy(), format)
    assert not list(tmp_path.glob("**/.*.tmp"))


@pytest.mark.parametrize("format", [name for name in NAMES if name not in WITHOUT_BLANKS])
def test_any_character_in_a_key_comes_back(tmp_path: Path, format: str) -> None:
    keys = ["a b", "tab\there", "new\nline", "back\\slash\\n", "car\rret", "", "\u2028", "\x85", "nul\0in", "\\"]
    embeddings = Embeddings(keys, np.eye(len(keys)), counts=np.arange(len(keys)))
    embeddings.save(tmp_path / NAMES[format], format=format)
    loaded = Embeddings.load(tmp_path / NAMES[format], format=format)
    assert list(loaded.keys) == keys
    assert [loaded.keys[row] for row in range(len(keys))] == keys
    assert loaded.keys[2:4] == keys[2:4]
    Embeddings(keys, np.eye(len(keys))).save(tmp_path / "plain", format="folder")
    assert list(Embeddings.load(tmp_path / "plain").keys) == keys
    assert Embeddings.load(tmp_path / "plain").counts is None


@pytest.mark.parametrize("format", sorted(WITHOUT_BLANKS))
@pytest.mark.parametrize("key", ["a b", "a\tb", "", "x\n"])
def test_word2vec_refuses_keys_with_blanks_and_leaves_nothing(tmp_path: Path, format: str, key: str) -> None:
    with pytest.raises(InputError, match="blank"):
        Embeddings(["fine", key], np.eye(2)).save(tmp_path / NAMES[format])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("format", sorted(WITHOUT_BLANKS - {"fasttext"}))
@pytest.mark.parametrize("first", [0, 1, 2])
def test_control_characters_in_a_key_come_back(tmp_path: Path, format: str, first: int) -> None:
    keys = ["\x1b[0m", "nul\0in", "plain", "\x1f\x01"]
    embeddings = Embeddings(keys[first:] + keys[:first], np.arange(12).reshape(4, 3) + 0.25)
    embeddings.save(tmp_path / NAMES[format], format=format)
    assert guess_format(tmp_path / NAMES[format]) == format
    loaded = Embeddings.load(tmp_path / NAMES[format])
    assert list(loaded.keys) == list(embeddings.keys)
    np.testing.assert_array_equal(loaded.vectors, embeddings.vectors)


@pytest.mark.parametrize("format", ["word2vec", "glove"])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path, format: str) -> None:
    path = tmp_path / NAMES[format]
    toy().save(path, format=format)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert guess_format(path) == format
    assert_same(Embeddings.load(path), toy(), format)


def test_glove_refuses_a_first_key_whose_mark_readers_drop(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="byte-order mark"):
        Embeddings(["\ufeffthe", "a"], np.eye(2)).save(tmp_path / "v.glove")
    Embeddings(["a", "\ufeffthe"], np.eye(2)).save(tmp_path / "v.glove")
    assert list(Embeddings.load(tmp_path / "v.glove")) == ["a", "\ufeffthe"]


@pytest.mark.parametrize("format", [name for name, known in FORMATS.items() if known.has_half and name in NAMES])
def test_float16_on_request(tmp_path: Path, format: str) -> None:
    embeddings = Embeddings(["a", "b"], [[0.1, 2.0], [-3.3, 0.0]], counts=[2, 1])
    embeddings.save(tmp_path / NAMES[format], dtype="float16")
    loaded = Embeddings.load(tmp_path / NAMES[format])
    assert loaded.vectors.dtype == np.float32
    np.testing.assert_array_equal(loaded.vectors, embeddings.vectors.astype(np.float16))
    with pytest.raises(InputError, match="float16"):
        Embeddings(["a"], [[1e6]]).save(tmp_path / ("big" + NAMES[format]), format=format, dtype="float16")


def test_formats_without_float16_say_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="float32"):
        toy().save(tmp_path / "v.txt", dtype="float16")
    with pytest.raises(InputError, match="float32"):
        toy().save(tmp_path / "v.npz", dtype="int8")


@pytest.mark.parametrize("format", NAMES)
def test_what_exists_is_kept_unless_overwrite(tmp_path: Path, format: str) -> None:
    path = tmp_path / NAMES[format]
    toy().save(path, format=format)
    with pytest.raises(StorageError, match="exists"):
        toy(20).save(path, format=format)
    assert len(Embeddings.load(path, format=format)) == 50
    toy(20).save(path, format=format, overwrite=True)
    assert len(Embeddings.load(path, format=format)) == 20


@pytest.mark.parametrize("format", NAMES)
def test_nan_and_twin_keys_are_never_written(tmp_path: Path, format: str) -> None:
    for bad in (Embeddings(["a", "b"], [[1.0], [np.nan]]), Embeddings(UserKeys(["a", "a"]), [[1.0], [2.0]])):
        with pytest.raises(InputError):
            bad.save(tmp_path / NAMES[format], format=format)
    with pytest.raises(InputError):
        Embeddings(["\ud800"], [[1.0]]).save(tmp_path / NAMES[format], format=format)
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not left


def test_columns_beside_vectors_that_are_no_vectors_are_left(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"id": ["a", "b"], "vector": [[1.0, 0.0], [0.0, 1.0]], "output": ["some", "text"]}
    parquet.write_table(arrow.table(columns), tmp_path / "v.parquet")
    assert Embeddings.load(tmp_path / "v.parquet").output is None
    parquet.write_table(arrow.table(columns | {"count": [1, -1]}), tmp_path / "v.parquet")
    with pytest.raises(FormatError, match="a count is below 0"):
        Embeddings.load(tmp_path / "v.parquet")


def test_unknown_names_and_suffixes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="word2vec"):
        toy().save(tmp_path / "x", format="word3vec")
    with pytest.raises(InputError, match=r"suffix .* --format \(in Python format=\): "):
        toy().save(tmp_path / "x.docx")
    with pytest.raises(InputError, match="packed"):
        toy().save(tmp_path / "x.txt.gz")
    with pytest.raises(InputError, match="there is no"):
        Embeddings.load(tmp_path / "nothing")
    with pytest.raises(InputError, match="format must be"):
        Embeddings.load(tmp_path, format="word3vec")


# ---- the native folder


def test_native_folder_is_mapped_and_read_by_safetensors(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    toy().save(tmp_path / "run")
    tensors = load_file(tmp_path / "run" / "vectors.safetensors")
    np.testing.assert_array_equal(tensors["input"], toy().vectors)
    np.testing.assert_array_equal(tensors["output"], toy().output)
    mapped = Embeddings.load(tmp_path / "run").vectors
    assert not mapped.flags.writeable and not mapped.flags.owndata
    assert Embeddings.load(tmp_path / "run", mmap=False).vectors.flags.writeable
    meta = json.loads((tmp_path / "run" / "meta.json").read_text())
    assert (meta["format"], meta["version"], meta["rows"], meta["dim"]) == ("any2vec-embeddings", 1, 50, 7)


def test_save_into_leaves_other_files_alone(tmp_path: Path) -> None:
    (tmp_path / "progress.jsonl").write_text("{}\n")
    toy().save_into(tmp_path)
    toy(20).save_into(tmp_path)
    assert len(Embeddings.load(tmp_path)) == 20
    assert (tmp_path / "progress.jsonl").read_text() == "{}\n"


def between_the_files(monkeypatch: pytest.MonkeyPatch, acts: list[Any]) -> None:
    """Do one act each time that a folder's keys are about to be read, its vectors being open."""
    read = native.read_vocabulary

    def acting(path: Path) -> Any:
        if acts:
            acts.pop(0)()
        return read(path)

    monkeypatch.setattr(native, "read_vocabulary", acting)


@pytest.mark.parametrize("mmap", [True, False])
def test_a_folder_that_is_replaced_while_it_is_read_is_read_again(tmp_path: Path, monkeypatch, mmap: bool) -> None:
    """Both have as many rows, so that nothing but the look at meta.json tells them apart."""
    one, other = (Embeddings([f"{name}{n}" for n in range(9)], np.full((9, 2), n)) for n, name in enumerate("ab"))
    for write in (lambda: other.save(tmp_path / "run", overwrite=True), lambda: other.save_into(tmp_path / "run")):
        one.save(tmp_path / "run", overwrite=True)
        between_the_files(monkeypatch, [write])
        found = Embeddings.load(tmp_path / "run", mmap=mmap)
        assert (found.keys[0], found.vectors[0, 0]) == ("b0", 1)


def test_a_folder_that_changes_all_the_time_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy().save(tmp_path / "run")
    acts = [lambda: toy().save(tmp_path / "run", overwrite=True)] * (native._TRIES + 1)
    between_the_files(monkeypatch, acts)
    with pytest.raises(FormatError, match="changes faster than it can be opened"):
        Embeddings.load(tmp_path / "run")
    assert len(acts) == 1


def test_a_folder_whose_meta_comes_back_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meta, away = tmp_path / "run" / "meta.json", tmp_path / "meta.json"
    toy().save(tmp_path / "run")
    between_the_files(monkeypatch, [lambda: meta.rename(away)])
    pauses: list[float] = []
    monkeypatch.setattr(
        native.time, "sleep", lambda seconds: pauses.append(seconds) or (len(pauses) == 3 and away.rename(meta))
    )
    assert len(Embeddings.load(tmp_path / "run")) == 50
    assert len(pauses) == 3
    between_the_files(monkeypatch, [lambda: meta.rename(away)])
    monkeypatch.setattr(native.time, "sleep", pauses.append)
    for count in (native._TRIES - 1, 0):  # it is not waited for where there has been none from the beginning
        pauses.clear()
        with pytest.raises(FormatError, match="not finished"):
            Embeddings.load(tmp_path / "run")
        assert len(pauses) == count


def test_a_folder_without_meta_is_not_a_result(tmp_path: Path) -> None:
    toy().save(tmp_path / "run")
    (tmp_path / "run" / "meta.json").unlink()
    with pytest.raises(FormatError, match="not finished"):
        Embeddings.load(tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"version": 2}, "newer"),
        ({"version": "1"}, "version"),
        ({"format": "other"}, "format"),
        ({"rows": 51}, "damaged"),
        ({"dim": 8}, "damaged"),
    ],
)
def test_native_meta_must_agree(tmp_path: Path, change: dict, word: str) -> None:
    toy().save(tmp_path / "run")
    meta = json.loads((tmp_path / "run" / "meta.json").read_text()) | change
    (tmp_path / "run" / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(FormatError, match=word):
        Embeddings.load(tmp_path / "run")


def test_native_vocabulary_must_agree(tmp_path: Path) -> None:
    toy().save(tmp_path / "run")
    lines = (tmp_path / "run" / "vocabulary.tsv").read_text().splitlines()
    for text in ("\n".join(lines[:-1]), "\n".join([*lines[:-1], lines[0]]), "\n".join([*lines[:-1], "x\tmany"])):
        (tmp_path / "run" / "vocabulary.tsv").write_text(text + "\n")
        with pytest.raises(FormatError):
            Embeddings.load(tmp_path / "run")


# ---- the other tools


def test_gensim_reads_ours_and_we_read_gensims(tmp_path: Path) -> None:
    from gensim.models import KeyedVectors

    ours = Embeddings([f"w{i}" for i in range(30)], toy(30).vectors)
    ours.save(tmp_path / "v.txt")
    ours.save(tmp_path / "v.bin")
    for name, binary in (("v.txt", False), ("v.bin", True)):
        theirs = KeyedVectors.load_word2vec_format(str(tmp_path / name), binary=binary)
        assert theirs.index_to_key == ours.keys
        np.testing.assert_array_equal(theirs.vectors, ours.vectors)
        theirs.save_word2vec_format(str(tmp_path / f"their-{name}"), binary=binary)
        np.testing.assert_allclose(Embeddings.load(tmp_path / f"their-{name}").vectors, ours.vectors, rtol=1e-6)


def test_gensim_objects_both_ways() -> None:
    again = Embeddings.from_gensim(toy().to_gensim())
    assert list(again.keys) == toy().keys
    np.testing.assert_array_equal(again.vectors, toy().vectors)
    np.testing.assert_array_equal(again.counts, toy().counts)
    with pytest.raises(InputError, match="KeyedVectors"):
        Embeddings.from_gensim({"a": 1})  # type: ignore[arg-type]


def test_gensim_nearest_agrees() -> None:
    embeddings = Embeddings([str(i) for i in range(200)], np.random.default_rng(0).standard_normal((200, 10)))
    theirs = embeddings.to_gensim().most_similar("7", topn=5)
    assert [key for key, _ in embeddings.nearest("7", 5)] == [key for key, _ in theirs]


def test_missing_gensim_names_the_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(InputError, match=r"pip install gensim"):
        toy().to_gensim()


@pytest.mark.parametrize("newline", [b"", b"\n"])
def test_binary_with_and_without_the_newline_after_a_row(tmp_path: Path, newline: bytes) -> None:
    rows = np.arange(20, dtype="<f4").reshape(5, 4)
    body = b"".join(b"k%d " % i + row.tobytes() + newline for i, row in enumerate(rows))
    (tmp_path / "v.bin").write_bytes(b"5 4\n" + body)
    loaded = Embeddings.load(tmp_path / "v.bin")
    assert list(loaded.keys) == ["k0", "k1", "k2", "k3", "k4"]
    np.testing.assert_array_equal(loaded.vectors, rows)
    with gzip.open(tmp_path / "v.bin.gz", "wb") as file:
        file.write(b"5 4\n" + body)
    np.testing.assert_array_equal(Embeddings.load(tmp_path / "v.bin.gz").vectors, rows)


def test_word2vec_text_as_the_original_tool_writes_it(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(b"2 3\n</s> 0.002001 -1.5e-3 3 \r\nthe  1 2\t3 \n\n")
    loaded = Embeddings.load(tmp_path / "v.txt")
    assert list(loaded.keys) == ["</s>", "the"]
    np.testing.assert_allclose(loaded.vectors, [[0.002001, -0.0015, 3], [1, 2, 3]])


@pytest.mark.parametrize("format", ["word2vec-binary", "fasttext"])
def test_keys_longer_than_a_binary_holds_are_not_written(tmp_path: Path, format: str) -> None:
    keys = ["a", "é" * (LONGEST_KEY // 2) + "x"]
    Embeddings(keys, np.eye(2)).save(tmp_path / "v", format=format)
    assert list(Embeddings.load(tmp_path / "v", format=format)) == keys
    with pytest.raises(InputError, match=r"has 65,536 bytes, and format .* holds 65,535"):
        Embeddings(["a", keys[1] + "x"], np.eye(2)).save(tmp_path / "w", format=format)
    assert [path.name for path in tmp_path.iterdir()] == ["v"]


def test_counts_of_fasttext_may_add_up_beyond_64_bits(tmp_path: Path) -> None:
    counts = [10**18 - 1] * 10
    Embeddings(list("abcdefghij"), np.eye(10), counts=counts).save(tmp_path / "v.fasttext.bin")
    assert Embeddings.load(tmp_path / "v.fasttext.bin").counts.tolist() == counts


def test_a_count_below_zero_in_a_file_is_damage(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", keys=["a", "b"], vectors=np.eye(2), counts=[1, -1])
    with pytest.raises(FormatError, match=r"counts must be from 0 to below 10\^18; they reach from -1 to 1"):
        Embeddings.load(tmp_path / "v.npz")


def test_a_block_may_end_within_a_key(tmp_path: Path) -> None:
    """GloVe whose first key has several words, so that all of the first block is looked at; that ends within an é."""
    first, line = b". . 0.5 1", "é 1 2\n".encode()
    zeros = (BLOCK_BYTES - 1 - len(first) - 1) % len(line)
    text = first + b"0" * zeros + b"\n" + line * (BLOCK_BYTES // len(line))
    assert text[BLOCK_BYTES - 2 : BLOCK_BYTES + 1] == "\né".encode()
    (tmp_path / "glove.txt").write_bytes(text)
    assert guess_format(tmp_path / "glove.txt") == "glove"


def test_glove_without_header_and_with_keys_of_several_words(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text("the 0.5 1\n. . . 2 3\n12 4 5\n")
    loaded = Embeddings.load(tmp_path / "glove.txt")
    assert list(loaded.keys) == ["the", ". . .", "12"]
    assert loaded.vectors.tolist() == [[0.5, 1], [2, 3], [4, 5]]


def test_text_in_small_blocks_is_the_same(tmp_path: Path, monkeypatch) -> None:
    from any2vec.formats import word2vec

    toy().save(tmp_path / "v.txt")
    monkeypatch.setattr(word2vec, "BLOCK_BYTES", 37)
    assert_same(Embeddings.load(tmp_path / "v.txt"), toy(), "word2vec")


@pytest.mark.parametrize(
    ("text", "line"),
    [("2 2\na 1 2\nb 1\n", "line 3"), ("2 2\na 1 2\nb 1 x\n", "line 3"), ("a 1 2\nb 1 2 3 z z\n", "line 2")],
)
def test_the_wrong_line_is_named(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "v.txt").write_text(text)
    with pytest.raises(FormatError, match=line):
        Embeddings.load(tmp_path / "v.txt")


def test_columns_of_other_writers(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": [5, 7], "embedding": [[1.0, 2.0], [3.0, 4.0]]}), tmp_path / "v.parquet")
    loaded = Embeddings.load(tmp_path / "v.parquet")
    assert (list(loaded.keys), loaded.vectors.tolist()) == ([5, 7], [[1, 2], [3, 4]])
    pq.write_table(pa.table({"count": [5, 7], "label": ["b", "a"], "v": [[1.0], [2.0]]}), tmp_path / "v.parquet")
    loaded = Embeddings.load(tmp_path / "v.parquet")
    assert list(loaded.keys) == ["b", "a"] and loaded.counts is not None and loaded.counts.tolist() == [5, 7]
    for bad in ({"id": ["a", "b"], "v": [[1.0], [1.0, 2.0]]}, {"id": ["a"], "v": [None]}, {"id": ["a"], "v": [1.0]}):
        pq.write_table(pa.table(bad), tmp_path / "bad.parquet")
        with pytest.raises(FormatError):
            Embeddings.load(tmp_path / "bad.parquet")


def test_columns_of_categories_and_of_views(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import feather

    rows = pa.array([[1.0, 2.0], [3.0, 4.0]])
    for kind in (pa.dictionary(pa.int8(), pa.string()), pa.string_view()):  # of pandas' and of polars' files
        table = pa.table({"word": pa.array(["b", "a"]).cast(kind), "vector": rows})
        feather.write_feather(table, tmp_path / "v.arrow", compression="uncompressed")
        loaded = Embeddings.load(tmp_path / "v.arrow")
        assert (list(loaded.keys), loaded.vectors.tolist()) == (["b", "a"], [[1, 2], [3, 4]])


def test_a_missing_count_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"key": ["a", "b"], "vector": [[1.0], [2.0]], "count": [3, None]}), tmp_path / "v.parquet")
    with pytest.raises(FormatError, match="count is missing"):
        Embeddings.load(tmp_path / "v.parquet")


@pytest.mark.parametrize("format", ["parquet", "safetensors"])
def test_names_may_take_the_place_of_integer_keys(tmp_path: Path, format: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / NAMES[format]
    Embeddings([7, 5], np.eye(2)).save(path)
    if format == "parquet":  # whose metadata stay
        pq.write_table(pq.read_table(path).set_column(0, "key", pa.array(["ann", "bo"])), path)
    else:
        (tmp_path / f"{path.stem}.vocabulary.tsv").write_text("ann\nbo\n")
    assert list(Embeddings.load(path)) == ["ann", "bo"]


def test_integers_beyond_int64_are_kept_as_text(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", keys=np.array([1, 2**64 - 1], np.uint64), vectors=np.eye(2))
    loaded = Embeddings.load(tmp_path / "v.npz")
    assert list(loaded) == ["1", "18446744073709551615"] and 2**64 - 1 in loaded
    for name in ("again.npz", "again.parquet"):
        loaded.save(tmp_path / name)
        assert list(Embeddings.load(tmp_path / name)) == list(loaded)


def test_npy_without_keys_numbers_its_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.eye(3))
    assert list(Embeddings.load(tmp_path / "v.npy").keys) == [0, 1, 2]
    np.savez(tmp_path / "v.npz", keys=np.array([4, 5]), vectors=np.eye(2))
    assert list(Embeddings.load(tmp_path / "v.npz").keys) == [4, 5]


def test_safetensors_of_other_writers(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"embedding.weight": np.eye(3, dtype=np.float64)}, tmp_path / "v.safetensors")
    with pytest.raises(FormatError, match=r"v\.vocabulary\.tsv"):
        Embeddings.load(tmp_path / "v.safetensors")
    (tmp_path / "v.vocabulary.tsv").write_bytes(b"a\r\nb\r\nc")
    assert list(Embeddings.load(tmp_path / "v.safetensors").keys) == ["a", "b", "c"]


def test_tensorboard_on_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tensorboard, "format_rows", fails)
    with pytest.raises(StorageError, match="the disk is full"):
        toy().save(tmp_path / "new" / "log", format="tensorboard")
    assert not [*(tmp_path / "new").rglob("*")]


def test_tensorboard_files_as_the_projector_wants_them(tmp_path: Path) -> None:
    Embeddings(["a", "b"], [[1.0, 0.5], [2.0, -1.0]]).save(tmp_path / "log", format="tensorboard")
    assert (tmp_path / "log" / "tensors.tsv").read_text() == "1\t0.5\n2\t-1\n"
    assert (tmp_path / "log" / "metadata.tsv").read_text() == "a\nb\n"  # one column: no header
    toy().save(tmp_path / "log2", format="tensorboard")
    assert (tmp_path / "log2" / "metadata.tsv").read_text().startswith("key\tcount\n")
    assert 'tensor_path: "tensors.tsv"' in (tmp_path / "log" / "projector_config.pbtxt").read_text()


# ---- properties

KEYS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), min_size=1, max_size=12, unique=True)
PLAIN = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\x0b\x0c"), min_size=1, max_size=6),
    min_size=1,
    max_size=12,
    unique=True,
)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("format", [name for name in NAMES if name != "kv"])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_property_round_trip(tmp_path_factory, format: str, data) -> None:
    keys = data.draw(PLAIN if format in WITHOUT_BLANKS else KEYS)
    if format == "npz":
        keys = list(dict.fromkeys(key.rstrip("\0") for key in keys))
    if format == "fasttext":  # which refuses a NUL
        keys = list(dict.fromkeys(key.replace("\0", "0") for key in keys))
    vectors = data.draw(hnp.arrays(np.float32, (len(keys), data.draw(st.integers(1, 4))), elements=FLOATS))
    counts = data.draw(hnp.arrays(np.int64, len(keys), elements=st.integers(0, 2**40)))
    path = tmp_path_factory.mktemp("round") / NAMES[format]
    Embeddings(keys, vectors, counts=counts).save(path, format=format)
    loaded = Embeddings.load(path, format=format)
    assert list(loaded.keys) == keys
    np.testing.assert_array_equal(loaded.vectors, vectors)


def test_fasttext_refuses_a_nul(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds a NUL, which ends a key in format 'fasttext'"):
        Embeddings(["a", "b\0"], np.zeros((2, 1), np.float32)).save(tmp_path / "m.bin", format="fasttext")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [1, 5, 64])
def test_a_vocabulary_is_read_in_pieces(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, numbers = [f"k\u00e9{row}" * (row % 4) for row in range(1, 60)], [row**3 for row in range(1, 60)]
    plain = "\r\n".join(keys).encode()
    counted = "".join(f"{key}\t{number}\n" for key, number in zip(keys, numbers, strict=True)).encode()
    monkeypatch.setattr(vocabulary, "_BYTES", size)
    found, counts = parse_vocabulary(np.frombuffer(plain, np.uint8), "v")
    assert list(found) == keys and counts is None
    found, counts = parse_vocabulary(np.frombuffer(counted, np.uint8), "v")
    assert list(found) == keys and counts is not None and counts.tolist() == numbers
    at = len(counted)
    for wrong, said in (
        (b"k\n", "on each line"),
        (b"k\t\n", "count is missing"),
        (b"\xff\t1\n", f"byte {at:,} is not"),
    ):
        with pytest.raises(FormatError, match=said):
            parse_vocabulary(np.frombuffer(counted + wrong, np.uint8), "v")
    with pytest.raises(FormatError, match="on each line"):
        parse_vocabulary(np.frombuffer(plain + b"\nk\t1", np.uint8), "v")


@pytest.mark.parametrize("format", INDEXES)
def test_an_index_finds_the_neighbors(tmp_path: Path, format: str) -> None:
    library = pytest.importorskip({"usearch": "usearch.index"}.get(format, format))
    rng = np.random.default_rng(5)
    embeddings = Embeddings([f"k {n}" for n in range(400)], rng.standard_normal((400, 12)).astype(np.float32) * 9)
    embeddings.save(tmp_path / f"v.{format}")
    keys, _ = vocabulary.read_vocabulary(tmp_path / "v.vocabulary.tsv")
    units = embeddings.vectors / np.linalg.norm(embeddings.vectors, axis=1, keepdims=True)
    if format == "usearch":
        found = library.Index.restore(str(tmp_path / "v.usearch")).search(units[:20], 5)
        rows, cosines = found.keys.astype(int), 1 - found.distances
    else:
        cosines, rows = library.read_index(str(tmp_path / "v.faiss")).search(units[:20], 5)
    for query, (line, cosine) in enumerate(zip(rows.tolist(), cosines.tolist(), strict=True)):
        wanted = dict([(f"k {query}", 1.0), *embeddings.nearest(f"k {query}", 4)])
        assert {keys[row] for row in line} == set(wanted)
        assert cosine == pytest.approx([wanted[keys[row]] for row in line], abs=1e-5)
    with pytest.raises(FormatError, match="is an index for neighbors; give the vectors"):
        Embeddings.load(tmp_path / f"v.{format}")
    with pytest.raises(StorageError, match="exists"):
        embeddings.save(tmp_path / f"v.{format}")


def test_a_format_that_is_not_guessed_is_named_for_both_doors(tmp_path: Path) -> None:
    (tmp_path / "x.kv").write_bytes(b"\x80\x04N.")
    with pytest.raises(FormatError, match=r"--format kv, .*='kv'.* A command without --format takes"):
        Embeddings.load(tmp_path / "x.kv")
    (tmp_path / "x.txt").write_text("no vectors\nat all\n")
    with pytest.raises(FormatError, match=r"--format \(in Python format=\)"):
        Embeddings.load(tmp_path / "x.txt")
