"""The learner of every model of clicks: worker threads that take batches of a piece of work in turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

import numpy as np

from any2vec.data.click_batch import ClickBatch
from any2vec.types import Stats, Work

if TYPE_CHECKING:
    from any2vec.models.click_worker import ClickWorker


class ClickSource(Protocol):
    """Examples in order, as `any2vec.data.clicks.Clicks` and planted streams have them."""

    @property
    def num_examples(self) -> int: ...

    def batch(self, start: int, stop: int) -> ClickBatch:
        """Examples [start, stop)."""


class ClickLearner:
    """Trains on this trainer's chunk of the examples, each once an epoch.

    Args:
        start: first example of the chunk; batches are counted from there.
        batches_per_epoch: of this trainer, so that the numbers of batches go on from epoch to epoch.
    """

    def __init__(
        self, source: ClickSource, workers: Sequence[ClickWorker], *, batch_size: int, start: int,
        batches_per_epoch: int, learning_rate: float,
    ) -> None:  # fmt: skip
        self.source = source
        self.workers = workers
        self.batch_size = batch_size
        self.start = start
        self.batches_per_epoch = batches_per_epoch
        self.left_out = 0
        """examples whose batch came too late for its step"""
        self._rate = learning_rate
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(len(workers)) if len(workers) > 1 else None

    def run(self, work: Work) -> Stats:
        """Train one piece of work; deterministic with one worker."""
        batches = iter(range(work.start, work.stop, self.batch_size))
        if self._pool is None:
            return sum((self._take(worker, work, batches) for worker in self.workers), Stats(0, 0.0, 0))
        parts = self._pool.map(lambda worker: self._take(worker, work, batches), self.workers)
        return sum(parts, Stats(0, 0.0, 0))

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
            stop = min(at + self.batch_size, work.stop)
            index = work.epoch * self.batches_per_epoch + (at - self.start) // self.batch_size
            loss = worker.train(self.source.batch(at, stop), index)
            items += stop - at
            if loss is None:
                with self._lock:
                    self.left_out += stop - at
                continue
            loss_sum, examples = loss_sum + loss, examples + stop - at


def chunks_of(num_examples: int, trainers: int, others: int, batch_size: int) -> list[int]:
    """Bounds of the hosts' chunks: whole batches, trainers first, then hosts without any.

    All trainers have the same number of batches but for the last ones, which may have fewer.
    """
    num_batches = -(-num_examples // batch_size)
    each = [num_batches // trainers + (rank < num_batches % trainers) for rank in range(trainers)]
    bounds = [0, *np.cumsum(each).tolist()]
    return [min(bound * batch_size, num_examples) for bound in bounds] + [num_examples] * others
