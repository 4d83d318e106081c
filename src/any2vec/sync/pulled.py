"""PullModel of GraphAny2Vec (IPDPS 2021, section 4): before a round a host asks for the rows that it will read.

An inspection pass over the round's work finds them; owners hear once a round which rows, and from then on only values
travel, in the agreed order (Gluon's memoised address translation). Base tracks words: both rows of each; Opt tracks
labels: the input row of what is read as input, the output row of what is read as output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from any2vec.cluster.codec import pack_ids, pack_rows, unpack_ids, unpack_rows
from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.sync.block import Block, bounds
from any2vec.sync.copying import put_rows, rows_of
from any2vec.sync.residual import Residuals
from any2vec.types import Work


class Inspector(Protocol):
    """Who knows which rows a piece of work reads."""

    def inspect(self, epoch: int, start: int, stop: int, input_V: np.ndarray, output_V: np.ndarray) -> None: ...


class Pulled:
    """The agreement of one host by PullModel-Base or, with `by_label`, PullModel-Opt.

    Args:
        tables: name -> float32 (V, D), trained in place; rows that were not asked for are stale.
        bits: as for `Replicated`.
    """

    def __init__(
        self, transport: Transport, tables: dict[str, np.ndarray], rule: str, bits: int, by_label: bool,
        inspector: Inspector,
    ) -> None:  # fmt: skip
        self.transport = transport
        self.tables = tables
        self.bits = bits
        self.by_label = by_label
        self.inspector = inspector
        self._bounds = bounds(len(tables["input"]), transport.hosts)
        low, high = self._bounds[transport.rank : transport.rank + 2]
        self._blocks = {name: Block(table[low:high], rule) for name, table in tables.items()}
        self.residuals = Residuals(tables if bits < 32 else {})
        self._mine: dict[str, list[np.ndarray]] = {}
        """ids that this host tracks, by name, then by owner"""
        self._asked: dict[str, list[np.ndarray]] = {}
        """slots of this host's blocks that others track, by name, then by who"""
        self._start: dict[str, list[np.ndarray]] = {}
        """values that the tracked rows had before the round, where changes travel"""

    def open(self, work: Work) -> None:
        """Find out which rows the round needs, and pull them."""
        self._mine = {name: self._by_owner(ids) for name, ids in self._inspect(work).items()}
        self._agree_on_addresses()
        self._pull()

    def close(self) -> None:
        """Push the tracked rows to their owners, who merge them."""
        hosts, rank = self.transport.hosts, self.transport.rank
        outgoing: dict[int, list[Part]] = {host: [] for host in range(hosts)}
        for name, owned in self._mine.items():
            for host, ids in enumerate(owned):
                packed = pack_rows(self._outgoing(name, host, ids), self.bits)
                if self.bits < 32:
                    self.residuals.sent(name, ids, unpack_rows(packed))
                outgoing[host] += packed
        own = outgoing.pop(rank)
        received = {peer: list(parts) for peer, parts in self.transport.exchange(outgoing, "reduce").items()}
        received[rank] = own
        for name, block in self._blocks.items():
            for host in range(hosts):
                block.merge(self._asked[name][host], _read_rows(received[host]), self.bits < 32)
            block.finish(self.bits < 32)

    @property
    def memory(self) -> dict[str, np.ndarray]:
        """What rounding has left out."""
        return self.residuals.tables

    def recall(self, memories: Sequence[dict[str, np.ndarray]]) -> None:
        """Take up what rounding left out of a former run."""
        self.residuals.recall(memories, self.transport.rank, self.transport.hosts)

    def collect(self) -> dict[str, np.ndarray] | None:
        """The agreed tables, at rank 0."""
        found = self.transport.gather([Part("rows", block.rows.copy()) for block in self._blocks.values()], "gather")
        if not found:
            return None
        names = enumerate(self._blocks)
        return {name: np.concatenate([found[host][i].array for host in sorted(found)]) for i, name in names}

    def _inspect(self, work: Work) -> dict[str, np.ndarray]:
        marks = {name: np.zeros(len(table), np.uint8) for name, table in self.tables.items()}
        for start, stop in work.round.parts:
            self.inspector.inspect(work.epoch, start, stop, marks["input"], marks["output"])
        if not self.by_label:
            marks = dict.fromkeys(marks, marks["input"] | marks["output"])
        return {name: np.flatnonzero(mark) for name, mark in marks.items()}

    def _by_owner(self, ids: np.ndarray) -> list[np.ndarray]:
        return np.split(ids, np.searchsorted(ids, self._bounds[1:-1]))

    def _agree_on_addresses(self) -> None:
        """Tell each owner which of its rows this host tracks."""
        rank, bounds_ = self.transport.rank, self._bounds
        names = list(self.tables) if self.by_label else ["input"]
        outgoing = {
            host: [
                pack_ids(self._mine[name][host] - bounds_[host], bounds_[host + 1] - bounds_[host]) for name in names
            ]
            for host in range(self.transport.hosts)
        }
        received = self.transport.exchange(outgoing, "inspect") | {rank: tuple(outgoing[rank])}
        size = bounds_[rank + 1] - bounds_[rank]
        for name in self.tables:
            index = names.index(name) if name in names else 0
            self._asked[name] = [unpack_ids(received[host][index], size) for host in sorted(received)]

    def _pull(self) -> None:
        rank = self.transport.rank
        outgoing: dict[int, list[Part]] = {}
        for name, block in self._blocks.items():
            for host, slots in enumerate(self._asked[name]):
                if host != rank:
                    outgoing.setdefault(host, []).extend(pack_rows(rows_of(block.rows, slots), self.bits))
        received = {peer: list(parts) for peer, parts in self.transport.exchange(outgoing, "pull").items()}
        self._start = {name: [] for name in self.tables}
        for name, table in self.tables.items():
            for host, ids in enumerate(self._mine[name]):
                values = (
                    rows_of(self._blocks[name].rows, self._asked[name][rank])
                    if host == rank
                    else _read_rows(received[host])
                )
                put_rows(table, ids, values)
                if self.bits < 32:
                    self._start[name].append(values)

    def _outgoing(self, name: str, host: int, ids: np.ndarray) -> np.ndarray:
        now = rows_of(self.tables[name], ids)
        return now if self.bits == 32 else self.residuals.outgoing(name, ids, now - self._start[name][host])


def _read_rows(parts: list[Part]) -> np.ndarray:
    """Values off the front of a message."""
    first = parts.pop(0)
    return unpack_rows([first] if first.array.dtype == np.float32 else [first, parts.pop(0)])
