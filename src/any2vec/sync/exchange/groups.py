"""DS-Sync: hosts average their rows in small groups, and meet other members in the next round.

Divide-and-Shuffle Synchronization (arXiv 2007.03298), row by row. There all parameters change in each step; here most
rows do not, so a copy of a row has news for a while: from the round in which its host trained it, for as many rounds
as news need to come to everyone (`GroupSchedule.mixing_rounds`). A row is averaged in a group when any member has
news of it, over the members that have, by their weights, and then all members have the news and an equal share of the
weights: push-sum (Kempe et al. 2003), so a rare row is not pulled back to where it started, and what is agreed in the
end is the mean over the hosts that trained it. A weight is 1 for a round of training, and halves each round.

With changes everywhere all weights are equal, groups average all rows, and the variance between hosts shrinks by
(N - s) / (s (N - 1)) in a round, as published. A row without news in a group stays as it is: after a butterfly, or the
two schedules of a topology, it is the same at all hosts; after random groups it may differ, with low probability, until
it is trained again. The result is the weighted mean over all hosts; to form it changes nothing, so a checkpoint may.
There are no optimizer moments to care for: rows are trained by plain SGD.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.plan.order.groups import GroupSchedule
from any2vec.plan.sharding.sharding import Contiguous
from any2vec.sync.base.members import FAINT, Rows, Watch, average, reduce_rows, share_rows, weighted_mean
from any2vec.sync.base.states import bound_of
from any2vec.sync.drivers.rounds import Agreement
from any2vec.sync.options.names import Groups
from any2vec.types import Span, State, Work

_FADE = np.float32(0.5)

Changes = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""ids of rows that have news, their values, weights, and rounds that the news still travel"""


class DivideAndShuffle(Agreement):
    """The agreement of one host; tables: name -> float32 (V, D), the same values on every host at the start.

    Raises:
        InputError: the schedule does not go with the number of hosts.
    """

    def __init__(self, transport: Transport, tables: dict[str, np.ndarray], how: Groups) -> None:
        self.transport = transport
        self.tables = tables
        hosts, sites = transport.hosts, 1 if transport.link is None else transport.link.num_sites
        self.schedule = GroupSchedule.of(how.schedule, hosts, how.size, how.seed, sites)
        self._life = self.schedule.mixing_rounds
        self._watch = Watch(tables)
        self._weight = {name: np.zeros(len(table), np.float32) for name, table in tables.items()}
        self._life_left = {name: np.zeros(len(table), np.uint8) for name, table in tables.items()}
        self._moved = {name: np.zeros(len(table), bool) for name, table in tables.items()}
        """whether this host's copy has ever changed"""
        self._number = 0

    def begin_round(self, work: Work[Span]) -> None:
        """Every row is here already."""
        self._number = work.round.number

    def end_round(self) -> None:
        """Average with this round's group."""
        members = next(group for group in self.schedule.groups(self._number) if self.transport.rank in group)
        for name in self.tables:
            self._mark(name)
        self._share(members, self._reduce(members))

    def gather_result(self) -> dict[str, np.ndarray] | None:
        """The weighted mean over all hosts, at rank 0."""
        say = {name: np.maximum(self._weight[name], FAINT * moved) for name, moved in self._moved.items()}
        return average(self.transport, self.tables, say)

    def state_dict(self) -> State:
        """This host's rows and their news."""
        kept = {"": self.tables, ".weight": self._weight, ".life": self._life_left, ".moved": self._moved}
        return {f"ds-sync.{name}{end}": arrays[name] for end, arrays in kept.items() for name in self.tables}

    def load_state_dict(self, states: Sequence[State]) -> None:
        """Go on with the rows that this host had; on another number of hosts all go on from the mean."""
        mine = states[self.transport.rank] if len(states) == self.transport.hosts else {}
        for name, table in self.tables.items():
            if f"ds-sync.{name}" in mine:
                table[:] = mine[f"ds-sync.{name}"]
                self._weight[name][:] = mine[f"ds-sync.{name}.weight"]
                self._life_left[name][:] = mine[f"ds-sync.{name}.life"]
                self._moved[name][:] = mine[f"ds-sync.{name}.moved"]
        self._watch.look_again()

    def _mark(self, name: str) -> None:
        """Let news fade, and add those of the round."""
        changed = self._watch.changed(name)
        self._weight[name] *= _FADE
        self._weight[name][changed] += 1
        self._life_left[name][changed] = self._life
        self._moved[name][changed] = True

    def _reduce(self, members: list[int]) -> dict[str, Changes]:
        """Each member averages its share of the rows. Returns this host's share."""
        rows_of = {}
        for name, table in self.tables.items():
            hot = np.flatnonzero(self._life_left[name])
            changes = table[hot], self._weight[name][hot], self._life_left[name][hot]
            rows_of[name] = Rows(Contiguous(len(table), len(members)), hot, _parts(*changes))

        def merge(name: str, size: int, each: list[list[np.ndarray]]) -> Changes:
            return _merge([(ids, *changes) for ids, *changes in each], size, len(members), bound_of(name))  # type: ignore[misc]

        return reduce_rows(self.transport, members, rows_of, merge)

    def _share(self, members: list[int], agreed: dict[str, Changes]) -> None:
        """Everyone in the group takes what its members have averaged."""
        mine = {}
        for name, (slots, *changes) in agreed.items():
            sharding = Contiguous(len(self.tables[name]), len(members))
            first, _ = sharding.block(members.index(self.transport.rank))
            mine[name] = Rows(sharding, first + slots, _parts(*changes))
        for name, arrays in share_rows(self.transport, members, mine):
            self._take(name, *arrays)

    def _take(self, name: str, ids: np.ndarray, rows: np.ndarray, weights: np.ndarray, left: np.ndarray) -> None:
        self.tables[name][ids] = rows
        self._weight[name][ids] = weights
        self._life_left[name][ids] = left
        self._moved[name][ids] = True
        self._watch.look(name, ids)


def _merge(changes: Sequence[Changes], size: int, members: int, bound: float) -> Changes:
    """What a group agrees on for a block of `size` rows; news that have traveled long enough have no weight left."""
    ids, rows, mass = weighted_mean(size, [part[:3] for part in changes], bound)
    left = np.zeros(len(ids), np.uint8)
    for part in changes:
        slots = np.searchsorted(ids, part[0])
        left[slots] = np.maximum(left[slots], part[3])
    left -= 1  # whoever sends a row has news of it
    return ids, rows, np.where(left > 0, mass / members, 0).astype(np.float32), left


def _parts(rows: np.ndarray, weights: np.ndarray, left: np.ndarray) -> list[Part]:
    return [Part("rows", rows), Part("dense", weights), Part("dense", left)]
