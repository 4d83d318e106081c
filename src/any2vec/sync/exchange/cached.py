"""Rows on their owners, trained through HET's caches (Miao et al. 2022, PVLDB 15(2)): rounds are its batches.

A host asks for the rows of a round that its cache lacks or has too old, trains the round in its tables, and adds what
became of them to the cache, which brings it to the owners late, within bounds. Nobody waits for anybody in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np

from any2vec.cluster.transport import Transport
from any2vec.plan.lookahead.oracle import NextUseOracle
from any2vec.sync.drivers.rounds import Agreement
from any2vec.sync.exchange.pulled import Inspector, marks_of
from any2vec.sync.options.row_cache import CachedRows
from any2vec.tables.cache.cached_table import CachedTable, gather_tables
from any2vec.tables.copying import num_rows_of, stripes
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.row_table import Lease
from any2vec.types import Round, Span, Work

SETTLE_EVERY = 16
"""hosts meet after so many rounds, and at the end of an epoch, for records, checkpoints and stops"""


class Cached(Agreement):
    """The agreement of one host.

    Args:
        tables: name -> float32 (V, D), trained in place; rows that no round asked for are stale.
        counts: table -> occurrences of its rows in an epoch, (V',) with V' <= V; they say which rows are static.
        coming: (epoch, round) of all rounds of this host, for policies that look ahead.
    """

    def __init__(
        self, transport: Transport, tables: dict[str, np.ndarray], options: CachedRows, inspector: Inspector,
        counts: Mapping[str, np.ndarray], coming: Iterator[tuple[int, Round]],
    ) -> None:  # fmt: skip
        self.transport, self.tables = transport, tables
        self.settle_every = SETTLE_EVERY
        self._inspector = inspector
        self._coming = list(coming)
        self._done = 0
        """rounds of this run"""
        self._leases: dict[str, Lease] = {}
        self._places = lru_cache(maxsize=4)(self._find_places)  # both tables ask, one after the other
        self._shardings = stripes(num_rows_of(tables), transport.hosts)
        self._cached = {name: self._table(name, options, counts.get(name, np.empty(0))) for name in tables}
        for table in self._cached.values():
            table.start()

    def _table(self, name: str, options: CachedRows, uses_V: np.ndarray) -> CachedTable:
        sharding, table_VD, cache = self._shardings[name], self.tables[name], options.row_cache
        return CachedTable(
            self.transport, name, sharding, table_VD[sharding.ids(self.transport.rank)],
            RowOptimizer(table_VD.shape[1], "sgd"), bound=cache.number, policy=cache.policy, freshness=cache.freshness,
            capacity=max(1, round(options.cache_rows * len(table_VD))), trainers=self.transport.hosts, workers=1,
            busiest=lambda number: self._busiest(name, uses_V, number),
            oracle=lambda: NextUseOracle(lambda step: self._places(step)[name], 0, len(self._coming)),
        )  # fmt: skip

    def begin_round(self, work: Work[Span]) -> None:
        """Bring the rows that the round needs into the tables."""
        for name, places in self._places(self._done).items():
            lease = self._leases[name] = self._cached[name].accesses[0].gather(places, self._done)
            self.tables[name][self._shardings[name].rows(places)] = lease.row_UC

    def end_round(self) -> None:
        for name, lease in self._leases.items():
            now = self.tables[name][self._shardings[name].rows(lease.id_U)]
            self._cached[name].accesses[0].add(lease, now - lease.row_UC, self._done)
        self._done += 1

    def gather_result(self) -> dict[str, np.ndarray] | None:
        return gather_tables(self.transport, self._cached)

    def close(self, error: BaseException | None = None) -> None:
        """End the servers, once all hosts have come here."""
        for table in self._cached.values():
            table.close(error)

    def _find_places(self, step: int) -> dict[str, np.ndarray]:
        """By table the places, ascending, of the rows of a round."""
        epoch, coming = self._coming[step]
        marks = marks_of(self._inspector, num_rows_of(self.tables), epoch, coming)
        return {name: self._shardings[name].marked(mark) for name, mark in marks.items()}

    def _busiest(self, name: str, uses_V: np.ndarray, number: int) -> np.ndarray:
        """So many places, ascending, of the rows that occur most; those that nobody counted come last."""
        order = np.argsort(-uses_V, kind="stable")
        ids = np.concatenate([order, np.arange(len(uses_V), len(self.tables[name]))])[:number]
        return np.sort(self._shardings[name].place(ids))
