"""Which rows a round needs, and their way from their owners and back: what PullModel and its overlapped form share.

An inspection pass over a round's work finds the rows; owners receive their ids once a round, and from then on only
values travel, in the agreed order (Gluon's memoized address translation, Dathathri et al. 2018, section 4.1). The ids
of a round go along with what the round before has changed: they cost no message of their own, but for the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from any2vec.cluster.codec import (
    empty_parts,
    most_of,
    pack_ids,
    pack_into,
    pack_rows,
    packed_lists,
    unpack_ids,
    unpack_rows,
)
from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.errors import MessageError
from any2vec.kernels.rows.quantize import quantize_changes, quantize_slots, take_coded
from any2vec.sync.base.curvature import Curvatures
from any2vec.sync.base.host_rows import HostRows, gathered
from any2vec.sync.base.pool import ThreadPool
from any2vec.sync.base.states import bits_of, is_state, values_of
from any2vec.sync.drivers.rounds import Agreement
from any2vec.sync.rules.block import Rules, load_rule_states, rule_states, unpack_all
from any2vec.sync.rules.residual import Residuals
from any2vec.tables.copying import check_lists, gather_blocks, rows_of, stripes
from any2vec.types import Round, Span, State, Work

_OUT_OF_STEP = "the hosts do not run the same job."


class Inspector(Protocol):
    """Who knows which rows a piece of work reads."""

    def inspect(self, epoch: int, start: int, stop: int, marks: Mapping[str, np.ndarray]) -> None:
        """Put 1 into marks, uint8 (V,) by table, for each row that work on these positions reads or changes."""


def marks_of(inspector: Inspector, num_rows: Mapping[str, int], epoch: int, round_: Round) -> dict[str, np.ndarray]:
    """uint8 (V,) by table: 1 for each row that a round reads or changes."""
    marks = {name: np.zeros(size, np.uint8) for name, size in num_rows.items()}
    for span in round_.spans:
        inspector.inspect(epoch, span.start, span.stop, marks)
    return marks


@dataclass(frozen=True)
class Needed:
    """What this host will read in a round, before its owners know; by label."""

    round: int
    """its number"""
    mine: dict[str, list[np.ndarray]]
    """ids, by owner"""
    told: list[list[Part]]
    """what each owner is told: of each label a part"""


@dataclass(frozen=True)
class Tracked:
    """The rows of one round, by table and then by host."""

    mine: dict[str, list[np.ndarray]]
    """ids that this host needs, by owner"""
    asked: dict[str, list[np.ndarray]]
    """slots of this host's blocks that each host needs"""
    values: dict[str, list[list[Part]]]
    """what the owners gave for `mine`, packed; {} before they were pulled, and where nobody asks any more"""
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
        self._curvatures = Curvatures(transport, rules.steps, self.blocks, self.shardings, self.pool, channel, bits)
        self._curved: Part | None = None
        """this host's slice of the curvature of the rows as they are now, added up; None: nobody has told of them"""
        dims = {name: block.rows.shape[1] for name, block in self.blocks.items()}
        self.residuals = Residuals({name: (rows.num_rows[name], dims[name]) for name in dims} if bits < 32 else {})

    def needed(self, epoch: int, round_: Round) -> Needed:
        """Find out which rows a round needs; nothing travels."""
        num_rows = {name: size for name, size in self.rows.num_rows.items() if not is_state(name)}
        marks = marks_of(self.inspector, num_rows, epoch, round_)
        tracked: dict[str, np.ndarray] = {}
        for name, mark in marks.items():
            label = self.labels[name]
            tracked[label] = tracked[label] | mark if label in tracked else mark
        places = {label: self.shardings[label].marked(mark) for label, mark in tracked.items()}
        cuts = {label: np.searchsorted(found, self.shardings[label].bounds[1:-1]) for label, found in places.items()}
        mine = {label: np.split(self.shardings[label].rows(found), cuts[label]) for label, found in places.items()}
        by_owner = {label: np.split(found, cuts[label]) for label, found in places.items()}
        return Needed(round_.number, mine, [self._tell(by_owner, host) for host in range(self.transport.hosts)])

    def ask(self, needed: Needed) -> Tracked:
        """Tell the owners of a round's rows, in messages of their own."""
        return self._agreed(needed, self._exchange(needed.told, "inspect"))

    def pull(self, tracked: Tracked) -> Tracked:
        """Get the values of a round's rows, of which their owners know."""
        packed = [self._pack_values(name, tracked.asked[name]) for name in self.blocks]
        messages = [[part for by_host in packed for part in by_host[host]] for host in range(self.transport.hosts)]
        if self._curvatures.are_asked_for:
            for message, part in zip(messages, self._curvatures.slices(), strict=True):
                message.append(part)
        received = self._exchange(messages, "pull")
        values = self._take(received)
        self._curved = self._curvatures.sum(_last(received)) if self._curvatures.are_asked_for else None
        return replace(tracked, values=values)

    def push(
        self, tracked: Tracked, outgoing: Sequence[list[list[Part]]], are_changes: bool, coming: Needed | None
    ) -> Tracked | None:
        """Send values, or changes, of the tracked rows to their owners, who merge them in rank order, and tell them of
        the rows of the round that comes; those, not yet pulled, or None. outgoing: packed, by table and owner."""
        messages = [[part for by_host in outgoing for part in by_host[host]] for host in range(self.transport.hosts)]
        curved, self._curved = self._curved, None
        if curved is None:  # behind the training the last round's rows are pushed when nobody pulls any more
            self._curvatures.prepare(tracked.round)
        for host, message in enumerate(messages):
            message.extend(([] if coming is None else coming.told[host]) + ([] if curved is None else [curved]))
        received = self._exchange(messages, "reduce")
        changes = self._take(received)
        if curved is not None:
            self._curvatures.agree(tracked.round, _last(received))  # and so does this
        for name, block in self.blocks.items():
            by_rank = list(zip(tracked.asked[name], changes[name], strict=True))
            block.merge_packed(by_rank, are_changes, self.pool)
        return None if coming is None else self._agreed(coming, received)  # what is left are ids

    def put(self, tracked: Tracked) -> None:
        """Make the pulled rows, with the pulled values, those at hand."""
        for name, ids in tracked.mine.items():
            self.rows.open(name, ids)
        hosts = [(name, *part) for name in self.blocks for part in self.pool.parts(self.transport.hosts)]

        def put(place: tuple[str, int, int]) -> None:
            name, start, stop = place
            self.rows.put(name, start, stop, tracked.values[name][start:stop])

        self.pool.each(put, hosts)

    def packed_values(self, tracked: Tracked) -> list[list[list[Part]]]:
        """The values of the tracked rows, which are at hand, by table and owner; read before the next `put`."""
        at_hand = [_split(self.rows.at_hand(name, self.pool), ids) for name, ids in tracked.mine.items()]
        return [[pack_rows(part) for part in parts] for parts in at_hand]

    def packed_changes(self, tracked: Tracked) -> list[list[list[Part]]]:
        """What became of the tracked rows, which are at hand, since they were pulled, and what is owed of them, by
        table and owner; remembers what rounding leaves out."""
        return [
            self._round(name, tracked)
            if bits_of(name, self.bits) < 32
            else [pack_rows(part) for part in self.changes(name, tracked, self.unpack(tracked.values[name]))]
            for name in tracked.mine
        ]

    def pack_changes(self, tracked: Tracked, changes: dict[str, list[np.ndarray]]) -> list[list[list[Part]]]:
        """Changes, and what is owed of them, by table and owner; remembers what rounding leaves out."""
        return [self._pack_changes(name, tracked.mine[name], rows) for name, rows in changes.items()]

    def unpack(self, packed: list[list[Part]]) -> list[np.ndarray]:
        """float32 (K, D), by owner."""
        return unpack_all(packed, self.pool)

    def changes(self, name: str, tracked: Tracked, start: list[np.ndarray]) -> list[np.ndarray]:
        """What became of a table's tracked rows, which are at hand, since they had the values `start`, by owner."""
        changes = np.concatenate(start)
        np.subtract(self.rows.at_hand(name, self.pool), changes, out=changes)
        return _split(changes, tracked.mine[name])

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

    def _round(self, name: str, tracked: Tracked) -> list[list[Part]]:
        """`packed_changes` of a table, in one pass over its rows."""
        ids, start, bits = tracked.mine[name], packed_lists(tracked.values[name]), self.bits
        now_KD, id_K, owed_VD = self.rows.at_hand(name, self.pool), np.concatenate(ids), self.residuals.tables[name]
        check_lists(ids, start.arrays, now_KD.shape[1])
        packed = empty_parts(now_KD.shape, bits)

        def pack(part: tuple[int, int]) -> None:
            quantize_changes(
                now_KD, start.value_H, start.scale_H, start.size_H, start.like, *part, id_K, owed_VD,
                most_of(bits), packed[1].array, packed[0].array,
            )  # fmt: skip

        self.pool.each(pack, self.pool.parts(len(id_K)))
        return _split_parts(packed, ids)

    def _pack_values(self, name: str, ids: list[np.ndarray]) -> list[list[Part]]:
        """Rows for each host; a host's own do not travel, so they are not rounded."""
        rows_BD, rank = self.blocks[name].rows, self.transport.rank
        if (bits := bits_of(name, self.bits)) == 32:
            return [pack_rows(part) for part in _split(gathered(rows_BD, ids, self.pool), ids)]
        others = [part if host != rank else part[:0] for host, part in enumerate(ids)]
        slot_K, is_asked = np.concatenate(others), np.zeros(len(rows_BD), bool)
        is_asked[slot_K] = True
        once = np.flatnonzero(is_asked)  # a row is rounded once for all hosts
        rounded = empty_parts(rows_BD.shape, bits)
        packed = empty_parts((len(slot_K), rows_BD.shape[1]), bits)

        def round_rows(part: tuple[int, int]) -> None:
            quantize_slots(rows_BD, once[slice(*part)], most_of(bits), rounded[1].array, rounded[0].array)

        def take(part: tuple[int, int]) -> None:
            codes, scales = (whole.array[slice(*part)] for whole in packed)
            take_coded(rounded[1].array, rounded[0].array, slot_K[slice(*part)], scales, codes)

        self.pool.each(round_rows, self.pool.parts(len(once)))
        self.pool.each(take, self.pool.parts(len(slot_K)))
        own = pack_rows(rows_of(rows_BD, ids[rank]))
        return [own if host == rank else parts for host, parts in enumerate(_split_parts(packed, others))]

    def _exchange(self, messages: Sequence[list[Part]], phase: str) -> list[list[Part]]:
        """A message for each host, and one from each, by rank; a host's own does not travel."""
        outgoing = dict(enumerate(messages))
        own = {self.transport.rank: outgoing.pop(self.transport.rank)}
        received = self.transport.exchange(outgoing, phase, self.channel) | own
        return [list(received[host]) for host in range(self.transport.hosts)]

    def _tell(self, places: dict[str, list[np.ndarray]], owner: int) -> list[Part]:
        """Which of an owner's rows this host tracks; places: by label and owner."""
        parts = []
        for label, found in places.items():
            start, stop = self.shardings[label].bounds[owner : owner + 2]
            parts.append(pack_ids(found[owner] - start, stop - start))
        return parts

    def _agreed(self, needed: Needed, told: Sequence[Sequence[Part]]) -> Tracked:
        """A round's rows, by table, where all hosts have told this one of theirs."""
        rank, hosts = self.transport.rank, self.transport.hosts
        if odd := [host for host, parts in enumerate(told) if len(parts) != len(needed.mine)]:
            raise MessageError(f"Rank {odd[0]} tells of {len(told[odd[0]])} sets of rows: {_OUT_OF_STEP}")
        asked = {}
        for index, label in enumerate(needed.mine):
            start, stop = self.shardings[label].bounds[rank : rank + 2]
            asked[label] = [unpack_ids(told[host][index], stop - start) for host in range(hosts)]
        mine, asked = ({name: of[label] for name, label in self.labels.items()} for of in (needed.mine, asked))
        return Tracked(mine, asked, {}, needed.round)

    def _take(self, messages: list[list[Part]]) -> dict[str, list[list[Part]]]:
        """Take the rows of each table, packed, off the messages of all hosts."""
        return {name: [_take_rows(parts) for parts in messages] for name in self.blocks}


def _split(rows_KD: np.ndarray, ids: list[np.ndarray]) -> list[np.ndarray]:
    """Views of the rows, by list of ids."""
    return np.split(rows_KD, np.cumsum([len(part) for part in ids])[:-1])


def _split_parts(packed: list[Part], ids: list[np.ndarray]) -> list[list[Part]]:
    """Packed rows, by list of ids; as `pack_rows` packs each of them."""
    pieces = [_split(whole.array, ids) for whole in packed]
    empty = pack_rows(np.empty((0, packed[0].array.shape[1]), np.float32))
    return [[Part("rows", piece[host]) for piece in pieces] if len(part) else empty for host, part in enumerate(ids)]


def _last(messages: Sequence[list[Part]]) -> list[Part]:
    """The last part off each message.

    Raises:
        MessageError: there is none.
    """
    if not all(messages):
        raise MessageError(f"A message ends before its curvature: {_OUT_OF_STEP}")
    return [parts.pop() for parts in messages]


def _take_rows(parts: list[Part]) -> list[Part]:
    """The parts of one table's rows off the front of a message."""
    size = 1 if parts and parts[0].array.dtype == np.float32 else 2
    if len(parts) < size:
        raise MessageError(f"A message of rows ends early: {_OUT_OF_STEP}")
    rows, parts[:size] = parts[:size], []
    return rows


class Pulled(Agreement):
    """The agreement of one host by PullModel-Base or, with `by_label`, PullModel-Opt.

    Args:
        rows: where this host trains what it has pulled.
        coming: (epoch, round) after round of this host, from the first one that it will train; None: nobody can say
            before a round is there, so that the ids of its rows need messages of their own.
        bits, threads: as for `Tracker`.

    PullModel of GraphAny2Vec (IPDPS 2021, section 4): before a round a host asks for the rows that it will read. Base
    tracks words: both rows of each; Opt tracks labels: the input row of what is read as input, the output row of what
    is read as output.
    """

    def __init__(
        self, transport: Transport, rows: HostRows, rules: Rules, bits: int, by_label: bool,
        inspector: Inspector, coming: Iterator[tuple[int, Round]] | None, threads: int = 1,
    ) -> None:  # fmt: skip
        self.transport = transport
        self._tracker = Tracker(transport, rows, rules, bits, by_label, inspector, threads=threads)
        self._coming = coming
        self._tracked: Tracked | None = None
        """the rows of the round at hand; between rounds those of the next one, of which their owners know"""

    def begin_round(self, work: Work[Span]) -> None:
        """Pull the rows of the round; for the first one, find out which they are."""
        tracker = self._tracker
        if self._tracked is None:
            if self._coming is not None:
                next(self._coming)  # this one
            self._tracked = tracker.ask(tracker.needed(work.epoch, work.round))
        self._tracked = tracked = tracker.pull(self._tracked)
        tracker.put(tracked)
        if tracker.bits == 32:
            self._tracked = replace(tracked, values={})  # nobody asks what values a row had before the round

    def end_round(self) -> None:
        """Push the tracked rows to their owners, who merge them, and tell them of the next round's."""
        tracked, tracker = self._tracked, self._tracker
        assert tracked is not None, "a round closes that was not opened"
        coming = None if self._coming is None else next(self._coming, None)
        are_changes = tracker.bits < 32
        outgoing = tracker.packed_changes(tracked) if are_changes else tracker.packed_values(tracked)
        needed = None if coming is None else tracker.needed(*coming)
        self._tracked = tracker.push(tracked, outgoing, are_changes, needed)
        # What was taken is a view, and nobody writes there before all have merged.

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
