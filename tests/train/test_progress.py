"""What a run says of itself while it goes on, and what stays of it at the end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import any2vec
from any2vec.train import progress
from any2vec.train.progress import Recorder
from any2vec.types import Progress, ProgressLine, Round, Span, Stats, Work
from spreads import spread


class Clock:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


def work(epoch: int, share: float) -> Work[Span]:
    """One that ends at a share of the whole run."""
    line = ProgressLine(0, 100, 0.0, 1.0)
    stop = round(100 * share)
    return Work(Span(stop - 1, stop, line), epoch, Round(0), line.progress(stop))


def recorder(epochs: int) -> Recorder:
    """Of records in memory."""

    def make(work: Work[Span], measured: dict[str, Any]) -> Progress:
        where = {"epoch": work.epoch, "round": work.round.number, "progress": work.progress}
        return Progress(epochs=epochs, learning_rate=0.1, **where, **measured)

    return Recorder(make, None, None)


def test_a_short_last_window_is_reported_with_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    found = recorder(1)
    for seconds, share, stats in ((1.0, 0.5, Stats(100, 30.0, 10)), (2.0, 0.9, Stats(200, 20.0, 10))):
        clock.now += seconds
        found.add(work(0, share), stats)
    clock.now += 0.1
    found.add(work(0, 1.0), Stats(10, 9.0, 1))
    first, second, last = found.records
    assert (first.loss, first.items_per_s) == (3.0, 100.0) and (second.loss, second.items_per_s) == (2.0, 100.0)
    assert last.loss == pytest.approx(29 / 11) and last.items_per_s == pytest.approx(210 / 2.1)
    assert last.items == 310


def test_a_short_last_epoch_has_a_loss_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of runs that validate, whose epochs end with a record each; its items/s are those of both."""
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    found = recorder(2)
    for epoch, share, stats in ((0, 0.5, Stats(10, 30.0, 10)), (1, 1.0, Stats(10, 8.0, 10))):
        clock.now += 0.1
        found.add(work(epoch, share), stats, is_held=True)
        found.record(work(epoch, share))
    assert [record.loss for record in found.records] == [3.0, 0.8] and progress.mean_loss(found.epoch) == 0.8
    assert found.records[-1].items_per_s == pytest.approx(20 / 0.2)
    found.record(work(1, 1.0))  # of nothing: the loss is the one before
    assert found.records[-1].loss == 0.8


def test_a_run_of_one_record_ends_with_the_loss_of_its_last_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    found = recorder(3)
    for epoch, share, loss in ((0, 0.3, 30.0), (1, 0.6, 20.0), (2, 1.0, 10.0)):
        clock.now += 0.01
        found.add(work(epoch, share), Stats(10, loss, 10))
    (record,) = found.records
    assert record.loss == progress.mean_loss(found.epoch) == 1.0 and record.items == 30


def test_the_loss_of_an_epoch_does_not_depend_on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    found = recorder(2)
    assert progress.mean_loss(found.epoch) is None
    for epoch, share, stats in (
        (0, 0.3, Stats(1, 50.0, 10)), (1, 0.6, Stats(1, 10.0, 10)),
        (1, 0.8, Stats(1, 0.0, 0)), (1, 1.0, Stats(1, 8.0, 2)),
    ):  # fmt: skip
        clock.now += 0.7 if share < 0.8 else 0.1
        found.add(work(epoch, share), stats)
    assert progress.mean_loss(found.epoch) == pytest.approx(18 / 12)


def test_a_run_says_the_same_loss_again_and_on_hosts_in_any_scheme() -> None:
    sentences = [[f"{word * 7 % 23}" for word in range(row, row + 12)] for row in range(200)]

    def loss(scheme: str | None) -> float:
        options = {} if scheme is None else spread(logical_hosts=2, scheme=scheme)
        return float(any2vec.fit(any2vec.SkipGram(dim=8), sentences, epochs=2, threads=1, **options).summary["loss"])

    assert loss(None) == loss(None)
    assert loss("rep-base") == pytest.approx(loss("pull-opt"), rel=1e-12)


def test_seconds_are_those_of_the_whole_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing the result among them; a finished run keeps what it took."""
    save, out = any2vec.Embeddings.save_into, tmp_path / "run"

    def slow(self: any2vec.Embeddings, *arguments: Any) -> None:
        time.sleep(0.5)
        save(self, *arguments)

    monkeypatch.setattr(any2vec.Embeddings, "save_into", slow)
    lines, model = ["a b c a b c"] * 20, any2vec.SkipGram(dim=4, min_count=1)
    began = time.perf_counter()
    found = any2vec.fit(model, lines, out=out)
    took = time.perf_counter() - began
    written = json.loads((out / "run.json").read_text())["summary"]["seconds"]
    assert written + 0.5 <= found.summary["seconds"] <= took
    again = any2vec.fit(model, lines, out=out, resume=True)
    assert again.summary["seconds"] >= written


def test_a_log_is_cut_by_its_own_line_ends(tmp_path: Path) -> None:
    """Names of data may hold what else parts lines."""
    log, lines = tmp_path / "log", [f'{{"items": {items}, "name": "a\u2028b\x85c"}}\n' for items in (5, 10, 15)]
    log.write_text("".join(lines) + '{"items"', encoding="utf-8")
    progress.cut_log(log, 10, "items")
    assert log.read_text(encoding="utf-8") == "".join(lines[:2])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process begins with the peak of who started it")
def test_the_peak_of_memory_is_the_process_s_own() -> None:
    inner = "from any2vec.machine import peak_resident_bytes; print(peak_resident_bytes())"
    outer = f"import subprocess, sys; b = bytearray(400 << 20); subprocess.run([sys.executable, '-c', {inner!r}])"
    found = subprocess.run([sys.executable, "-c", outer], capture_output=True, text=True, check=True, timeout=60)
    assert 0 < int(found.stdout) < 300 << 20  # bytes
