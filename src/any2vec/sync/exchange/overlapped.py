"""PullModel-Opt behind the work: while a round is trained, the last one is pushed and the next one's rows are pulled.

What hosts made of round r counts for the others from round r + 2 on, one round later than without overlap; a host's own
changes count for itself at once. In the background of round r runs, in this order: push and merge the changes of round
r - 1, inspect round r + 1, pull its rows. Round r + 1 then starts from what was pulled plus this host's changes of r.
All that travels are changes (value at the end less value at the start), which owners merge as ever; so there is no row
whose value is taken over as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from any2vec.cluster.codec import pack_rows
from any2vec.cluster.transport import Transport
from any2vec.sync.base.host_rows import HostRows
from any2vec.sync.drivers.rounds import Agreement
from any2vec.sync.exchange.pulled import Inspector, Tracked, Tracker
from any2vec.sync.rules.block import Rules
from any2vec.types import Round, Span, State, Work

_CHANNEL = "behind"
_KEPT = "now."
"""before the name of a table: its tracked rows at the start of a round, in a checkpoint"""


class Overlapped(Agreement):
    """The agreement of one host by PullModel-Opt with overlap.

    Args:
        rows: where this host trains what it has pulled.
        coming: (epoch, round) after round of this host, from the first one that it will train.
    """

    def __init__(
        self, transport: Transport, rows: HostRows, rules: Rules, bits: int, inspector: Inspector,
        coming: Iterator[tuple[int, Round]], threads: int = 1,
    ) -> None:  # fmt: skip
        self.transport = transport
        self._tracker = Tracker(transport, rows, rules, bits, True, inspector, _CHANNEL, threads)
        self._coming = coming
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="agree")
        self._behind: Future[Tracked | None] | None = None
        self._now: Tracked | None = None
        """the rows of the round at hand"""
        self._start: dict[str, list[np.ndarray]] = {}
        """what it started from"""
        self._recalled: dict[str, np.ndarray] = {}

    def begin_round(self, work: Work[Span]) -> None:
        """Nothing, but for the first round, whose rows nobody has pulled yet."""
        if self._now is None:
            self._begin(self._step(None, {}))
            for name, rows in self._recalled.items():
                self._replace(name, rows)
            self._behind = self._thread.submit(self._step, None, {})

    def end_round(self) -> None:
        """Wait for what ran behind the round; go over to the next one's rows; leave this one's to the background."""
        done = self._now
        assert done is not None and self._behind is not None, "a round closes that was not opened"
        coming = self._behind.result()
        changes = {name: self._tracker.changes(name, done, start) for name, start in self._start.items()}
        if coming is None:  # this was the last round
            self._behind = self._thread.submit(self._step, done, changes)
            self._now = None
            self._behind.result()
            self._thread.shutdown()
            return
        own = {name: (done.mine[name], changes[name]) for name in changes}
        self._begin(coming)
        for name, (owned, moved) in own.items():
            self._add_own(name, np.concatenate(owned), np.concatenate(moved))
        self._behind = self._thread.submit(self._step, done, changes)

    def gather_result(self) -> dict[str, np.ndarray] | None:
        """The agreed tables at rank 0, every round that has closed included."""
        if self._behind is not None:
            self._behind.result()
        return self._tracker.gather_result()

    def state_dict(self) -> State:
        """What rounding has left out, and the rows from which the next round starts."""
        kept = {} if self._now is None else {_KEPT + name: np.concatenate(rows) for name, rows in self._start.items()}
        return self._tracker.state_dict() | kept

    def load_state_dict(self, states: Sequence[State]) -> None:
        """Take up what a former run left; with another number of hosts the next round starts from the agreed rows."""
        self._tracker.load_state_dict(states)
        if len(states) == self.transport.hosts:
            own = states[self.transport.rank]
            self._recalled = {name: own[_KEPT + name] for name in self._tracker.blocks if _KEPT + name in own}

    def _step(self, done: Tracked | None, changes: dict[str, list[np.ndarray]]) -> Tracked | None:
        """What runs behind a round: push the last one, and pull the rows of the next; None where there is none."""
        coming, tracker = next(self._coming, None), self._tracker
        needed = None if coming is None else tracker.needed(*coming)
        if done is not None:
            asked = tracker.push(done, tracker.pack_changes(done, changes), True, needed)
        else:
            asked = None if needed is None else tracker.ask(needed)
        return None if asked is None else tracker.pull(asked)

    def _begin(self, tracked: Tracked | None) -> None:
        """Go over to the rows of the next round."""
        assert tracked is not None
        self._now = replace(tracked, values={})
        self._start = {name: self._tracker.unpack(packed) for name, packed in tracked.values.items()}
        self._tracker.put(tracked)

    def _add_own(self, name: str, ids: np.ndarray, changes_KD: np.ndarray) -> None:
        """Add this host's latest changes, which the owners do not know yet, to the rows of the round that begins."""
        assert self._now is not None
        coming = np.concatenate(self._now.mine[name])
        _, old, new = np.intersect1d(ids, coming, assume_unique=True, return_indices=True)
        rows = np.array(self._tracker.rows.at_hand(name, self._tracker.pool))
        rows[new] += changes_KD[old]
        self._replace(name, rows)

    def _replace(self, name: str, rows_KD: np.ndarray) -> None:
        """Let the round that begins start from other values of its rows of a table, in the order of their ids."""
        assert self._now is not None
        owned = self._now.mine[name]
        if len(rows_KD) != sum(len(ids) for ids in owned):
            return  # of a run with another schedule: the agreed rows are as good
        self._start[name] = np.split(rows_KD, np.cumsum([len(ids) for ids in owned])[:-1])
        self._tracker.rows.put(name, 0, self.transport.hosts, [pack_rows(rows) for rows in self._start[name]])
