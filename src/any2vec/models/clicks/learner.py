"""The learner of every model of clicks: worker threads that take batches of a piece of work in turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

from any2vec.data.clicks.batch import ClickBatch
from any2vec.types import Stats, Work

if TYPE_CHECKING:
    from any2vec.models.clicks.worker import ClickWorker


class ClickSource(Protocol):
    """Examples in order, as `any2vec.data.clicks.clicks.Clicks` and planted streams have them."""

    @property
    def num_examples(self) -> int: ...

    def batch(self, start: int, stop: int) -> ClickBatch:
        """Examples [start, stop)."""


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Which examples the k-th batch of each trainer has. Trainer r has the examples [bounds[r], bounds[r + 1])."""

    bounds: Sequence[int]
    trainers: int
    batch_size: int
    epochs: int
    first: int = 0
    """the first step that is still to be done"""

    @property
    def per_epoch(self) -> int:
        """Of the trainer that has most."""
        return max(-(-(stop - start) // self.batch_size) for start, stop in pairwise(self.bounds[: self.trainers + 1]))

    @property
    def num_steps(self) -> int:
        return self.per_epoch * self.epochs

    def of(self, trainer: int, epoch: int, example: int) -> int:
        """The step of the batch that begins with an example."""
        return epoch * self.per_epoch + -(-(example - self.bounds[trainer]) // self.batch_size)

    def range(self, trainer: int, step: int) -> tuple[int, int]:
        """Examples [start, stop) of a batch; none behind the trainer's last of an epoch."""
        start = self.bounds[trainer] + step % self.per_epoch * self.batch_size
        end = self.bounds[trainer + 1]
        return min(start, end), min(start + self.batch_size, end)

    def batch(self, source: ClickSource, trainer: int, step: int) -> ClickBatch:
        return source.batch(*self.range(trainer, step))


class ClickLearner:
    """Trains on one trainer's chunk of the examples, each once an epoch.

    Args:
        fills_steps: where this trainer has fewer batches than others, it takes part in their last ones without
            examples: for what goes step by step, all together.
    """

    def __init__(
        self, source: ClickSource, workers: Sequence[ClickWorker], steps: Steps, trainer: int, learning_rate: float,
        fills_steps: bool = False,
    ) -> None:  # fmt: skip
        self.source = source
        self.workers = workers
        self.steps = steps
        self.trainer = trainer
        self._rate = learning_rate
        self._fills_steps = fills_steps
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(len(workers)) if len(workers) > 1 else None

    def run(self, work: Work) -> Stats:
        """Train one piece of work; deterministic with one worker."""
        batches = iter(range(work.start, work.stop, self.steps.batch_size))
        if self._pool is None:
            stats = sum((self._take(worker, work, batches) for worker in self.workers), Stats(0, 0.0, 0))
        else:
            parts = self._pool.map(lambda worker: self._take(worker, work, batches), self.workers)
            stats = sum(parts, Stats(0, 0.0, 0))
        if self._fills_steps and work.closes_round and work.round.ends_epoch:
            done = self.steps.of(self.trainer, work.epoch, work.stop)
            for step in range(done, (work.epoch + 1) * self.steps.per_epoch):
                self.workers[0].rest(step)
        return stats

    @property
    def updates(self) -> int:
        """Changes of rows that this trainer has made: distinct rows of its batches, added up."""
        return sum(worker.updates for worker in self.workers)

    def learning_rate(self, progress: float) -> float:
        """Learning rate at a share of the run: always the same; the optimisers scale their steps."""
        return self._rate

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def _take(self, worker: ClickWorker, work: Work, batches: Iterator[int]) -> Stats:
        """Train the batches that this worker gets: each takes the next one when it is ready for it."""
        items, loss_sum, examples = 0, 0.0, 0
        before = time.thread_time()
        while True:
            with self._lock:
                at = next(batches, None)
            if at is None:
                return Stats(items, loss_sum, examples, time.thread_time() - before)
            stop = min(at + self.steps.batch_size, work.stop)
            loss = worker.train(self.source.batch(at, stop), self.steps.of(self.trainer, work.epoch, at))
            items += stop - at
            if loss is not None:  # else the batch came too late for its step; the agreement counts those
                loss_sum, examples = loss_sum + loss, examples + stop - at


def chunks_of(num_examples: int, trainers: int, others: int, batch_size: int) -> list[int]:
    """Bounds of the hosts' chunks: whole batches, trainers first, then hosts without any.

    All trainers have the same number of batches but for the last ones, which may have one fewer.
    """
    num_batches = -(-num_examples // batch_size)
    each = [num_batches // trainers + (rank < num_batches % trainers) for rank in range(trainers)]
    bounds = [0, *np.cumsum(each).tolist()]
    return [min(bound * batch_size, num_examples) for bound in bounds] + [num_examples] * others
