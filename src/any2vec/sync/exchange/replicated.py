"""RepModel of GraphAny2Vec (IPDPS 2021, section 4): every host holds all rows.

Base sends all rows from and to everyone; Opt sends what changed: from a mirror the rows that it changed, from a master
the rows that any host changed. "Changed" is per label, i.e. apart for input and output rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from any2vec.cluster.codec import pack_ids, pack_rows, unpack_ids, unpack_rows
from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.kernels.rows.merge import changed_rows
from any2vec.sync.base.curvature import Curvatures
from any2vec.sync.base.pool import ThreadPool
from any2vec.sync.base.states import bits_of
from any2vec.sync.drivers.rounds import Agreement
from any2vec.sync.rules.block import Rules, load_rule_states, rule_states
from any2vec.sync.rules.residual import Residuals
from any2vec.tables.copying import gather_blocks, num_rows_of, put_rows, rows_of, stripes
from any2vec.types import Span, State, Work


class Replicated(Agreement):
    """The agreement of one host by RepModel-Base or, with `sparse`, RepModel-Opt.

    Args:
        tables: name -> float32 (V, D), trained in place; the same values on every host at the start.
        bits: 32 sends values as they are; 16 or 8 sends changes, what rounding leaves out waits for the next time.
        threads: for merging.
    """

    def __init__(
        self,
        transport: Transport,
        tables: dict[str, np.ndarray],
        rules: Rules,
        bits: int,
        sparse: bool,
        threads: int = 1,
    ) -> None:
        self._pool = ThreadPool(threads)
        self.transport = transport
        self.tables = tables
        self.bits = bits
        self.sparse = sparse
        self._shardings = stripes(num_rows_of(tables), transport.hosts)
        owned = {name: where.ids(transport.rank) for name, where in self._shardings.items()}
        self._blocks = {name: rules.block(name, rows_of(tables[name], ids), ids) for name, ids in owned.items()}
        self._curvatures = Curvatures(transport, rules.steps, self._blocks, self._shardings, self._pool)
        self._start = {name: table.copy() for name, table in tables.items()} if sparse or bits < 32 else {}
        self.residuals = Residuals({name: table.shape for name, table in tables.items()} if bits < 32 else {})
        if bits < 32:  # rows of other owners are what these would send: so it is again when a run goes on
            for name, table in tables.items():
                low, high = self._range(name, transport.rank)
                for places in (np.arange(low), np.arange(high, len(table))):
                    rows = rows_of(table, self._shardings[name].rows(places))
                    self._take(name, places, unpack_rows(pack_rows(rows, bits_of(name, bits))))

    def begin_round(self, work: Work[Span]) -> None:
        """All rows are here; rules are prepared for the round, while no host has changed a row."""
        self._curvatures.prepare(work.round.number)

    def end_round(self) -> None:
        """Agree on what the round changed; while one table travels, the other one is packed, merged or copied."""
        own = {}
        for name in self.tables:
            places = self._changed(name)
            self._send_changes(name, places)
            own[name] = self._pack(name, places, self.transport.rank)
        for name, (slots, packed) in own.items():
            self._send_agreed(name, self._merge(name, slots, unpack_rows(packed)))
        for name in self.tables:
            for peer, parts in self.transport.recv_all("broadcast").items():
                low, high = self._range(name, peer)
                slots, values = self._read(list(parts), high - low)
                self._take(name, low + slots, values)

    def state_dict(self) -> State:
        """What rounding has left out, and what rules remember."""
        return self.residuals.state_dict() | rule_states(self._blocks)

    def load_state_dict(self, states: Sequence[State]) -> None:
        """Go on from what hosts had."""
        self.residuals.load_state_dict(states, self.transport.rank, self.transport.hosts)
        load_rule_states(self._blocks, states, self.transport.rank, self.transport.hosts)

    def gather_result(self) -> dict[str, np.ndarray] | None:
        """The agreed tables, at rank 0."""
        if self.bits == 32:
            return self.tables if self.transport.rank == 0 else None
        return gather_blocks(
            self.transport, {name: block.rows for name, block in self._blocks.items()}, self._shardings
        )

    def _range(self, name: str, host: int) -> tuple[int, int]:
        """Places of a table that a host owns: the first one, and the one behind the last."""
        return self._shardings[name].block(host)

    def _changed(self, name: str) -> np.ndarray:
        """Places of the rows of a table that this host changed, int64 ascending; all without `sparse`."""
        if not self.sparse:
            return np.arange(len(self.tables[name]))
        flags = np.empty(len(self.tables[name]), np.uint8)
        changed_rows(self.tables[name], self._start[name], flags)
        return self._shardings[name].marked(flags)

    def _send_changes(self, name: str, places: np.ndarray) -> None:
        """Mirrors to masters: what this host made of the rows at these places."""
        outgoing = {}
        for host in range(self.transport.hosts):
            if host != self.transport.rank:
                slots, packed = self._pack(name, places, host)
                outgoing[host] = [*self._sets(name, slots, host), *packed]
        self.transport.send_all(outgoing, "reduce")

    def _pack(self, name: str, places: np.ndarray, host: int) -> tuple[np.ndarray, list[Part]]:
        """(slots, rows) of those places that a host owns; remembers what rounding leaves out."""
        begin, end = self._range(name, host)
        low, high = np.searchsorted(places, (begin, end))
        ids = self._shardings[name].rows(places[low:high])
        packed = pack_rows(self._outgoing(name, ids), bits_of(name, self.bits))
        if self.bits < 32:
            self.residuals.sent(name, ids, unpack_rows(packed))
        return places[low:high] - begin, packed

    def _merge(self, name: str, own_slots: np.ndarray, own_rows: np.ndarray) -> np.ndarray:
        """What all hosts made of this host's block; slots that any host changed, ascending."""
        block = self._blocks[name]
        received = self.transport.recv_all("reduce")
        changes = {peer: self._read(list(parts), len(block.rows)) for peer, parts in received.items()}
        changes[self.transport.rank] = own_slots, own_rows
        return block.merge_all([changes[rank] for rank in sorted(changes)], self.bits < 32, self._pool)

    def _send_agreed(self, name: str, changed: np.ndarray) -> None:
        """Masters to mirrors; and this host takes its own."""
        block, rank = self._blocks[name], self.transport.rank
        slots = changed if self.sparse else np.arange(len(block.rows))
        values = rows_of(block.rows, slots)
        parts = [*self._sets(name, slots, rank), *pack_rows(values, bits_of(name, self.bits))]
        self.transport.send_all(dict.fromkeys(range(self.transport.hosts), parts), "broadcast")
        self._take(name, self._range(name, rank)[0] + slots, values)

    def _sets(self, name: str, slots: np.ndarray, owner: int) -> list[Part]:
        """Which rows of a block; nothing where all rows travel."""
        low, high = self._range(name, owner)
        return [pack_ids(slots, high - low)] if self.sparse else []

    def _outgoing(self, name: str, ids: np.ndarray) -> np.ndarray:
        now = rows_of(self.tables[name], ids)
        return now if self.bits == 32 else self.residuals.outgoing(name, ids, now - rows_of(self._start[name], ids))

    def _take(self, name: str, places: np.ndarray, values: np.ndarray) -> None:
        """Make agreed values this host's own."""
        ids = self._shardings[name].rows(places)
        put_rows(self.tables[name], ids, values)
        if self._start:
            put_rows(self._start[name], ids, values)

    def _read(self, parts: list[Part], num_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """(slots, values) off the front of a message."""
        slots = unpack_ids(parts.pop(0), num_rows) if self.sparse else np.arange(num_rows)
        first = parts.pop(0)
        quantized = first.array.dtype != np.float32
        return slots, unpack_rows([first, parts.pop(0)] if quantized else [first])
