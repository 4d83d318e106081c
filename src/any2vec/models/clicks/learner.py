"""The learner of every model of clicks: worker threads that take batches of a piece of work in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from any2vec.data.clicks.rows import ClickBatch
from any2vec.models.threads import TrainingThreads
from any2vec.types import Span, Stats, Work

if TYPE_CHECKING:
    from any2vec.models.clicks.worker import ClickWorker


class ClickSource(Protocol):
    """Examples in order, as `any2vec.data.clicks.clicks.Clicks` and planted streams have them."""

    @property
    def num_examples(self) -> int: ...

    def batch(self, start: int, stop: int) -> ClickBatch:
        """Examples [start, stop)."""


class ClickLearner:
    """Trains on one trainer's chunk of the examples, each once an epoch.

    Args:
        steps_per_epoch: of the trainer that has most: where this one has fewer batches, it takes part in the others'
            last ones without examples, for what goes step by step, all together; 0: it does not.
    """

    def __init__(
        self, source: ClickSource, workers: Sequence[ClickWorker], batch_size: int, learning_rate: float,
        steps_per_epoch: int = 0,
    ) -> None:  # fmt: skip
        self.source = source
        self.workers = workers
        self.batch_size = batch_size
        self._rate = learning_rate
        self._steps_per_epoch = steps_per_epoch
        self._threads = TrainingThreads(len(workers))

    def run(self, work: Work[Span]) -> Stats:
        """Train one piece of work; deterministic with one worker."""
        span = work.payload

        def train(number: int, batch: tuple[int, int]) -> Stats:
            step, at = batch
            stop = min(at + self.batch_size, span.stop)
            loss = self.workers[number].train(self.source.batch(at, stop), step)
            # None: the batch came too late for its step; the agreement counts those
            return Stats(stop - at, loss or 0.0, 0 if loss is None else stop - at)

        batches = enumerate(range(span.start, span.stop, self.batch_size), work.step)
        stats = self._threads.train(batches, train)
        if self._steps_per_epoch and work.ends_epoch:
            done = work.step + -(-(span.stop - span.start) // self.batch_size)
            for step in range(done, (work.epoch + 1) * self._steps_per_epoch):
                self.workers[0].rest(step)
        return stats

    @property
    def updates(self) -> int:
        """Changes of rows that this trainer has made: distinct rows of its batches, added up."""
        return sum(worker.updates for worker in self.workers)

    def learning_rate(self, progress: float) -> float:
        """Learning rate at a share of the run: always the same; the optimizers scale their steps."""
        return self._rate

    def close(self) -> None:
        """End the threads."""
        self._threads.close()


def chunks_of(num_examples: int, trainers: int, others: int, batch_size: int) -> list[int]:
    """Bounds of the hosts' chunks: whole batches, trainers first, then hosts without any.

    All trainers have the same number of batches but for the last ones, which may have one fewer.
    """
    num_batches = -(-num_examples // batch_size)
    each = [num_batches // trainers + (rank < num_batches % trainers) for rank in range(trainers)]
    bounds = [0, *np.cumsum(each).tolist()]
    return [min(bound * batch_size, num_examples) for bound in bounds] + [num_examples] * others
