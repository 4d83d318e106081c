"""The keeper of a stream: records, checkpoints, snapshots, the end; what it keeps is of one moment."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.embeddings import Embeddings
from any2vec.formats.snapshots import publish
from any2vec.models.stream.learner import StreamLearner
from any2vec.models.stream.token_batch import TokenBatch
from any2vec.tasks.stream.batches import TokenBatches
from any2vec.tasks.stream.folder import TrainedIds
from any2vec.tasks.stream.progress import StreamRecorder
from any2vec.train.checkpoint import FILE, Checkpoint, save_checkpoint
from any2vec.train.loop import Driver
from any2vec.types import Stats

BATCHES = "batches."
"""before the names of arrays of a checkpoint that are not the model's"""
MOST_SHARE = 20
"""what is written now and then takes at most one part in so many of the time"""


class Interval:
    """When something is due again."""

    def __init__(self, every: float) -> None:
        self.every = every
        self.count = 0
        self._took = 0.0
        self._last = time.perf_counter()
        self._words = -1

    def is_due(self, words: int) -> bool:
        """Whether it is time, and something has been trained since."""
        return words != self._words and self.age >= max(self.every, MOST_SHARE * self._took)

    @property
    def age(self) -> float:
        """Seconds since it was done."""
        return time.perf_counter() - self._last

    def done(self, words: int, seconds: float) -> None:
        self.count += 1
        self._words, self._took, self._last = words, seconds, time.perf_counter()


class StreamKeeper:
    """Hears of each batch.

    Args:
        out: the folder; None: nothing is kept, and the callback hears records alone.
        drift: a record's words -> cosine, filled here.
    """

    def __init__(
        self,
        out: Path | None,
        settings: dict[str, Any],
        batches: TokenBatches,
        learner: StreamLearner,
        driver: Driver[TokenBatch, Stats],
        recorder: StreamRecorder,
        ids: TrainedIds | None,
        *,
        checkpoint_seconds: float,
        snapshot_seconds: float,
        seconds: float | None,
        watched: list[str],
        snapshot: str | None,
    ) -> None:
        self.out, self.settings = out, settings
        self.batches, self.learner, self.driver, self.recorder, self.ids = batches, learner, driver, recorder, ids
        self.checkpoints, self.snapshots = Interval(checkpoint_seconds), Interval(snapshot_seconds)
        self.seconds, self.watched = seconds, watched
        self.stop_signal = 0
        self.is_late = False
        """`seconds` are over"""
        self.drift: dict[str, float] = {}
        self.snapshot = snapshot
        self._before: dict[str, np.ndarray] = {}

    def heard(self, work: TokenBatch, stats: Stats) -> None:
        if self.ids is not None:
            for lines in work.lines:
                self.ids.add(lines.source, lines.ids)
        self.recorder.add(work, stats)
        self.is_late = self.seconds is not None and self.recorder.seconds_here >= self.seconds
        if self.stop_signal or self.is_late:
            self.batches.stop()
        words = self.recorder.words
        if self.out is None or not (self.checkpoints.is_due(words) or self.snapshots.is_due(words)):
            return
        if not (work.is_settled and self.driver.is_settled(work)):
            self.batches.rest()
            return
        if self.snapshots.is_due(words):
            self.publish()
        if self.checkpoints.is_due(words):
            self.save()

    def save(self) -> None:
        """Write a checkpoint. What is trained, its ids, and where the sources go on are of one moment."""
        if self.out is None:
            return
        start = time.perf_counter()
        batches, place = self.batches.state_dict(), {"positions": self.batches.inflow.positions()}
        state = self.learner.state_dict() | {BATCHES + name: array for name, array in batches.items()}
        totals = self.recorder.totals | {"ids_bytes": 0 if self.ids is None else self.ids.sync()}
        save_checkpoint(self.out / FILE, Checkpoint(state, place, self.settings, totals))
        self.checkpoints.done(self.recorder.words, time.perf_counter() - start)

    def publish(self) -> Embeddings | None:
        """Publish the vectors as they are; None where no word has one yet."""
        start = time.perf_counter()
        if not self.batches.vocabulary.num_rows:
            return None
        embeddings = self.learner.embeddings(self.batches.vocabulary)
        if self.out is not None:
            self.snapshot = publish(self.out, lambda folder: write_snapshot(folder, embeddings, self.learner.parts()))
        rows = embeddings.rows(self.watched)
        now = {word: embeddings.vectors[row].copy() for word, row in zip(self.watched, rows, strict=True) if row >= 0}
        self.drift = {word: _cosine(now[word], self._before[word]) for word in now if word in self._before}
        self._before = now
        self.snapshots.done(self.recorder.words, time.perf_counter() - start)
        return embeddings


def write_snapshot(folder: Path, embeddings: Embeddings, parts: Mapping[str, Any]) -> None:
    """The vectors, and what else the model has, into a folder."""
    for name, part in parts.items():
        part.write(folder / name)
    embeddings.save_into(folder)


def _cosine(left: np.ndarray, right: np.ndarray) -> float:
    norms = float(np.linalg.norm(left)) * float(np.linalg.norm(right))
    return float(left @ right) / norms if norms else 0.0
