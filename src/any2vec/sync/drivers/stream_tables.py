"""Where the rows of a stream's tables are: on row servers that start them as words are born, dealt out like cards.

Legend: V rows of a table, D dim, K rows asked for, R rows of all hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from any2vec.checks import parse_json
from any2vec.cluster.codec import pack_state, unpack_state
from any2vec.cluster.message import Part
from any2vec.cluster.transport import LONG_WORK, Transport, text_of
from any2vec.plan.order.roles import StreamRoles
from any2vec.plan.sharding.sharding import Contiguous, Striped
from any2vec.sync.rules.block import Block
from any2vec.sync.rules.merge_rule import MergeRule
from any2vec.tables.server.blocks.growing_block import MEMORY, METRICS, RECALL, START, GrowingBlock
from any2vec.tables.server.blocks.row_block import Added
from any2vec.tables.server.client import RowClient
from any2vec.tables.server.request import ANY_TIME
from any2vec.tables.server.server import RowServer
from any2vec.types import Service, State

IN_FLIGHT = 16
"""pushes that a trainer may have under way: few, for a stream never pauses and what is under way is in memory"""
_READ_ROWS = 1 << 16
"""rows that are asked for at once where a whole table is read"""

StartValues = Callable[[np.ndarray], np.ndarray]
"""from rows, int64 (K,), to what they begin with, float32 (K, D)"""


class StreamTables(Service):
    """One host's way to the tables, and the server of what it owns of them. Every host makes one, in the same way.

    Args:
        start: name of a table -> the start values of its rows.
        shapes: name -> (V, D).
        fixed: tables whose rows are all there from the start; those of the others begin as words are born.
        bound: batches that a trainer may be ahead of the slowest; None: any number.
        rule: with bound 0: what the trainers of a round make of a row takes effect together, merged by it; None: what
            comes is added.
        patience: seconds that a trainer may be late; None: the transport's.
    """

    def __init__(
        self, transport: Transport, roles: StreamRoles, start: Mapping[str, StartValues],
        shapes: Mapping[str, tuple[int, int]], fixed: Collection[str], bound: int | None,
        rule: type[MergeRule] | None, patience: float | None = None,
    ) -> None:  # fmt: skip
        self.names = tuple(start)
        self.in_step = rule is not None
        owners = roles.row_owners
        self._shapes, self._fixed = dict(shapes), frozenset(fixed)
        self._shardings = {name: Striped(shapes[name][0], len(owners)) for name in start}
        self.bounds = {name: one.on_ranks(transport.hosts, owners.start) for name, one in self._shardings.items()}
        self._owners = {
            name: [host for host in owners if bounds[host] < bounds[host + 1]] for name, bounds in self.bounds.items()
        }
        self._remembers = rule is not None and rule.state_dict is not MergeRule.state_dict

        def block(name: str, values: StartValues) -> GrowingBlock:
            first, last = self.bounds[name][transport.rank : transport.rank + 2]

            def begun(slots: np.ndarray) -> np.ndarray:
                return values(self._shardings[name].rows(first + slots))

            rows = np.zeros((last - first, shapes[name][1]), np.float32)
            if name in self._fixed:
                rows = begun(np.arange(last - first))
            merges = None if rule is None else rule()
            merger = Added(rows) if merges is None else Block(rows, merges)
            return GrowingBlock(merger, self.in_step, begun, lambda: server.metrics(), merges)

        self.blocks = {name: block(name, values) for name, values in start.items()}
        server = RowServer(
            transport, self.blocks, bound=bound, in_step=self.in_step, trainers=roles.training, patience=patience
        )
        self.client = RowClient(server, next(iter(self.bounds.values())), IN_FLIGHT, bounds_of=self.bounds)
        server.start()

    def places(self, name: str, mark_V: np.ndarray) -> np.ndarray:
        """Where rows of a table with a mark, uint8 (V,), stand in the dealt order, int64 (K,) ascending."""
        return self._shardings[name].marked(mark_V)

    def rows(self, name: str, places: np.ndarray) -> np.ndarray:
        """The rows at places, int64 (K,)."""
        return self._shardings[name].rows(places)

    def begin(self, rows: np.ndarray, birth: int, clock: int = ANY_TIME) -> None:
        """Start rows, int64 (K,), afresh in all tables that are not fixed; returns when every owner has.

        Args:
            birth: number of the birth, from 1.
            clock: in step, the round before which it happens; waits for the rounds before.

        Raises:
            HostError: a trainer is too far behind for too long, or a server is lost.
        """
        for name in self.names:
            if name not in self._fixed:
                self._begin(name, self._sorted(name, rows)[0], birth, clock)

    def write(self, name: str, value_RD: np.ndarray) -> None:
        """Put float32 (R, D) in the place of the first R rows of a table."""
        places, order = self._sorted(name, np.arange(len(value_RD)))
        for at in range(0, len(places), _READ_ROWS):
            piece = slice(at, at + _READ_ROWS)
            self._begin(name, places[piece], 0, ANY_TIME, value_RD[order[piece]])

    def read(self, name: str, rows: np.ndarray) -> np.ndarray:
        """The values of rows, int64 (K,), none twice, as they are now: float32 (K, D)."""
        places, order = self._sorted(name, rows)
        value_KD = np.empty((len(rows), self._shapes[name][1]), np.float32)
        for at in range(0, len(places), _READ_ROWS):
            piece = slice(at, at + _READ_ROWS)
            value_KD[order[piece]] = self.client.pull({name: places[piece]})[name]
        return value_KD

    def state_dict(self) -> State:
        """What the owners' rules remember, by table and owner; nothing is asked of a rule without a memory.

        Raises:
            HostError: a server is lost.
        """
        found: State = {}
        for name in self.names if self._remembers else ():
            for host, parts in self.client.call(name, MEMORY, {host: [] for host in self._owners[name]}).items():
                found |= {self._memory(name, host) + key: array for key, array in unpack_state(parts).items()}
        return found

    def load_state_dict(self, state: State) -> None:
        """Let rules go on from that; where owners are more or fewer their rows are others, and rules begin anew."""
        for name in self.names if self._remembers else ():
            outgoing = {}
            for host in self._owners[name]:
                begin = self._memory(name, host)
                kept = {key.removeprefix(begin): array for key, array in state.items() if key.startswith(begin)}
                if kept:
                    outgoing[host] = pack_state(kept)
            self.client.call(name, RECALL, outgoing)

    def _memory(self, name: str, host: int) -> str:
        """How the names of the arrays begin that a block's rule remembers."""
        return f"{name}.rule.{self._owners[name].index(host)}/{len(self._owners[name])}."

    def close(self, error: BaseException | None = None) -> None:
        """This host asks for nothing more; returns when no host does.

        Raises:
            HostError: a host is lost.
        """
        self.client.close(error, timeout=LONG_WORK)

    def metrics(self) -> dict[str, Any]:
        """What the owners tell: "dropped", changes of rows that came after their rows had gone to other words;
        "updates" of rows; "staleness", how many batches of others took effect between a batch's pull and its push, by
        how many batches.

        Raises:
            HostError: a server is lost.
        """
        by_host = [
            parse_json(text_of(parts[0]))
            for name in self.names
            for parts in self.client.call(name, METRICS, {host: [] for host in self._owners[name]}).values()
        ]
        # Every batch ends at every owner: the first one's histogram has each once.
        counts = {name: sum(one[name] for one in by_host) for name in ("dropped", "updates")}
        return counts | {"staleness": by_host[0]["overtaken"]}

    def _begin(self, name: str, places: np.ndarray, birth: int, clock: int, value_KD: np.ndarray | None = None) -> None:
        """Start the rows at ascending places, with given values or their own."""
        outgoing = {}
        bounds = self.bounds[name]
        for host, cut in enumerate(Contiguous.of(bounds).cuts(places)):
            if cut.start < cut.stop:
                parts = [Part("ids", places[cut] - bounds[host]), Part("control", np.array([birth]))]
                if value_KD is not None:
                    parts.append(Part("rows", np.ascontiguousarray(value_KD[cut])))
                outgoing[host] = parts
        self.client.call(name, START, outgoing, clock)

    def _sorted(self, name: str, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(places of rows ascending, which of the rows stands at each)."""
        place_K = self._shardings[name].place(rows)
        order = np.argsort(place_K, kind="stable")
        return place_K[order], order
