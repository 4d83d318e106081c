"""A trainer of a stream: it takes batches as they are dealt, trains them, and says what came of each.

The loop is that of all training (loop.py); its schedule is what rank 0 deals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.work_queue import END, REST, QueueWorker
from any2vec.models.stream.learner import StreamLearner
from any2vec.models.stream.token_batch import TokenBatch
from any2vec.sync.drivers.dense_batches import DenseBatches
from any2vec.sync.drivers.pushed_batches import PushedBatches
from any2vec.sync.drivers.served_batches import ServedBatches
from any2vec.sync.drivers.summed_batches import SummedBatches
from any2vec.tasks.stream.hosts.wire import Receiver, is_put, stats_parts
from any2vec.train.loop import LoopParts
from any2vec.types import Stats, Work

TrainerDriver = ServedBatches | DenseBatches | SummedBatches | PushedBatches


class QueueBatches:
    """The schedule: batches as they come, until none follows. It rests with the others in between.

    Args:
        sends_state: whether this trainer sends rank 0 the state, of which each trainer has all.
    """

    def __init__(
        self, queue_worker: QueueWorker, learner: StreamLearner, driver: TrainerDriver, sends_state: bool
    ) -> None:
        self.queue_worker = queue_worker
        self.learner: Any = learner
        self.driver = driver
        self.sends_state = sends_state

    def __iter__(self) -> Iterator[Work[TokenBatch]]:
        receiver, driver, learner = Receiver(), self.driver, self.learner
        while True:
            phase, parts = self.queue_worker.take()
            if phase == END:
                return
            if phase == REST:
                if isinstance(driver, ServedBatches):
                    driver.quiesce(int(parts[0].array[0]))
                elif isinstance(driver, PushedBatches):
                    driver.quiesce(self.sends_state)
                state = learner.state_dict().values() if self.sends_state else ()
                self.queue_worker.report([Part("dense", array.copy()) for array in state])
            elif is_put(parts):
                learner.load_state_dict(
                    dict(zip(learner.state_dict(), (part.array for part in parts[1:]), strict=True))
                )
                if isinstance(driver, PushedBatches):
                    driver.write(self.sends_state)
                self.queue_worker.report(stats_parts(Stats(0, 0.0, 0)))
            else:
                piece = receiver.piece(parts)
                if isinstance(driver, ServedBatches):
                    driver.birth = piece.birth
                elif isinstance(driver, DenseBatches):
                    learner.start(piece.batch.born)
                yield replace(piece.batch, born=np.zeros(0, np.int64)).work  # where the rows are they have begun

    def on_work(self, work: Work[TokenBatch], stats: Stats) -> None:
        """A batch has ended."""
        self.queue_worker.report(stats_parts(stats, work.payload.sentences))


def assigned_parts(
    queue_worker: QueueWorker, learner: StreamLearner, driver: TrainerDriver, sends_state: bool
) -> LoopParts:
    """What the loop of a trainer takes."""
    batches = QueueBatches(queue_worker, learner, driver, sends_state)
    return LoopParts(batches, learner, driver, batches.on_work)
