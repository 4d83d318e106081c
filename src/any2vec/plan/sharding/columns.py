"""Which server holds which rows: columns, shards (ranges of rows), and the order in which servers hold them.

The placed number of a row is its own plus the shift of its shard, so that a server's rows have contiguous numbers.

Legend: F columns, S shards in placed order (by server, then by row), M ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from any2vec.plan.sharding.sharding import Blocks


@dataclass(frozen=True, kw_only=True)
class Column:
    """A categorical column and what it costs, as measured on a sample."""

    name: str
    rows: int
    """1 or more"""
    lookups: float = 1.0
    """ids in an example, on average"""
    distinct: float = 1.0
    """different rows in a batch over the batch's examples, on average: of these a server changes each once"""
    is_pooled: bool = False
    """servers add up its bags, so each id is looked up; otherwise each distinct row of a batch is, once"""
    weight_K: tuple[float, ...] = (1.0,)
    """how its cost is spread over K equal ranges of its rows (K <= rows): any numbers of 0 or more, not all 0"""

    @property
    def cost(self) -> float:
        """Rows that servers read and change in an example."""
        return (self.lookups if self.is_pooled else self.distinct) + self.distinct


class Shard(NamedTuple):
    """A range of rows that one server holds; rows are numbered over the whole table."""

    column: int
    first: int
    stop: int
    server: int


class ShardArrays(NamedTuple):
    """Shards in placed order, each int64 (S,)."""

    column_S: np.ndarray
    first_S: np.ndarray
    stop_S: np.ndarray
    server_S: np.ndarray
    shift_S: np.ndarray
    """placed number of a row minus the row"""
    by_row_S: np.ndarray
    """the shards in the order of their rows"""


class Load(NamedTuple):
    """What one server has."""

    rows: int
    bytes: int
    lookups: float
    """ids of an example that are its own"""
    cost: float
    """rows that it reads and changes in an example"""
    num_shards: int


@dataclass(frozen=True)
class Placement(Blocks):
    """Rows on servers. Made by `place_columns` (plan/sharding/placing.py)."""

    columns: tuple[Column, ...]
    shards: tuple[Shard, ...]
    """in placed order: by server, then by first row; every row is in one"""
    owners: int
    """servers"""
    row_bytes: int
    """of one row, state included"""

    @cached_property
    def offsets(self) -> np.ndarray:
        """int64 (F + 1,): column f owns the rows [offsets[f], offsets[f + 1]) of the table."""
        return offsets_of(self.columns)

    def __post_init__(self) -> None:
        size_H, arrays = np.zeros(self.owners, np.int64), self.arrays
        np.add.at(size_H, arrays.server_S, arrays.stop_S - arrays.first_S)
        object.__setattr__(self, "num_rows", int(self.offsets[-1]))
        object.__setattr__(self, "bounds", [0, *np.cumsum(size_H).tolist()])

    @cached_property
    def arrays(self) -> ShardArrays:
        """The shards as arrays."""
        column_S, first_S, stop_S, server_S = (np.array(values, np.int64) for values in zip(*self.shards, strict=True))
        size_S = stop_S - first_S
        shift_S = np.cumsum(size_S) - size_S - first_S
        return ShardArrays(column_S, first_S, stop_S, server_S, shift_S, np.argsort(first_S))

    def place(self, id_M: np.ndarray) -> np.ndarray:
        from any2vec.kernels.rows.placing import place_ids

        placed_M, arrays = np.empty(len(id_M), np.int64), self.arrays
        place_ids(id_M, arrays.first_S[arrays.by_row_S], arrays.shift_S[arrays.by_row_S], placed_M)
        return placed_M

    def rows(self, placed_M: np.ndarray) -> np.ndarray:
        from any2vec.kernels.rows.placing import place_ids

        id_M, arrays = np.empty(len(placed_M), np.int64), self.arrays
        place_ids(placed_M, arrays.first_S + arrays.shift_S, -arrays.shift_S, id_M)
        return id_M

    def of(self, server: int) -> list[Shard]:
        """What a server holds, in placed order."""
        return [shard for shard in self.shards if shard.server == server]

    @cached_property
    def shares(self) -> np.ndarray:
        """float64 (M, F): which share of each column's look-ups each of the M servers has."""
        share_MF = np.zeros((self.owners, len(self.columns)))
        for shard in self.shards:
            column, offset = self.columns[shard.column], int(self.offsets[shard.column])
            share_MF[shard.server, shard.column] += _share(column, shard.first - offset, shard.stop - offset)
        return share_MF

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        """By server."""
        rows, count = np.zeros(self.owners, np.int64), np.zeros(self.owners, np.int64)
        arrays = self.arrays
        np.add.at(rows, arrays.server_S, arrays.stop_S - arrays.first_S)
        np.add.at(count, arrays.server_S, 1)
        lookups = self.shares @ [column.lookups for column in self.columns]
        cost = self.shares @ [column.cost for column in self.columns]
        return tuple(
            Load(int(rows[m]), int(rows[m]) * self.row_bytes, float(lookups[m]), float(cost[m]), int(count[m]))
            for m in range(self.owners)
        )

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready: loads by server, ranges of columns' own rows, balance (largest over mean) of each load."""
        held: list[list[dict[str, Any]]] = [[] for _ in range(self.owners)]
        for shard in self.shards:
            column, offset = self.columns[shard.column], int(self.offsets[shard.column])
            whole = shard.stop - shard.first == column.rows
            rows = {} if whole else {"rows": [shard.first - offset, shard.stop - offset]}
            held[shard.server].append({"column": column.name} | rows)
        return {
            "num_servers": self.owners, "num_rows": self.num_rows, "row_bytes": self.row_bytes,
            "servers": [load._asdict() | {"holds": held[server]} for server, load in enumerate(self.loads)],
            "balance": {what: self.balance(what) for what in ("cost", "rows", "lookups")},
        }  # fmt: skip

    def balance(self, what: str = "cost") -> float:
        """Largest over mean of a field of `loads`, 1 or more; 1 where there is nothing."""
        values = [getattr(load, what) for load in self.loads]
        mean = sum(values) / len(values)
        return max(values) / mean if mean > 0 else 1.0


def offsets_of(columns: Sequence[Column]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([column.rows for column in columns], dtype=np.int64)])


def _share(column: Column, first: int, stop: int) -> float:
    """Which share of a column's cost its own rows [first, stop) have."""
    edge_K1 = edges_of(column)
    total_K1 = np.concatenate([[0.0], np.cumsum(column.weight_K)])
    low, high = np.interp([first, stop], edge_K1, total_K1)
    return float((high - low) / total_K1[-1])


def edges_of(column: Column) -> np.ndarray:
    """First rows of the ranges of `weight_K`, and the number of rows."""
    count = len(column.weight_K)
    return np.array([column.rows * k // count for k in range(count + 1)], np.int64)
