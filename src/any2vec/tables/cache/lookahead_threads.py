"""What runs behind a trainer with a cache of rows: one thread plans and fetches, one steps rows, one writes back.

Legend: K slots of the cache, C columns of a row, E rows that leave.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator

import numpy as np

from any2vec.background import Background
from any2vec.cluster.transport import Transport, control
from any2vec.errors import HostError
from any2vec.kernels.rows.rows import gather_rows, scatter_rows
from any2vec.plan.lookahead.exact import Clean, StepPlan
from any2vec.plan.lookahead.moves import SHARED
from any2vec.plan.sharding.sharding import owner_at
from any2vec.tables.server.client import RowClient

ACK = "ack"
_PIECE = 1 << 18
"""bytes that are written back at once: what trainers wait for then finds the line free soon"""


class WriteBackThread(Background):
    """Writes rows of the cache back, and acknowledges to the other trainers that servers have them.

    Of the rows of which all have the same copy each trainer writes its own share: those of its own block, where the
    owner is a trainer, for they need not travel; else every N-th.

    Args:
        client: for this thread alone.
        mark_K: int64 (K,): 1 + the row that stands changed in a slot, 0 where none does.
    """

    def __init__(self, client: RowClient, name: str, cache_KC: np.ndarray, mark_K: np.ndarray, trainers: int) -> None:
        super().__init__([(f"write-back-{client.transport.rank}", self._work)], 2 * client.transport.patience)
        self.transport: Transport = client.transport
        self.trainers = trainers
        self.written = 0
        """rows"""
        self._client = client
        self._name = name
        self._cache = cache_KC
        self._mark = mark_K
        self._orders: deque[tuple[np.ndarray, np.ndarray, int]] = deque()
        """to be carried out, that at hand among them"""
        self._held: deque[tuple[np.ndarray, np.ndarray, int]] = deque()
        """orders until the line is free for them"""
        self._begun = self._cleans = 0
        """cleans that this trainer has begun, and carried out"""
        self._received = dict.fromkeys((peer for peer in range(trainers) if peer != self.transport.rank), 0)
        """cleans that each other trainer says it has carried out"""

    def clean(self, clean: Clean) -> None:
        """Let this trainer's share of a clean be written from `go_on` on: its rows are not changed any more."""
        is_changed = self._mark[clean.slot_E] != 0  # what a flush has written need not be written again
        is_in = is_changed & self.is_writer(clean)
        self._mark[clean.slot_E] = 0
        self._begun = clean.number + 1
        self._held.append((clean.row_E[is_in], clean.slot_E[is_in], clean.number))

    def go_on(self) -> None:
        """Begin to write what cleans have left: the line is free, for trainers compute."""
        while self._held:
            self._order(*self._held.popleft())

    def write(self, row_E: np.ndarray, slot_E: np.ndarray) -> None:
        """Write rows, int64 ascending, and all that was begun before; returns when the servers have them.

        Raises:
            HostError: a server is lost, or the training has ended.
        """
        self.go_on()
        self._order(row_E, slot_E, -1)
        self._await(lambda: not self._orders, self._stalled)

    def is_writer(self, clean: Clean) -> np.ndarray:
        """Which rows this trainer writes; bool (E,)."""
        return np.where(clean.sole_E == SHARED, self.writers(clean.row_E), clean.sole_E) == self.transport.rank

    def writers(self, row_E: np.ndarray) -> np.ndarray:
        """The trainers that write rows of which all have the same copy; int64 (E,)."""
        owner_E = owner_at(self._client.bounds, row_E)
        return np.where(owner_E < self.trainers, owner_E, row_E % self.trainers)

    def await_clean(self, number: int) -> None:
        """Wait until every trainer has carried out clean `number`, and all before it. For one thread.

        Raises:
            HostError: a trainer or a server is lost, or the training has ended.
        """
        self._await(lambda: self._cleans > number, self._stalled)
        if self._is_over:
            raise self._stalled()
        for peer in self._received:
            while self._received[peer] <= number:
                done = self.transport.recv(peer, ACK, ACK).parts[0].array
                self._received[peer] = int(done[0]) + 1

    def on_work(self) -> None:
        """Wait until every trainer has acknowledged all cleans, so that the next user of the transport finds none of
        these messages.

        Raises:
            HostError: as `await_clean`.
        """
        self.await_clean(self._begun - 1)

    def _stalled(self) -> HostError:
        if self._is_over:
            return HostError(f"Rank {self.transport.rank} has ended its training.")
        return HostError(f"Rank {self.transport.rank} has waited too long for rows to be written back.")

    def _order(self, row_E: np.ndarray, slot_E: np.ndarray, number: int) -> None:
        with self._condition:
            self._orders.append((row_E, slot_E, number))
            self._condition.notify_all()

    def _work(self) -> None:
        while self._awaits_work(lambda: bool(self._orders)):
            try:
                self._carry_out(*self._orders[0])
            except Exception as error:
                raise HostError(f"Rank {self.transport.rank} could not write rows back: {error}") from error
            with self._condition:
                self._orders.popleft()
                self._progress()

    def _carry_out(self, row_E: np.ndarray, slot_E: np.ndarray, number: int) -> None:
        step = max(1, _PIECE // (4 * self._cache.shape[1]))
        for first in range(0, len(row_E), step):
            rows, slots = row_E[first : first + step], slot_E[first : first + step]
            value_KC = np.empty((len(rows), self._cache.shape[1]), np.float32)
            gather_rows(self._cache, slots, value_KC)
            self._client.push(self._name, rows, value_KC, 0, is_delta=False)
            self._client.flush()
        if number >= 0:
            for peer in self._received:
                self.transport.send(peer, [control(number)], ACK, ACK)
            self._cleans = number + 1
        self.written += len(row_E)


class StepThread(Background):
    """Does one thing after another that the trainer need not wait for: it changes rows while dense layers travel.

    rank: of the trainer; patience: seconds, half of what it waits for one of them.
    """

    def __init__(self, rank: int, patience: float) -> None:
        super().__init__([(f"step-{rank}", self._work)], 2 * patience)
        self.waited = 0.0
        """seconds that the trainer has waited"""
        self._rank = rank
        self._orders: deque[Callable[[], None]] = deque()
        """to be done, that at hand among them"""

    def begin(self, order: Callable[[], None]) -> None:
        with self._condition:
            self._orders.append(order)
            self._condition.notify_all()

    def wait(self) -> None:
        """Return when all that was begun is done.

        Raises:
            Exception: what an order raised; none is begun behind it. HostError: it takes too long.
        """
        begun = time.monotonic()
        self._await(lambda: not self._orders, self._stalled)
        self.waited += time.monotonic() - begun

    def _stalled(self) -> HostError:
        return HostError(f"Rank {self._rank} has waited too long for the rows of a step to change.")

    def _work(self) -> None:
        while self._awaits_work(lambda: bool(self._orders)):
            self._orders[0]()
            with self._condition:
                self._orders.popleft()
                self._progress()


class Fetcher(Background):
    """Plans steps, and fetches their rows into the cache before the trainer comes to them.

    It plans another one when the trainer waits for others, for planning holds the GIL, which forward and backward would
    wait for; and it fetches when the trainer computes, for then the line is free.

    Args:
        client: for this thread alone.
        ahead: steps that may wait, fetched, for the trainer.
    """

    def __init__(
        self, client: RowClient, name: str, cache_KC: np.ndarray, plans: Iterator[StepPlan],
        write_back: WriteBackThread, ahead: int,
    ) -> None:  # fmt: skip
        super().__init__([(f"fetcher-{client.transport.rank}", self._work)], 2 * client.transport.patience)
        self.waited = 0.0
        """seconds that the trainer has waited for fetched rows"""
        self.fetched = 0
        """rows"""
        self._client = client
        self._name = name
        self._cache = cache_KC
        self._plans = plans
        self._write_back = write_back
        self._ready: deque[StepPlan] = deque()
        self._to_plan = self._to_fetch = ahead
        """steps"""

    def next(self) -> StepPlan:
        """The next step's plan, with its rows in the cache.

        Raises:
            InputError, HostError: what the thread found wrong; or it waits for others for too long.
        """
        begun = time.monotonic()
        if not self._ready:  # what went wrong ahead of the trainer comes behind what is ready
            self._await(lambda: bool(self._ready), self._stalled)
        self.waited += time.monotonic() - begun
        return self._ready.popleft()

    def plan_on(self) -> None:
        """Plan one step more."""
        with self._condition:
            self._to_plan += 1
            self._condition.notify_all()

    def fetch_on(self) -> None:
        """Fetch for one step more."""
        with self._condition:
            self._to_fetch += 1
            self._condition.notify_all()

    def _stalled(self) -> HostError:
        rank = self._client.transport.rank
        return HostError(f"Rank {rank} has waited {self._patience:g} s for the rows of a step.")

    def _work(self) -> None:
        while self._awaits_work(lambda: self._to_plan > 0):
            with self._condition:
                self._to_plan -= 1
            plan = next(self._plans, None)
            if plan is None or not self._awaits_work(lambda: self._to_fetch > 0):
                return
            with self._condition:
                self._to_fetch -= 1
            self._write_back.await_clean(plan.after_clean)
            if len(plan.fetch_row_K):
                row_KC = self._client.pull({self._name: plan.fetch_row_K})[self._name]
                scatter_rows(row_KC, plan.fetch_slot_K, self._cache)
                self.fetched += len(row_KC)
            with self._condition:
                self._ready.append(plan)
                self._progress()
