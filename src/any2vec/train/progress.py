"""Progress records of a run: for its log, its progress bar and callbacks."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from any2vec.checks import parse_json
from any2vec.data.io.storage import atomic_file, storage_errors
from any2vec.machine import resident_bytes
from any2vec.types import Stats, Work

RECORD_SECONDS = 0.5
"""a record is written no more often than this"""


class Recorder:
    """Adds up the statistics of works and makes a record of them now and then.

    Args:
        make: a record of a work, of what all records say, by field: seconds, loss, items, items_per_s, busy_cores,
            rss_bytes, mapped_bytes.
        path: the log to append to, or None; records beyond `items` go, for they are made again.
        callback: is called with every record, or None.
        items, seconds: totals of the run before this process went on with it.
        every: seconds between two records; None: RECORD_SECONDS.
        counted: the records' field that `items` is.
        log_bytes: a log that has grown so long is renamed, and another begins.
        most: records that are kept in memory, the newest.
    """

    def __init__(
        self,
        make: Callable[[Work[Any], dict[str, Any]], Any],
        path: Path | None,
        callback: Callable[[Any], None] | None,
        items: int = 0,
        seconds: float = 0.0,
        *,
        every: float | None = None,
        counted: str = "items",
        log_bytes: int = 1 << 62,
        most: int = 1 << 62,
    ) -> None:
        if path is not None:
            cut_log(path, items, counted)
        self.items = self._items_before = items
        self.records: list[Any] = []
        self.peak_anonymous = 0
        self.epoch = Stats(0, 0.0, 0)
        """of the epoch at hand, or what this process did of it: its loss does not depend on the clock, as a record's
        does"""
        self._make, self._path, self._callback = make, path, callback
        self._every = RECORD_SECONDS if every is None else every
        self._log_bytes, self._most = log_bytes, most
        self._before = seconds
        self._start = self._last = time.perf_counter()
        self._ticked = self._start
        self._pause = 0.0
        self._window = self._former = Stats(0, 0.0, 0)
        """since the last record, and before it"""
        self._former_span = 0.0
        self._former_epoch = self._epoch_number = 0

    @property
    def seconds_here(self) -> float:
        """Seconds of training in this process, pauses for checkpoints left out."""
        return time.perf_counter() - self._start - self._pause

    @property
    def items_here(self) -> int:
        """That this process has counted."""
        return self.items - self._items_before

    @property
    def seconds(self) -> float:
        """Those of the whole run so far."""
        return self._before + self.seconds_here

    def pause(self, seconds: float) -> None:
        """Time that was no training (a checkpoint was written)."""
        self._pause += seconds
        self._last += seconds

    def tick(self, work: Work[Any]) -> None:
        """Tell the callback, but not the log, how far a round is: what other hosts have done is not known yet."""
        now = time.perf_counter()
        if self._callback is not None and self.records and now - self._ticked >= self._every:
            self._ticked = now
            now_at = {"progress": work.progress, "seconds": round(self.seconds, 4), "validation": {}}
            self._callback(replace(self.records[-1], **now_at))

    def add(self, work: Work[Any], stats: Stats, is_held: bool = False) -> None:
        """Count a piece of work; make a record when it is time, and at the end of the run.

        is_held: the caller makes the record, with what is not known yet.
        """
        if work.epoch != self._epoch_number:
            self._epoch_number, self.epoch = work.epoch, Stats(0, 0.0, 0)
        self.epoch += stats
        self._window += stats
        self.items += stats.items
        if not is_held and (time.perf_counter() - self._last >= self._every or work.progress >= 1.0):
            self.record(work)

    def record(self, work: Work[Any], **more: Any) -> None:
        """Make a record of what came since the last one. more: further fields."""
        now = time.perf_counter()
        window = of_loss = self._window
        span = max(now - self._last, 1e-9)
        if span < self._every and work.progress >= 1.0:  # a short window says little: here is the one before it, too
            window, span = window + self._former, span + self._former_span
            if work.epoch == self._former_epoch or not of_loss.loss_examples:  # the loss of another epoch is another
                of_loss = window
        if work.progress >= 1.0 and 0 < self.epoch.loss_examples < of_loss.loss_examples:
            of_loss = self.epoch  # of epochs that took no longer than a record the last one's, as the summary has it
        anonymous, mapped = resident_bytes()
        self.peak_anonymous = max(self.peak_anonymous, anonymous)
        measured = {
            "seconds": round(self.seconds, 4), "loss": mean_loss(of_loss), "items": self.items,
            "items_per_s": window.items / span, "busy_cores": window.cpu_seconds / span, "rss_bytes": anonymous,
            "mapped_bytes": mapped,
        }  # fmt: skip
        record = self._make(work, measured | more)
        self._former, self._former_span, self._former_epoch = self._window, now - self._last, work.epoch
        self._last, self._window = now, Stats(0, 0.0, 0)
        self.records.append(record)
        del self.records[: -self._most]
        self._write(record)
        if self._callback is not None:
            self._callback(record)

    def _write(self, record: Any) -> None:
        if self._path is None:
            return
        with storage_errors(self._path):
            if self._path.exists() and self._path.stat().st_size >= self._log_bytes:
                self._path.replace(rotated_log(self._path))
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record.as_dict()) + "\n")


def rotated_log(path: Path) -> Path:
    """Where a log goes that has grown too long."""
    return path.with_name(f"{path.stem}.1{path.suffix}")


def mean_loss(stats: Stats) -> float | None:
    """Per positive example; None: there was none."""
    return stats.loss_sum / stats.loss_examples if stats.loss_examples else None


def cut_log(path: Path, items: int, counted: str) -> None:
    """Drop the records of `path` beyond `items`, the field that is `counted`: a run that goes on from a checkpoint
    writes them again.
    """
    if not path.exists():
        return
    with storage_errors(path):
        lines = path.read_text(encoding="utf-8").split("\n")  # names may hold what else ends a line
    with atomic_file(path) as temporary:
        kept = (f"{line}\n" for line in lines if _items_of(line, counted) <= items)
        temporary.write_text("".join(kept), encoding="utf-8")


def _items_of(line: str, counted: str) -> float:
    """Of one line of the log; infinite for a line that was cut short."""
    try:
        return float(parse_json(line)[counted])
    except (ValueError, KeyError, TypeError):
        return math.inf
