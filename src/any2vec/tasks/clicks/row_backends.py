"""From the options to the way that rows take between trainers and the hosts that hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from any2vec.cluster.transport import Transport
from any2vec.plan.lookahead.oracle import NextUseOracle
from any2vec.plan.order.roles import Roles
from any2vec.plan.sharding.columns import Placement
from any2vec.sync.options.names import Bounded, Bsp, MOfN, needed_of
from any2vec.sync.options.trainers import TrainerAgreement
from any2vec.tables.cache.cached_table import CachedTable
from any2vec.tables.cache.lookahead_rows import LookaheadRows
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.row_table import PooledTable
from any2vec.tables.server.blocks.trained_block import HeldBlock, StoredBlock, SynchronousBlock, TrainedBlock
from any2vec.tables.server.client import RowClient
from any2vec.tables.server.clients.pulled_rows import ClockedRows, HeldRows, HeldRowsNotices
from any2vec.tables.server.clients.remote_rows import RemoteRows
from any2vec.tables.server.server import RowServer

_NAME = "rows"
_WORKER_OF_NOTICES = 1 << 20
"""worker number of the client that sends which trainers count; workers have the small numbers"""


@dataclass(frozen=True, kw_only=True)
class RowBackendOptions:
    """Where rows stand, and who trains: the same on every host but for `table`."""

    optimizer: RowOptimizer
    placement: Placement
    roles: Roles
    options: TrainerAgreement
    workers: int
    """of this host; 0: it trains nothing"""
    table: np.ndarray
    """float32 (B, C), this host's block in placed order"""
    fresh: Callable[[np.ndarray], np.ndarray] | None
    """makes rows by placed number as they start, float32 (N, C); None: they have been trained before"""
    busiest: Callable[[int], np.ndarray]
    """so many placed rows (or all) that occur most in the data, ascending"""
    batch_rows: Callable[[int, int], np.ndarray]
    """(trainer, step) -> the distinct placed rows of that batch, ascending"""
    num_steps: int
    """of all trainers together, in the whole run"""
    first_step: int


@dataclass
class RowBackend:
    """One host's end."""

    server: RowServer
    main: RowClient
    """of worker 0"""
    accesses: Sequence[PooledTable]
    is_placed: bool
    """the accesses want placed rows"""
    on_held: HeldRowsNotices | None = None
    """on the host that decides which trainers count"""
    metrics: Callable[[], dict[str, Any]] = field(default=dict)


def make_row_backend(setting: RowBackendOptions, transport: Transport) -> RowBackend:
    """This host's end of the way that the options name. Every host makes one."""
    how, cache = setting.options.agreement, setting.options.row_cache
    if cache.kind == "het":
        return _het(setting, transport)
    if cache.kind == "bagpipe":
        return _bagpipe(setting, transport)
    if isinstance(how, Bsp | Bounded):
        return _clocked(setting, transport, 0 if isinstance(how, Bsp) else how.bound)
    if isinstance(how, MOfN):
        return _held(setting, transport, how)
    server = _server(setting, transport, TrainedBlock(setting.table, setting.optimizer))
    is_pooled = np.array([column.is_pooled for column in setting.placement.columns])
    width = setting.optimizer.width
    clients = _clients(setting, server)
    accesses = [RemoteRows(client, setting.placement, width, is_pooled) for client in clients[: setting.workers]]
    return RowBackend(server, clients[0], accesses, is_placed=False)


def _het(setting: RowBackendOptions, transport: Transport) -> RowBackend:
    cache, trainer = setting.options.row_cache, transport.rank
    table = CachedTable(
        transport, _NAME, setting.placement, setting.table, setting.optimizer, bound=cache.number,
        policy=cache.policy, freshness=cache.freshness,
        capacity=max(1, round(setting.options.cache_rows * setting.placement.num_rows)),
        trainers=setting.roles.trainers, workers=setting.workers, first_owner=setting.roles.row_owners[0],
        fresh=setting.fresh, busiest=setting.busiest,
        oracle=lambda: NextUseOracle(partial(setting.batch_rows, trainer), setting.first_step, setting.num_steps),
    )  # fmt: skip
    return RowBackend(table.server, table.clients[0], table.accesses, is_placed=True, metrics=table.metrics)


def _bagpipe(setting: RowBackendOptions, transport: Transport) -> RowBackend:
    server = _server(setting, transport, StoredBlock(setting.table, setting.optimizer))
    client = RowClient(server, _bounds(setting))
    if not setting.workers:
        return RowBackend(server, client, [], is_placed=True)
    rows = LookaheadRows(
        client, _NAME, setting.optimizer, setting.batch_rows, setting.num_steps, trainers=setting.roles.trainers,
        look_ahead=setting.options.row_cache.number, first_step=setting.first_step,
    )  # fmt: skip
    return RowBackend(server, client, [rows], is_placed=True, metrics=rows.metrics)


def _clocked(setting: RowBackendOptions, transport: Transport, bound: int) -> RowBackend:
    table, optimizer, trainers = setting.table, setting.optimizer, range(setting.roles.trainers)
    if isinstance(setting.options.agreement, Bsp):
        blocks = {_NAME: SynchronousBlock(table, optimizer)}
        server = RowServer(transport, blocks, bound=0, in_step=True, trainers=trainers)
    else:
        server = RowServer(transport, {_NAME: TrainedBlock(table, optimizer)}, bound=bound, trainers=trainers)
    client = RowClient(server, _bounds(setting))
    return RowBackend(
        server, client, [ClockedRows(client)] * bool(setting.workers), is_placed=True, metrics=server.metrics
    )


def _held(setting: RowBackendOptions, transport: Transport, how: MOfN) -> RowBackend:
    trainers, decider = setting.roles.trainers, setting.roles.dense_owners[0]
    block = HeldBlock(setting.table, setting.optimizer, trainers / needed_of(how, trainers))
    server = RowServer(transport, {_NAME: block}, bound=0, trainers=[decider])
    block.applied = partial(server.tick, trainer=decider)
    client = RowClient(server, _bounds(setting))
    on_held = None
    if transport.rank == decider:
        on_held = HeldRowsNotices(RowClient(server, _bounds(setting), worker=_WORKER_OF_NOTICES))
    accesses = [HeldRows(client)] * bool(setting.workers)
    return RowBackend(server, client, accesses, is_placed=True, on_held=on_held)


def _server(setting: RowBackendOptions, transport: Transport, block: TrainedBlock) -> RowServer:
    return RowServer(transport, {_NAME: block}, trainers=range(setting.roles.trainers))


def _clients(setting: RowBackendOptions, server: RowServer) -> list[RowClient]:
    """A client for each worker; one at least, which leaves for all."""
    return [RowClient(server, _bounds(setting), worker=worker) for worker in range(max(1, setting.workers))]


def _bounds(setting: RowBackendOptions) -> list[int]:
    return setting.placement.on_ranks(setting.roles.ranks, setting.roles.row_owners[0])
