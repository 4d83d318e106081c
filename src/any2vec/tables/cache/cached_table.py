"""A table that hosts own in blocks, and train through versioned caches: what one host has of it.

Legend: B rows of this host's block, C columns, V rows of the table, N some places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from any2vec.cluster.transport import LONG_WORK, Transport
from any2vec.plan.lookahead.oracle import NextUseOracle
from any2vec.plan.sharding.sharding import Blocks
from any2vec.tables.cache.versioned_cache import VersionedCache
from any2vec.tables.cache.versioned_rows import VersionedRows
from any2vec.tables.copying import gather_blocks
from any2vec.tables.registry import RESIDENCIES
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.server.blocks.versioned_block import VersionedBlock
from any2vec.tables.server.client import RowClient
from any2vec.tables.server.server import RowServer
from any2vec.types import Service


class CachedTable(Service):
    """Its block, served to all hosts, and for each worker of this host a way to all rows. Rows go by place.

    Args:
        name: of the table, and of the channel of its servers; the same on all hosts, and another for each table.
        table_BC: this host's block, float32, in the order of its slots; kept.
        bound: of the freshness; policy: which rows a cache of `capacity` rows holds.
        trainers: ranks 0..trainers - 1 train.
        workers: of this host; 0: it trains nothing.
        first_owner: the rank that owns the first block; the next ones follow.
        fresh: makes rows by place as they start, float32 (N, C); None: they have been trained before.
        busiest: so many places, ascending, that are used most; for policy static.
        oracle: of this host's batches, made where the policy looks ahead.
    """

    def __init__(
        self, transport: Transport, name: str, sharding: Blocks, table_BC: np.ndarray, optimizer: RowOptimizer, *,
        bound: int, policy: str, freshness: str, capacity: int, trainers: int, workers: int, first_owner: int = 0,
        fresh: Callable[[np.ndarray], np.ndarray] | None = None,
        busiest: Callable[[int], np.ndarray] | None = None, oracle: Callable[[], NextUseOracle] | None = None,
    ) -> None:  # fmt: skip
        self.transport, self.name, self.sharding, self.table = transport, name, sharding, table_BC
        block = VersionedBlock(table_BC, optimizer, is_fresh=fresh is not None)
        self.server = RowServer(transport, {name: block}, name=name, trainers=range(trainers))
        bounds = sharding.on_ranks(transport.hosts, first_owner)
        self.clients = [RowClient(self.server, bounds, worker=worker) for worker in range(max(1, workers))]
        """one for each worker, and one at least, which leaves for all"""
        self.accesses: list[VersionedRows] = []
        if workers:
            looks_ahead = RESIDENCIES.named(policy).needs_next_uses and oracle is not None
            cache = VersionedCache(
                capacity, optimizer, bound, policy=policy, fresh_rows=fresh, others=trainers - 1, freshness=freshness,
                kept=busiest(capacity) if policy == "static" and busiest is not None else None,
                oracle=oracle() if looks_ahead and oracle is not None else None,
            )  # fmt: skip
            self.accesses = [VersionedRows(cache, client, name) for client in self.clients]

    def start(self) -> None:
        self.server.start()

    def flush(self) -> None:
        for access in self.accesses:
            access.flush()

    def gather_result(self) -> np.ndarray | None:
        """The table, float32 (V, C), at rank 0. Collective, when all hosts have flushed."""
        found = gather_blocks(self.transport, {self.name: self.table.copy()}, {self.name: self.sharding})
        return None if found is None else found[self.name]

    def metrics(self) -> dict[str, Any]:
        """As `VersionedRows.metrics`; of a host that trains nothing, nothing."""
        return self.accesses[0].metrics() if self.accesses else {}

    def close(self, error: BaseException | None = None) -> None:
        """Nobody asks for anything more. Collective, when the accesses have closed."""
        self.clients[0].close(error, timeout=LONG_WORK)


def gather_tables(
    transport: Transport, tables: Mapping[str, CachedTable], has_flushed: bool = False
) -> dict[str, np.ndarray] | None:
    """All tables at rank 0, None elsewhere, with every change in them; all hosts call it together.

    has_flushed: the accesses of this host have closed.
    """
    for table in () if has_flushed else tables.values():
        table.flush()
    transport.barrier("settle", timeout=LONG_WORK)
    found = {name: table.gather_result() for name, table in tables.items()}
    transport.barrier("settle", timeout=LONG_WORK)  # nobody changes rows of others before all are copied
    return {name: rows for name, rows in found.items() if rows is not None} or None
