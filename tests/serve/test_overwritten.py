"""Files that are written over in place while they are served: the server answers on, and none of them is mapped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest

import any2vec as a2v
from any2vec.data.io import held
from any2vec.embeddings import Embeddings
from any2vec.encoders.ngrams import NGramEncoder
from any2vec.errors import FormatError
from any2vec.formats import native

pytest.importorskip("fastapi", reason="serving needs the extra serve")
pytest.importorskip("uvicorn", reason="serving needs the extra serve")

from any2vec.serve import catalog

NUM, DIM = 3000, 8  # vectors on many pages, counts and triples, too
RUNS = ("words", "graph", "likes", "table.safetensors", "matrix.npy")
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "words": ("nearest", {"keys": ["w1", "unseen"]}),
    "graph": ("predict", {"queries": [{"head": "e1", "relation": "r0"}], "exclude_training": True}),
    "likes": ("recommend", {"users": [1]}),
    "table.safetensors": ("nearest", {"keys": ["w1"]}),
    "matrix.npy": ("nearest", {"keys": ["w1"]}),
}


def vectors(seed: int, num: int = NUM, with_encoder: bool = False) -> Embeddings:
    rng = np.random.default_rng(seed)
    gram_GD = rng.standard_normal((NUM, DIM)).astype(np.float32)
    encoder = NGramEncoder(np.arange(NUM), gram_GD, min_n=4, max_n=5, buckets=NUM, seed=1, spread=0.1)
    rows = rng.standard_normal((num, DIM)).astype(np.float32)
    return Embeddings([f"w{n}" for n in range(num)], rows, encoder=encoder if with_encoder else None)


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """A folder with RUNS."""
    vectors(1, with_encoder=True).save(tmp_path / "words")
    vectors(1).save(tmp_path / "table.safetensors")
    vectors(1).save(tmp_path / "matrix.npy")
    triples = [(f"e{n}", f"r{n % 2}", f"e{(n * 7 + 1) % NUM}") for n in range(NUM)]
    a2v.fit(a2v.ComplEx(dim=DIM), triples, epochs=1, threads=1, out=tmp_path / "graph")
    likes = [(user, f"i{(user * 3 + at) % NUM}") for user in range(NUM) for at in range(2)]
    a2v.fit(a2v.BPR(dim=DIM), likes, epochs=1, threads=1, out=tmp_path / "likes")
    return tmp_path


def write_over(folder: Path) -> None:
    """Every file with arrays by a shorter one, in place."""
    for file in [*folder.rglob("*.safetensors"), *folder.rglob("*.npy")]:
        file.write_bytes(b"junk")


def mapped(folder: Path) -> list[str]:
    """Files below a folder that this process has mapped."""
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if str(folder) in line]


def test_the_server_answers_on(served: Path) -> None:
    command = [sys.executable, "-m", "any2vec", "serve", *(str(served / name) for name in RUNS), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stderr is not None
            port = int(running.stderr.readline().rpartition(" (")[0].rpartition(":")[2])
            write_over(served)
            for name, (operation, content) in QUESTIONS.items():
                address = f"http://127.0.0.1:{port}/runs/{name}/{operation}"
                asked = Request(address, json.dumps(content).encode(), {"Content-Type": "application/json"})
                with urlopen(asked, timeout=30) as answer:
                    assert answer.status == 200, name
            assert running.poll() is None
        finally:
            running.terminate()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not say what is mapped")
def test_nothing_is_mapped_meanwhile_or_later(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked, seen = native.check_contents, list[str]()
    monkeypatch.setattr(native, "check_contents", lambda *a, **k: (seen.extend(mapped(served)), checked(*a, **k)))
    with catalog.Catalog({name: served / name for name in RUNS}) as runs:
        assert seen == mapped(served) == []
        assert np.shares_memory(runs["graph"].scorer.vectors, runs["graph"].embeddings.vectors)  # held once
        assert Embeddings.load(served / "words").vectors.base is not None and len(mapped(served)) > 0  # elsewhere


def test_a_table_that_is_too_large_stays_mapped(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "available_bytes", lambda: 2 * vectors(1).vectors.nbytes - 1)
    said: list[str] = []
    run = catalog.Catalog({"table": served / "table.safetensors"}, complain=said.append)["table"]
    assert run.embeddings.similarity("w1", "w2") == vectors(1).similarity("w1", "w2")
    assert run.mapped == (served / "table.safetensors",) and len(said) == 1
    assert "larger than 50% of the free memory and stays mapped; put a new one in its place by renaming" in said[0]


def test_vectors_and_their_keys_are_written_one_after_the_other(tmp_path: Path) -> None:
    said: list[str] = []
    vectors(1).save(tmp_path / "table.safetensors")
    vectors(2, 20).save(tmp_path / "tiny.safetensors")
    runs = catalog.Catalog({"table": tmp_path / "table.safetensors"}, complain=said.append)
    for suffix in ("safetensors", "vocabulary.tsv"):
        (tmp_path / f"table.{suffix}").write_bytes((tmp_path / f"tiny.{suffix}").read_bytes())
        runs.refresh()
    assert len(said) == 1 and "3,000 keys for 20 vectors" in said[0]
    assert len(runs["table"].embeddings) == 20


def test_arrays_are_read_as_they_are_mapped(tmp_path: Path) -> None:
    array_NM = np.arange(12, dtype=np.int32).reshape(3, 4)
    np.save(tmp_path / "by_row.npy", array_NM)
    np.save(tmp_path / "by_column.npy", np.asfortranarray(array_NM))
    for name in ("by_row", "by_column"):
        array = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
        assert held.kept(array) is array
        with held.in_memory():
            found = held.kept(array)
        assert not isinstance(found, np.memmap) and not found.flags.writeable
        np.testing.assert_array_equal(found, array_NM)
    with held.in_memory(), pytest.raises(FormatError, match=r"by_row\.npy was cut short while it was read"):
        held.stored(tmp_path / "by_row.npy", "<i4", 0, (1000,))
