"""`any2vec check`: every file of a store, what is wrong with it in one sentence, exit code 2; nothing is changed."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from any2vec.cli.app import app
from any2vec.tables.disk.partition_store import PartitionStore
from any2vec.testing.toy_table import graph, make
from marks import needs_linux, uint64_wraps
from out_of_core_toy import train

pytestmark = [needs_linux, uint64_wraps]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run: a table with dense arrays beside it, and triples."""
    make(tmp_path / "run", graph(300, 500), 300, 4)
    train(tmp_path / "run", "beta", 2, epochs=1, dense=lambda: {"relation": graph(5, 5)})
    return tmp_path / "run"


def check(folder: Path, *flags: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["check", str(folder), *flags], env={"COLUMNS": "200"})
    return done.exit_code, done.stdout + done.stderr


def reported(folder: Path) -> tuple[int, dict[str, str]]:
    """Exit code, and the problem of each file that has one."""
    code, text = check(folder, "--json")
    result = json.loads(text)
    assert result["is_sound"] == (code == 0) == (not result["problems"])
    found = {file["file"]: file["problem"] for one in result["folders"] for file in one["files"] if file["problem"]}
    assert sorted(found.values()) == sorted(result["problems"])
    return code, found


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(data)


def test_sound_folders_are_called_sound(run: Path) -> None:
    for folder in (run, run / "table", run / "triples"):
        assert reported(folder) == (0, {})
    code, text = check(run)
    assert code == 0 and re.findall(r"(\d+) files .* sound", text) == ["6", "4"] and "All is as it was written." in text


def test_each_file_is_reported(run: Path) -> None:
    parts = {path.name.split(".")[0]: path for path in (run / "table").glob("part-*")}
    flip(parts["part-00000"])
    os.truncate(parts["part-00001"], 0)
    parts["part-00003"].unlink()
    flip(run / "table" / "dense.1")
    flip(run / "triples" / "triples.bin")
    (run / "table" / "part-00002.99").write_bytes(b"left")
    before = sorted((path, path.read_bytes()) for path in run.rglob("*") if path.is_file())
    code, found = reported(run)
    assert code == 2 and {name.split(".")[0] for name in found} == {
        "part-00000", "part-00001", "part-00003", "dense", "triples",
    }  # fmt: skip
    assert "Partition 0 of the store" in found[parts["part-00000"].name]
    assert "has 0 bytes, not 4,096" in found[parts["part-00001"].name]
    assert "is missing" in found[parts["part-00003"].name]
    assert "dense.1 of the store" in found["dense.1"] and "Bucket (0, 0) of" in found["triples.bin"]
    assert sorted((path, path.read_bytes()) for path in run.rglob("*") if path.is_file()) == before
    code, text = check(run)
    assert code == 2 and "never committed" in text and "5 files are damaged" in text


@pytest.mark.parametrize(
    ("name", "how", "said"),
    [
        ("table/meta.json", flip, "meta.json"),
        ("table/meta.json", Path.unlink, "has no meta.json"),
        ("triples/meta.json", lambda path: os.truncate(path, 20), "meta.json cannot be read"),
        ("triples/triples.bin", lambda path: os.truncate(path, 20), "triples.bin has 20 bytes"),
        ("triples/counts.npy", Path.unlink, "damaged"),
    ],
)
def test_a_store_that_does_not_open_is_reported(name: str, how: Callable[[Path], object], said: str, run: Path) -> None:
    how(run / name)
    code, found = reported((run / name).parent)
    assert code == 2 and list(found) == ["meta.json"] and said in found["meta.json"]
    assert reported(run)[0] == 2


def test_what_is_no_store_is_reported(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "nothing"):
        code, text = check(folder)
        assert code == 2 and "holds no table in partitions" in text


def test_a_store_in_use_is_left_alone(run: Path) -> None:
    store = PartitionStore.open(run / "table")
    code, text = check(run)
    assert code == 2 and f"in use by process {os.getpid()};" in text
    store.close()


def test_a_store_that_may_only_be_read(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a mount that is read-only: nothing in there is opened to be written, or made."""
    before, open_ = {path: path.stat().st_mtime_ns for path in run.rglob("*")}, os.open

    def read_only(path: Any, flags: int, *more: Any) -> int:
        if Path(path).is_relative_to(run) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, "read-only file system")
        return open_(path, flags, *more)

    monkeypatch.setattr(os, "open", read_only)
    assert reported(run) == (0, {})
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
