"""Elastic averaging (EASGD; Zhang, Choromanska, LeCun 2015, equations 5 and 6): hosts and a center pull at each other.

At the end of a round every host i with rows x_i, and the center c, which the owners of rows hold, become

    x_i - (beta / N) (x_i - c)      and      c + (beta / N) sum over hosts of (x_i - c),

both from the values before. What goes off a host goes onto the center, in 16 or 8 bits too, so c + sum of x_i stays.
Rows that no host has changed yet are the same everywhere, and nothing would move: they do not travel. The result is
the center. It is the baseline of leader SGD (Teng et al. 2019), with its beta.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from any2vec.cluster.codec import pack_ids, pack_rows, rows_parts, unpack_ids, unpack_rows
from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.plan.sharding.sharding import Contiguous
from any2vec.sync.base.members import Watch, to_float32
from any2vec.sync.base.states import bits_of, bound_of
from any2vec.sync.drivers.rounds import Agreement
from any2vec.sync.options.names import Elastic
from any2vec.tables.copying import gather_blocks
from any2vec.types import State


class ElasticAveraging(Agreement):
    """The agreement of one host.

    Args:
        tables: name -> float32 (V, D), trained in place; the same values on every host at the start: the center.
        bits: of a number on its way to the center; the center's own rows travel as they are.
    """

    def __init__(self, transport: Transport, tables: dict[str, np.ndarray], how: Elastic, bits: int) -> None:
        self.transport = transport
        self.tables = tables
        self.bits = bits
        self._pull = np.float32(how.beta / transport.hosts)
        self._sharding = {name: Contiguous(len(table), transport.hosts) for name, table in tables.items()}
        self._watch = Watch(tables)
        self._alive = {name: np.zeros(len(table), bool) for name, table in tables.items()}
        """rows that any host has ever changed; all hosts know the same"""
        self.center = {name: table[slice(*self._own(name))].copy() for name, table in tables.items()}
        """this host's block of the center, float32 (B, D)"""

    def end_round(self) -> None:
        """Pull and be pulled."""
        self._wake()
        self._push(self._fetch())

    def gather_result(self) -> dict[str, np.ndarray] | None:
        """The center, at rank 0."""
        return gather_blocks(self.transport, self.center, self._sharding)

    def state_dict(self) -> State:
        """This host's rows, and which rows are alive; the center is the result."""
        alive = {f"elastic.{name}.alive": alive for name, alive in self._alive.items()}
        return alive | {f"elastic.{name}": table for name, table in self.tables.items()}

    def load_state_dict(self, states: Sequence[State]) -> None:
        """Go on with the rows that this host had; on another number of hosts all go on from the center."""
        mine = states[self.transport.rank] if len(states) == self.transport.hosts else {}
        for name, table in self.tables.items():
            self.center[name][:] = table[slice(*self._own(name))]
            if f"elastic.{name}.alive" in mine:
                self._alive[name][:] = mine[f"elastic.{name}.alive"]
                table[:] = mine[f"elastic.{name}"]
        self._watch.look_again()

    def _own(self, name: str) -> tuple[int, int]:
        return self._sharding[name].block(self.transport.rank)

    def _wake(self) -> None:
        """Tell everyone which rows this host was the first to change."""
        parts = []
        for name, alive in self._alive.items():
            changed = self._watch.changed(name)
            parts.append(pack_ids(changed[~alive[changed]], len(alive)))
        everyone = dict.fromkeys(range(self.transport.hosts), parts)
        for said in (tuple(parts), *self.transport.exchange(everyone, "wake").values()):
            for part, alive in zip(said, self._alive.values(), strict=True):
                alive[unpack_ids(part, len(alive))] = True

    def _living(self, name: str, host: int) -> np.ndarray:
        """Rows of a host's block that are alive, as slots of it, int64 ascending."""
        low, high = self._sharding[name].block(host)
        return np.flatnonzero(self._alive[name][low:high])

    def _fetch(self) -> dict[int, tuple[Part, ...]]:
        """The living rows of the center, from all owners, by rank."""
        rank = self.transport.rank
        parts = [Part("rows", rows[self._living(name, rank)]) for name, rows in self.center.items()]
        everyone = dict.fromkeys(range(self.transport.hosts), parts)
        return self.transport.exchange(everyone, "pull") | {rank: tuple(parts)}

    def _push(self, fetched: dict[int, tuple[Part, ...]]) -> None:
        """Move this host's rows towards the center, and the center by as much."""
        hosts, rank = self.transport.hosts, self.transport.rank
        outgoing: dict[int, list[Part]] = {host: [] for host in range(hosts)}
        for index, (name, table) in enumerate(self.tables.items()):
            for host in range(hosts):
                ids = self._sharding[name].bounds[host] + self._living(name, host)
                packed = pack_rows(self._pull * (table[ids] - fetched[host][index].array), bits_of(name, self.bits))
                table[ids] -= unpack_rows(packed)
                outgoing[host] += packed
            self._watch.look(name, np.flatnonzero(self._alive[name]))
        own = outgoing.pop(rank)
        received = {peer: list(parts) for peer, parts in self.transport.exchange(outgoing, "push").items()}
        received[rank] = own
        for name, rows in self.center.items():
            slots = self._living(name, rank)
            total = rows[slots].astype(np.float64)
            for host in range(hosts):
                count = rows_parts(len(slots), bits_of(name, self.bits))
                total += unpack_rows(received[host][:count])
                del received[host][:count]
            rows[slots] = to_float32(total, bound_of(name))
