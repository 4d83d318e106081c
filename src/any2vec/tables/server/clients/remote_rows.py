"""Rows of a batch that live on row servers: distinct rows travel, or sums over bags where a bag has several ids.

Legend: F columns, S shards, U distinct rows of a batch, K those of them that are pulled, M ids, P bags, W values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from any2vec.errors import InputError
from any2vec.kernels.rows.placing import add_sums, assign_bags, place_groups, pool_placed, sum_placed
from any2vec.plan.sharding.columns import Placement
from any2vec.plan.sharding.sharding import owner_at
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.row_table import PooledTable
from any2vec.tables.server.client import RowClient
from any2vec.tables.server.owned_bags import OwnedBags

_KEPT = 8
"""batches between their sums and their gradients whose routes are kept; of others they are found again"""


class _Routes(NamedTuple):
    """Where the rows of a batch are, and how each comes."""

    low_S: np.ndarray
    size_S: np.ndarray
    """shard s holds the pulled rows row_U[low_S[s]:low_S[s] + size_S[s]]"""
    placed_K: np.ndarray
    where_U: np.ndarray
    """of a row that is pulled its k"""
    bags: OwnedBags | None


class RemoteRows(PooledTable):
    """One worker's way to rows on servers; a `PooledTable`.

    Columns of single ids are pulled: each distinct row travels once, and so does its summed gradient. Columns of
    several ids are pooled by the servers that own their rows: sums travel, and the gradients of those sums. A column
    is one or the other and no two columns share a row, so each row steps once for a batch.

    The sums are those of `MemoryRows`, bit for bit, where one server owns all rows of a bag, or its column is pulled;
    elsewhere the servers' sums are added in float32 in the order of their ranks.

    Args:
        client: the worker's own.
        placement: which server holds what; the client's bounds are `placement.on_ranks`.
        width: values of a row.
        is_pooled_F: for each column whether its bags are pooled by the servers; None: as the placement counted.
        name: of the table in the servers.
    """

    def __init__(
        self, client: RowClient, placement: Placement, width: int, is_pooled_F: np.ndarray | None = None,
        name: str = "rows",
    ) -> None:  # fmt: skip
        if is_pooled_F is None:
            is_pooled_F = np.array([column.is_pooled for column in placement.columns])
        if len(is_pooled_F) != len(placement.columns) or client.bounds[-1] != placement.num_rows:
            raise InputError(
                f"{len(placement.columns)} columns of {placement.num_rows} rows are placed; got {len(is_pooled_F)} "
                f"columns and servers of {client.bounds[-1]} rows."
            )
        self.client = client
        self.placement = placement
        self.width = width
        self.name = name
        self._is_pooled_F = np.asarray(is_pooled_F, np.bool_)
        arrays = self._arrays = placement.arrays
        self._is_pulled_S = ~self._is_pooled_F[arrays.column_S]
        # Shard by shard in the order of rows: who owns it, and what makes a row a place in the owner's block.
        owner_S = owner_at(client.bounds, arrays.first_S + arrays.shift_S)
        self._start_S = arrays.first_S[arrays.by_row_S]
        self._owner_S = owner_S[arrays.by_row_S]
        self._slot_shift_S = (arrays.shift_S - client.bounds[owner_S])[arrays.by_row_S]
        self._routes: dict[int, _Routes] = {}
        """step -> the routes of its batch, until it is pushed"""

    def pool(self, bags: BatchRows, step: int) -> np.ndarray:
        """Sums over the bags, float32 (P, W). All servers are asked before one is waited for.

        Raises:
            InputError: an id is not of the table.
            HostError: a server is lost.
        """
        routes = self._routes[step] = self._route(bags)
        if len(self._routes) > _KEPT:
            del self._routes[next(iter(self._routes))]
        value_KW, sums = self.client.look_up(self.name, routes.placed_K, routes.bags)
        sum_PW = np.empty((bags.num_bags, self.width), np.float32)
        pool_placed(value_KW, routes.where_U, bags.place_M, bags.start_P1, self._is_pooled_F, sum_PW)
        for bag_Q, sum_QW in sums:
            add_sums(sum_QW, bag_Q, sum_PW)
        return sum_PW

    def apply_pooled(self, bags: BatchRows, gradient_PW: np.ndarray, step: int) -> None:
        """Send the gradients to the rows' owners, and do not wait for them.

        Raises:
            InputError: the gradients have another shape.
            InputError, HostError: of an earlier push, or a server is lost.
        """
        if gradient_PW.shape != (bags.num_bags, self.width):
            raise InputError(
                f"Gradients of {bags.num_bags} bags of {self.width} numbers were to come, got {gradient_PW.shape}."
            )
        routes = self._routes.pop(step, None) or self._route(bags)
        sum_KW = np.empty((len(routes.placed_K), self.width), np.float32)
        sum_placed(gradient_PW, bags.bag_M, bags.member_M, bags.first_U1, routes.low_S, routes.size_S, sum_KW)
        self.client.push(self.name, routes.placed_K, sum_KW, step)
        if routes.bags is not None:
            self.client.push_bags(self.name, routes.bags, gradient_PW, step)

    def flush(self) -> None:
        """Wait until every push has taken effect.

        Raises:
            InputError, HostError: as `RowClient.flush`.
        """
        self.client.flush()

    def close(self, error: BaseException | None = None) -> None:
        if error is None:
            self.flush()

    def _route(self, rows: BatchRows) -> _Routes:
        arrays, num_rows = self._arrays, self.placement.num_rows
        if len(rows.row_U) and not 0 <= rows.row_U[0] <= rows.row_U[-1] < num_rows:
            raise InputError(
                f"Rows {rows.row_U[0]} to {rows.row_U[-1]} were asked for; the table has rows 0 to {num_rows - 1}."
            )
        low_S = np.searchsorted(rows.row_U, arrays.first_S)
        size_S = np.where(self._is_pulled_S, np.searchsorted(rows.row_U, arrays.stop_S) - low_S, 0)
        placed_K, where_U = np.empty(int(size_S.sum()), np.int64), np.zeros(len(rows.row_U), np.int32)
        place_groups(rows.row_U, low_S, size_S, arrays.shift_S, placed_K, where_U)
        bags = self._owned_bags(rows) if self._is_pooled_F.any() else None
        return _Routes(low_S, size_S, placed_K, where_U, bags)

    def _owned_bags(self, rows: BatchRows) -> OwnedBags:
        hosts, size = len(self.client.bounds) - 1, len(rows.id_M)
        slot_M, bag_M, count_M = (np.empty(size, np.int64) for _ in range(3))
        id_end_H1, bag_end_H1 = np.zeros(hosts + 1, np.int64), np.zeros(hosts + 1, np.int64)
        assign_bags(
            rows.id_M, rows.start_P1, self._is_pooled_F, self._start_S, self._slot_shift_S, self._owner_S,
            slot_M, bag_M, count_M, id_end_H1, bag_end_H1,
        )  # fmt: skip
        ids, bags = id_end_H1[-1], bag_end_H1[-1]
        return OwnedBags(slot_M[:ids], bag_M[:bags], count_M[:bags], id_end_H1, bag_end_H1)
