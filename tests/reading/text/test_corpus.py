"""The corpus folder, the vocabulary, and atomic writes."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any2vec.data.io import files, storage
from any2vec.data.text.corpus import Corpus, CorpusWriter, is_corpus
from any2vec.data.vocab.vocabulary import Keys, Vocabulary
from any2vec.errors import DataError, FormatError, InputError, StorageError

KEYS = ["the", "naïve", "東京"]
COUNTS = [5, 3, 1]


def write(folder: Path, **options: Any) -> Corpus:
    with CorpusWriter(folder, **options) as writer:
        writer.append(np.array([0, 1, -1, -1, 0], np.int32))
        writer.append(np.array([2, -1], np.int64))
        return writer.finish(KEYS, np.array(COUNTS), {"kind": "walks", "extra": [1, None]})


def test_written_and_opened(tmp_path: Path) -> None:
    corpus = write(tmp_path / "a")
    assert isinstance(corpus.tokens, np.memmap) and corpus.tokens.dtype == np.int32
    assert corpus.tokens.tolist() == [0, 1, -1, -1, 0, 2, -1]
    assert (corpus.num_tokens, corpus.num_sentences, corpus.kind, corpus.meta["extra"]) == (4, 2, "walks", [1, None])
    assert list(corpus.vocabulary.keys) == KEYS and corpus.vocabulary.counts.tolist() == COUNTS
    assert is_corpus(tmp_path / "a") and not is_corpus(tmp_path) and "4 tokens" in repr(corpus)
    assert np.load(tmp_path / "a" / "tokens.npy").tolist() == corpus.tokens.tolist()


def test_overwriting(tmp_path: Path) -> None:
    write(tmp_path / "a")
    with pytest.raises(StorageError, match=r"exists.*--overwrite"):
        write(tmp_path / "a")
    write(tmp_path / "a", overwrite=True)
    (tmp_path / "home").mkdir()
    write(tmp_path / "home")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "me.jpg").write_text("")
    with pytest.raises(StorageError, match="not an any2vec folder"):
        write(tmp_path / "photos", overwrite=True)
    with pytest.raises(StorageError, match="is a file"):
        write(tmp_path / "photos" / "me.jpg")
    with pytest.raises(StorageError, match="a part of the path is a file"):
        write(tmp_path / "photos" / "me.jpg" / "deeper")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "home", "photos"]


def test_unfinished_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), CorpusWriter(tmp_path / "a") as writer:
        writer.append(np.array([1], np.int32))
        raise RuntimeError
    with CorpusWriter(tmp_path / "b") as writer:
        writer.append(np.array([1], np.int32))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["tokens.npy", "words.npy", "offsets.npy", "counts.npy", "meta.json"])
def test_damaged(name: str, tmp_path: Path) -> None:
    write(tmp_path / "a")
    path = tmp_path / "a" / name
    data = path.read_bytes()
    for size in (0, 5, len(data) // 2, len(data) - 2):
        path.write_bytes(data[:size])
        with pytest.raises(FormatError):
            Corpus.open(tmp_path / "a")
    path.unlink()
    with pytest.raises(FormatError):
        Corpus.open(tmp_path / "a")


def test_changed_meta(tmp_path: Path) -> None:
    write(tmp_path / "a")
    path = tmp_path / "a" / "meta.json"
    meta = json.loads(path.read_text())
    for change, message in (
        ({"format": "other"}, "not an any2vec corpus"),
        ({"version": 2}, "version 2; this any2vec reads up to 1"),
        ({"num_types": 4}, "damaged"),
        ({"num_slots": None}, "damaged"),
        ({"kind": "songs"}, "kind 'songs'"),
        ({"options": True}, "options = True"),
        ({"options": {"walk_length": "x"}}, "damaged"),
    ):
        path.write_text(json.dumps({**meta, **change}))
        with pytest.raises(FormatError, match=message):
            Corpus.open(tmp_path / "a")
    path.write_text("[" * 100_000)
    with pytest.raises(FormatError):
        Corpus.open(tmp_path / "a")


def test_keys() -> None:
    keys = Keys.of(KEYS)
    assert keys == KEYS and keys == Keys.of(KEYS) and keys != KEYS[:2] and keys != 5
    assert keys[1] == "naïve" and keys[-1] == "東京" and keys[1:] == KEYS[1:] and keys.head(1) == ["the"]
    assert "the" in keys and keys.index("東京") == 2
    with pytest.raises(IndexError):
        keys[3]


def test_truncate() -> None:
    vocabulary = Vocabulary.from_keys(KEYS, COUNTS)
    assert list(vocabulary.truncate(3).keys) == KEYS[:2] and len(vocabulary.truncate(6)) == 0
    assert len(vocabulary.truncate(0, 1)) == 1 and len(vocabulary.truncate(2, 10)) == 2
    assert vocabulary.row("naïve") == 1 and vocabulary.row("x") is None and "the" in vocabulary
    assert vocabulary[2] == "東京"
    unranked = Vocabulary.from_keys(KEYS, [1, 3, 5])
    assert len(unranked.truncate(1)) == 3
    for call in (lambda: unranked.truncate(2), lambda: vocabulary.truncate(-1), lambda: vocabulary.truncate(1, 0)):
        with pytest.raises(InputError):
            call()
    with pytest.raises(InputError, match="3 counts"):
        Vocabulary.from_keys(KEYS, [1, 2])


def test_subsample_keep_is_word2vecs() -> None:
    vocabulary = Vocabulary.from_keys(KEYS, [900, 90, 10])
    keep = vocabulary.subsample_keep(1e-2)
    for count, probability in zip([900, 90, 10], keep, strict=True):
        f = count / 1000
        assert probability == pytest.approx(min(1.0, ((f / 1e-2) ** 0.5 + 1) * 1e-2 / f))
    assert keep.dtype == np.float64 and vocabulary.subsample_keep(0).tolist() == [1.0] * 3
    assert Vocabulary.from_keys(KEYS, [1, 0, 0]).subsample_keep(1e-4)[1:].tolist() == [1.0, 1.0]
    for threshold in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InputError):
            vocabulary.subsample_keep(threshold)


def test_atomic_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.txt"
    with storage.atomic_file(path) as temporary:
        temporary.write_text("one")
        assert not path.exists()
    with pytest.raises(RuntimeError), storage.atomic_file(path) as temporary:
        temporary.write_text("two")
        raise RuntimeError
    with pytest.raises(StorageError, match="exists"), storage.atomic_file(path, overwrite=False):
        pass
    with pytest.raises(StorageError, match="is a folder"), storage.atomic_file(tmp_path):
        pass
    assert path.read_text() == "one" and [item.name for item in path.parent.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("has_others", [False, True])
def test_a_file_that_fails_leaves_no_empty_folder(has_others: bool, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "deeper" / "a.txt"
    with pytest.raises(StorageError, match="the disk is full"), storage.atomic_file(path) as temporary:
        temporary.write_text("on")
        if has_others:
            (tmp_path / "deep" / "b.txt").touch()
        raise OSError(errno.ENOSPC, "")
    assert [item.name for item in tmp_path.rglob("*")] == ["deep", "b.txt"] * has_others


def test_atomic_folder_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    one, two = (json.dumps({"format": "any2vec-test", "is": name}) for name in ("one", "two"))
    for text in (one, two):
        with storage.atomic_folder(tmp_path / "link", True, "any2vec-test") as temporary:
            (temporary / "meta.json").write_text(text)
    assert (tmp_path / "real" / "meta.json").read_text() == two and (tmp_path / "link").is_symlink()
    assert len(list(tmp_path.iterdir())) == 2


def test_stale_files_of_killed_processes_go(tmp_path: Path) -> None:
    for name, age in ((".old.1.tmp", 1e6), (".new.2.tmp", 0)):
        (tmp_path / name).mkdir()
        time = (tmp_path / name).stat().st_mtime - age
        os.utime(tmp_path / name, (time, time))
    storage.remove_stale(tmp_path)
    assert [item.name for item in tmp_path.iterdir()] == [".new.2.tmp"]


def test_blocks_have_their_size(tmp_path: Path) -> None:
    data = os.urandom(100_001)
    (tmp_path / "a").write_bytes(data)
    blocks = list(files.read_blocks(tmp_path / "a", block_bytes=1000))
    assert b"".join(blocks) == data and {len(block) for block in blocks[:-1]} == {1000}
    with pytest.raises(DataError, match="is a folder"):
        list(files.read_blocks(tmp_path))
    with pytest.raises(DataError, match="There is no file"):
        files.content_hash(tmp_path / "missing")


def test_prefetch() -> None:
    assert list(files.prefetch(iter(range(50)))) == list(range(50))

    def fails() -> Iterator[int]:
        yield 1
        raise DataError("bad")

    items = files.prefetch(fails())
    assert next(items) == 1
    with pytest.raises(DataError, match="bad"):
        next(items)
    endless = files.prefetch(iter(int, 1))
    next(endless)
    endless.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name == "any2vec-reader"]
