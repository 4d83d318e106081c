"""What runs behind a trainer with a cache of rows: one thread plans and fetches, one steps rows, one writes back.

Legend: K slots of the cache, C columns of a row, E rows that leave.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np

from any2vec.cluster.transport import Transport, control
from any2vec.errors import HostError
from any2vec.kernels.rows import gather_rows, scatter_rows
from any2vec.plan.bagpipe_moves import SHARED
from any2vec.plan.cacher import Clean, StepPlan
from any2vec.tables.remote import RowClient

ACK = "ack"
_PIECE = 1 << 18
"""bytes that are written back at once: what trainers wait for then finds the line free soon"""


class Janitor:
    """Writes rows of the cache back, and tells the other trainers when their servers have them.

    Of the rows of which all have the same copy each trainer writes its own share: those of its own block, where the
    owner is a trainer, for they need not travel; else every N-th.

    Args:
        client: for this thread alone.
        mark_K: int64 (K,): 1 + the row that stands changed in a slot, 0 where none does.
    """

    def __init__(self, client: RowClient, name: str, cache_KC: np.ndarray, mark_K: np.ndarray, trainers: int) -> None:
        self.transport: Transport = client.transport
        self.trainers = trainers
        self.written = 0
        """rows"""
        self._client = client
        self._name = name
        self._cache = cache_KC
        self._mark = mark_K
        self._orders: queue.SimpleQueue[tuple[np.ndarray, np.ndarray, int] | None] = queue.SimpleQueue()
        self._held: queue.SimpleQueue[tuple[np.ndarray, np.ndarray, int]] = queue.SimpleQueue()
        """orders until the line is free for them"""
        self._changed = threading.Condition()
        self._given = self._done = 0
        """orders"""
        self._begun = self._cleans = 0
        """cleans that this trainer has begun, and carried out"""
        self._heard = dict.fromkeys((peer for peer in range(trainers) if peer != self.transport.rank), 0)
        """cleans that each other trainer says it has carried out"""
        self._error: Exception | None = None
        self._is_over = False
        self._thread = threading.Thread(target=self._work, name=f"janitor-{self.transport.rank}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def clean(self, clean: Clean) -> None:
        """Let this trainer's share of a clean be written from `go_on` on: its rows are not changed any more."""
        is_changed = self._mark[clean.slot_E] != 0  # what a flush has written need not be written again
        is_in = is_changed & self.is_writer(clean)
        self._mark[clean.slot_E] = 0
        self._begun = clean.number + 1
        self._held.put((clean.row_E[is_in], clean.slot_E[is_in], clean.number))

    def go_on(self) -> None:
        """Begin to write what cleans have left: the line is free, for trainers compute."""
        while not self._held.empty():
            self._order(*self._held.get())

    def write(self, row_E: np.ndarray, slot_E: np.ndarray) -> None:
        """Write rows, int64 ascending, and all that was begun before; returns when the servers have them.

        Raises:
            HostError: a server is lost.
        """
        self.go_on()
        self._order(row_E, slot_E, -1)
        with self._changed:
            if not self._changed.wait_for(self._is_idle, 2 * self.transport.patience):
                raise HostError(f"Rank {self.transport.rank} has waited too long for the rows that it writes back.")
        self.check()

    def is_writer(self, clean: Clean) -> np.ndarray:
        """Which rows this trainer writes; bool (E,)."""
        return np.where(clean.sole_E == SHARED, self.writers(clean.row_E), clean.sole_E) == self.transport.rank

    def writers(self, row_E: np.ndarray) -> np.ndarray:
        """The trainers that write rows of which all have the same copy; int64 (E,)."""
        owner_E = np.searchsorted(self._client.bounds, row_E, side="right") - 1
        return np.where(owner_E < self.trainers, owner_E, row_E % self.trainers)

    def await_clean(self, number: int) -> None:
        """Wait until every trainer has carried out clean `number`, and all before it. For one thread.

        Raises:
            HostError: a trainer or a server is lost.
        """
        with self._changed:
            is_told = self._changed.wait_for(
                lambda: self._cleans > number or self._error or self._is_over, 2 * self.transport.patience
            )
        self.check()
        if not is_told:
            raise HostError(f"Rank {self.transport.rank} has waited too long for rows to be written back.")
        if self._is_over:
            raise HostError(f"Rank {self.transport.rank} has ended its training.")
        for peer in self._heard:
            while self._heard[peer] <= number:
                told = self.transport.recv(peer, ACK, ACK).parts[0].array
                self._heard[peer] = int(told[0]) + 1

    def hear(self) -> None:
        """Wait until every trainer has told of all cleans, so that none of these messages is left for whoever uses the
        transport next.

        Raises:
            HostError: as `await_clean`.
        """
        self.await_clean(self._begun - 1)

    def end(self) -> None:
        """Let the thread end, and whoever waits for it."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        self._orders.put(None)

    def check(self) -> None:
        """Raise HostError if the thread has ended by an error."""
        if self._error is not None:
            raise HostError(f"Rank {self.transport.rank} could not write rows back: {self._error}")

    def _is_idle(self) -> bool:
        return self._done == self._given or self._error is not None

    def _order(self, row_E: np.ndarray, slot_E: np.ndarray, number: int) -> None:
        with self._changed:
            self._given += 1
        self._orders.put((row_E, slot_E, number))

    def _work(self) -> None:
        """The thread's own function."""
        try:
            while (order := self._orders.get()) is not None:
                self._carry_out(*order)
        except Exception as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _carry_out(self, row_E: np.ndarray, slot_E: np.ndarray, number: int) -> None:
        step = max(1, _PIECE // (4 * self._cache.shape[1]))
        for first in range(0, len(row_E), step):
            rows, slots = row_E[first : first + step], slot_E[first : first + step]
            value_KC = np.empty((len(rows), self._cache.shape[1]), np.float32)
            gather_rows(self._cache, slots, value_KC)
            self._client.push(self._name, rows, value_KC, 0, is_delta=False)
            self._client.drain()
        if number >= 0:
            for peer in self._heard:
                self.transport.send(peer, [control(number)], ACK, ACK)
        with self._changed:
            self.written += len(row_E)
            self._done += 1
            if number >= 0:
                self._cleans = number + 1
            self._changed.notify_all()


class Stepper:
    """Does one thing after another that the trainer need not wait for: it changes rows while dense layers travel.

    rank: of the trainer; patience: seconds, half of what it waits for one of them.
    """

    def __init__(self, rank: int, patience: float) -> None:
        self.waited = 0.0
        """seconds that the trainer has waited"""
        self._rank = rank
        self._patience = patience
        self._orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        """what came of each order"""
        self._open = 0
        self._thread = threading.Thread(target=self._work, name=f"stepper-{rank}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def begin(self, order: Callable[[], None]) -> None:
        self._open += 1
        self._orders.put(order)

    def wait(self) -> None:
        """Return when all that was begun is done.

        Raises:
            Exception: what an order raised; none is begun behind it. HostError: it takes too long.
        """
        begun = time.monotonic()
        while self._open:
            try:
                error = self._ended.get(timeout=2 * self._patience)
            except queue.Empty:
                raise HostError(f"Rank {self._rank} has waited too long for the rows of a step to change.") from None
            if error is not None:
                raise error
            self._open -= 1
        self.waited += time.monotonic() - begun

    def end(self) -> None:
        """Let the thread end."""
        self._orders.put(None)

    def _work(self) -> None:
        """The thread's own function."""
        while (order := self._orders.get()) is not None:
            try:
                order()
            except Exception as error:
                self._ended.put(error)
                return
            self._ended.put(None)


class Fetcher:
    """Plans steps, and fetches their rows into the cache before the trainer comes to them.

    It plans another one when the trainer waits for others, for planning holds the GIL, which forward and backward would
    wait for; and it fetches when the trainer computes, for then the line is free.

    Args:
        client: for this thread alone.
        ahead: steps that may wait, fetched, for the trainer.
    """

    def __init__(
        self, client: RowClient, name: str, cache_KC: np.ndarray, plans: Iterator[StepPlan], janitor: Janitor,
        ahead: int,
    ) -> None:  # fmt: skip
        self.waited = 0.0
        """seconds that the trainer has waited for fetched rows"""
        self.fetched = 0
        """rows"""
        self._client = client
        self._name = name
        self._cache = cache_KC
        self._plans = plans
        self._janitor = janitor
        self._ready: queue.SimpleQueue[StepPlan | Exception] = queue.SimpleQueue()
        self._allowed = threading.Semaphore(ahead)
        """steps to plan"""
        self._is_free = threading.Semaphore(ahead)
        """steps to fetch for"""
        self._is_over = False
        self._thread = threading.Thread(target=self._work, name=f"fetcher-{client.transport.rank}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def next(self) -> StepPlan:
        """The next step's plan, with its rows in the cache.

        Raises:
            InputError, HostError: what the thread found wrong; or it waits for others for too long.
        """
        begun = time.monotonic()
        patience = 2 * self._client.transport.patience
        try:
            found = self._ready.get(timeout=patience)
        except queue.Empty:
            raise HostError(
                f"Rank {self._client.transport.rank} has waited {patience:g} s for the rows of a step."
            ) from None
        self.waited += time.monotonic() - begun
        if isinstance(found, Exception):
            raise found
        return found

    def plan_on(self) -> None:
        """Plan one step more."""
        self._allowed.release()

    def fetch_on(self) -> None:
        """Fetch for one step more."""
        self._is_free.release()

    def end(self) -> None:
        """Let the thread end."""
        self._is_over = True
        self._allowed.release()
        self._is_free.release()

    def _work(self) -> None:
        """The thread's own function."""
        try:
            while self._allowed.acquire() and not self._is_over:
                plan = next(self._plans, None)
                if plan is None:
                    return
                self._is_free.acquire()
                if self._is_over:
                    return
                self._janitor.await_clean(plan.after_clean)
                if len(plan.fetch_row_K):
                    row_KC = self._client.pull({self._name: plan.fetch_row_K})[self._name]
                    scatter_rows(row_KC, plan.fetch_slot_K, self._cache)
                    self.fetched += len(row_KC)
                self._ready.put(plan)
        except Exception as error:
            self._ready.put(error)
