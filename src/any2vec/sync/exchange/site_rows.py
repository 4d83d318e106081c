"""One table's rows at the owner of a block, in a site of Gaia: what all sites know, and what is held back or under way.

What a site sends of a round goes in two: which rows, at once, and their values in pieces, in the order of the rows. So
others know what is to come before it has come, and whoever reads a row waits for its values, and for no others'. Where
numbers are significant or not, those that are travel, and a bit for each of the row that says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np

from any2vec.cluster.codec import pack_ids, pack_rows, unpack_ids, unpack_rows
from any2vec.cluster.message import Part, size_of
from any2vec.cluster.transport import Transport
from any2vec.errors import MessageError
from any2vec.sync.base.members import exchange_among, to_float32
from any2vec.sync.base.states import bits_of, bound_of
from any2vec.types import State

PIECE = 256
"""rows whose values travel together"""

Change = tuple[np.ndarray, np.ndarray]
"""slots of a block, int64 ascending, and the changes of these rows"""


class Flight:
    """What all sites send of one round.

    Args:
        own: of this site, which has it at once.
        left: bool (B,), slots of which it does not count yet at this site.
    """

    def __init__(self, rank: int, own: Change, left_B: np.ndarray) -> None:
        self.left = left_B
        self.sent: dict[int, Change] = {rank: own}
        """by owner, of those that have said which rows; values are there as far as they have come"""
        self.come = {rank: len(own[0])}
        """rows, the first ones of those that were announced, whose values have come"""

    def left_of(self, rank: int) -> Change:
        """What an owner has sent that does not count yet here."""
        slots, change = self.sent[rank]
        is_left = self.left[slots]
        return slots[is_left], change[is_left]


class SiteRows:
    """The rows of one table at one owner.

    Args:
        twins: owners of the same rows in all sites, this host one of them, in the order of sites.
        rows_BD: float32, copied.
        bits: of a number between sites.
        by_element: single numbers are significant or not, instead of rows.
    """

    def __init__(
        self,
        transport: Transport,
        twins: Sequence[int],
        name: str,
        rows_BD: np.ndarray,
        bits: int,
        by_element: bool,
    ) -> None:
        self.transport = transport
        self.twins = list(twins)
        self.name = name
        self.base = rows_BD.copy()
        self.bits, self.bound = bits_of(name, bits), bound_of(name)
        self.by_element = by_element
        self.unsent = np.zeros_like(rows_BD)
        self.flights: deque[Flight] = deque()
        """rounds of which not everything counts yet, the oldest first"""
        self._others = [twin for twin in twins if twin != transport.rank]
        self._packed: list[Part] = []

    def rows(self, slots: np.ndarray) -> np.ndarray:
        """The site's rows: what counts, and its own changes."""
        rows = self.base[slots].astype(np.float64) + self.unsent[slots]
        for flight in self.flights:
            other, change = flight.left_of(self.transport.rank)
            _, here, there = np.intersect1d(slots, other, assume_unique=True, return_indices=True)
            rows[here] += change[there]
        return to_float32(rows, self.bound)

    def significant(self, threshold: float) -> Change:
        """What is to be sent: changes that are large beside the site's own rows, or numbers beside its numbers."""
        slots = np.flatnonzero(self.unsent.any(axis=1))
        change, rows = self.unsent[slots], self.rows(slots)
        if self.by_element:
            picked = np.where(np.abs(change) > threshold * np.abs(rows), change, np.float32(0))
        else:
            size = np.linalg.norm(change.astype(np.float64), axis=1)
            is_sent = size > threshold * np.linalg.norm(rows.astype(np.float64), axis=1)
            picked = change * is_sent[:, None]
        is_picked = picked.any(axis=1)
        return slots[is_picked], picked[is_picked]

    def announce(self, slots: np.ndarray, change_KD: np.ndarray) -> int:
        """Say to other sites which rows come; `send_values` has to follow. Returns the bytes of it."""
        self._packed = pack_rows(change_KD, self.bits)
        change_KD = unpack_rows(self._packed)
        self.unsent[slots] -= change_KD
        return self._announce(Flight(self.transport.rank, (slots, change_KD), np.ones(len(self.base), bool)))

    def send_values(self) -> int:
        """Send what was announced last, piece by piece; the bytes of it."""
        count, packed, self._packed = len(self._packed[0].array), self._packed, []
        pieces = [[Part(p.kind, p.array[start : start + PIECE]) for p in packed] for start in range(0, count, PIECE)]
        if self.by_element:
            pieces = [pack_elements(piece) for piece in pieces]
        for piece in pieces:
            for twin in self._others:
                self.transport.send(twin, piece, "significant", f"values {self.name}")
        return len(self._others) * sum(size_of(piece) for piece in pieces)

    def count(self, reads: np.ndarray) -> np.ndarray:
        """Have everything count that sites have announced of these slots; the slots that it changes.

        A row's changes count in the order of rounds and sites, so its base goes through the same values at all sites.
        """
        is_read_B = np.zeros(len(self.base), bool)
        is_read_B[reads] = True
        return np.unique(np.concatenate([reads[:0], *(self._count(flight, is_read_B) for flight in self.flights)]))

    def count_oldest(self) -> np.ndarray:
        """Have the oldest round count; the slots that it changes."""
        found = self._count(self.flights[0], np.ones(len(self.base), bool))
        self.flights.popleft()
        return found

    def flushed(self) -> np.ndarray:
        """The rows as they would be if everything counted; it changes nothing. All owners of them call it together."""
        rows = self.base.copy()
        for flight in self.flights:
            for twin in self.twins:
                self._receive(flight, twin, len(self._announced(flight, twin)))
            add_changes(rows, [flight.left_of(twin) for twin in self.twins], self.bound)
        slots = np.flatnonzero(self.unsent.any(axis=1))
        parts = (pack_ids(slots, len(rows)), Part("rows", self.unsent[slots]))
        received = exchange_among(self.transport, self.twins, dict.fromkeys(self.twins, parts), "flush")
        received[self.transport.rank] = parts
        changes = [(unpack_ids(received[twin][0], len(rows)), received[twin][1].array) for twin in self.twins]
        add_changes(rows, changes, self.bound)
        return rows

    def state_dict(self) -> State:
        """The base, what is held back, and this site's part of what is under way."""
        kept: State = {"base": self.base, "untold": self.unsent}
        for index, flight in enumerate(self.flights):
            slots, change = flight.sent[self.transport.rank]
            kept |= {f"slots{index}": slots, f"change{index}": change}
            if not flight.left.all():
                kept[f"left{index}"] = flight.left
        return kept

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from `state_dict`, by telling the other sites once more what is under way."""
        self.base[:], self.unsent[:] = state["base"], state["untold"]
        while (slots := state.get(f"slots{(index := len(self.flights))}")) is not None:
            left = state.get(f"left{index}", np.ones(len(self.base), bool))
            own = np.array(slots), np.array(state[f"change{index}"])
            self._packed = pack_rows(own[1])
            self._announce(Flight(self.transport.rank, own, np.array(left, bool)))
            self.send_values()

    def _announce(self, flight: Flight) -> int:
        self.flights.append(flight)
        ids = [pack_ids(flight.sent[self.transport.rank][0], len(self.base))]
        for twin in self._others:
            self.transport.send(twin, ids, "announce", f"sites {self.name}")
        return len(self._others) * size_of(ids)

    def _count(self, flight: Flight, is_read_B: np.ndarray) -> np.ndarray:
        """Have a round's changes of slots count; which."""
        changes = []
        for twin in self.twins:
            slots = self._announced(flight, twin)
            here = np.flatnonzero(flight.left[slots] & is_read_B[slots])
            self._receive(flight, twin, len(slots) if is_read_B.all() else int(here[-1]) + 1 if len(here) else 0)
            changes.append((slots[here], flight.sent[twin][1][here]))
        found = add_changes(self.base, changes, self.bound)
        flight.left[found] = False
        return found

    def _announced(self, flight: Flight, twin: int) -> np.ndarray:
        """The slots of which a site sends values in a round."""
        if twin not in flight.sent:
            (ids,) = self.transport.recv(twin, "announce", f"sites {self.name}").parts
            slots = unpack_ids(ids, len(self.base))
            flight.sent[twin] = slots, np.empty((len(slots), self.base.shape[1]), np.float32)
            flight.come[twin] = 0
        return flight.sent[twin][0]

    def _receive(self, flight: Flight, twin: int, count: int) -> None:
        """Wait for the values of the first rows that a site has announced in a round, and of all rounds before it."""
        if flight.come[twin] >= count:
            return
        for before in self.flights:
            if before is flight:
                break
            self._receive(before, twin, len(self._announced(before, twin)))
        rows = flight.sent[twin][1]
        while (come := flight.come[twin]) < count:
            parts = self.transport.recv(twin, "significant", f"values {self.name}").parts
            piece = unpack_elements(parts, rows.shape[1]) if self.by_element else parts
            rows[come : come + PIECE] = unpack_rows(piece)
            flight.come[twin] = min(come + PIECE, len(rows))


def pack_elements(parts: Sequence[Part]) -> list[Part]:
    """Parts of rows, as `pack_rows` makes them, without zeros: bits that say which, uint8 (K, D / 8), and the rest."""
    numbers_KD = parts[0].array
    is_sent_KD = numbers_KD != 0
    return [Part("ids", np.packbits(is_sent_KD, axis=1)), Part("rows", numbers_KD[is_sent_KD]), *parts[1:]]


def unpack_elements(parts: Sequence[Part], columns: int) -> list[Part]:
    """What `pack_elements` was given.

    Raises:
        MessageError: there are not as many numbers as bits say.
    """
    bits, numbers, *scales = parts
    is_sent_KD = np.unpackbits(bits.array, axis=1, count=columns).astype(bool)
    if numbers.array.shape != (np.count_nonzero(is_sent_KD),):
        raise MessageError(f"A host sent {numbers.array.shape} numbers of {np.count_nonzero(is_sent_KD)} in rows.")
    numbers_KD = np.zeros(is_sent_KD.shape, numbers.array.dtype)
    numbers_KD[is_sent_KD] = numbers.array
    return [Part("rows", numbers_KD), *scales]


def add_changes(base: np.ndarray, changes: Sequence[Change], bound: float) -> np.ndarray:
    """Add changes of several sites to the base, in their order, in float64; the slots that any of them has."""
    slots = np.unique(np.concatenate([change[0] for change in changes]))
    total = base[slots].astype(np.float64)
    for other, change in changes:
        total[np.searchsorted(slots, other)] += change
    base[slots] = to_float32(total, bound)
    return slots
