"""Gaia's approximate synchronous parallel (Hsieh et al. 2017, NSDI), row by row: hosts in several sites.

The hosts of a site merge each round, as those of GraphAny2Vec do. What a site has made of a row, u, adds up until it is
significant, |u| > v |w|, w being the site's row; then it is sent to the other sites, which add it to theirs, and starts
from zero. Nothing is ever dropped, and a site uses its own changes at once. With v = 0 sites merge by addition.

Owners keep w as base + own changes: the base is the sum of what has been sent, which every site adds up in the order
of sites, so it is the same everywhere to the bit, and once everything is sent the sites are. With `clock` = c, what is
sent in round t counts in round t + c at all sites (Gaia's mirror clock, with the largest lag that it allows always
taken, so that results do not depend on who was fast): a site waits only for sites that are more than c rounds behind.

The result is what a full flush would make of all sites; to form it changes nothing. The threshold of a round is v over
the root of its number (as in the proof), or falls as the learning rate does (as in the code), or stays. A controller,
where it is asked for, raises v by 0.005 when a host has sent other sites more than 1.1 times `limit` bytes in a round,
and lowers it below 0.9 times: bytes are counted, not timed, so that results do not depend on the clock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

from any2vec.cluster.codec import pack_ids, pack_rows, unpack_ids, unpack_rows
from any2vec.cluster.message import Part, size_of
from any2vec.cluster.transport import Transport
from any2vec.errors import InputError
from any2vec.plan.sharding.sharding import Contiguous
from any2vec.sync.base.members import Rows, Watch, exchange_among, reduce_rows, share_rows, to_float32
from any2vec.sync.base.states import bits_of, bound_of
from any2vec.sync.drivers.rounds import Agreement
from any2vec.sync.options.names import Gaia
from any2vec.sync.options.rules import rule_class
from any2vec.sync.rules.block import Rules
from any2vec.types import Span, State, Work

_STEP, _HIGH, _LOW = 0.005, 1.1, 0.9
_CHANNEL = "sites"
"""what sites tell each other may stay unread while hosts talk of other things"""


def num_sites(hosts: int, asked: int | None, of_link: int = 1) -> int:
    """Sites of a run: as asked for, as the link has, or the least divisor of hosts above 1.

    Raises:
        InputError: sites cannot have equally many hosts.
    """
    least = next((number for number in range(2, hosts + 1) if hosts % number == 0), 1)
    sites = asked or (of_link if of_link > 1 else least)
    if hosts % sites:
        raise InputError(f"{hosts} hosts do not make {sites} sites of equally many; take a number that divides them.")
    return sites


class ApproximatelySynchronous(Agreement):
    """The agreement of one host.

    Args:
        tables: name -> float32 (V, D), trained in place; the same values on every host at the start.
        bits: of a number between sites; what rounding leaves out is sent later. Within a site rows travel as they are.

    Raises:
        InputError: sites cannot have equally many hosts.
    """

    def __init__(self, transport: Transport, tables: dict[str, np.ndarray], how: Gaia, bits: int) -> None:
        self.transport = transport
        self.tables = tables
        self.how = how
        self.bits = bits
        hosts, rank, link = transport.hosts, transport.rank, transport.link
        self.sites = num_sites(hosts, how.sites, 1 if link is None else link.num_sites)
        inside = hosts // self.sites
        self.members = [rank // inside * inside + place for place in range(inside)]
        self.twins = [site * inside + rank % inside for site in range(self.sites)]
        """owners of the same rows in all sites, this host one of them"""
        self.threshold = how.threshold
        """v before it shrinks; the controller moves it"""
        self.settle_every = how.clock + 1
        """rounds after which all hosts meet for reports; in between sites wait for none that the clock does not bind"""
        place = rank % inside
        self._sharding = {name: Contiguous(len(table), inside) for name, table in tables.items()}
        own = {name: table[slice(*self._sharding[name].block(place))] for name, table in tables.items()}
        rules = Rules(rule_class(how.rule))
        self._blocks = {name: rules.block(name, rows, np.arange(len(rows))) for name, rows in own.items()}
        self.site_rows = {name: SiteRows(rows, bound_of(name)) for name, rows in own.items()} if self.sites > 1 else {}
        self._watch = Watch(tables)
        self._number, self._progress = 0, 0.0

    def begin_round(self, work: Work[Span]) -> None:
        """Every row is here already."""
        self._number, self._progress = work.round.number, work.payload.progress(work.payload.start)

    def end_round(self) -> None:
        """Merge within the site, send what is significant to other sites, take what they send."""
        changed = self._reduce()
        if self.site_rows:
            for name, site in self.site_rows.items():
                block, slots = self._blocks[name], changed[name]
                site.unsent[slots] += block.rows[slots] - site.rows(slots)
            updates = [changed, self._announce()]
            if len(next(iter(self.site_rows.values())).flights) > self.how.clock:
                updates.append(self._count())
            changed = {name: np.unique(np.concatenate([slots[name] for slots in updates])) for name in changed}
            for name, site in self.site_rows.items():
                self._blocks[name].rows[changed[name]] = site.rows(changed[name])
        self._broadcast(changed)

    def gather_result(self) -> dict[str, np.ndarray] | None:
        """What a full flush would make of all sites, at rank 0."""
        rank = self.transport.rank
        blocks = {name: self._flushed(name) for name in self.tables}
        inside = len(self.members)
        if rank < inside:  # the first site: its owners have all rows
            parts = [Part("rows", rows) for rows in blocks.values()]
            found = exchange_among(self.transport, self.members, {0: parts}, "gather") | {rank: tuple(parts)}
            if rank == 0:
                names = enumerate(self.tables)
                return {name: np.concatenate([found[host][i].array for host in self.members]) for i, name in names}
        return None

    def state_dict(self) -> State:
        """The base of this host's rows, and what its site has not sent, or sent too lately to count."""
        kept = {"gaia.threshold": np.array(self.threshold)} if self.site_rows else {}
        for name, site in self.site_rows.items():
            kept |= {f"gaia.{name}.base": site.base, f"gaia.{name}.untold": site.unsent}
            for index, (slots, change) in enumerate(site.flights):
                kept |= {f"gaia.{name}.slots{index}": slots, f"gaia.{name}.change{index}": change}
        return kept

    def load_state_dict(self, states: Sequence[State]) -> None:
        """Go on as this host was; on another number of hosts or sites all go on from the full flush."""
        mine = states[self.transport.rank] if self._fits(states) else {}
        place = self.members.index(self.transport.rank)
        for name, table in self.tables.items():
            own = table[slice(*self._sharding[name].block(place))]
            self._blocks[name].rows[:] = own
            if name in self.site_rows:
                self.site_rows[name].base[:] = own
                if mine:
                    self._blocks[name].rows[:] = self._recalled(name, mine)
        if self.site_rows and mine:
            self.threshold = float(mine["gaia.threshold"])
            for index in range(len(next(iter(self.site_rows.values())).flights)):
                flights = {name: site.flights[index] for name, site in self.site_rows.items()}
                self._send({name: (slots, pack_rows(change)) for name, (slots, change) in flights.items()})
            self._broadcast({name: np.arange(len(block.rows)) for name, block in self._blocks.items()})
        self._watch.look_again()

    def _fits(self, states: Sequence[State]) -> bool:
        """Whether a former run had as many hosts and sites; all hosts find the same."""
        if len(states) != self.transport.hosts:
            return False
        return all(
            sum(len(state.get(f"gaia.{name}.base", ())) for state in states) == self.sites * len(self.tables[name])
            for name in self.site_rows
        )

    def _recalled(self, name: str, mine: State) -> np.ndarray:
        """Take up a table's state; the site's rows of this host's block."""
        site = self.site_rows[name]
        site.base[:], site.unsent[:] = mine[f"gaia.{name}.base"], mine[f"gaia.{name}.untold"]
        while (slots := mine.get(f"gaia.{name}.slots{len(site.flights)}")) is not None:
            site.flights.append((np.array(slots), np.array(mine[f"gaia.{name}.change{len(site.flights)}"])))
        return site.rows(np.arange(len(site.base)))

    def _reduce(self) -> dict[str, np.ndarray]:
        """Merge what the hosts of the site have changed. Returns the changed slots of this host's blocks."""
        rows_of = {}
        for name, table in self.tables.items():
            ids = self._watch.changed(name)
            rows_of[name] = Rows(self._sharding[name], ids, [Part("rows", table[ids])])

        def merge(name: str, size: int, each: list[list[np.ndarray]]) -> np.ndarray:
            for slots, rows in each:
                self._blocks[name].merge(slots, rows, False)
            return self._blocks[name].finish(False)

        return reduce_rows(self.transport, self.members, rows_of, merge)

    def _broadcast(self, changed: dict[str, np.ndarray]) -> None:
        """All hosts of the site take the rows that have changed."""
        mine = {}
        for name, block in self._blocks.items():
            first, _ = self._sharding[name].block(self.members.index(self.transport.rank))
            rows = Part("rows", block.rows[changed[name]])
            mine[name] = Rows(self._sharding[name], first + changed[name], [rows])
        for name, (ids, row_KD) in share_rows(self.transport, self.members, mine):
            self.tables[name][ids] = row_KD
            self._watch.look(name, ids)

    def _announce(self) -> dict[str, np.ndarray]:
        """Send what is significant to the twins, and steer the threshold. Returns the slots that were sent."""
        threshold = self._threshold()
        picked: dict[str, tuple[np.ndarray, list[Part]]] = {}
        for name, site in self.site_rows.items():
            slots, change = site.significant(threshold, self.how.filter == "element")
            packed = pack_rows(change, bits_of(name, self.bits))
            change = unpack_rows(packed)
            site.unsent[slots] -= change
            site.flights.append((slots, change))
            picked[name] = slots, packed
        num_bytes = self._send(picked)
        if self.how.limit:
            if num_bytes > _HIGH * self.how.limit:
                self.threshold += _STEP
            elif num_bytes < _LOW * self.how.limit:
                self.threshold = max(0.0, self.threshold - _STEP)
            self.threshold = float(np.float32(self.threshold))  # as a checkpoint keeps it
        return {name: slots for name, (slots, _) in picked.items()}

    def _threshold(self) -> float:
        """v of this round."""
        if self.how.flush and (self._number + 1) % self.how.flush == 0:
            return 0.0
        if self.how.shrink == "sqrt":
            return self.threshold / math.sqrt(self._number + 1)
        return self.threshold * (1 - self._progress) if self.how.shrink == "rate" else self.threshold

    def _send(self, changes: dict[str, tuple[np.ndarray, list[Part]]]) -> int:
        """Send packed changes of slots to the owners of these rows in other sites; bytes of it."""
        parts: list[Part] = []
        for name, (slots, packed) in changes.items():
            parts += [pack_ids(slots, len(self.site_rows[name].base)), *packed]
        others = [twin for twin in self.twins if twin != self.transport.rank]
        for twin in others:
            self.transport.send(twin, parts, "significant", _CHANNEL)
        return size_of(parts) * len(others)

    def _count(self) -> dict[str, np.ndarray]:
        """Let the oldest round of what sites have sent count; the slots that it changes."""
        others = [twin for twin in self.twins if twin != self.transport.rank]
        received = {twin: list(self.transport.recv(twin, "significant", _CHANNEL).parts) for twin in others}
        found = {}
        for name, site in self.site_rows.items():
            own = site.flights.popleft()
            changes = [own if twin == self.transport.rank else _change(received[twin], site) for twin in self.twins]
            found[name] = add_changes(site.base, changes, site.bound)
        return found

    def _flushed(self, name: str) -> np.ndarray:
        """This host's block of a table as it would be if everything counted."""
        if not self.site_rows:
            return self._blocks[name].rows.copy()
        site = self.site_rows[name]
        slots, change = site.everything()
        parts = [pack_ids(slots, len(site.base)), Part("rows", change)]
        received = exchange_among(self.transport, self.twins, dict.fromkeys(self.twins, parts), "flush")
        received[self.transport.rank] = tuple(parts)
        rows = site.base.copy()
        changes = [(unpack_ids(received[twin][0], len(rows)), received[twin][1].array) for twin in self.twins]
        add_changes(rows, changes, site.bound)
        return rows


def _change(parts: list[Part], site: SiteRows) -> Change:
    """One table's changes off the front of a message."""
    slots, first = unpack_ids(parts.pop(0), len(site.base)), parts.pop(0)
    return slots, unpack_rows([first] if first.array.dtype == np.float32 else [first, parts.pop(0)])


Change = tuple[np.ndarray, np.ndarray]
"""slots of a block, int64 ascending, and the changes of these rows"""


class SiteRows:
    """One table's rows at the owner of a block: what all sites know, and what this site has not sent, or just sent."""

    def __init__(self, rows_BD: np.ndarray, bound: float) -> None:
        """rows_BD is copied; bound: of their table."""
        self.base = rows_BD.copy()
        self.bound = bound
        self.unsent = np.zeros_like(rows_BD)
        self.flights: deque[Change] = deque()
        """what this site has sent that does not count yet, the oldest first"""

    def rows(self, slots: np.ndarray) -> np.ndarray:
        """The site's rows."""
        rows = self.base[slots].astype(np.float64) + self.unsent[slots]
        for other, change in self.flights:
            _, here, there = np.intersect1d(slots, other, assume_unique=True, return_indices=True)
            rows[here] += change[there]
        return to_float32(rows, self.bound)

    def significant(self, threshold: float, by_element: bool) -> Change:
        """What is to be sent: changes that are large beside the site's own rows, or numbers with `by_element`."""
        slots = np.flatnonzero(self.unsent.any(axis=1))
        change, rows = self.unsent[slots], self.rows(slots)
        if by_element:
            picked = np.where(np.abs(change) > threshold * np.abs(rows), change, np.float32(0))
        else:
            size = np.linalg.norm(change.astype(np.float64), axis=1)
            is_sent = size > threshold * np.linalg.norm(rows.astype(np.float64), axis=1)
            picked = change * is_sent[:, None]
        is_picked = picked.any(axis=1)
        return slots[is_picked], picked[is_picked]

    def everything(self) -> Change:
        """All that does not count yet at all sites."""
        total = self.unsent.copy()
        for slots, change in self.flights:
            total[slots] += change
        slots = np.flatnonzero(total.any(axis=1))
        return slots, total[slots]


def add_changes(base: np.ndarray, changes: Sequence[Change], bound: float) -> np.ndarray:
    """Add changes of several sites to the base, in their order, in float64; the slots that any of them has."""
    slots = np.unique(np.concatenate([change[0] for change in changes]))
    total = base[slots].astype(np.float64)
    for other, change in changes:
        total[np.searchsorted(slots, other)] += change
    base[slots] = to_float32(total, bound)
    return slots
