"""Columns placed on servers by cost, largest first, and cut where they do not fit.

A server has two loads: cost (what it looks up and changes for a batch) and memory. Each is counted in fair shares, 1
being what every server would have if both were even. Whole columns go, largest first, to the server whose larger load
stays the least (LPT: Graham 1969, "Bounds on multiprocessing timing anomalies"). Where that is not even enough, columns
are cut into row ranges: a server takes rows of high and of low cost in the proportion that fills both of its loads at
once, so a step from one server to the next cuts at most two columns.

Legend: F columns, M servers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from any2vec.checks import check_number, check_whole
from any2vec.errors import InputError
from any2vec.plan.sharding.columns import Column, Placement, Shard, edges_of, offsets_of

TOLERANCE = 1.05
"""largest load over the mean one up to which no column is cut"""
MOST_SERVERS = 100_000


def place_columns(
    columns: Sequence[Column], num_servers: int, row_bytes: int, server_bytes: int | None = None,
    tolerance: float = TOLERANCE,
) -> Placement:  # fmt: skip
    """Place columns, in the order of their rows in the table, on servers.

    Args:
        row_bytes: of a row, values and state.
        server_bytes: that the rows of one server may take; None: no limit.
        tolerance: cut no column while the largest load is within so many times the mean, 1 or more.

    Deterministic; another order of the columns gives every server the same loads. O(F M) time.

    Raises:
        InputError: an argument is not legal, or the rows do not fit into so many servers.
    """
    _check(columns, num_servers, row_bytes, tolerance)
    num_rows = int(offsets_of(columns)[-1])
    most_rows = num_rows if server_bytes is None else server_bytes // row_bytes
    if -(-num_rows // num_servers) > most_rows:
        raise InputError(
            f"{num_rows:,} rows of {row_bytes} bytes do not fit into {num_servers} servers of {server_bytes:,} bytes; "
            f"take {-(-num_rows // most_rows):,} servers, or more memory."
            if most_rows > 0
            else f"A row takes {row_bytes} bytes, and a server has {server_bytes}; give servers more memory."
        )
    whole = Placement(tuple(columns), _in_order(_whole(columns, num_servers)), num_servers, row_bytes)
    if _load(whole) <= tolerance and max(load.rows for load in whole.loads) <= most_rows:
        return whole
    cut = Placement(tuple(columns), _in_order(_cut(columns, num_servers)), num_servers, row_bytes)
    if _load(whole) <= _load(cut) and max(load.rows for load in whole.loads) <= most_rows:
        return whole
    return cut


def _check(columns: Sequence[Column], num_servers: int, row_bytes: int, tolerance: float) -> None:
    check_whole("servers", num_servers, 1, MOST_SERVERS)
    check_whole("row_bytes", row_bytes, 1, 2**31)
    check_number("tolerance", tolerance, 1, 1e9)
    if not columns:
        raise InputError("There must be a column to place.")
    for column in columns:
        check_whole(f"rows of column {column.name!r}", column.rows, 1, 2**53)
        check_number(f"lookups of column {column.name!r}", column.lookups, 0, 1e9)
        check_number(f"distinct of column {column.name!r}", column.distinct, 0, 1e9)
        weights = np.array(column.weight_K, np.float64)
        if not 1 <= weights.size <= column.rows or not np.isfinite(weights).all() or weights.min() < 0:
            raise InputError(
                f"Column {column.name!r} of {column.rows} rows has {weights.size} weights; it needs 1 to "
                f"{column.rows}, each 0 or more."
            )
        if weights.sum() == 0:
            raise InputError(f"The weights of column {column.name!r} are all 0; leave them out where nothing is known.")


def _load(placement: Placement) -> float:
    """The largest load over a fair share, of cost or of memory."""
    return max(placement.balance("cost"), placement.balance("rows"))


def _fair(columns: Sequence[Column], num_servers: int) -> tuple[float, float]:
    """(cost, rows) of a fair share; cost 1 where nothing costs."""
    cost = sum(column.cost for column in columns) / num_servers
    return cost or 1.0, sum(column.rows for column in columns) / num_servers


def _whole(columns: Sequence[Column], num_servers: int) -> list[Shard]:
    """Each column on one server, largest first."""
    fair_cost, fair_rows = _fair(columns, num_servers)
    sized = [(column.cost / fair_cost, column.rows / fair_rows) for column in columns]
    offset_F1, load_M2, shards = offsets_of(columns), np.zeros((num_servers, 2)), []
    for f in sorted(range(len(columns)), key=lambda f: (-max(sized[f]), -sum(sized[f]), columns[f].name)):
        after_M2 = load_M2 + sized[f]
        # The least larger load; of equal ones the least of both together, then the first server.
        server = int(np.lexsort((after_M2.sum(1), after_M2.max(1)))[0])
        load_M2[server] = after_M2[server]
        shards.append(Shard(f, int(offset_F1[f]), int(offset_F1[f + 1]), server))
    return shards


class _Piece:
    """Rows of one column, each of the same cost; taken from its front."""

    def __init__(self, column: int, name: str, first: int, stop: int, cost: float) -> None:
        self.column, self.name, self.first, self.stop = column, name, first, stop
        self.density = cost / (stop - first)

    @property
    def left(self) -> int:
        return self.stop - self.first

    def take(self, count: int, server: int) -> Shard:
        self.first += count
        return Shard(self.column, self.first - count, self.first, server)


def _cut(columns: Sequence[Column], num_servers: int) -> list[Shard]:
    """Server after server takes the dearest and the cheapest rows that are left, as many of each as fill it.

    Memory is even to a row.
    """
    pieces = sorted(_pieces(columns), key=lambda piece: (-piece.density, piece.name, piece.first))
    fair_cost, fair_rows = _fair(columns, num_servers)
    num_rows, shards, dear, cheap = int(offsets_of(columns)[-1]), [], 0, len(pieces) - 1
    for server in range(num_servers):
        room = num_rows * (server + 1) // num_servers - num_rows * server // num_servers
        cost = fair_cost * room / fair_rows
        while room:
            high, low = pieces[dear], pieces[cheap]
            many, few = _mix(high, low, room, cost)
            for piece, count in ((high, many), (low, few)):
                if count:
                    shards.append(piece.take(count, server))
            room -= many + few
            cost -= many * high.density + few * low.density
            dear += not high.left
            cheap -= not low.left and low is not high
    return shards


def _mix(high: _Piece, low: _Piece, room: int, cost: float) -> tuple[int, int]:
    """How many rows of two pieces a server takes that has room for so many rows and so much cost; 1 or more in all."""
    if high is low:
        return min(room, high.left), 0
    span = high.density - low.density
    share = min(1.0, max(0.0, (cost / room - low.density) / span)) if span > 0 else 1.0
    both = min(float(room), high.left / share if share else np.inf, low.left / (1 - share) if share < 1 else np.inf)
    many = min(high.left, round(both * share))
    few = min(low.left, round(both) - many)
    return (many, few) if many + few else (1, 0)


def _pieces(columns: Sequence[Column]) -> list[_Piece]:
    pieces = []
    for f, (column, offset) in enumerate(zip(columns, offsets_of(columns)[:-1].tolist(), strict=True)):
        edges, total = edges_of(column).tolist(), sum(column.weight_K)
        for k, weight in enumerate(column.weight_K):
            cost = column.cost * weight / total
            pieces.append(_Piece(f, column.name, offset + edges[k], offset + edges[k + 1], cost))
    return pieces


def _in_order(shards: Sequence[Shard]) -> tuple[Shard, ...]:
    """In placed order, neighbors of one column made one."""
    merged: list[Shard] = []
    for shard in sorted(shards, key=lambda shard: (shard.server, shard.first)):
        last = merged[-1] if merged else None
        if last and (last.server, last.column, last.stop) == (shard.server, shard.column, shard.first):
            merged[-1] = last._replace(stop=shard.stop)
        else:
            merged.append(shard)
    return tuple(merged)
