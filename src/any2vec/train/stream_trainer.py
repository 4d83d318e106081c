"""A trainer of a stream: it takes batches as they are dealt, trains them, and tells what came of each.

The loop is that of all training (loop.py); its schedule is what rank 0 deals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from any2vec.cluster.dealer import END, REST, Hand
from any2vec.cluster.message import Part
from any2vec.models.token_batch import TokenBatch
from any2vec.sync.dense_batches import DenseBatches
from any2vec.sync.served_batches import ServedBatches
from any2vec.train.loop import run
from any2vec.train.stream_dealer import TableLearner
from any2vec.train.stream_wire import Receiver, is_put, stats_part
from any2vec.types import Stats


class DealtBatches:
    """The schedule: batches as they come, until none follows. It rests with the others in between."""

    def __init__(self, hand: Hand, driver: ServedBatches[TokenBatch] | DenseBatches, tells_tables: bool) -> None:
        self.hand = hand
        self.driver = driver
        self.tells_tables = tells_tables
        """whether rank 0 learns the tables from this trainer"""

    def __iter__(self) -> Iterator[TokenBatch]:
        receiver, driver = Receiver(), self.driver
        while True:
            phase, parts = self.hand.take()
            if phase == END:
                return
            if phase == REST:
                if isinstance(driver, ServedBatches):
                    driver.rest(int(parts[0].array[0]))
                self.hand.tell([Part("rows", table.copy()) for table in driver.here.values()] * self.tells_tables)
            elif is_put(parts):
                assert isinstance(driver, DenseBatches)
                driver.put({name: part.array for name, part in zip(driver.here, parts[1:], strict=True)})
                self.hand.tell([stats_part(Stats(0, 0.0, 0))])
            else:
                piece = receiver.piece(parts)
                if isinstance(driver, ServedBatches):
                    driver.birth = piece.birth
                else:
                    driver.begin(piece.batch.born)
                yield replace(piece.batch, born=np.zeros(0, np.int64))  # where the rows are they have begun

    def told(self, work: TokenBatch, stats: Stats) -> None:
        """A batch has ended."""
        self.hand.tell([stats_part(stats)])


def train_dealt(
    hand: Hand, learner: TableLearner, driver: ServedBatches[TokenBatch] | DenseBatches, tells_tables: bool
) -> None:
    """Train what is dealt until no batch follows.

    Raises:
        HostError: a host is lost.
    """
    batches = DealtBatches(hand, driver, tells_tables)
    run(batches, learner, driver, batches.told)
