"""Trainers tell each other which rows their coming batches use, where each can read its own data alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from any2vec.cluster.codec import pack_ids, unpack_ids
from any2vec.cluster.transport import Transport

PHASE = "oracle"


class TradedIds:
    """The rows of all trainers' batches, for one thread that asks for all of a step before those of the next.

    A row's id costs 4 bytes (less where rows are few) for each other trainer; its gradient, which then goes the same
    way without an id, 4 W. An oracle on one host would have to read everybody's data, and would send as much.

    Args:
        own: step -> int64 (U,), the distinct rows of this trainer's batch, ascending; none behind its last one.
        num_rows: of the table.
    """

    def __init__(self, transport: Transport, trainers: int, own: Callable[[int], np.ndarray], num_rows: int) -> None:
        self.transport = transport
        self.trainers = trainers
        self.num_rows = num_rows
        self._own = own
        self._found: tuple[int, np.ndarray] = (-1, np.empty(0, np.int64))
        """the step whose own rows have been told last, and these"""

    def __call__(self, trainer: int, step: int) -> np.ndarray:
        """int64, the distinct rows of a batch, ascending.

        Raises:
            HostError: the trainer is lost or silent.
        """
        if self._found[0] != step:
            self._found = step, self._own(step)
            for peer in range(self.trainers):
                if peer != self.transport.rank:
                    self.transport.send(peer, [pack_ids(self._found[1], self.num_rows)], PHASE, PHASE)
        if trainer == self.transport.rank:
            return self._found[1]
        return unpack_ids(self.transport.recv(trainer, PHASE, PHASE).parts[0], self.num_rows)
