"""Over a thousand broken files of vectors: each opens as a sound result or gives one clear sentence."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import vector_files
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from any2vec.embeddings import Embeddings
from any2vec.errors import Any2VecError, DataError, FormatError, InputError, StorageError
from any2vec.formats import FORMATS, columns
from any2vec.formats.safetensors_file import read_arrays
from any2vec.formats.word2vec import MOST_COLUMNS

NAMES = {format: name for format, name in vector_files.NAMES.items() if format != "kv"}
"""kv apart: gensim's pickles run code, so damaged ones are not opened here"""
MANY = {"word2vec": 90, "word2vec-binary": 90, "glove": 60}
FEW = 45


def toy() -> Embeddings:
    rng = np.random.default_rng(0)
    return Embeddings([f"k{i}" for i in range(9)], rng.standard_normal((9, 3)), counts=np.arange(9) + 1)


def opens_or_says_why(path: Path, format: str | None) -> str | None:
    """None when it opened as something sound, else the message. Any other exception goes through and fails the test."""
    try:
        found = Embeddings.load(path, format=format)
    except Any2VecError as error:
        message = str(error)
        assert message and "\n" not in message and str(Path.home()) not in message.replace(str(path), "")
        return message
    assert len(found.keys) == len(found) > 0 and found.vectors.dtype == np.float32
    assert np.isfinite(found.vectors).all() and len(set(found.keys)) == len(found)
    found.nearest(found.keys[0], 2)
    return None


def damaged(data: bytes, rng: np.random.Generator, count: int) -> Iterator[bytes]:
    """Cuts, turned bits, runs of other bytes, pieces taken out, put in or doubled, in turn."""
    yield b""
    for turn in range(count):
        at = int(rng.integers(0, len(data)))
        size = int(rng.integers(1, 12))
        if turn % 6 == 0:
            yield data[:at]
        elif turn % 6 == 1:
            yield data[:at] + bytes([data[at] ^ (1 << int(rng.integers(0, 8)))]) + data[at + 1 :]
        elif turn % 6 == 2:
            yield data[:at] + rng.bytes(size) + data[at + size :]
        elif turn % 6 == 3:
            yield data[:at] + data[at + size :]
        elif turn % 6 == 4:
            yield data[:at] + data[at : at + size] + data[at:]
        else:
            yield (
                data[: at % 64] + bytes([int(rng.choice([0, 0xFF, 0x80, 0x20, 0x0A]))]) * size + data[at % 64 + size :]
            )


@pytest.mark.parametrize("format", NAMES)
def test_damaged_files_open_soundly_or_say_why(tmp_path: Path, format: str) -> None:
    path = tmp_path / NAMES[format]
    toy().save(path, format=format)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    rng = np.random.default_rng(sum(format.encode()))
    refused = 0
    for file in files:
        whole = file.read_bytes()
        for data in damaged(whole, rng, MANY.get(format, FEW)):
            file.write_bytes(data)
            refused += opens_or_says_why(path, format) is not None
            opens_or_says_why(path, None)
        file.write_bytes(whole)
    assert refused > 10
    assert opens_or_says_why(path, format) is None


@pytest.mark.parametrize(
    "format", ["word2vec-binary", "fasttext", "safetensors", "npy", "npz", "parquet", "arrow", "folder"]
)
def test_every_cut_is_refused(tmp_path: Path, format: str) -> None:
    path = tmp_path / NAMES[format]
    toy().save(path, format=format)
    file = path / "vectors.safetensors" if path.is_dir() else path
    data = file.read_bytes()
    for stop in range(0, len(data) - 1, max(1, len(data) // 40)):
        file.write_bytes(data[:stop])
        with pytest.raises((FormatError, DataError)):
            Embeddings.load(path, format=format)


@pytest.mark.parametrize("cut", [0, 1, 3, 10])
def test_cut_text_is_refused(tmp_path: Path, cut: int) -> None:
    toy().save(tmp_path / "v.txt")
    lines = (tmp_path / "v.txt").read_bytes().splitlines(keepends=True)
    (tmp_path / "v.txt").write_bytes(b"".join(lines[:cut]))
    if cut < 10:
        with pytest.raises((FormatError, DataError)):
            Embeddings.load(tmp_path / "v.txt")
    else:
        Embeddings.load(tmp_path / "v.txt")


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e39", "1e400", "x", "", "0x10", "١٢"])
@pytest.mark.parametrize("format", ["word2vec", "glove", "tensorboard"])
def test_numbers_that_are_none(tmp_path: Path, number: str, format: str) -> None:
    path = tmp_path / NAMES[format]
    if format == "tensorboard":
        path.mkdir()
        (path / "tensors.tsv").write_text(f"1\t2\n3\t{number}\n")
        (path / "metadata.tsv").write_text("a\nb\n")
    else:
        path.write_text(("2 2\n" if format == "word2vec" else "") + f"a 1 2\nb 3 {number}\n")
    if number == "١٢" and format == "tensorboard":
        opens_or_says_why(path, format)
        return
    with pytest.raises(FormatError):
        Embeddings.load(path, format=format)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "2",
        "2 2 2",
        "-1 2",
        "2 0",
        "0 2",
        "a b",
        "99999999999999999999 2",
        "2 999999999",
        "1000000000000 2",
        "3 2",
        "1 2",
    ],
)
@pytest.mark.parametrize("format", ["word2vec", "word2vec-binary"])
def test_headers_that_lie(tmp_path: Path, header: str, format: str) -> None:
    rows = b"a 1 2\nb 3 4\n" if format == "word2vec" else b"a 12345678\nb 12345678\n"
    (tmp_path / "v").write_bytes(header.encode() + b"\n" + rows)
    with pytest.raises(FormatError):
        Embeddings.load(tmp_path / "v", format=format)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("format", [name for name in NAMES if name not in ("word2vec", "glove", "tensorboard")])
def test_nan_within_binary_files(tmp_path: Path, format: str, bad: float) -> None:
    path = tmp_path / NAMES[format]
    marked = Embeddings(["a", "b"], np.array([[1.5, 2.5], [3.5, 77.25]]))
    marked.save(path, format=format)
    for file in [path] if path.is_file() else sorted(path.iterdir()):
        data = file.read_bytes()
        file.write_bytes(data.replace(np.float32(77.25).tobytes(), np.float32(bad).tobytes()))
    with pytest.raises(FormatError):
        Embeddings.load(path, format=format)


@pytest.mark.parametrize("format", ["word2vec", "word2vec-binary", "glove"])
def test_a_key_that_stands_twice(tmp_path: Path, format: str) -> None:
    Embeddings(["aa", "bb"], np.eye(2)).save(tmp_path / NAMES[format])
    data = (tmp_path / NAMES[format]).read_bytes().replace(b"bb ", b"aa ")
    (tmp_path / NAMES[format]).write_bytes(data)
    with pytest.raises(FormatError, match="twice"):
        Embeddings.load(tmp_path / NAMES[format])


MANY_SIDES = {"other": {"dtype": "F32", "shape": [1] * 9, "data_offsets": [0, 4]}}


@pytest.mark.parametrize(
    "header",
    [
        [],
        {"input": 1},
        {"input": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 8]}},
        {"input": {"dtype": "F32", "shape": [2, 2], "data_offsets": [8, 24]}},
        {"input": {"dtype": "F32", "shape": [-2, -2], "data_offsets": [0, 16]}},
        {"input": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 16]}},
        {"input": {"dtype": "F32", "shape": [True, 4], "data_offsets": [0, 16]}},
        {"input": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}} | MANY_SIDES,
        {"input": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}},
        {"input": {"dtype": "I32", "shape": [2, 2], "data_offsets": [0, 16]}},
        {"input": {"dtype": ["F32"], "shape": [2, 2], "data_offsets": [0, 16]}},
        {"input": {"shape": [2, 2]}},
        {},
    ],
)
def test_safetensors_headers_that_lie(tmp_path: Path, header: object) -> None:
    text = json.dumps(header).encode()
    (tmp_path / "v.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(16))
    (tmp_path / "v.vocabulary.tsv").write_text("a\nb\n")
    with pytest.raises(FormatError):
        Embeddings.load(tmp_path / "v.safetensors")


@pytest.mark.parametrize("shape", [[2**32, 2**32], [2**48] * 3, [0, 2**48, 2**48], [1] * 9])
def test_sizes_of_arrays_that_lie(tmp_path: Path, shape: list[int]) -> None:
    """Products that int64 cannot hold are none of 0 bytes."""
    size = 8 if shape == [1] * 9 else 0
    text = json.dumps({"rows": {"dtype": "I64", "shape": shape, "data_offsets": [0, size]}}).encode()
    (tmp_path / "v.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(16))
    with pytest.raises(FormatError, match="does not fit the file"):
        read_arrays(tmp_path / "v.safetensors")


@pytest.mark.parametrize("kept", [5, None, ["{}"], {"a": 1}, "[]", "{", True])
def test_metadata_of_a_file_may_be_anything(tmp_path: Path, kept: object) -> None:
    header = {"__metadata__": {"any2vec": kept}, "input": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}
    text = json.dumps(header).encode()
    (tmp_path / "v.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(16))
    (tmp_path / "v.vocabulary.tsv").write_text("a\nb\n")
    assert Embeddings.load(tmp_path / "v.safetensors").meta == {}


@pytest.mark.parametrize(
    "arrays",
    [
        {"vectors": np.zeros((2, MOST_COLUMNS + 1), np.int8)},
        {"output": np.zeros((2, MOST_COLUMNS + 1), np.int8)},
        {"vectors": np.zeros((2, 2), complex)},
        {"vectors": np.zeros(2)},
        {"vectors": np.zeros((3, 2))},
        {"output": np.zeros((2, 2, 1))},
        {"counts": np.zeros(2)},
        {"counts": np.zeros(3, np.int64)},
        {"keys": np.array([b"a", b"b"])},
        {"keys": np.array([["a"], ["b"]])},
        {"keys": np.array("a")},
        {"keys": np.array(["a", "b"], "U4"), "wide": True},
    ],
)
def test_arrays_of_npz_are_looked_at_before_they_are_read(tmp_path: Path, monkeypatch, arrays: dict) -> None:
    if arrays.pop("wide", False):
        monkeypatch.setattr(columns, "_MOST_KEY_BYTES", 31)
    np.savez_compressed(tmp_path / "v.npz", **({"keys": np.array(["a", "b"]), "vectors": np.eye(2)} | arrays))
    monkeypatch.setattr(np.lib.npyio.NpzFile, "__getitem__", lambda *_: pytest.fail("an array was read"))
    with pytest.raises(FormatError, match=r"'(keys|vectors|output|counts)' (has|take)"):
        Embeddings.load(tmp_path / "v.npz")


def test_members_of_npz_that_are_no_arrays_are_damage(tmp_path: Path) -> None:
    np.savez(tmp_path / "whole.npz", keys=["a", "b"], vectors=np.eye(2))
    with zipfile.ZipFile(tmp_path / "whole.npz") as whole:
        held = {name.removesuffix(".npy"): whole.read(name) for name in whole.namelist()}
    for data in (b"no array", held["vectors"].replace(b"(2, 2)", b"(2,20)"), b"\x93NUMPY\x09\x00" + bytes(50)):
        with zipfile.ZipFile(tmp_path / "v.npz", "w") as file:
            file.writestr("keys.npy", held["keys"])
            file.writestr("vectors", data)
        with pytest.raises(FormatError, match="not a readable npz file"):
            Embeddings.load(tmp_path / "v.npz")


def test_one_long_key_does_not_widen_all_of_npz(tmp_path: Path) -> None:
    keys = [*map(str, range(20_000)), "x" * 100_000]
    with pytest.raises(InputError, match=r"20,001 keys the width of the longest, 100,000 characters"):
        Embeddings(keys, np.zeros((20_001, 2))).save(tmp_path / "v.npz")
    assert not list(tmp_path.iterdir())


def test_deep_json_is_damage_not_a_crash(tmp_path: Path) -> None:
    toy().save(tmp_path / "run")
    (tmp_path / "run" / "meta.json").write_text("[" * 100_000)
    with pytest.raises(FormatError):
        Embeddings.load(tmp_path / "run")
    text = b"[" * 100_000
    (tmp_path / "v.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(FormatError):
        Embeddings.load(tmp_path / "v.safetensors")


@pytest.mark.parametrize("name", ["gm.model", "gm", "v.w2v", "v.bin"])
def test_models_of_gensim_are_told_how(name: str, tmp_path: Path) -> None:
    for protocol in (2, 3, 4, 5):
        (tmp_path / name).write_bytes(pickle.dumps({"a": 1}, protocol=protocol))
        with pytest.raises(FormatError, match=r"is a pickle, .* say format kv, which unpickles it"):
            Embeddings.load(tmp_path / name)


def test_a_model_that_gensim_saved_is_opened_by_name(tmp_path: Path) -> None:
    models = pytest.importorskip("gensim.models")
    model = models.Word2Vec([["tea", "cup"]] * 5, vector_size=4, min_count=1, epochs=1, workers=1)
    model.save(str(tmp_path / "gm.model"))
    with pytest.raises(FormatError, match="say format kv"):
        Embeddings.load(tmp_path / "gm.model")
    found = Embeddings.load(tmp_path / "gm.model", format="kv")
    assert found["tea"].tolist() == model.wv["tea"].tolist()


def test_pickles_are_never_opened_by_guess(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(FormatError):
        Embeddings.load(tmp_path / "v.npy")
    np.savez(tmp_path / "v.npz", keys=np.array(["a"], dtype=object), vectors=np.eye(1))
    with pytest.raises(FormatError):
        Embeddings.load(tmp_path / "v.npz")
    (tmp_path / "v.kv").write_bytes(b"not a pickle")
    with pytest.raises(FormatError):
        Embeddings.load(tmp_path / "v.kv", "kv")
    with pytest.raises(FormatError, match="pickle"):
        Embeddings.load(tmp_path / "v.kv")


def test_one_endless_line_is_refused(tmp_path: Path, monkeypatch) -> None:
    from any2vec.formats import word2vec

    monkeypatch.setattr(word2vec, "LONGEST_LINE", 1000)
    (tmp_path / "v.txt").write_bytes(b"1 2\n" + b"a" * 5_000_000)
    with pytest.raises(FormatError, match="longer"):
        Embeddings.load(tmp_path / "v.txt", format="word2vec")
    with pytest.raises(FormatError):
        Embeddings.load(tmp_path / "v.txt", format="word2vec-binary")


def test_folders_and_files_mixed_up(tmp_path: Path) -> None:
    toy().save(tmp_path / "v.txt")
    with pytest.raises(FormatError, match="folder"):
        Embeddings.load(tmp_path / "v.txt", format="folder")
    with pytest.raises(FormatError, match="file"):
        Embeddings.load(tmp_path, format="word2vec")
    with pytest.raises(FormatError):
        Embeddings.load(tmp_path)
    with pytest.raises(StorageError):
        toy().save(tmp_path / "v.txt" / "below", format="folder")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("format", [name for name in NAMES if not FORMATS[name].is_folder])
def test_a_full_disk_leaves_nothing(tmp_path: Path, format: str, monkeypatch) -> None:
    from any2vec.data.io import storage

    def full(path: Path) -> Path:
        link = path.parent / f".{path.name}.full.tmp"
        link.symlink_to("/dev/full")
        return link

    monkeypatch.setattr(storage, "temporary_beside", full)
    with pytest.raises(StorageError, match="full"):
        toy().save(tmp_path / NAMES[format], format=format)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="permission"):
        toy().save(tmp_path / "v.txt")
    tmp_path.chmod(0o700)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300), format=st.sampled_from([None, *[name for name in NAMES if name != "folder"]]))
def test_property_any_bytes(tmp_path_factory, data: bytes, format: str | None) -> None:
    folder = tmp_path_factory.mktemp("any")
    if format == "tensorboard":
        (folder / "p").mkdir()
        (folder / "p" / "tensors.tsv").write_bytes(data)
        (folder / "p" / "metadata.tsv").write_bytes(data)
        opens_or_says_why(folder / "p", format)
    else:
        (folder / "v").write_bytes(data)
        opens_or_says_why(folder / "v", format)
    shutil.rmtree(folder)


LINE = st.tuples(
    st.text("ab \t\r\x00é", max_size=4), st.lists(st.sampled_from(["1", "-2.5", "nan", "x", "", "1e9"]), max_size=4)
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(header=st.sampled_from(["", "2 2\n", "1 1\n", "3 1\n"]), lines=st.lists(LINE, max_size=4))
def test_property_text_that_is_nearly_right(tmp_path_factory, header: str, lines: list) -> None:
    path = tmp_path_factory.mktemp("near") / "v.txt"
    path.write_text(header + "\n".join(" ".join([key, *numbers]) for key, numbers in lines), newline="")
    for format in (None, "word2vec", "glove"):
        opens_or_says_why(path, format)
