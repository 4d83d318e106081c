"""Sources that processes of their own read: the same lines, whatever happens to the reader."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from any2vec.errors import DataError
from any2vec.sources import subprocess_source
from any2vec.sources.base.cutter import LineBatch
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.opening import open_source
from any2vec.sources.subprocess_source import SubprocessSource

LINES = 3000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"line number {number} of the file\n" for number in range(LINES)))
    return path


def lines_of(batches: list[LineBatch]) -> list[str]:
    return b"".join(batch.text_B.tobytes() for batch in batches).decode().splitlines()


def test_a_process_gives_what_the_source_gives_and_goes_on_from_a_position(file: Path) -> None:
    options = SourceOptions(rate=20_000.0)  # so that there are several batches
    here = [batch for batch in open_source(str(file), 3, options).batches(None) if batch is not None]
    source = SubprocessSource(str(file), 3, options)
    there = [batch for batch in source.batches(None) if batch is not None]
    assert len(there) == len(here) > 1
    for one, other in zip(here, there, strict=True):
        assert one.source == other.source == 3 and one.position == other.position and one.names == other.names
        for name in ("text_B", "stop_N", "key_N", "offset_N"):
            left, right = getattr(one, name), getattr(other, name)
            assert left.dtype == right.dtype and np.array_equal(left, right)
    metrics = source.metrics()
    assert metrics["lines"] == LINES and metrics["state"] == "ended" and metrics["reconnects"] == 0
    again = [batch for batch in SubprocessSource(str(file), 3, options).batches(here[0].position) if batch is not None]
    assert lines_of(again) == lines_of(here)[len(here[0]) :]
    assert source.name == open_source(str(file), 3, options).name


def test_a_reader_that_is_killed_or_hangs_is_started_again_and_no_line_comes_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess_source, "_SILENCE", 3.0)  # long enough for a reader that lives, on a busy machine
    file = tmp_path / "long.txt"
    file.write_text("".join(f"line number {number:,} of a long file\n" for number in range(60_000)))
    # 15 batches, and the pipe holds less than one of them: whenever a signal comes, the reader is not through.
    source = SubprocessSource(str(file), 0, SourceOptions(rate=20_000.0, patience=0.1))
    found: list[LineBatch] = []
    planned = [signal.SIGKILL, signal.SIGSTOP]
    for batch in source.batches(None):
        if batch is not None:
            found.append(batch)
        if planned and len(found) >= 2 * (3 - len(planned)) and source.reader is not None and batch is not None:
            os.kill(source.reader, planned.pop(0))
    assert lines_of(found) == file.read_text().splitlines()
    metrics = source.metrics()
    assert metrics["reconnects"] == 2 and "started again" in metrics["trouble"] and not planned


def test_a_reader_that_is_lost_too_often_is_given_up_aloud(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SubprocessSource(str(file), 0, SourceOptions(retries=1))
    monkeypatch.setitem(source._order, "number", "none")  # the reader fails, whenever it is started
    assert [batch for batch in source.batches(None) if batch is not None] == []
    assert source.metrics()["state"] == "given up" and "it is given up" in source.metrics()["trouble"]


def test_who_is_not_asked_reads_no_further_than_its_pipe_holds(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_bytes(b"some words that fill a line of the file\n" * 400_000)  # 16 MB
    source = SubprocessSource(str(path), 0, SourceOptions())
    batches = source.batches(None)
    first = next(batch for batch in batches if batch is not None)
    time.sleep(0.3)
    second = next(batch for batch in batches if batch is not None)
    assert source.metrics()["bytes"] <= first.text_B.size + second.text_B.size + (8 << 20)
    source.close()
    assert all(batch is None or True for batch in batches)
    assert source.reader is not None
    with pytest.raises(ProcessLookupError):
        os.kill(source.reader, 0)


def test_what_is_not_there_is_reported_before_a_process_starts(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file"):
        SubprocessSource(str(tmp_path / "nothing"), 0, SourceOptions())
