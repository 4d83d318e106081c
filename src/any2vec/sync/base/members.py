"""What agreements among replicas share: messages among some of the hosts, rows that changed, an average at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from any2vec.cluster.codec import pack_ids, unpack_ids
from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.kernels.rows.merge import changed_rows
from any2vec.plan.sharding.sharding import Contiguous
from any2vec.sync.base.states import bound_of

FAINT = 2.0**-20
"""say of a copy that has nothing new to tell, beside those that have"""


def exchange_among(
    transport: Transport, members: Sequence[int], outgoing: Mapping[int, Sequence[Part]], phase: str
) -> dict[int, tuple[Part, ...]]:
    """`Transport.exchange` among the ranks `members`, ascending, this host one of them."""
    place = members.index(transport.rank)
    for peer in (*members[place + 1 :], *members[:place]):  # each starts behind itself: nobody is everybody's first
        transport.send(peer, outgoing.get(peer, ()), phase)
    return {peer: transport.recv(peer, phase).parts for peer in members if peer != transport.rank}


class Watch:
    """Notices which rows of tables have changed since it last looked: one more copy of each table."""

    def __init__(self, tables: dict[str, np.ndarray]) -> None:
        self.tables = tables
        self._seen = {name: table.copy() for name, table in tables.items()}

    def changed(self, name: str) -> np.ndarray:
        """Rows of a table that differ from what was seen, int64 ascending."""
        flags = np.empty(len(self.tables[name]), np.uint8)
        changed_rows(self.tables[name], self._seen[name], flags)
        return np.flatnonzero(flags)

    def look(self, name: str, ids: np.ndarray) -> None:
        """Take rows of a table as seen."""
        self._seen[name][ids] = self.tables[name][ids]

    def look_again(self) -> None:
        """Take all rows as seen."""
        for name, table in self.tables.items():
            self._seen[name][:] = table


def to_float32(rows_KD: np.ndarray, bound: float) -> np.ndarray:
    """float64 rows as float32, within the bound of their table."""
    return np.clip(rows_KD, -bound, bound).astype(np.float32)


def weighted_mean(
    size: int, told: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], bound: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean of the rows of a block that hosts tell of, each by its weight; sums are float64, in the order given.

    size: rows of the block; told: for each host ids int64 (K,) ascending, float32 (K, D), weights float32 (K,) > 0.
    Returns ids (U,) ascending of all that were told of, their means float32 (U, D), sums of weights float64 (U,). What
    a single host tells comes out as it is: the product of two float32 is exact in float64.
    """
    flags = np.zeros(size, bool)
    for ids, _, _ in told:
        flags[ids] = True
    union = np.flatnonzero(flags)
    total, mass = np.zeros((len(union), told[0][1].shape[1])), np.zeros(len(union))
    for ids, rows, weights in told:
        slots = np.searchsorted(union, ids)
        total[slots] += weights[:, None] * rows.astype(np.float64)
        mass[slots] += weights
    return union, to_float32(total / mass[:, None], bound), mass


def average(
    transport: Transport, tables: dict[str, np.ndarray], weights: dict[str, np.ndarray]
) -> dict[str, np.ndarray] | None:
    """At rank 0 new tables: each row's mean over all hosts by their weights; None elsewhere. Changes nothing.

    tables: name -> float32 (V, D); weights: name -> float32 (V,), 0 where a host has never changed its copy: rows that
    nobody has changed are the same everywhere. Owners of blocks add up; phases "average" and "gather".
    """
    hosts, rank = transport.hosts, transport.rank
    shardings = {name: Contiguous(len(table), hosts) for name, table in tables.items()}
    outgoing: dict[int, list[Part]] = {host: [] for host in range(hosts)}
    for name, table in tables.items():
        for host in range(hosts):
            low, high = shardings[name].block(host)
            slots = np.flatnonzero(weights[name][low:high])
            rows, say = table[low:high][slots], weights[name][low:high][slots]
            outgoing[host] += [pack_ids(slots, high - low), Part("rows", rows), Part("dense", say)]
    received = transport.exchange({peer: outgoing[peer] for peer in range(hosts) if peer != rank}, "average")
    every = dict(sorted((received | {rank: tuple(outgoing[rank])}).items()))
    found: list[Part] = []
    for index, name in enumerate(tables):
        size = shardings[name].size(rank)
        told = [(unpack_ids(parts[3 * index], size), parts[3 * index + 1].array, parts[3 * index + 2].array)
                for parts in every.values()]  # fmt: skip
        ids, means, _ = weighted_mean(size, told, bound_of(name))
        found += [pack_ids(ids, size), Part("rows", means)]
    gathered = transport.gather(found, "gather")
    if not gathered:
        return None
    agreed = {name: table.copy() for name, table in tables.items()}
    for host, parts in gathered.items():
        for index, name in enumerate(tables):
            low, high = shardings[name].block(host)
            agreed[name][low + unpack_ids(parts[2 * index], high - low)] = parts[2 * index + 1].array
    return agreed
