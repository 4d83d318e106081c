"""The baseline of 2018: every trainer holds the whole table, and after each batch all of it goes from all to all.

Lyu et al. 2018 summed dense gradients by an all-reduce after every batch, whatever the batch had touched. Here owners
add up what trainers made of their blocks, in rank order, and send the sums back: 2 (T - 1) / T tables a trainer and
batch, as a ring does. They divided the sum by the number of trainers, which is a lower learning rate; here it is the
sum, and so the result is that of the row servers in step.

Legend: V rows of a table, D dim, T trainers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.plan.sharding.sharding import contiguous_bounds
from any2vec.sync.base.members import exchange_among
from any2vec.sync.rules.block import Block
from any2vec.sync.rules.merges import Sum
from any2vec.types import Stats


class DenseBatches:
    """The driver of one trainer.

    Args:
        members: ranks of the trainers, ascending.
        here: name -> float32 (V, D), trained in place, the same on all trainers: rows are started, and put, on all of
            them before the same batch.
    """

    def __init__(self, transport: Transport, members: Sequence[int], here: Mapping[str, np.ndarray]) -> None:
        self.transport = transport
        self.members = tuple(members)
        self.here = dict(here)
        self.seconds = 0.0
        """in which this trainer sent, added up and waited"""
        rows = len(next(iter(self.here.values())))
        cuts = contiguous_bounds(rows, len(self.members))
        self._owned = {rank: slice(*cuts[place : place + 2]) for place, rank in enumerate(self.members)}
        own = self._owned[transport.rank]
        self._blocks = {name: Block(table[own], Sum()) for name, table in self.here.items()}

    def before(self, work: object) -> None:
        """Every row is here; what it is now is what changes count from."""
        own = self._owned[self.transport.rank]
        for name, table in self.here.items():
            self._blocks[name].rows[:] = table[own]

    def after(self, work: object, stats: Stats) -> None:
        """Add up what all trainers made of all rows."""
        began = time.perf_counter()
        rank = self.transport.rank
        others = [peer for peer in self.members if peer != rank]
        sent = {peer: [Part("rows", table[self._owned[peer]]) for table in self.here.values()] for peer in others}
        received = exchange_among(self.transport, self.members, sent, "reduce")
        summed = []
        for index, (name, block) in enumerate(self._blocks.items()):
            own = self.here[name][self._owned[rank]]
            slots = np.arange(len(own))
            for peer in self.members:
                block.merge(slots, own if peer == rank else received[peer][index].array, False)
            block.finish(False)
            summed.append(Part("rows", block.rows.copy()))
        agreed = exchange_among(self.transport, self.members, dict.fromkeys(others, summed), "broadcast")
        for peer, parts in (agreed | {rank: tuple(summed)}).items():
            for table, part in zip(self.here.values(), parts, strict=True):
                table[self._owned[peer]] = part.array
        self.seconds += time.perf_counter() - began

    def is_settled(self, work: object) -> bool:
        return False
