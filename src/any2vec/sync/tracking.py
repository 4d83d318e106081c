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
from any2vec.plan.deal import Deal
from any2vec.sync.block import Block, bounds
from any2vec.sync.copying import put_rows, rows_of
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
    """

    def __init__(
        self, transport: Transport, tables: dict[str, np.ndarray], rule: str, bits: int, by_label: bool,
        inspector: Inspector, channel: str = "",
    ) -> None:  # fmt: skip
        self.transport = transport
        self.bits = bits
        self.by_label = by_label
        self.inspector = inspector
        self.channel = channel
        self.num_rows = {name: len(table) for name, table in tables.items()}
        self.deal = Deal(self.num_rows["input"], transport.hosts)
        self.bounds = bounds(self.num_rows["input"], transport.hosts)
        owned = self.deal.rows(np.arange(*self.bounds[transport.rank : transport.rank + 2]))
        self.blocks = {name: Block(rows_of(table, owned), rule) for name, table in tables.items()}
        self.residuals = Residuals(tables if bits < 32 else {})

    def fetch(self, epoch: int, round_: Round) -> Tracked:
        """Find out which rows a round needs, tell their owners, and pull them."""
        marks = {name: np.zeros(size, np.uint8) for name, size in self.num_rows.items()}
        for start, stop in round_.parts:
            self.inspector.inspect(epoch, start, stop, marks["input"], marks["output"])
        if not self.by_label:
            marks = dict.fromkeys(marks, marks["input"] | marks["output"])
        places = {name: self._by_owner(np.flatnonzero(self.deal.flags(mark))) for name, mark in marks.items()}
        asked = self._agree_on_addresses(places)
        mine = {name: [self.deal.rows(part) for part in owned] for name, owned in places.items()}
        return Tracked(mine, asked, self._pull(mine, asked))

    def push(self, tracked: Tracked, outgoing: dict[str, list[np.ndarray]], are_changes: bool) -> None:
        """Send values, or changes, of the tracked rows to their owners, who merge them in rank order."""
        hosts, rank = self.transport.hosts, self.transport.rank
        parts: dict[int, list[Part]] = {host: [] for host in range(hosts)}
        for name, owned in outgoing.items():
            for host, rows in enumerate(owned):
                ids = tracked.mine[name][host]
                packed = pack_rows(self.residuals.outgoing(name, ids, rows) if self.bits < 32 else rows, self.bits)
                if self.bits < 32:
                    self.residuals.sent(name, ids, unpack_rows(packed))
                parts[host] += packed
        own = parts.pop(rank)
        received = {peer: list(found) for peer, found in self._exchange(parts, "reduce").items()} | {rank: own}
        for name, block in self.blocks.items():
            for host in range(hosts):
                block.merge(tracked.asked[name][host], _read_rows(received[host]), are_changes)
            block.finish(are_changes)

    def collect(self) -> dict[str, np.ndarray] | None:
        """The agreed tables, at rank 0; None elsewhere."""
        found = self.transport.gather([Part("rows", block.rows.copy()) for block in self.blocks.values()], "gather")
        if not found:
            return None
        return {name: self._joined([parts[i].array for parts in found.values()]) for i, name in enumerate(self.blocks)}

    def _joined(self, blocks: list[np.ndarray]) -> np.ndarray:
        """The table of which these are the owners' blocks, by rank."""
        table = np.empty((self.deal.num_rows, blocks[0].shape[1]), np.float32)
        put_rows(table, self.deal.rows(np.arange(len(table))), np.concatenate(blocks))
        return table

    def _by_owner(self, places: np.ndarray) -> list[np.ndarray]:
        return np.split(places, np.searchsorted(places, self.bounds[1:-1]))

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
        rank = self.transport.rank
        outgoing: dict[int, list[Part]] = {}
        for name, block in self.blocks.items():
            for host, slots in enumerate(asked[name]):
                if host != rank:
                    outgoing.setdefault(host, []).extend(pack_rows(rows_of(block.rows, slots), self.bits))
        received = {peer: list(parts) for peer, parts in self._exchange(outgoing, "pull").items()}
        values: dict[str, list[np.ndarray]] = {}
        for name, owned in mine.items():
            own = rows_of(self.blocks[name].rows, asked[name][rank])
            values[name] = [own if host == rank else _read_rows(received[host]) for host in range(len(owned))]
        return values


def _read_rows(parts: list[Part]) -> np.ndarray:
    """Values off the front of a message."""
    first = parts.pop(0)
    return unpack_rows([first] if first.array.dtype == np.float32 else [first, parts.pop(0)])
