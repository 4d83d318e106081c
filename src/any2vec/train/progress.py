"""Progress records: what a run tells its log, its bar and whoever listens."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from any2vec.data.io.storage import atomic_file, storage_errors
from any2vec.machine import resident_bytes
from any2vec.types import Progress, Stats, Work

RECORD_SECONDS = 0.5
"""a record is written no more often than this"""


class Recorder:
    """Adds up the statistics of works and makes a `Progress` record of them now and then.

    Args:
        path: `progress.jsonl` to append to, or None.
        callback: hears every record, or None.
        items, seconds: totals of the run before this process went on with it.
    """

    def __init__(
        self,
        epochs: int,
        learning_rate: Callable[[float], float],
        path: Path | None,
        callback: Callable[[Progress], None] | None,
        items: int = 0,
        seconds: float = 0.0,
    ) -> None:
        self.epochs = epochs
        self.items = items
        self.records: list[Progress] = []
        self.peak_anonymous = 0
        self._learning_rate = learning_rate
        self._path = path
        self._callback = callback
        self._before = seconds
        self._start = self._last = time.perf_counter()
        self._ticked = self._start
        self._pause = 0.0
        self._window = self._former = self._epoch = Stats(0, 0.0, 0)
        """since the last record, before it, and in the epoch at hand"""
        self._former_span = 0.0
        self._epoch_number = -1

    @property
    def epoch_loss(self) -> float | None:
        """Mean per positive example over the last epoch, or what this process did of it: it does not depend on the
        clock, as a record's does.
        """
        return _mean_loss(self._epoch)

    @property
    def seconds(self) -> float:
        """Seconds of training so far, pauses for checkpoints left out."""
        return self._before + time.perf_counter() - self._start - self._pause

    def pause(self, seconds: float) -> None:
        """Time that was no training (a checkpoint was written)."""
        self._pause += seconds
        self._last += seconds

    def tick(self, work: Work[Any]) -> None:
        """Tell the callback, but not the log, how far a round is: what other hosts have done is not known yet."""
        now = time.perf_counter()
        if self._callback is not None and self.records and now - self._ticked >= RECORD_SECONDS:
            self._ticked = now
            self._callback(replace(self.records[-1], progress=work.progress, seconds=round(self.seconds, 4)))

    def add(self, work: Work[Any], stats: Stats, bytes_sent: int = 0, bytes_received: int = 0) -> None:
        """Count a piece of work; make a record when it is time, and at the end of the run."""
        self._count(work, stats)
        now = time.perf_counter()
        if now - self._last < RECORD_SECONDS and work.progress < 1.0:
            return
        window, span = self._window, max(now - self._last, 1e-9)
        if span < RECORD_SECONDS:  # the end: a short window says little, so the record is of the one before it, too
            window, span = window + self._former, span + self._former_span
        anonymous, mapped = resident_bytes()
        self.peak_anonymous = max(self.peak_anonymous, anonymous)
        self._write(
            Progress(
                seconds=round(self.seconds, 4),
                epoch=work.epoch,
                epochs=self.epochs,
                round=work.round.number,
                progress=work.progress,
                loss=_mean_loss(window),
                learning_rate=self._learning_rate(work.progress),
                items=self.items,
                items_per_s=window.items / span,
                busy_cores=window.cpu_seconds / span,
                rss_bytes=anonymous,
                mapped_bytes=mapped,
                bytes_sent=bytes_sent,
                bytes_received=bytes_received,
            )
        )
        self._former, self._former_span = self._window, now - self._last
        self._last, self._window = now, Stats(0, 0.0, 0)

    def _count(self, work: Work[Any], stats: Stats) -> None:
        if work.epoch != self._epoch_number:
            self._epoch_number, self._epoch = work.epoch, Stats(0, 0.0, 0)
        self._epoch = self._epoch + stats
        self._window = self._window + stats
        self.items += stats.items

    def _write(self, record: Progress) -> None:
        self.records.append(record)
        if self._path is not None:
            with storage_errors(self._path), self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record.as_dict()) + "\n")
        if self._callback is not None:
            self._callback(record)


def _mean_loss(stats: Stats) -> float | None:
    return stats.loss_sum / stats.loss_examples if stats.loss_examples else None


def cut_log(path: Path, items: int, counted: str = "items") -> None:
    """Drop the records of `path` beyond `items`, the field that is `counted`: a run that goes on from a checkpoint
    writes them again.
    """
    if not path.exists():
        return
    with storage_errors(path):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    with atomic_file(path) as temporary:
        temporary.write_text("".join(line for line in lines if _items_of(line, counted) <= items), encoding="utf-8")


def _items_of(line: str, counted: str) -> float:
    """Of one line of the log; infinite for a line that was cut short."""
    try:
        return float(json.loads(line)[counted])
    except (ValueError, KeyError, TypeError):
        return math.inf
