"""Gaia's approximate synchronous parallel (Hsieh et al. 2017, NSDI): hosts in several sites.

The hosts of a site merge each round, as those of GraphAny2Vec do. What a site has made of a number, u, adds up until it
is significant, |u| > v |w|, w being the site's number; then it is sent to the other sites, which add it to theirs, and
starts from zero. Nothing is ever dropped, and a site uses its own changes at once. With v = 0 sites merge by addition.
With `row` (ours) whole rows are significant or not, by their norms: as good, but more bytes (docs/log.md).

Owners keep w as base + own changes: the base is the sum of what has been sent, which every site adds up in the order
of sites, so it is the same everywhere to the bit, and once everything is sent the sites are. With `clock` = c, what is
sent in round t counts in round t + c at the latest (Gaia's mirror clock, with the largest lag that it allows always
taken, so that results do not depend on who was fast). Before a round, sites hear which rows others have found
significant (the ids are sent before the values), and rows that the round reads wait for their values, while others may
still be under way: Gaia's selective barrier. There only a site whose line is full sends ids first; here all do. With
`late` nobody hears of ids before they count: a site waits only for sites that are more than c rounds behind.

The result is what a full flush would make of all sites; to form it changes nothing. The threshold of a round is v over
the root of its number (as in the proof), or falls as the learning rate does (as in the code), or stays. A controller,
where it is asked for, raises v by 0.005 when a host has sent other sites more than 1.1 times `limit` bytes in a round,
and lowers it below 0.9 times: bytes are counted, not timed, so that results do not depend on the clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.errors import InputError
from any2vec.plan.sharding.sharding import Contiguous
from any2vec.sync.base.members import Rows, Watch, exchange_among, reduce_rows, share_rows
from any2vec.sync.drivers.rounds import Agreement
from any2vec.sync.exchange.pulled import Inspector, marks_of
from any2vec.sync.exchange.site_rows import SiteRows
from any2vec.sync.options.names import Gaia
from any2vec.sync.options.rules import rule_class
from any2vec.sync.rules.block import Rules
from any2vec.tables.copying import num_rows_of
from any2vec.types import Span, State, Work

_STEP, _HIGH, _LOW = 0.005, 1.1, 0.9


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
        inspector: knows which rows a round reads.

    Raises:
        InputError: sites cannot have equally many hosts.
    """

    def __init__(
        self, transport: Transport, tables: dict[str, np.ndarray], how: Gaia, bits: int, inspector: Inspector
    ) -> None:
        self.transport = transport
        self.tables = tables
        self.how = how
        self._inspector = inspector
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
        self.site_rows = (
            {
                name: SiteRows(transport, self.twins, name, rows, bits, how.filter == "element")
                for name, rows in own.items()
            }
            if self.sites > 1
            else {}
        )
        self._watch = Watch(tables)
        self._number, self._progress = 0, 0.0

    def begin_round(self, work: Work[Span]) -> None:
        """Wait for the values of rows that the round reads and other sites have announced."""
        self._number, self._progress = work.round.number, work.payload.progress(work.payload.start)
        if self.how.barrier == "selective" and any(site.flights for site in self.site_rows.values()):
            reads = self._reads(work)
            self._update([{name: site.count(reads[name]) for name, site in self.site_rows.items()}])

    def end_round(self) -> None:
        """Merge within the site, send what is significant to other sites, take what they send."""
        updates = [self._reduce()]
        for name, site in self.site_rows.items():
            block, slots = self._blocks[name], updates[0][name]
            site.unsent[slots] += block.rows[slots] - site.rows(slots)
        if self.site_rows:
            updates.append(self._announce())
            if len(next(iter(self.site_rows.values())).flights) > self.how.clock:
                updates.append({name: site.count_oldest() for name, site in self.site_rows.items()})
        self._update(updates)

    def gather_result(self) -> dict[str, np.ndarray] | None:
        """What a full flush would make of all sites, at rank 0."""
        rank = self.transport.rank
        sites, blocks = self.site_rows, self._blocks
        rows = {name: sites[name].flushed() if name in sites else blocks[name].rows.copy() for name in self.tables}
        inside = len(self.members)
        if rank < inside:  # the first site: its owners have all rows
            parts = [Part("rows", block) for block in rows.values()]
            found = exchange_among(self.transport, self.members, {0: parts}, "gather") | {rank: tuple(parts)}
            if rank == 0:
                names = enumerate(self.tables)
                return {name: np.concatenate([found[host][i].array for host in self.members]) for i, name in names}
        return None

    def state_dict(self) -> State:
        """The base of this host's rows, and what its site has not sent, or sent too lately to count."""
        kept = {"gaia.threshold": np.array(self.threshold)} if self.site_rows else {}
        for name, site in self.site_rows.items():
            kept |= {f"gaia.{name}.{key}": array for key, array in site.state_dict().items()}
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
                    begin = f"gaia.{name}."
                    state = {key.removeprefix(begin): a for key, a in mine.items() if key.startswith(begin)}
                    self.site_rows[name].load_state_dict(state)
                    self._blocks[name].rows[:] = self.site_rows[name].rows(np.arange(len(own)))
        if self.site_rows and mine:
            self.threshold = float(mine["gaia.threshold"])
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

    def _reads(self, work: Work[Span]) -> dict[str, np.ndarray]:
        """Slots of this host's blocks that the hosts of the site read in a round."""
        marks = marks_of(self._inspector, num_rows_of(self.tables), work.epoch, work.round)
        rows_of = {name: Rows(self._sharding[name], np.flatnonzero(mark), []) for name, mark in marks.items()}

        def union(name: str, size: int, each: list[list[np.ndarray]]) -> np.ndarray:
            return np.unique(np.concatenate([slots for (slots,) in each]))

        return reduce_rows(self.transport, self.members, rows_of, union, "reads")

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

    def _update(self, updates: Sequence[dict[str, np.ndarray]]) -> None:
        """All hosts of the site take rows whose slots are in any of these."""
        changed = {name: np.unique(np.concatenate([slots[name] for slots in updates])) for name in self.tables}
        for name, site in self.site_rows.items():
            self._blocks[name].rows[changed[name]] = site.rows(changed[name])
        self._broadcast(changed)

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
        picked = {name: site.significant(threshold) for name, site in self.site_rows.items()}
        num_bytes = sum(site.announce(*picked[name]) for name, site in self.site_rows.items())
        num_bytes += sum(site.send_values() for site in self.site_rows.values())
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
