"""The learner of triples where some of the rows are in memory: it cuts windows of triples into batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from any2vec.models.triple_config import TripleModel
from any2vec.models.triple_questions import QuestionBatch, Questions
from any2vec.models.triple_worker import Negatives, TripleWorker
from any2vec.sampling.triple_windows import Window
from any2vec.train.out_of_core import Batch
from any2vec.types import Stats


@dataclass(frozen=True)
class Asked:
    """Questions [start, stop) of a window."""

    questions: Questions
    start: int
    stop: int

    def batch(self) -> QuestionBatch:
        return self.questions.batch(self.start, self.stop)


class WindowLearner:
    """Trains windows of triples, whose questions come together where they ask the same, as they do in memory.

    Args:
        relation_RC: rows of relations, float32, changed in place by all threads.
        num_entities: of the whole table; where that many would all be negatives, all that are resident are.
        num_triples: of an epoch; the learning rate follows the share of the run that lies behind.
    """

    def __init__(
        self, model: TripleModel, relation_RC: np.ndarray, num_entities: int, num_relations: int, num_triples: int,
        epochs: int, seed: int,
    ) -> None:  # fmt: skip
        self.model, self.relation_RC, self.num_relations, self.seed = model, relation_RC, num_relations, seed
        self.num_triples, self.epochs = num_triples, epochs
        self.num_negatives = model.negatives_of(num_entities)
        self.items = 0
        """triples trained so far"""
        self._own = threading.local()
        self._lock = threading.Lock()

    def learning_rate(self, progress: float) -> float:
        """Learning rate at a share of the whole run, 0..1."""
        return self.model.rate_at(progress)

    def arrange(self, window: Window) -> list[tuple[int, Asked]]:
        """Its batches, each with the questions of the epoch that come before it; what `OutOfCoreRun` wants."""
        return list(self._batches(window)) if len(window.slot_M3) else []

    def step(self, batch: Batch) -> Stats:
        """Train a batch; several threads may at once."""
        began = time.thread_time()
        asked: Asked = batch.made
        questions, place = asked.batch(), batch.place
        negatives = Negatives(self.model, batch.resident, asked.questions.answer_N, self.num_negatives, self.seed).of(
            questions, place.epoch, place.position
        )
        progress = (place.epoch + place.position / (2 * self.num_triples)) / self.epochs
        loss = self._worker(batch.table_SC).step(questions, negatives, self.model.rate_at(progress))
        items = asked.stop // 2 - asked.start // 2  # a triple has two questions
        with self._lock:
            self.items += items
        return Stats(items, loss, asked.stop - asked.start, time.thread_time() - began)

    def _batches(self, window: Window) -> Iterator[tuple[int, Asked]]:
        questions = Questions(self.model, window.slot_M3, self.num_relations, self.seed)
        questions.begin(window.turn.epoch)
        number, size = questions.num_questions, self.model.batch_size
        for start in range(0, number, size):
            yield 2 * window.before + start, Asked(questions, start, min(start + size, number))

    def _worker(self, table_SC: np.ndarray) -> TripleWorker:
        """Of this thread."""
        if getattr(self._own, "worker", None) is None:
            self._own.worker = TripleWorker(self.model, table_SC, self.relation_RC)
        found: TripleWorker = self._own.worker
        return found
