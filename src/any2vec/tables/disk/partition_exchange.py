"""Partitions on their way between hosts that train one table: straight from the disk of the host that had one last.

Who wants a partition asks for it when it has a block of memory free, so no host ever holds more than one that nobody
has asked for. Who had it gives it once it is on its disk for the last time in a round (plan/order/shared_walk.py):
often before the round ends, while both still train. A thread for each other host gives, one takes in what comes.

Every partition has one holder at a time: it is asked for by the number of the round for which it is wanted, given once
to whom the plan says, and what a host does not hold it does not train.

Legend: R rows of a partition, C columns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import NamedTuple

import numpy as np

from any2vec.cluster.message import Message, Part
from any2vec.cluster.transport import LONG_WORK, Transport, control, text_of, text_part
from any2vec.data.io.direct import aligned_rows
from any2vec.errors import Any2VecError, HostError
from any2vec.plan.order.buffer_walk import Turn
from any2vec.plan.order.shared_walk import SharedWalk
from any2vec.tables.disk.partition_buffer import PartitionBuffer
from any2vec.tables.disk.partition_store import PartitionStore

ASK, GIVE, TAKEN, FAILED, END = "ask", "partition", "taken", "failed", "end"
"""phases; the first three are channels, too"""
RESULT = -1
"""instead of a round: the partition is read for the result, and stays where it is"""


class Holding(NamedTuple):
    """A partition that a host has held."""

    part: int
    first: int
    """round"""
    stop: int
    """round for which it was given away, or behind the last one"""
    since: float
    """of this machine's monotonic clock"""
    until: float


class PartitionExchange:
    """One host's side. A context: where it ends well, all hosts end it together.

    Args:
        walk: this host's, from where the run goes on.
    """

    def __init__(self, transport: Transport, store: PartitionStore, walk: SharedWalk) -> None:
        self.transport, self.store, self.walk = transport, store, walk
        self.holdings: list[Holding] = []
        self._held: dict[int, tuple[int, float]] = {}
        """partition -> round since which it is held, and the moment"""
        self._buffer: PartitionBuffer | None = None
        self._own_RC = aligned_rows(store.largest(), store.columns)
        """what is being given"""
        self._giving = threading.Lock()
        self._condition = threading.Condition()
        self._come: Message | None = None
        self._error: BaseException | None = None
        self._is_over = False
        self._peers = [rank for rank in range(transport.hosts) if rank != transport.rank]
        self._threads = [
            threading.Thread(target=self._guarded, args=(work, *more), name=f"partition-{name}", daemon=True)
            for name, work, *more in [
                ("taker", self._take_in),
                *(("giver", self._give_all, peer) for peer in self._peers),
            ]
        ]

    def __enter__(self) -> PartitionExchange:
        now, number = time.monotonic(), self._round()
        for part in range(self.store.num_partitions):
            if self.store.has(part):
                self._held[part] = (number, now)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.stop()
            return
        for peer in self._peers:
            self.transport.send(peer, (), END, ASK)
            self.transport.send(peer, (), END, GIVE)
        for thread in self._threads:
            thread.join()
        self.check()

    def stop(self) -> None:
        """Nobody shall wait for a partition any more; threads end when the transport does."""
        with self._condition:
            self._is_over = True
            self._condition.notify_all()

    def check(self) -> None:
        """Raise what has ended a thread, if any."""
        if self._error is not None:
            raise self._error

    @contextmanager
    def serving(self, buffer: PartitionBuffer) -> Iterator[None]:
        """Give only what this buffer has let go of, while it lasts; it fetches what the walk says."""
        with self._condition:
            self._buffer = buffer
            self._condition.notify_all()
        try:
            yield
        except BaseException:
            self.stop()
            raise
        self._buffer = None

    def fetch(self, turn: Turn, part: int, row_RC: np.ndarray) -> bool:
        """Fill a block with a partition that another host had in the round before; False: this host has it.

        Raises:
            HostError: the other host is lost, or cannot read it; or the run has ended.
        """
        rounds, number, rank = self.walk.rounds, turn.round, self.transport.rank
        first = self._held.get(part)
        if number == 0 or rounds.owner(number - 1, part) == rank or (first is not None and first[0] == number):
            return False
        self._ask(rounds.owner(number - 1, part), part, number, row_RC)
        self._held[part] = (number, time.monotonic())
        return True

    def read(self, owner: int, part: int, row_RC: np.ndarray) -> None:
        """Read a partition that another host keeps, for the result; as `fetch`."""
        self._ask(owner, part, RESULT, row_RC)

    def check_held(self, turn: Turn) -> None:
        """Raise HostError where a turn would train a partition that this host does not hold."""
        for part, _ in turn.held:
            if part not in self._held:
                raise HostError(
                    f"Rank {self.transport.rank} would train partition {part} in round {turn.round} and does not hold "
                    "it; this is a fault of any2vec."
                )

    def drop_given(self, number: int) -> None:
        """All hosts have ended a round: what was given away for it is needed no more."""
        for part in self.walk.rounds.given(number, self.transport.rank):
            if self.walk.rounds.owner(number, part) != self.transport.rank:
                self.store.drop(part)

    def ended(self) -> list[Holding]:
        """What this host has held, up to now."""
        now, stop = time.monotonic(), self.walk.rounds.number
        last = [Holding(part, first, stop, since, now) for part, (first, since) in self._held.items()]
        return sorted([*self.holdings, *last])

    def _round(self) -> int:
        return self.walk.round_after.get(self.walk.start, 0)

    def _ask(self, owner: int, part: int, number: int, row_RC: np.ndarray) -> None:
        self.transport.send(owner, [control(part, number)], ASK, ASK)
        with self._condition:
            self._condition.wait_for(lambda: self._come is not None or self._is_over or self._error is not None)
            come, self._come = self._come, None
        self.check()
        if come is None:
            raise HostError(f"The run of rank {self.transport.rank} has ended.")
        if come.phase == FAILED:
            raise HostError(f"Rank {owner} cannot give partition {part}: {text_of(come.parts[0])}")
        given_RC = come.parts[0].array
        if come.sender != owner or given_RC.shape != (self.store.rows_of(part), self.store.columns):
            raise HostError(
                f"Rank {come.sender} sent {given_RC.shape} numbers where rank {self.transport.rank} wanted partition "
                f"{part} of rank {owner}: the hosts do not run the same job."
            )
        row_RC[: len(given_RC)] = given_RC
        self.transport.send(owner, (), TAKEN, TAKEN)

    def _take_in(self) -> None:
        """The thread that takes in what other hosts give."""
        left = len(self._peers)
        while left:
            message = self.transport.recv(None, None, GIVE, timeout=LONG_WORK)
            if message.phase == END:
                left -= 1
                continue
            with self._condition:
                self._come = message
                self._condition.notify_all()

    def _give_all(self, peer: int) -> None:
        """The thread that gives to one host."""
        while True:
            message = self.transport.recv(peer, None, ASK, timeout=LONG_WORK)
            if message.phase == END:
                return
            part, number = (int(value) for value in message.parts[0].array)
            try:
                self._give(peer, part, number)
            except Any2VecError as error:
                with suppress(HostError):  # the other one is lost
                    self.transport.send(peer, [text_part(str(error))], FAILED, GIVE)
                raise

    def _give(self, peer: int, part: int, number: int) -> None:
        if number != RESULT and not self._is_free(peer, part, number):
            return  # this run has ended by an error, which is sent to the other one
        with self._giving:
            self.store.read(part, self._own_RC)
            if number != RESULT:
                first, since = self._held.pop(part)
                self.holdings.append(Holding(part, first, number, since, time.monotonic()))
            self.transport.send(peer, [Part("rows", self._own_RC[: self.store.rows_of(part)])], GIVE, GIVE)
            self.transport.recv(peer, TAKEN, TAKEN, timeout=LONG_WORK)

    def _is_free(self, peer: int, part: int, number: int) -> bool:
        """Wait until this host needs a partition no longer."""
        rounds, rank = self.walk.rounds, self.transport.rank
        if rounds.owner(number, part) != peer or rounds.owner(number - 1, part) != rank:
            raise HostError(
                f"Rank {peer} asks rank {rank} for partition {part} in round {number}, which is not its own: the hosts "
                "do not run the same job."
            )
        use = self.walk.last_use(number - 1, part)
        with self._condition:
            self._condition.wait_for(lambda: self._buffer is not None or self._is_over)
            buffer = self._buffer
        return buffer is not None and buffer.await_rest(part, use.epoch, use.state)

    def _guarded(self, work: Callable[..., None], *arguments: int) -> None:
        """A thread's own function."""
        try:
            work(*arguments)
        except BaseException as error:
            with self._condition:
                self._error = self._error or error
                self._condition.notify_all()


class AllPartitions:
    """All partitions of a table, for one host that reads them: its own from its disk, others from those who keep them.

    It stands for a `PartitionStore` that is read.
    """

    def __init__(self, exchange: PartitionExchange) -> None:
        store = exchange.store
        self._exchange, self._store = exchange, store
        self.bounds, self.columns, self.num_partitions = store.bounds, store.columns, store.num_partitions

    def largest(self) -> int:
        """R of the largest partition."""
        return self._store.largest()

    def read(self, number: int, row_RC: np.ndarray) -> None:
        """Read a partition into an array that `aligned_rows` made; as `PartitionStore.read` and `PartitionExchange`."""
        rounds = self._exchange.walk.rounds
        owner = rounds.owner(rounds.number - 1, number)
        if owner == self._exchange.transport.rank:
            self._store.read(number, row_RC)
        else:
            self._exchange.read(owner, number, row_RC)
