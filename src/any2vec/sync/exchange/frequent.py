"""The baseline of pWord2Vec: replicas that average frequent rows often and rare rows seldom.

Ji et al. 2016, "Parallelizing word2vec in shared and distributed memory", section 3.3, as its MPI program does it: at
the t-th synchronization the 1024 * 2^z most frequent rows are averaged, z being the number of trailing zeros of t.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.plan.sharding.sharding import contiguous_bounds
from any2vec.sync.drivers.rounds import Agreement
from any2vec.types import Span, State, Work

FIRST = 1024
"""rows that every synchronization averages"""


class FrequentRows(Agreement):
    """The agreement of one host; every round is a synchronization (pWord2Vec has one each 0.1 s).

    What it made of rows that were not averaged yet is a replica's own, so the result is the mean of all replicas, and
    checkpoints hold each host's replica.

    Args:
        tables: name -> float32 (V, D), trained in place; the same values on every host at the start.
        counts: occurrences of each row, (V',) with V' <= V; rows beyond come last. None: rows stand in their order.
    """

    def __init__(
        self, transport: Transport, tables: dict[str, np.ndarray], counts: np.ndarray | None = None, first: int = FIRST
    ) -> None:
        self.transport = transport
        self.tables = tables
        self.first = first
        known = np.empty(0, np.int64) if counts is None else np.argsort(-counts.astype(np.int64), kind="stable")
        self._order = np.concatenate([known, np.arange(len(known), len(tables["input"]))])
        self._number = 0

    def begin_round(self, work: Work[Span]) -> None:
        """Every row is here already; synchronizations are counted from 1, over all epochs."""
        self._number = work.round.number + 1

    def end_round(self) -> None:
        """Average as many rows as it is time for."""
        ids = self._order[: rows_of_sync(self._number, len(self._order), self.first)]
        for name, mean_KD in self._average(ids).items():
            self.tables[name][ids] = mean_KD

    def gather_result(self) -> dict[str, np.ndarray] | None:
        """The mean of all replicas, at rank 0; they stay as they are."""
        ids = np.arange(len(self._order))
        mine = self._reduce(ids)
        found = self.transport.gather([Part("rows", mean_KD) for mean_KD in mine.values()], "gather")
        if not found:
            return None
        return {name: np.concatenate([found[rank][i].array for rank in sorted(found)]) for i, name in enumerate(mine)}

    def state_dict(self) -> State:
        """This host's replica."""
        if self.transport.hosts == 1:
            return {}
        return {f"{name} replica": table for name, table in self.tables.items()}

    def load_state_dict(self, states: Sequence[State]) -> None:
        """Take the own replica up again; where hosts were more, fewer or agreed otherwise, all start from the mean."""
        mine = states[self.transport.rank] if len(states) == self.transport.hosts else {}
        for name, table in self.tables.items():
            if f"{name} replica" in mine:
                table[:] = mine[f"{name} replica"]

    def _average(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        """name -> mean over the hosts of the rows `ids`, float32 (K, D), at all hosts: owners reduce and broadcast."""
        mine = self._reduce(ids)
        parts = [Part("rows", mean_KD) for mean_KD in mine.values()]
        found = self.transport.exchange(dict.fromkeys(range(self.transport.hosts), parts), "broadcast")
        found[self.transport.rank] = tuple(parts)
        return {name: np.concatenate([found[rank][i].array for rank in sorted(found)]) for i, name in enumerate(mine)}

    def _reduce(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        """name -> mean of this host's share of `ids`; each host owns an equal part of them, added up in rank order."""
        hosts, rank = self.transport.hosts, self.transport.rank
        cuts = contiguous_bounds(len(ids), hosts)
        shares = [
            [Part("rows", table[ids[cuts[host] : cuts[host + 1]]]) for table in self.tables.values()]
            for host in range(hosts)
        ]
        found = self.transport.exchange(dict(enumerate(shares)), "reduce")
        found[rank] = tuple(shares[rank])
        return {name: _mean([found[host][i].array for host in range(hosts)]) for i, name in enumerate(self.tables)}


def rows_of_sync(number: int, num_rows: int, first: int = FIRST) -> int:
    """How many of the most frequent rows the synchronization `number` (1, 2, ...) averages: first * 2^z, or all."""
    return min(num_rows, first * (number & -number))


def _mean(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Of one table's rows by rank: float32 (K, D), summed in float64."""
    total = np.zeros(rows[0].shape, np.float64)
    for row_KD in rows:
        total += row_KD
    return (total / len(rows)).astype(np.float32)
