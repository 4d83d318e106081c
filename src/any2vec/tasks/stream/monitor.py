"""Behind each batch of a stream: records, checkpoints, snapshots, the end. What is kept is of one moment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from any2vec.embeddings import Embeddings
from any2vec.formats.snapshots import names, publish
from any2vec.models.stream.token_batch import TokenBatch
from any2vec.train.checkpoint import FILE, Checkpoint, save_checkpoint
from any2vec.train.monitor import Interval
from any2vec.train.progress import Recorder
from any2vec.types import Stats, Work

if TYPE_CHECKING:
    from any2vec.tasks.stream.program import StreamProgram

BATCHES = "batches."
"""before the names of arrays of a checkpoint that are not the model's"""
MOST_SHARE = 20
"""what is written now and then takes at most one part in so many of the time"""


class StreamMonitor:
    """Nobody else decides: trainers do as they are dealt."""

    def __init__(self, program: StreamProgram, recorder: Recorder) -> None:
        self.program, self.recorder = program, recorder
        options = self.options = program.request.spec.run
        self.checkpoints = Interval(options.checkpoint_seconds, MOST_SHARE)
        self.snapshots = Interval(options.snapshot_seconds, MOST_SHARE)
        self.is_late = False
        """`seconds` are over"""
        self.drift: dict[str, float] = {}
        """a record's words -> cosine"""
        self.snapshot = None if options.out is None else next(reversed(names(options.out)), None)
        self._before: dict[str, np.ndarray] = {}
        self.pip: float | None = None

    def on_work(self, work: Work[TokenBatch], stats: Stats) -> None:
        """Count, record, and whatever is due."""
        program, options, batch = self.program, self.options, work.payload
        if program.ids is not None:
            for lines in batch.lines:
                program.ids.add(lines.source, lines.ids)
        program.counts.add(batch)
        measured = (0.0, 0) if batch.is_replayed else (stats.loss_sum, stats.loss_examples)  # of new lines alone
        self.recorder.add(work, Stats(batch.words, *measured, stats.cpu_seconds))
        self.is_late = options.seconds is not None and self.recorder.seconds_here >= options.seconds
        if program.stop_signal or self.is_late:
            program.batches.stop()
        words = self.recorder.items
        due = [self.snapshots.is_due_behind(words), self.checkpoints.is_due_behind(words)]
        if options.out is None or not any(due):
            return
        if not (batch.is_settled and program.driver.is_settled(work)):
            program.batches.rest()
            return
        if due[0]:
            self.publish()
        if due[1]:
            self.save()

    def save(self) -> None:
        """Write a checkpoint. What is trained, its ids, and where the sources go on are of one moment."""
        if self.options.out is None:
            return
        start, program = time.perf_counter(), self.program
        batches, place = program.batches.state_dict(), {"positions": program.batches.inflow.positions()}
        state = program.learner.state_dict() | {BATCHES + name: array for name, array in batches.items()}
        loss = self.recorder.epoch
        totals = program.counts.as_dict() | {
            "seconds": self.recorder.seconds, "words": self.recorder.items, "loss": [loss.loss_sum, loss.loss_examples],
            "ids_bytes": 0 if program.ids is None else program.ids.sync(),
        }  # fmt: skip
        save_checkpoint(self.options.out / FILE, Checkpoint(state, place, program.request.settings, totals))
        self.checkpoints.done(time.perf_counter() - start, self.recorder.items)

    def publish(self) -> Embeddings | None:
        """Publish the vectors as they are; None where no word has one yet."""
        start, program, watched = time.perf_counter(), self.program, self.options.watched
        if not program.batches.vocabulary.num_rows:
            return None
        embeddings = program.learner.embeddings(program.batches.vocabulary)
        if program.batches.pairs is not None:
            self.pip = program.batches.pairs.pip(embeddings, program.batches.vocabulary)
        if self.options.out is not None:
            self.snapshot = publish(self.options.out, embeddings.save_into)
        rows = embeddings.rows(watched)
        now = {word: embeddings.vectors[row].copy() for word, row in zip(watched, rows, strict=True) if row >= 0}
        self.drift = {word: _cosine(now[word], self._before[word]) for word in now if word in self._before}
        self._before = now
        self.snapshots.done(time.perf_counter() - start, self.recorder.items)
        return embeddings


def _cosine(left: np.ndarray, right: np.ndarray) -> float:
    norms = float(np.linalg.norm(left)) * float(np.linalg.norm(right))
    return float(left @ right) / norms if norms else 0.0
