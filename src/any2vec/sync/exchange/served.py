"""Agreements by row servers: every host owns a block of the rows and serves it, and trains copies of what it needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from any2vec.cluster.codec import pack_rows, unpack_rows
from any2vec.cluster.transport import Transport
from any2vec.sync.drivers.rounds import Agreement
from any2vec.sync.exchange.pulled import Inspector, marks_of
from any2vec.sync.rules.block import Block
from any2vec.sync.rules.merges import Sum
from any2vec.sync.rules.residual import Residuals
from any2vec.tables.copying import gather_blocks, num_rows_of, stripes
from any2vec.tables.server.blocks.row_block import Added, RowBlock
from any2vec.tables.server.client import RowClient
from any2vec.tables.server.server import RowServer
from any2vec.types import Span, State, Work

SETTLE_EVERY = 16
"""trainers that do not wait for each other meet after so many rounds, and at the end of an epoch"""


class Served(Agreement, ABC):
    """The agreement of one host with row servers; what is pushed at the end of a round, and how, is a subclass's.

    A trainer's clock is its number of rounds in this run. No host waits for another at the end of a round; checkpoints
    and stops are possible where `settle_every` lets all meet, with no push under way.

    Args:
        tables: name -> float32 (V, D), trained in place; rows that no round asked for are stale.
        bound: staleness in rounds, as of `RowServer`; with 0, pushes of a round are summed in rank order.
        bits: of a number that travels; what 16 or 8 leave out of a push waits for the next push of the row.
    """

    def __init__(
        self,
        transport: Transport,
        tables: dict[str, np.ndarray],
        bits: int,
        inspector: Inspector,
        bound: int | None = None,
    ) -> None:
        self.transport = transport
        self.tables = tables
        self.bits = bits
        self.settle_every = 1 if bound == 0 else SETTLE_EVERY
        self.residuals = Residuals({name: table.shape for name, table in tables.items()} if bits < 32 else {})
        self.clock = 0
        self._inspector = inspector
        self._shardings = stripes(num_rows_of(tables), transport.hosts)
        mine = {name: table[self._shardings[name].ids(transport.rank)] for name, table in tables.items()}
        self._in_step = bound == 0
        self._blocks = {
            name: RowBlock(Block(rows, Sum()) if self._in_step else Added(rows), self._in_step)
            for name, rows in mine.items()
        }
        server = RowServer(transport, self._blocks, bound=bound, in_step=self._in_step)
        self.client = RowClient(server, next(iter(self._shardings.values())).bounds)
        self._needed: dict[str, np.ndarray] = {}
        """rows that the round reads, by name"""
        self._places: dict[str, np.ndarray] = {}
        """where they stand in the dealt order, by which servers know them, ascending"""
        self._start: dict[str, np.ndarray] = {}
        """the values that they had when they were pulled"""
        server.start()

    def begin_round(self, work: Work[Span]) -> None:
        """Find out which rows the round needs, and pull them."""
        marks = marks_of(self._inspector, num_rows_of(self.tables), work.epoch, work.round)
        self._places = {name: self._shardings[name].marked(mark) for name, mark in marks.items()}
        self._needed = {name: self._shardings[name].rows(places) for name, places in self._places.items()}
        self._start = self.client.pull(self._places, self.clock, self.bits)
        for name, ids in self._needed.items():
            self.tables[name][ids] = self._start[name]

    def end_round(self) -> None:
        """Push what the round made of its rows; nobody is waited for."""
        self._push_round()
        self.client.tick(self.clock)
        self.clock += 1

    def gather_result(self) -> dict[str, np.ndarray] | None:
        """The rows of all servers, at rank 0, with every push in them."""
        self.client.flush()
        self.transport.barrier("drain")
        blocks = {name: block.copy() for name, block in self._blocks.items()}
        tables = gather_blocks(self.transport, blocks, self._shardings)
        self.transport.barrier("drain")  # before it, no host may push again
        return tables

    def state_dict(self) -> State:
        """What rounding has left out."""
        return self.residuals.state_dict()

    def load_state_dict(self, states: Sequence[State]) -> None:
        """Take up what rounding left out of a former run."""
        self.residuals.load_state_dict(states, self.transport.rank, self.transport.hosts)

    def metrics(self) -> dict[str, dict[str, int]]:
        """Histograms of this host's server, as `RowServer.metrics`."""
        return self.client.server.metrics()

    def close(self, error: BaseException | None = None) -> None:
        """End the server, once all hosts have come here."""
        self.client.close(error)

    @abstractmethod
    def _push_round(self) -> None:
        """Push every table's rows of the round."""

    def _push_change(self, name: str, change_KD: np.ndarray) -> None:
        """Push changes of the rows of the round, rounded, with what rounding owed; rows without a change stay here."""
        ids = self._needed[name]
        if self.bits < 32:
            change_KD = self.residuals.outgoing(name, ids, change_KD)
        is_changed = change_KD.any(axis=1)
        ids, places, change_KD = ids[is_changed], self._places[name][is_changed], change_KD[is_changed]
        if self.bits < 32:
            change_KD = unpack_rows(pack_rows(change_KD, self.bits))
            self.residuals.sent(name, ids, change_KD)
        self.client.push(name, places, change_KD, self.clock, True, self.bits)


class ParameterServer(Served):
    """`server:async` (bound None) and `server:bounded:S` (stale synchronous parallel, Ho et al. 2013).

    Bound 0 is bulk-synchronous: the pushes of a round take effect together, added up in rank order, which gives the
    same bits as the merge rule "sum". Otherwise changes are added as they come. Arguments as `Served`.
    """

    def _push_round(self) -> None:
        for name, ids in self._needed.items():
            now = self.tables[name][ids]
            if self._in_step and self.bits == 32:  # start + (now - start) is not now in floating point
                self.client.push(name, self._places[name], now, self.clock, is_delta=False)
            else:
                self._push_change(name, now - self._start[name])


class AveragingServer(Served):
    """`server-mean`: at the end of a round a host fetches its rows again and pushes (mine - server now) / hosts.

    Each push moves the server 1 / hosts of the way to this host's values, and so undoes as much of what others pushed
    meanwhile: the rule of Microsoft's DMTK word embedding, as GraphAny2Vec (IPDPS 2021) measured it. Arguments as
    `Served`, without a bound.
    """

    def _push_round(self) -> None:
        now = self.client.pull(self._places, bits=self.bits)
        share = np.float32(1 / self.transport.hosts)
        for name, ids in self._needed.items():
            self._push_change(name, (self.tables[name][ids] - now[name]) * share)
