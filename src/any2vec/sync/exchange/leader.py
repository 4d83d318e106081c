"""Leader SGD on two levels (Teng et al. 2019, NeurIPS; rules as in the authors' code): hosts follow the best one.

After each round the host of a group with the least running loss leads it: the others take a share c1 of its rows; every
`every` rounds the best host of all leads all, with a share c2. In between, at each step as published (a batch of each
thread; words have no batches, and are pulled after pieces and at the quarters of a round), hosts are pulled towards the
last rows that leaders gave them, in all by p1 and p2 from one leader to the next: a round is the period of a group, and
a step has its share of it.
A leader feels no pull on its own level. Unlike an average, what a leader has found stays where it is.

A leader gives the rows that it has trained itself since the level's last leader: other rows it holds as they came to
it, and would drag those who train them back. Which host leads follows its training loss, as published: where hosts
train different data, that compares data, too. The result is the mean over all hosts that have changed a row; to form
it changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from any2vec.cluster.codec import pack_ids, unpack_ids
from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport, control
from any2vec.plan.order.groups import blocks_of, group_size
from any2vec.sync.base.members import Watch, average, exchange_among
from any2vec.sync.drivers.rounds import Agreement
from any2vec.sync.options.names import Leader
from any2vec.types import Span, State, Stats, Work

_NEWEST = 0.5
"""weight of the newest round in the running loss"""


class Level:
    """One level of leading: its members, its leader's last rows, and what this host has trained since.

    Args:
        share: of the leader's rows that others take when they receive them; pull: of them in a round.
    """

    def __init__(
        self, name: str, members: Sequence[int], tables: dict[str, np.ndarray], share: float, pull: float
    ) -> None:
        self.name = name
        self.members = members
        self.tables = tables
        self.share = share
        self.pull = pull
        self.leader = -1
        """rank of the last leader; -1 before the first"""
        self.trained = {name: np.zeros(len(table), bool) for name, table in tables.items()}
        empty = {
            name: (np.empty(0, np.int64), np.empty((0, table.shape[1]), np.float32)) for name, table in tables.items()
        }
        self.given: dict[str, tuple[np.ndarray, np.ndarray]] = empty
        """rows that the last leader gave: ids and values; none at the leader itself"""

    def choose(self, transport: Transport, loss: float) -> None:
        """The member with the least loss leads, of equals the first; one without a loss counts as the worst."""
        said = exchange_among(transport, self.members, dict.fromkeys(self.members, (control(loss),)), "loss")
        losses = {peer: float(parts[0].array[0]) for peer, parts in said.items()} | {transport.rank: loss}
        self.leader = min(self.members, key=lambda member: (losses[member], member))

    def give(self, transport: Transport) -> None:
        """The leader's trained rows go to the other members."""
        parts: tuple[Part, ...] = ()
        if transport.rank == self.leader:
            for name, table in self.tables.items():
                ids = np.flatnonzero(self.trained[name])
                parts += (pack_ids(ids, len(table)), Part("rows", table[ids]))
            for member in self.members:
                if member != self.leader:
                    transport.send(member, parts, f"lead {self.name}")
        else:
            parts = transport.recv(self.leader, f"lead {self.name}").parts
        is_led = transport.rank != self.leader
        for index, (name, table) in enumerate(self.tables.items()):
            ids, rows = unpack_ids(parts[2 * index], len(table)), parts[2 * index + 1].array
            self.given[name] = (ids, rows) if is_led else (ids[:0], rows[:0])
            self.trained[name][:] = False

    def draw(self, name: str, share: float, table: np.ndarray) -> None:
        """Move rows of a table, or of a copy of it, by a share of the way to the last leader's."""
        ids, rows = self.given[name]
        if len(ids) and share:
            here = table[ids]
            table[ids] = rows if share == 1 else here + np.float32(share) * (rows - here)

    def state_dict(self) -> State:
        """The leader, what this host has trained since, and what the leader gave."""
        kept: State = {f"{self.name}.leader": np.array(self.leader)}
        for name, (ids, rows) in self.given.items():
            place = f"{self.name}.{name}"
            kept |= {f"{place}.trained": self.trained[name], f"{place}.ids": ids, f"{place}.rows": rows}
        return kept

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`."""
        self.leader = int(state[f"{self.name}.leader"])
        for name in self.tables:
            place = f"{self.name}.{name}"
            self.given[name] = np.array(state[f"{place}.ids"]), np.array(state[f"{place}.rows"])
            self.trained[name][:] = state[f"{place}.trained"]


class LeaderSgd(Agreement):
    """The agreement of one of several hosts; tables as for `make_agreement`."""

    def __init__(self, transport: Transport, tables: dict[str, np.ndarray], how: Leader) -> None:
        self.transport = transport
        self.tables = tables
        self.how = how
        hosts, link = transport.hosts, transport.link
        size = how.size or group_size(hosts)
        if link is not None and link.num_sites > 1:
            size = how.size or max(1, hosts // link.num_sites)
        group = next(group for group in blocks_of(hosts, size) if transport.rank in group)
        self.levels = (
            Level("group", group, tables, how.c1, how.p1),
            Level("all", range(hosts), tables, how.c2, how.p2 / how.every),
        )
        self.loss = np.float32(np.inf)
        """running loss; float32, as a checkpoint keeps it"""
        self._received = Stats(0, 0.0, 0)
        self._watch = Watch(tables)
        self._moved = {name: np.zeros(len(table), bool) for name, table in tables.items()}
        self._number = self._done = 0
        """of the round, and positions that it has trained since the last pull"""

    def begin_round(self, work: Work[Span]) -> None:
        """Every row is here already."""
        self._number = work.round.number

    def on_work(self, work: Work[Span], stats: Stats) -> None:
        """Note the loss; at the end of a step, feel the leaders' pull."""
        self._received += stats
        self._done += work.payload.stop - work.payload.start
        if self._done and (work.ends_part or work.ends_round):
            share = self._done / sum(span.stop - span.start for span in work.round.spans)
            for name in self.tables:
                for level in self.levels:
                    self._draw(level, name, level.pull * share)
            self._done = 0

    def end_round(self) -> None:
        """Choose leaders, and take a share of their rows."""
        self._average_loss()
        for name in self.tables:
            self._note(name)
        group, everyone = self.levels
        for level in (group, everyone) if (self._number + 1) % self.how.every == 0 else (group,):
            level.choose(self.transport, float(self.loss))
            level.give(self.transport)
            for name in self.tables:
                self._draw(level, name, level.share)

    def gather_result(self) -> dict[str, np.ndarray] | None:
        """The mean over the hosts that have changed a row, at rank 0."""
        return average(self.transport, self.tables, {name: m.astype(np.float32) for name, m in self._moved.items()})

    def state_dict(self) -> State:
        """This host's rows, its running loss, and what leaders gave it."""
        kept: State = {"loss": np.array(self.loss)}
        for level in self.levels:
            kept |= level.state_dict()
        for name, table in self.tables.items():
            kept |= {name: table, f"{name}.moved": self._moved[name]}
        return {f"leader.{name}": array for name, array in kept.items()}

    def load_state_dict(self, states: Sequence[State]) -> None:
        """Go on as this host was; on another number of hosts all go on from the mean, without a leader."""
        mine = states[self.transport.rank] if len(states) == self.transport.hosts else {}
        if "leader.loss" in mine:
            kept = {name.removeprefix("leader."): array for name, array in mine.items()}
            self.loss = np.float32(kept["loss"])
            for level in self.levels:
                level.load_state_dict(kept)
            for name, table in self.tables.items():
                table[:] = kept[name]
                self._moved[name][:] = kept[f"{name}.moved"]
        self._watch.look_again()

    def _average_loss(self) -> None:
        received, self._received = self._received, Stats(0, 0.0, 0)
        if received.loss_examples:
            newest = received.loss_sum / received.loss_examples
            before = newest if np.isinf(self.loss) else float(self.loss)
            self.loss = np.float32(before + _NEWEST * (newest - before))

    def _note(self, name: str) -> None:
        """Remember which rows this host has trained since it last looked."""
        changed = self._watch.changed(name)
        for level in self.levels:
            level.trained[name][changed] = True
        self._moved[name][changed] = True
        self._watch.look(name, changed)

    def _draw(self, level: Level, name: str, share: float) -> None:
        """Move rows towards the leader's; what is seen moves along, so only what is trained counts as changed."""
        for table in (self.tables[name], self._watch.seen[name]):
            level.draw(name, share, table)
        self._moved[name][level.given[name][0]] = True
