"""The learner of every model of triples: worker threads that take batches of examples in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from any2vec.models.threads import TrainingThreads
from any2vec.models.triples.config import TripleModel
from any2vec.models.triples.queries import Queries
from any2vec.models.triples.score import NO_DENSE, Dense
from any2vec.models.triples.score_worker import make_worker
from any2vec.models.triples.worker import Negatives, Range
from any2vec.models.words.rates import linear_rate
from any2vec.types import Span, Stats, Work


class TripleLearner:
    """Trains on all examples of some triples, in an order of its own in each epoch.

    Args:
        entity_SC: float32, rows of entities, values and state; relation_RC: those of relations.
        queries: of triples whose heads and tails are slots of entity_SC.
        resident: ranges of slots from which negatives are drawn.
        threads: Hogwild (Recht et al. 2011) beyond 1; they multiply matrices each for itself, so the caller keeps the
            threads of BLAS to 1.
        dense: tables of dense parameters, of a model with a score of its own.
    """

    def __init__(
        self, model: TripleModel, entity_SC: np.ndarray, relation_RC: np.ndarray, queries: Queries,
        resident: Sequence[Range], threads: int, seed: int, dense: Dense = NO_DENSE,
    ) -> None:  # fmt: skip
        self.model, self.queries = model, queries
        number = model.negatives_of(sum(stop - start for start, stop in resident))
        self.negatives = Negatives(model, resident, queries.answer_N, number, seed)
        self.workers = [make_worker(model, entity_SC, relation_RC, dense) for _ in range(threads)]
        self.on_batch: Callable[[int], None] = lambda worker: None
        """called after each batch with the number of the worker that trained it"""
        self._threads = TrainingThreads(threads)

    def run(self, work: Work[Span]) -> Stats:
        """Train the examples of a span of the epoch; deterministic with one worker."""
        self.queries.begin(work.epoch)
        span, size = work.payload, self.model.batch_size

        def train(number: int, at: int) -> Stats:
            stop = min(at + size, span.stop)
            batch, rate = self.queries.batch(at, stop), self.learning_rate(span.progress(at))
            loss = self.workers[number].step(batch, self.negatives.of(batch, work.epoch, at), rate)
            self.on_batch(number)
            return Stats(stop // 2 - at // 2, loss, stop - at)  # a triple has two examples

        return self._threads.train(range(span.start, span.stop, size), train)

    def learning_rate(self, progress: float) -> float:
        """Learning rate at a share of the whole run, 0..1."""
        return linear_rate(self.model, progress)

    def close(self) -> None:
        """End the threads."""
        self._threads.close()
