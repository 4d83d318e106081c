"""PullModel of GraphAny2Vec (IPDPS 2021, section 4): before a round a host asks for the rows that it will read.

Base tracks words: both rows of each; Opt tracks labels: the input row of what is read as input, the output row of what
is read as output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from any2vec.cluster.transport import Transport
from any2vec.sync.drivers.rounds import Agreement
from any2vec.sync.exchange.tracking import Inspector, Tracked, Tracker
from any2vec.sync.rules.block import Rules
from any2vec.types import Span, State, Work


class Pulled(Agreement):
    """The agreement of one host by PullModel-Base or, with `by_label`, PullModel-Opt.

    Args:
        tables: name -> float32 (V, D), trained in place; rows that were not asked for are stale.
        bits, threads: as for `Tracker`.
    """

    def __init__(
        self, transport: Transport, tables: dict[str, np.ndarray], rules: Rules, bits: int, by_label: bool,
        inspector: Inspector, threads: int = 1,
    ) -> None:  # fmt: skip
        self.tables = tables
        self.transport = transport
        self._tracker = Tracker(transport, tables, rules, bits, by_label, inspector, threads=threads)
        self._tracked: Tracked | None = None

    def begin_round(self, work: Work[Span]) -> None:
        """Find out which rows the round needs, and pull them."""
        self._tracked = tracked = self._tracker.fetch(work.epoch, work.round)
        self._tracker.put(self.tables, tracked)
        if self._tracker.bits == 32:
            self._tracked = replace(tracked, values={})  # nobody asks what values a row had before the round

    def end_round(self) -> None:
        """Push the tracked rows to their owners, who merge them."""
        tracked, are_changes = self._tracked, self._tracker.bits < 32
        assert tracked is not None, "a round closes that was not opened"
        if are_changes:
            outgoing = self._tracker.changes(self.tables, tracked, tracked.values)
        else:
            outgoing = self._tracker.take(self.tables, tracked)
        self._tracker.push(tracked, outgoing, are_changes)
        self._tracked = None

    def state_dict(self) -> State:
        """What rounding has left out, and what rules remember."""
        return self._tracker.state_dict()

    def load_state_dict(self, states: Sequence[State]) -> None:
        """Go on from what hosts had."""
        self._tracker.load_state_dict(states)

    def gather_result(self) -> dict[str, np.ndarray] | None:
        """The agreed tables, at rank 0."""
        return self._tracker.gather_result()
