"""Which rows a round needs, and their way from their owners and back: what PullModel and its overlapped form share.

An inspection pass over a round's work finds the rows; owners hear once a round which, and from then on only values
travel, in the agreed order (Gluon's memoised address translation, Dathathri et al. 2018, section 4.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from any2vec.cluster.codec import pack_ids, pack_rows, unpack_ids, unpack_rows
from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.kernels.rows import gather_rows
from any2vec.plan.deal import Deal
from any2vec.sync.block import Rule, bounds, gather_blocks
from any2vec.sync.copying import put_rows
from any2vec.sync.crew import Crew
from any2vec.sync.residual import Residuals
from any2vec.types import Round


class Inspector(Protocol):
    """Who knows which rows a piece of work reads."""

    def inspect(self, epoch: int, start: int, stop: int, input_V: np.ndarray, output_V: np.ndarray) -> None: ...


@dataclass(frozen=True)
class Tracked:
    """The rows of one round, by table and then by host."""

    mine: dict[str, list[np.ndarray]]
    """ids that this host needs, by owner"""
    asked: dict[str, list[np.ndarray]]
    """slots of this host's blocks that each host needs"""
    values: dict[str, list[np.ndarray]]
    """float32 (K, D), what the owners gave for `mine`"""


class Tracker:
    """One host's share of pulling and pushing tracked rows, and the blocks that it owns.

    Args:
        tables: name -> float32 (V, D); only their sizes and, for the blocks, their first values are read.
        bits: 32 sends values as they are; 16 or 8 sends changes, what rounding leaves out waits for the next time.
        by_label: track input rows and output rows apart (PullModel-Opt), or both rows of a word (Base).
        channel: of the transport.
        threads: for packing, merging and copying.
    """

    def __init__(
        self, transport: Transport, tables: dict[str, np.ndarray], rule: Rule, bits: int, by_label: bool,
        inspector: Inspector, channel: str = "", threads: int = 1,
    ) -> None:  # fmt: skip
        self.transport = transport
        self.bits = bits
        self.by_label = by_label
        self.inspector = inspector
        self.channel = channel
        self.crew = Crew(threads)
        self.num_rows = {name: len(table) for name, table in tables.items()}
        self.deal = Deal(self.num_rows["input"], transport.hosts)
        self.bounds = bounds(self.num_rows["input"], transport.hosts)
        owned = self.deal.rows(np.arange(*self.bounds[transport.rank : transport.rank + 2]))
        self.blocks = {name: rule.block(name, table, owned) for name, table in tables.items()}
        self.residuals = Residuals(tables if bits < 32 else {})

    def fetch(self, epoch: int, round_: Round) -> Tracked:
        """Find out which rows a round needs, tell their owners, and pull them."""
        marks = {name: np.zeros(size, np.uint8) for name, size in self.num_rows.items()}
        for start, stop in round_.parts:
            self.inspector.inspect(epoch, start, stop, marks["input"], marks["output"])
        if not self.by_label:
            marks = dict.fromkeys(marks, marks["input"] | marks["output"])
        places = {name: np.flatnonzero(self.deal.flags(mark)) for name, mark in marks.items()}
        cuts = {name: np.searchsorted(found, self.bounds[1:-1]) for name, found in places.items()}
        asked = self._agree_on_addresses({name: np.split(found, cuts[name]) for name, found in places.items()})
        mine = {name: np.split(self.deal.rows(found), cuts[name]) for name, found in places.items()}
        return Tracked(mine, asked, self._pull(mine, asked))

    def push(self, tracked: Tracked, outgoing: dict[str, list[np.ndarray]], are_changes: bool) -> None:
        """Send values, or changes, of the tracked rows to their owners, who merge them in rank order."""
        hosts, rank = self.transport.hosts, self.transport.rank

        def pack(host: int) -> list[Part]:
            parts = []
            for name, owned in outgoing.items():
                rows, ids = owned[host], tracked.mine[name][host]
                packed = pack_rows(self.residuals.outgoing(name, ids, rows) if self.bits < 32 else rows, self.bits)
                if self.bits < 32:
                    self.residuals.sent(name, ids, unpack_rows(packed))
                parts += packed
            return parts

        parts = dict(enumerate(self.crew.each(pack, range(hosts))))
        own = parts.pop(rank)
        received = {peer: list(found) for peer, found in self._exchange(parts, "reduce").items()} | {rank: own}
        told = self.crew.each(lambda host: self._read(received[host]), range(hosts))
        for name, block in self.blocks.items():
            by_rank = [(slots, told[host][name]) for host, slots in enumerate(tracked.asked[name])]
            block.merge_all(by_rank, are_changes, self.crew)

    def put(self, tables: dict[str, np.ndarray], tracked: Tracked) -> None:
        """Put pulled values into tables, by global id."""

        def put(place: tuple[str, int]) -> None:
            name, host = place
            put_rows(tables[name], tracked.mine[name][host], tracked.values[name][host])

        self.crew.each(put, self._places())

    def take(self, tables: dict[str, np.ndarray], tracked: Tracked) -> dict[str, list[np.ndarray]]:
        """What stands in tables at the tracked rows, by table and owner."""
        return {name: self._gather(tables[name], tracked.mine[name]) for name in tables}

    def changes(
        self, tables: dict[str, np.ndarray], tracked: Tracked, start: dict[str, list[np.ndarray]]
    ) -> dict[str, list[np.ndarray]]:
        """What became of the tracked rows since they had the values `start`, by table and owner."""
        found = self.take(tables, tracked)
        for name, owned in found.items():
            for now, before in zip(owned, start[name], strict=True):
                now -= before
        return found

    def _places(self) -> list[tuple[str, int]]:
        """(table, owner) of all pairs of the two."""
        return [(name, host) for name in self.blocks for host in range(self.transport.hosts)]

    def collect(self) -> dict[str, np.ndarray] | None:
        """The agreed tables, at rank 0; None elsewhere."""
        blocks = {name: block.rows.copy() for name, block in self.blocks.items()}
        return gather_blocks(self.transport, blocks, self.deal)

    def _gather(self, table_VD: np.ndarray, ids: list[np.ndarray]) -> list[np.ndarray]:
        """Copies of a table's rows, by list of ids; they share one array, so that many short lists cost little."""
        all_ids, rows = np.concatenate(ids), np.empty((sum(map(len, ids)), table_VD.shape[1]), table_VD.dtype)

        def gather(part: tuple[int, int]) -> None:
            gather_rows(table_VD, all_ids[part[0] : part[1]], rows[part[0] : part[1]])

        self.crew.each(gather, self.crew.parts(len(rows)))
        return np.split(rows, np.cumsum([len(part) for part in ids])[:-1])

    def _exchange(self, parts: dict[int, list[Part]], phase: str) -> dict[int, tuple[Part, ...]]:
        return self.transport.exchange(parts, phase, self.channel)

    def _agree_on_addresses(self, places: dict[str, list[np.ndarray]]) -> dict[str, list[np.ndarray]]:
        """Tell each owner which of its rows this host tracks; the slots that others track of this host's."""
        rank, cuts = self.transport.rank, self.bounds
        names = list(places) if self.by_label else ["input"]
        outgoing = {
            host: [pack_ids(places[name][host] - cuts[host], cuts[host + 1] - cuts[host]) for name in names]
            for host in range(self.transport.hosts)
        }
        received = self._exchange(outgoing, "inspect") | {rank: tuple(outgoing[rank])}
        size = cuts[rank + 1] - cuts[rank]
        indices = {name: names.index(name) if name in names else 0 for name in places}
        return {
            name: [unpack_ids(received[host][index], size) for host in sorted(received)]
            for name, index in indices.items()
        }

    def _pull(
        self, mine: dict[str, list[np.ndarray]], asked: dict[str, list[np.ndarray]]
    ) -> dict[str, list[np.ndarray]]:
        rank, hosts = self.transport.rank, self.transport.hosts

        rows = {name: self._gather(block.rows, asked[name]) for name, block in self.blocks.items()}

        def pack(host: int) -> list[Part]:
            bits = 32 if host == rank else self.bits  # a host's own rows do not travel
            return [part for name in self.blocks for part in pack_rows(rows[name][host], bits)]

        outgoing = dict(enumerate(self.crew.each(pack, range(hosts))))
        own = outgoing.pop(rank)
        received = {peer: list(parts) for peer, parts in self._exchange(outgoing, "pull").items()} | {rank: own}
        told = self.crew.each(lambda host: self._read(received[host]), range(hosts))
        return {name: [told[host][name] for host in range(hosts)] for name in mine}

    def _read(self, parts: list[Part]) -> dict[str, np.ndarray]:
        """The rows of each table in a message."""
        return {name: _read_rows(parts) for name in self.blocks}


def _read_rows(parts: list[Part]) -> np.ndarray:
    """Values off the front of a message."""
    first = parts.pop(0)
    return unpack_rows([first] if first.array.dtype == np.float32 else [first, parts.pop(0)])
