"""What agreements among replicas share: messages among some of the hosts, rows that changed, an average at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from any2vec.cluster.codec import pack_ids, unpack_ids
from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.kernels.rows.merge import changed_rows
from any2vec.plan.sharding.sharding import Blocks, Contiguous
from any2vec.sync.base.states import bound_of

Reduced = TypeVar("Reduced")
FAINT = 2.0**-20
"""say of a copy that has nothing new to tell, beside those that have"""


def exchange_among(
    transport: Transport, members: Sequence[int], outgoing: Mapping[int, Sequence[Part]], phase: str, channel: str = ""
) -> dict[int, tuple[Part, ...]]:
    """`Transport.exchange` among the ranks `members`, ascending, this host one of them."""
    place = members.index(transport.rank)
    for peer in (*members[place + 1 :], *members[:place]):  # each starts behind itself: nobody is everybody's first
        transport.send(peer, outgoing.get(peer, ()), phase, channel)
    return {peer: transport.recv(peer, phase, channel).parts for peer in members if peer != transport.rank}


class Rows(NamedTuple):
    """Some rows of a table, and what is sent with them."""

    sharding: Blocks
    """owner h is the h-th member"""
    place_K: np.ndarray
    """int64, ascending"""
    parts: Sequence[Part]
    """arrays of K each: the rows, and whatever stands beside them"""


def reduce_rows(
    transport: Transport, members: Sequence[int], rows_of: Mapping[str, Rows],
    rule: Callable[[str, int, list[list[np.ndarray]]], Reduced], phase: str = "reduce",
) -> dict[str, Reduced]:  # fmt: skip
    """What the owners make of rows that several members have changed, by table; all members call it together.

    Args:
        rows_of: table -> the rows that this host sends; the same tables and parts at every member.
        rule: is called with a table, the rows of this host's block, and what each member, in rank order, has sent:
            slots, int64 ascending, and then its arrays.

    Returns:
        table -> what the rule gives for this host's block.
    """
    outgoing: dict[int, list[Part]] = {member: [] for member in members}
    for sharding, place_K, parts in rows_of.values():
        for owner, (member, cut) in enumerate(zip(members, sharding.cuts(place_K), strict=True)):
            slots = pack_ids(place_K[cut] - sharding.bounds[owner], sharding.size(owner))
            outgoing[member] += [slots, *(Part(part.kind, part.array[cut]) for part in parts)]
    own = tuple(outgoing.pop(transport.rank))
    received = exchange_among(transport, members, outgoing, phase) | {transport.rank: own}
    rests = [iter(received[member]) for member in members]
    found = {}
    for name, (sharding, _, parts) in rows_of.items():
        size = sharding.size(members.index(transport.rank))
        each = [[unpack_ids(next(rest), size), *(next(rest).array for _ in parts)] for rest in rests]
        found[name] = rule(name, size, each)
    return found


def share_rows(
    transport: Transport, members: Sequence[int], agreed: Mapping[str, Rows], phase: str = "broadcast"
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Rows that owners have agreed on, at all members: table -> places, int64 ascending, and arrays; owner by owner.

    agreed: of this host's block of each table. All members call it together.
    """
    own: list[Part] = []
    for sharding, place_K, parts in agreed.values():
        low, high = sharding.block(members.index(transport.rank))
        own += [pack_ids(place_K - low, high - low), *parts]
    received = exchange_among(transport, members, dict.fromkeys(members, own), phase) | {transport.rank: tuple(own)}
    for owner, member in enumerate(members):
        rest = iter(received[member])
        for name, (sharding, _, parts) in agreed.items():
            low, high = sharding.block(owner)
            yield name, [low + unpack_ids(next(rest), high - low), *(next(rest).array for _ in parts)]


class Watch:
    """Notices which rows of tables have changed since it last looked: one more copy of each table."""

    def __init__(self, tables: dict[str, np.ndarray]) -> None:
        self.tables = tables
        self.seen = {name: table.copy() for name, table in tables.items()}
        """who changes a row here as in the table changes it unnoticed"""

    def changed(self, name: str) -> np.ndarray:
        """Rows of a table that differ from what was seen, int64 ascending."""
        flags = np.empty(len(self.tables[name]), np.uint8)
        changed_rows(self.tables[name], self.seen[name], flags)
        return np.flatnonzero(flags)

    def look(self, name: str, ids: np.ndarray) -> None:
        """Take rows of a table as seen."""
        self.seen[name][ids] = self.tables[name][ids]

    def look_again(self) -> None:
        """Take all rows as seen."""
        for name, table in self.tables.items():
            self.seen[name][:] = table


def to_float32(rows_KD: np.ndarray, bound: float) -> np.ndarray:
    """float64 rows as float32, within the bound of their table."""
    return np.clip(rows_KD, -bound, bound).astype(np.float32)


def weighted_mean(
    size: int, changes: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], bound: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean of the rows of a block that hosts tell of, each by its weight; sums are float64, in the order given.

    size: rows of the block; changes: for each host ids int64 (K,) ascending, float32 (K, D), weights float32 (K,) > 0.
    Returns ids (U,) ascending of all that were sent, their means float32 (U, D), sums of weights float64 (U,). What
    a single host sends comes out as it is: the product of two float32 is exact in float64.
    """
    flags = np.zeros(size, bool)
    for ids, _, _ in changes:
        flags[ids] = True
    union = np.flatnonzero(flags)
    total, mass = np.zeros((len(union), changes[0][1].shape[1])), np.zeros(len(union))
    for ids, rows, weights in changes:
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
    shardings = {name: Contiguous(len(table), transport.hosts) for name, table in tables.items()}
    rows_of = {}
    for name, table in tables.items():
        ids = np.flatnonzero(weights[name])
        rows_of[name] = Rows(shardings[name], ids, [Part("rows", table[ids]), Part("dense", weights[name][ids])])

    def mean(name: str, size: int, each: list[list[np.ndarray]]) -> list[Part]:
        ids, means, _ = weighted_mean(size, [(slots, rows, say) for slots, rows, say in each], bound_of(name))
        return [pack_ids(ids, size), Part("rows", means)]

    means = reduce_rows(transport, range(transport.hosts), rows_of, mean, "average")
    found = [part for parts in means.values() for part in parts]
    gathered = transport.gather(found, "gather")
    if not gathered:
        return None
    agreed = {name: table.copy() for name, table in tables.items()}
    for host, parts in gathered.items():
        for index, name in enumerate(tables):
            low, high = shardings[name].block(host)
            agreed[name][low + unpack_ids(parts[2 * index], high - low)] = parts[2 * index + 1].array
    return agreed
