"""Traces of steps to come: what comes out is what went in, in order, wherever it lay, and files do not pile up."""

from __future__ import annotations

import numpy as np
import pytest

from any2vec.errors import StorageError
from any2vec.tables.disk.trace import Trace


def record(step: int) -> list[np.ndarray]:
    rng = np.random.default_rng(step)
    return [
        rng.integers(0, 1000, (step % 7, 3)).astype(np.int32), rng.random(5 * (step % 4)).astype(np.float32),
        rng.integers(0, 9, step % 3), np.array(step),
    ]  # fmt: skip


@pytest.mark.parametrize("budget", [0, 300, 1 << 20])
@pytest.mark.parametrize("window", [1, 10, 200])
def test_records_come_out_as_they_went_in(budget: int, window: int) -> None:
    most_files, most_held = 0, 0
    with Trace(budget, piece=1000) as trace:
        for step in range(300 + window):
            if step < 300:
                trace.put(record(step))
            most_files, most_held = max(most_files, trace.num_files), max(most_held, trace.held_bytes)
            if step >= window:
                for found, expected in zip(trace.get(), record(step - window), strict=True):
                    assert found.dtype == expected.dtype and np.array_equal(found, expected)
        assert not len(trace) and trace.held_bytes == 0 and trace.num_files <= 1
        assert most_held <= budget and (trace.spilled_bytes > 0) == (budget < window * 100)
        with pytest.raises(IndexError):
            trace.get()
    most = sum(array.nbytes for step in range(300) for array in record(step)) / 300 * (window + 1)
    assert most_files <= 3 + 2 * most / 1000


def test_what_is_cleared_is_gone_and_more_may_come() -> None:
    with Trace(100) as trace:
        for step in range(20):
            trace.put(record(step))
        trace.clear()
        assert len(trace) == trace.num_files == trace.held_bytes == 0
        trace.put(record(30))
        assert all(np.array_equal(*pair) for pair in zip(trace.get(), record(30), strict=True))


def test_a_disk_that_fills_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("any2vec.tables.disk.trace.tempfile.TemporaryFile", full)
    with Trace(0) as trace, pytest.raises(StorageError, match="the disk is full"):
        trace.put([np.arange(10)])
