"""Which rows a round needs, and their way from their owners and back: what PullModel and its overlapped form share.

An inspection pass over a round's work finds the rows; owners receive their ids once a round, and from then on only
values travel, in the agreed order (Gluon's memoized address translation, Dathathri et al. 2018, section 4.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from any2vec.cluster.codec import empty_parts, pack_ids, pack_into, pack_rows, unpack_ids, unpack_lists, unpack_rows
from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.sync.base.curvature import Curvatures
from any2vec.sync.base.host_rows import HostRows, gathered
from any2vec.sync.base.pool import ThreadPool
from any2vec.sync.base.states import bits_of, is_state, values_of
from any2vec.sync.drivers.rounds import Agreement
from any2vec.sync.rules.block import Rules, load_rule_states, rule_states
from any2vec.sync.rules.residual import Residuals
from any2vec.tables.copying import gather_blocks, stripes
from any2vec.types import Round, Span, State, Work


class Inspector(Protocol):
    """Who knows which rows a piece of work reads."""

    def inspect(self, epoch: int, start: int, stop: int, marks: Mapping[str, np.ndarray]) -> None:
        """Put 1 into marks, uint8 (V,) by table, for each row that work on these positions reads or changes."""


@dataclass(frozen=True)
class Tracked:
    """The rows of one round, by table and then by host."""

    mine: dict[str, list[np.ndarray]]
    """ids that this host needs, by owner"""
    asked: dict[str, list[np.ndarray]]
    """slots of this host's blocks that each host needs"""
    values: dict[str, list[np.ndarray]]
    """float32 (K, D), what the owners gave for `mine`"""
    round: int
    """its number"""


class Tracker:
    """One host's share of pulling and pushing tracked rows, and the blocks that it owns.

    Args:
        rows: where this host trains what it has pulled.
        bits: 32 sends values as they are; 16 or 8 sends changes, what rounding leaves out waits for the next time.
        by_label: track the rows of each table apart (PullModel-Opt), or those of a word in all of them (Base).
        channel: of the transport.
        threads: for packing, merging and copying.
    """

    def __init__(
        self, transport: Transport, rows: HostRows, rules: Rules, bits: int, by_label: bool,
        inspector: Inspector, channel: str = "", threads: int = 1,
    ) -> None:  # fmt: skip
        self.transport = transport
        self.bits = bits
        self.inspector = inspector
        self.channel = channel
        self.pool = ThreadPool(threads)
        self.rows = rows
        names = list(rows.num_rows)
        self.labels = {name: values_of(name) if by_label else names[0] for name in names}
        """table -> that by whose name its rows are tracked, with those of others"""
        self.shardings = stripes(rows.num_rows, transport.hosts)
        owned = {name: where.ids(transport.rank) for name, where in self.shardings.items()}
        self.blocks = {name: rules.block(name, rows.first(name, ids), ids) for name, ids in owned.items()}
        self._curvatures = Curvatures(transport, rules.steps, self.blocks, self.shardings, channel)
        dims = {name: block.rows.shape[1] for name, block in self.blocks.items()}
        self.residuals = Residuals({name: (rows.num_rows[name], dims[name]) for name in dims} if bits < 32 else {})

    def fetch(self, epoch: int, round_: Round) -> Tracked:
        """Find out which rows a round needs, tell their owners, and pull them."""
        marks = {name: np.zeros(size, np.uint8) for name, size in self.rows.num_rows.items() if not is_state(name)}
        for span in round_.spans:
            self.inspector.inspect(epoch, span.start, span.stop, marks)
        tracked: dict[str, np.ndarray] = {}
        for name, mark in marks.items():
            label = self.labels[name]
            tracked[label] = tracked[label] | mark if label in tracked else mark
        places = {label: self.shardings[label].marked(mark) for label, mark in tracked.items()}
        cuts = {label: np.searchsorted(found, self.shardings[label].bounds[1:-1]) for label, found in places.items()}
        asked = self._agree_on_addresses({label: np.split(found, cuts[label]) for label, found in places.items()})
        mine = {label: np.split(self.shardings[label].rows(found), cuts[label]) for label, found in places.items()}
        mine, asked = ({name: of[label] for name, label in self.labels.items()} for of in (mine, asked))
        return Tracked(mine, asked, self._pull(mine, asked), round_.number)

    def push(self, tracked: Tracked, outgoing: dict[str, list[np.ndarray]], are_changes: bool) -> None:
        """Send values, or changes, of the tracked rows to their owners, who merge them in rank order."""
        hosts, rank = self.transport.hosts, self.transport.rank
        self._curvatures.prepare(tracked.round)
        packed = {name: self._pack_changes(name, tracked.mine[name], rows) for name, rows in outgoing.items()}
        parts = {host: [part for by_host in packed.values() for part in by_host[host]] for host in range(hosts)}
        own = parts.pop(rank)
        received = {peer: list(found) for peer, found in self._exchange(parts, "reduce").items()} | {rank: own}
        changes = self._read([received[host] for host in range(hosts)])
        for name, block in self.blocks.items():
            by_rank = list(zip(tracked.asked[name], changes[name], strict=True))
            block.merge_all(by_rank, are_changes, self.pool)

    def put(self, tracked: Tracked) -> None:
        """Make the pulled rows, with the pulled values, those at hand."""
        for name, ids in tracked.mine.items():
            self.rows.open(name, ids)
        hosts = [(name, *part) for name in self.blocks for part in self.pool.parts(self.transport.hosts)]

        def put(place: tuple[str, int, int]) -> None:
            name, start, stop = place
            self.rows.put(name, start, stop, tracked.values[name][start:stop])

        self.pool.each(put, hosts)

    def take(self, tracked: Tracked) -> dict[str, list[np.ndarray]]:
        """The values of the tracked rows, which are at hand, by table and owner; read before the next `put`."""
        return {name: _split(self.rows.at_hand(name, self.pool), ids) for name, ids in tracked.mine.items()}

    def changes(self, tracked: Tracked, start: dict[str, list[np.ndarray]]) -> dict[str, list[np.ndarray]]:
        """What became of the tracked rows, which are at hand, since they had the values `start`, by table and owner."""
        found = {}
        for name, ids in tracked.mine.items():
            changes = np.concatenate(start[name])
            np.subtract(self.rows.at_hand(name, self.pool), changes, out=changes)
            found[name] = _split(changes, ids)
        return found

    def gather_result(self) -> dict[str, np.ndarray] | None:
        """The agreed tables, at rank 0; None elsewhere."""
        return gather_blocks(self.transport, {name: block.rows for name, block in self.blocks.items()}, self.shardings)

    def state_dict(self) -> State:
        """What rounding has left out, and what rules remember."""
        return self.residuals.state_dict() | rule_states(self.blocks)

    def load_state_dict(self, states: Sequence[State]) -> None:
        """Go on from what hosts had, by rank."""
        self.residuals.load_state_dict(states, self.transport.rank, self.transport.hosts)
        load_rule_states(self.blocks, states, self.transport.rank, self.transport.hosts)

    def _pack_changes(self, name: str, ids: list[np.ndarray], rows: list[np.ndarray]) -> list[list[Part]]:
        """Values, or changes and what is owed of them, by owner; remembers what rounding leaves out."""
        if (bits := bits_of(name, self.bits)) == 32:
            return [pack_rows(part) for part in rows]
        id_K, change_KD = np.concatenate(ids), np.concatenate(rows)
        packed: list[Part] = empty_parts(change_KD.shape, bits)

        def pack(part: tuple[int, int]) -> None:
            owed = self.residuals.outgoing(name, id_K[slice(*part)], change_KD[slice(*part)])
            pack_into(owed, bits, mine := [Part("rows", whole.array[slice(*part)]) for whole in packed])
            self.residuals.sent(name, id_K[slice(*part)], unpack_rows(mine))

        self.pool.each(pack, self.pool.parts(len(id_K)))
        return _split_parts(packed, ids)

    def _pack_values(self, name: str, ids: list[np.ndarray]) -> list[list[Part]]:
        """Rows for each host; a host's own do not travel, so they are not rounded."""
        rows_KD = gathered(self.blocks[name].rows, ids, self.pool)
        exact = [pack_rows(part) for part in _split(rows_KD, ids)]
        if (bits := bits_of(name, self.bits)) == 32:
            return exact
        packed = empty_parts(rows_KD.shape, bits)

        def pack(part: tuple[int, int]) -> None:
            pack_into(rows_KD[slice(*part)], bits, [Part("rows", whole.array[slice(*part)]) for whole in packed])

        self.pool.each(pack, self.pool.parts(len(rows_KD)))
        rank = self.transport.rank
        return [exact[host] if host == rank else parts for host, parts in enumerate(_split_parts(packed, ids))]

    def _exchange(self, parts: dict[int, list[Part]], phase: str) -> dict[int, tuple[Part, ...]]:
        return self.transport.exchange(parts, phase, self.channel)

    def _agree_on_addresses(self, places: dict[str, list[np.ndarray]]) -> dict[str, list[np.ndarray]]:
        """Tell each owner which of its rows this host tracks; the slots that others track of this host's; by label."""
        rank, cuts = self.transport.rank, {label: self.shardings[label].bounds for label in places}
        outgoing = {
            host: [
                pack_ids(found[host] - cuts[label][host], cuts[label][host + 1] - cuts[label][host])
                for label, found in places.items()
            ]
            for host in range(self.transport.hosts)
        }
        received = self._exchange(outgoing, "inspect") | {rank: tuple(outgoing[rank])}
        return {
            label: [
                unpack_ids(received[host][index], cuts[label][rank + 1] - cuts[label][rank])
                for host in sorted(received)
            ]
            for index, label in enumerate(places)
        }

    def _pull(
        self, mine: dict[str, list[np.ndarray]], asked: dict[str, list[np.ndarray]]
    ) -> dict[str, list[np.ndarray]]:
        rank, hosts = self.transport.rank, self.transport.hosts
        packed = [self._pack_values(name, asked[name]) for name in self.blocks]
        outgoing = {host: [part for by_host in packed for part in by_host[host]] for host in range(hosts)}
        own = outgoing.pop(rank)
        received = {peer: list(parts) for peer, parts in self._exchange(outgoing, "pull").items()} | {rank: own}
        return self._read([received[host] for host in range(hosts)])

    def _read(self, messages: list[list[Part]]) -> dict[str, list[np.ndarray]]:
        """The rows of each table in the messages of all hosts."""
        packed = {name: [_take_rows(parts) for parts in messages] for name in self.blocks}

        def unpack(name: str) -> list[np.ndarray]:
            parts = self.pool.parts(len(messages))
            lists = self.pool.each(lambda part: unpack_lists(packed[name][slice(*part)]), parts)
            return [rows for some in lists for rows in some]

        return {name: unpack(name) for name in self.blocks}


def _split(rows_KD: np.ndarray, ids: list[np.ndarray]) -> list[np.ndarray]:
    """Views of the rows, by list of ids."""
    return np.split(rows_KD, np.cumsum([len(part) for part in ids])[:-1])


def _split_parts(packed: list[Part], ids: list[np.ndarray]) -> list[list[Part]]:
    """Packed rows, by list of ids; as `pack_rows` packs each of them."""
    pieces = [_split(whole.array, ids) for whole in packed]
    empty = pack_rows(np.empty((0, packed[0].array.shape[1]), np.float32))
    return [[Part("rows", piece[host]) for piece in pieces] if len(part) else empty for host, part in enumerate(ids)]


def _take_rows(parts: list[Part]) -> list[Part]:
    """The parts of one table's rows off the front of a message."""
    first = parts.pop(0)
    return [first] if first.array.dtype == np.float32 else [first, parts.pop(0)]


class Pulled(Agreement):
    """The agreement of one host by PullModel-Base or, with `by_label`, PullModel-Opt.

    Args:
        rows: where this host trains what it has pulled.
        bits, threads: as for `Tracker`.

    PullModel of GraphAny2Vec (IPDPS 2021, section 4): before a round a host asks for the rows that it will read. Base
    tracks words: both rows of each; Opt tracks labels: the input row of what is read as input, the output row of what
    is read as output.
    """

    def __init__(
        self, transport: Transport, rows: HostRows, rules: Rules, bits: int, by_label: bool,
        inspector: Inspector, threads: int = 1,
    ) -> None:  # fmt: skip
        self.transport = transport
        self._tracker = Tracker(transport, rows, rules, bits, by_label, inspector, threads=threads)
        self._tracked: Tracked | None = None

    def begin_round(self, work: Work[Span]) -> None:
        """Find out which rows the round needs, and pull them."""
        self._tracked = tracked = self._tracker.fetch(work.epoch, work.round)
        self._tracker.put(tracked)
        if self._tracker.bits == 32:
            self._tracked = replace(tracked, values={})  # nobody asks what values a row had before the round

    def end_round(self) -> None:
        """Push the tracked rows to their owners, who merge them."""
        tracked, are_changes = self._tracked, self._tracker.bits < 32
        assert tracked is not None, "a round closes that was not opened"
        tracker = self._tracker
        outgoing = tracker.changes(tracked, tracked.values) if are_changes else tracker.take(tracked)
        tracker.push(tracked, outgoing, are_changes)  # before all have merged what was taken nobody writes there
        self._tracked = None

    def state_dict(self) -> State:
        """What rounding has left out, and what rules remember."""
        return self._tracker.state_dict()

    def load_state_dict(self, states: Sequence[State]) -> None:
        """Go on from what hosts had."""
        self._tracker.load_state_dict(states)

    def gather_result(self) -> dict[str, np.ndarray] | None:
        """The agreed tables, at rank 0."""
        self._tracker.rows.release()  # the next round pulls them again
        return self._tracker.gather_result()
