"""Locks of folders: a stop at any moment leaves none behind in a process that goes on."""

from __future__ import annotations

import dis
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import any2vec
from any2vec.data.io.folder_lock import FolderLock, is_locked
from any2vec.errors import InputError, StorageError
from any2vec.tables.disk.partition_store import PartitionStore
from any2vec.tasks.stream.program import StreamProgram
from any2vec.tasks.stream.stream import stream
from any2vec.tasks.words.task import Words
from any2vec.train.fit import fit
from any2vec.train.frame import Program
from any2vec.train.run_folder import own_folder, run_folder

PACKAGE = str(Path(any2vec.__file__).parent)
MOMENTS = ("CALL", "RESUME", "JUMP_BACKWARD")
"""instructions behind which CPython looks for signals"""


def operations(code: CodeType) -> dict[int, str]:
    return {one.offset: one.opname for one in dis.get_instructions(code)}


def stopped_at(moment: int, action: Callable[[], None]) -> bool:
    """Run it, with a KeyboardInterrupt where CPython would raise that of a signal for the so manieth time."""
    seen, names, last = 0, {}, {}

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.startswith(PACKAGE) and frame.f_code is not action.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            by_offset = names.setdefault(frame.f_code, operations(frame.f_code))
            before, last[frame] = last.get(frame, ""), by_offset[frame.f_lasti]
            if before.startswith(MOMENTS):
                seen += 1
                if seen > moment:
                    raise KeyboardInterrupt
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(former)
        last.clear()
    return False


@pytest.fixture
def store(tmp_path: Path) -> Path:
    PartitionStore.create(tmp_path / "store", [0, 3, 6], 4, lambda number, row_RC: None).close()
    return tmp_path / "store"


@pytest.mark.parametrize("name", ["run folder", "new run", "store"])
def test_a_stop_at_any_moment_leaves_no_lock(store: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    out.mkdir()

    def own() -> None:
        with own_folder(out):
            pass

    def new() -> None:
        with run_folder(out, {}):
            pass

    def opened() -> None:
        found = PartitionStore.open(store)
        try:
            pass
        finally:
            found.close()

    folder, action = {"run folder": (out, own), "new run": (out, new), "store": (store, opened)}[name]
    moment = 0
    while stopped_at(moment, action):
        assert not is_locked(folder), f"locked behind a stop at moment {moment}"
        shutil.rmtree(out, ignore_errors=True)  # what a stop in the middle of the cleaning has left
        out.mkdir()
        moment += 1
    assert moment > 10


def test_a_lock_is_released_once(tmp_path: Path) -> None:
    lock, other = FolderLock(tmp_path, "The folder"), FolderLock(tmp_path, "The folder")
    lock.acquire()
    with pytest.raises(StorageError, match=r"The folder .* is in use by process \d+; wait for it, or stop it"), other:
        pass
    lock.release()
    with other:
        lock.release()
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)
    with pytest.raises(StorageError, match="gone"), FolderLock(tmp_path / "gone", "The folder"):
        pass


def test_a_lock_that_nobody_has_any_more_is_none(tmp_path: Path) -> None:
    FolderLock(tmp_path, "The folder").acquire()
    assert not is_locked(tmp_path)


def test_a_run_that_ended_meanwhile_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs into one folder: both find it free, the second prepares longer than the first takes in all."""
    out, lines = tmp_path / "out", [["a", "b"]] * 50
    made = Words.program

    def prepare_slowly(self: Words, *given: Any) -> Program:
        monkeypatch.setattr(Words, "program", made)
        fit("skipgram", lines, out=out, epochs=1, seed=1, threads=1)
        return made(self, *given)

    for again, sentence in (({}, "exists; choose another folder"), ({"resume": True}, "finished the run in")):
        shutil.rmtree(out, ignore_errors=True)
        monkeypatch.setattr(Words, "program", prepare_slowly)
        with pytest.raises(StorageError, match=sentence):
            fit("skipgram", lines, out=out, epochs=1, seed=2, threads=1, **again)
        assert json.loads((out / "run.json").read_text())["settings"]["seed"] == 1
        assert not is_locked(out)


@pytest.mark.parametrize("name", ["resume", "overwrite"])
def test_what_is_of_a_folder_needs_one(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} is of a run folder"):
        fit("skipgram", [["a", "b"]] * 50, epochs=1, **{name: True})


def test_a_stream_that_ended_meanwhile_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, text = tmp_path / "out", tmp_path / "a.txt"
    text.write_text("a b\n" * 50)
    made = StreamProgram.compile

    def compile_slowly(self: StreamProgram) -> None:
        monkeypatch.setattr(StreamProgram, "compile", made)
        stream("skipgram", str(text), out=out)
        made(self)

    monkeypatch.setattr(StreamProgram, "compile", compile_slowly)
    with pytest.raises(StorageError, match="holds a stream"):
        stream("skipgram", str(text), out=out)
    assert json.loads((out / "stream.json").read_text())["summary"]["words"] == 100
