"""The rows that one trainer keeps near: what it had from the owners, and what it has changed since.

A cached row is base + pending: the base is what the owner had, or has made of our pushes, and pending are the changes,
values and optimizer state, that no owner has. So a worker reads at once what it has written, a refreshed base keeps
the pending changes, and with bound 0 a row has, to the last bit, what its owner has.

One cache serves all worker threads of a trainer: a row is fetched once for all of them, and their changes of it leave
as one. The lock is held while a message is put together and while an answer is put away, never while one is on its
way. A row is in one message of the trainer at most: whoever needs a row that another one's message is about waits for
that answer, and reads it; so with several workers a message asks about the rows whose changes it carries, too.

Source: HET (Miao et al. 2022, PVLDB 15(2), and its released code in Hetu): versions, pull bound, push bound, changes
pushed on eviction, one message for pushes and pulls, a clean row dropped silently. Ours: base and pending apart, the
optimizer's state in the row, threads that share a cache, and a row of the batch at hand that cannot be evicted.

Legend: K slots, U rows of a batch, N pushes of a message, A requests, S rows sent, C columns, W values.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from any2vec.checks import check_whole
from any2vec.errors import HostError, InputError
from any2vec.kernels.cache.cached_rows import add_changes, read_cached, take_pending
from any2vec.plan.lookahead.oracle import NextUseOracle
from any2vec.tables.registry import FRESHNESS
from any2vec.tables.residency.residency import Residency
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.server.versioned_message import FRESH, UNKNOWN

MOST_BOUND = 1 << 40
_NO_SLOTS = np.empty(0, np.int64)


@dataclass
class BatchExchange:
    """What one worker sends for one batch; ids are global, ascending."""

    number: int
    slot_U: np.ndarray
    """int64: where the batch's rows stand; -1: the row passes by"""
    push_N: np.ndarray
    updates_N: np.ndarray
    change_NC: np.ndarray
    ask_A: np.ndarray
    """of the batch all but those that another worker's message is about, or that are young enough"""
    known_A: np.ndarray
    slot_A: np.ndarray
    """int64: where they stand; -1: the row passes by"""
    place_A: np.ndarray
    """int64: which of the batch's rows they are; -1: none, but other workers may need it while its changes travel"""
    due: np.ndarray
    """slots whose changes are under way"""
    awaited: set[int]
    """messages of other workers that fetch rows of this batch"""
    id_U: np.ndarray
    made_U: np.ndarray
    """int64: updates that the batch makes in each row"""


class VersionedCache:
    """Thread-safe.

    What a read may miss: `pull_bound` updates that the owner had when it was asked, and of each other trainer with n
    workers n (push_bound + n) that the owner did not have: push_bound + 1 with one worker, the bound and the batch at
    hand. Of its own trainer's updates nothing with one worker; with more, those of rows that are not cached (any more)
    while another worker's message carries them, and until the next refresh. An update is what one batch changes in one
    row, however often the row stands in it, or each time that it stands there: that and smaller bounds for young rows
    are the freshness's to say.

    Args:
        capacity: rows kept, 0 or more; with 0 all rows pass by, which is no cache.
        optimizer: sgd or adagrad.
        pull_bound: a row is fetched again when more updates than these, by others, are not in it.
        push_bound: a row's changes are pushed when they hold more updates than these; 0 writes through, and what is
            left is a cache that tolerates old reads alone.
        policy: of `Residency`; kept: the rows that a static one holds, int64.
        fresh_rows: makes rows, float32 (N, C), of ids, int64 (N,), as the owners' blocks had them before anybody
            changed them; such rows are then not sent. None: they are.
        patience: seconds that a worker waits for another one's answer.
        others: trainers beside this one. Squares that they have probably added to an Adagrad row in the meantime, as
            many as this one has, are reckoned with: without them each would take the steps of a trainer that is alone,
            and the sum of all would be too long.
        freshness: name of a registered `Freshness`; the bounds are its own.
        oracle: of the batches of this trainer, for a policy that needs to know when rows are used next.

    Raises:
        InputError: an argument is not legal.
    """

    def __init__(
        self, capacity: int, optimizer: RowOptimizer, pull_bound: int, push_bound: int | None = None,
        policy: str = "tinylfu", fresh_rows: Callable[[np.ndarray], np.ndarray] | None = None,
        patience: float = 600.0, kept: np.ndarray | None = None, others: int = 0, oracle: NextUseOracle | None = None,
        freshness: str = "het",
    ) -> None:  # fmt: skip
        push_bound = pull_bound if push_bound is None else push_bound
        check_whole("pull_bound", pull_bound, 0, MOST_BOUND)
        check_whole("push_bound", push_bound, 0, MOST_BOUND)
        if optimizer.kind == "adam":
            raise InputError(
                "A het cache adds up what workers change in a row, and moments of adam do not add up; train with "
                "optimizer adagrad or sgd, or without the cache."
            )
        self.optimizer = optimizer
        self.freshness = FRESHNESS.named(freshness)(pull_bound, push_bound, capacity)
        self.fresh_rows = fresh_rows
        self.patience = patience
        self.others = others
        self.residency = Residency(capacity, policy, kept)
        self._oracle = oracle
        if self.residency.policy.needs_next_uses and oracle is None:
            raise InputError(
                f"Cache policy {policy} must know which rows the batches to come use, and here nothing looks ahead; "
                "choose another one, like lru."
            )
        self.base_KC = np.zeros((capacity, optimizer.num_columns), np.float32)
        self.pending_KC = np.zeros_like(self.base_KC)
        self.version_K = np.full(capacity, UNKNOWN, np.int64)
        """the owner's clock when it sent the row, and our updates that it has been sent since"""
        self.updates_K = np.zeros(capacity, np.int64)
        """updates in pending"""
        self.counts: Counter[str] = Counter()
        self._flight_K = np.zeros(capacity, np.int64)
        """number of the message that the slot is in; 0: none"""
        self._under_way: set[int] = set()
        self._numbers = itertools.count(1)
        self._due: list[np.ndarray] = []
        """slots whose changes may be more than the bound"""
        self._loose: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        """(ids, updates, changes) of rows that are not cached (any more), to be pushed"""
        self._workers = 0
        self._error: Exception | None = None
        self._changed = threading.Condition()

    def begin(self, id_U: np.ndarray) -> BatchExchange:
        """What to send before the rows id_U (int64, ascending, none twice) are read; they stay until `change`."""
        with self._changed:
            self._check()
            ahead = self._oracle
            next_U = None if ahead is None else ahead.next_uses(id_U, self.residency.expect)
            placed = self.residency.place(id_U, next_U)
            self._evict(placed.gone_slot_E, placed.gone_id_E)
            new = placed.slot_U[placed.is_new_U]
            self.version_K[new] = UNKNOWN
            is_cached_U = placed.slot_U >= 0
            other_U = np.where(is_cached_U, self._flight_K[placed.slot_U], 0) if self.capacity else np.zeros_like(id_U)
            is_stale_U = ~is_cached_U | placed.is_new_U
            is_stale_U[is_cached_U] |= self.freshness.stale(placed.slot_U[is_cached_U])
            exchange = self._compose(placed.slot_U, id_U, (other_U == 0) & is_stale_U, self._take_due())
            self.freshness.asked(exchange.slot_A[exchange.slot_A >= 0])
            exchange.awaited = set(other_U[other_U > 0].tolist())
            return exchange

    def begin_flush(self, first: int, stop: int) -> BatchExchange:
        """What to send to bring the changes of slots first to stop - 1, and all loose ones, to the rows' owners.

        What another worker's message is about stays with that worker; `end` returns when that has landed, too.
        """
        with self._changed:
            self._check()
            due = first + np.flatnonzero((self.updates_K[first:stop] > 0) & (self._flight_K[first:stop] == 0))
            awaited = set(self._under_way)
            exchange = self._compose(_NO_SLOTS, _NO_SLOTS, np.empty(0, bool), due)
            exchange.awaited = awaited
            return exchange

    def end(
        self, exchange: BatchExchange, is_sent_A: np.ndarray, version_S: np.ndarray, row_SC: np.ndarray
    ) -> np.ndarray:
        """Put away what the owners sent, for all requests in their order; the batch's rows, float32 (U, C)."""
        is_made_A = (exchange.known_A == UNKNOWN) & ~is_sent_A
        row_AC = np.empty((len(is_sent_A), self.optimizer.num_columns), np.float32)
        row_AC[is_sent_A] = row_SC
        if self.fresh_rows is not None and is_made_A.any():
            row_AC[is_made_A] = self.fresh_rows(exchange.ask_A[is_made_A])
        version_A = np.full(len(is_sent_A), FRESH, np.int64)
        version_A[is_sent_A] = version_S
        with self._changed:
            is_read_A = exchange.place_A >= 0
            row_UC = np.empty((len(exchange.slot_U), self.optimizer.num_columns), np.float32)
            row_UC[exchange.place_A[is_read_A]] = row_AC[is_read_A]  # those that pass by stay so
            is_new_A = (is_sent_A | is_made_A) & (exchange.slot_A >= 0)
            slots = exchange.slot_A[is_new_A]
            self.base_KC[slots] = row_AC[is_new_A]
            self.version_K[slots] = version_A[is_new_A]
            self._land(exchange)
            self.counts["hits"] += int((is_read_A & ~is_sent_A & ~is_made_A).sum())
            self.counts["refreshes"] += int((is_read_A & is_sent_A & (exchange.known_A != UNKNOWN)).sum())
            self.counts["fresh"] += int(is_made_A.sum())
            self._wait(lambda: not self._under_way & exchange.awaited)
            read_cached(self.base_KC, self.pending_KC, exchange.slot_U, self.optimizer.width, row_UC)
        return row_UC

    def change(self, exchange: BatchExchange, change_UC: np.ndarray) -> None:
        """The worker has changed its batch's rows by so much, float32 (U, C), and lets go of them."""
        with self._changed:
            is_cached_U = exchange.slot_U >= 0
            slots = exchange.slot_U[is_cached_U]
            self.freshness.changed(slots[self.updates_K[slots] == 0])
            add_changes(self.pending_KC, slots, change_UC[is_cached_U], 0)
            self.updates_K[slots] += exchange.made_U[is_cached_U]
            self._due.append(slots[self._is_due(slots)])
            if not is_cached_U.all():
                loose = change_UC[~is_cached_U]
                self._loose.append((exchange.id_U[~is_cached_U], exchange.made_U[~is_cached_U], loose))
            self.residency.release(slots)

    def unheard(self, exchange: BatchExchange) -> np.ndarray:
        """Squares that the other trainers have probably added to the batch's rows since they last met, float32 (U,)."""
        with self._changed:
            own_U = self.pending_KC[exchange.slot_U, self.optimizer.width] if self.capacity else np.zeros(1, np.float32)
            return np.where(exchange.slot_U >= 0, self.others * own_U, 0).astype(np.float32)

    def let_go(self, exchange: BatchExchange) -> None:
        """The batch's rows were read, and are not changed."""
        with self._changed:
            self.residency.release(exchange.slot_U[exchange.slot_U >= 0])

    def join(self) -> None:
        """A worker is going to use the cache."""
        with self._changed:
            self._workers += 1

    def leave(self) -> bool:
        """A worker has ended; whether it was the last."""
        with self._changed:
            self._workers -= 1
            return self._workers == 0

    def fail(self, error: Exception) -> None:
        """A message could not be sent or answered: nobody waits for it, and nothing goes on."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def count(self, **numbers: int) -> None:
        """Add to what is counted."""
        with self._changed:
            self.counts.update(numbers)

    @property
    def capacity(self) -> int:
        return self.residency.capacity

    def _compose(self, slot_U: np.ndarray, id_U: np.ndarray, is_asked_U: np.ndarray, due: np.ndarray) -> BatchExchange:
        """Put a message together, and mark the slots that are in it."""
        updates_D, change_DC = self.updates_K[due], np.empty((len(due), self.optimizer.num_columns), np.float32)
        take_pending(self.base_KC, self.pending_KC, due, self.optimizer.width, change_DC)
        self.version_K[due] += updates_D
        self.updates_K[due] = 0
        push_N, updates_N, change_NC = self._take_loose((self.residency.owner_K[due], updates_D, change_DC))
        place_A = np.flatnonzero(is_asked_U)
        if self._workers > 1:
            also = np.setdiff1d(due, slot_U[place_A])
            slot_A = np.concatenate([slot_U[place_A], also])
            place_A = np.concatenate([place_A, np.full(len(also), -1)])
            ask_A = np.concatenate([id_U[is_asked_U], self.residency.owner_K[also]])
            order = np.argsort(ask_A)
            slot_A, place_A, ask_A = slot_A[order], place_A[order], ask_A[order]
        else:
            slot_A, ask_A = slot_U[place_A], id_U[place_A]
        is_cached_A = slot_A >= 0
        known_A = np.full(len(ask_A), UNKNOWN, np.int64)
        known_A[is_cached_A] = self.version_K[slot_A[is_cached_A]]
        number = next(self._numbers)
        self.residency.hold(due)
        self._flight_K[due] = self._flight_K[slot_A[is_cached_A]] = number
        self._under_way.add(number)
        self.counts["pushes"] += len(push_N)
        self.counts["updates"] += int(updates_N.sum())
        self.counts["shared"] += len(slot_U) - int(is_asked_U.sum())
        self.counts["passed"] += int((~is_cached_A).sum())
        self.counts["misses"] += int((known_A[is_cached_A] == UNKNOWN).sum())
        return BatchExchange(
            number, slot_U, push_N, updates_N, change_NC, ask_A, known_A, slot_A, place_A, due, set(), id_U,
            np.ones(len(id_U), np.int64),
        )  # fmt: skip

    def _evict(self, slots: np.ndarray, ids: np.ndarray) -> None:
        """Rows gave way: changes that nobody has been sent are pushed with the next message."""
        updates_E = self.updates_K[slots]
        is_dirty_E = updates_E > 0
        dirty = slots[is_dirty_E]
        if len(dirty):
            self._loose.append((ids[is_dirty_E], updates_E[is_dirty_E], self.pending_KC[dirty]))
        self.pending_KC[dirty] = 0
        self.updates_K[dirty] = 0
        self.counts["evictions"] += len(slots)
        self.counts["dirty_evictions"] += len(dirty)

    def _take_due(self) -> np.ndarray:
        """Slots with more changes than the bound that are in no message; those that are stay due."""
        due = np.unique(np.concatenate([self.freshness.aged(), *self._due]))
        due = due[self._is_due(due)]
        is_busy = self._flight_K[due] > 0
        self._due = [due[is_busy]] if is_busy.any() else []
        return due[~is_busy]

    def _is_due(self, slots: np.ndarray) -> np.ndarray:
        return self.freshness.must_push(slots, self.updates_K[slots], self.version_K[slots])

    def _take_loose(self, due: tuple[np.ndarray, np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(ids ascending, updates, changes) of all that is to be pushed."""
        pieces = [due, *self._loose]
        self._loose = []
        id_N, updates_N, change_NC = (np.concatenate([piece[at] for piece in pieces]) for at in range(3))
        order = np.argsort(id_N, kind="stable")
        return id_N[order], updates_N[order], change_NC[order]

    def _land(self, exchange: BatchExchange) -> None:
        """A message has been answered."""
        self._flight_K[exchange.slot_A[exchange.slot_A >= 0]] = 0
        self._flight_K[exchange.due] = 0
        self.residency.release(exchange.due)
        self._under_way.discard(exchange.number)
        self._changed.notify_all()

    def _wait(self, is_so: Callable[[], bool]) -> None:
        if not self._changed.wait_for(lambda: self._error is not None or is_so(), self.patience):
            raise HostError(f"A worker waited {self.patience:g} s for rows that another worker of its host asked for.")
        self._check()

    def _check(self) -> None:
        if self._error is not None:
            raise HostError(f"Another worker of this host could not reach the rows: {self._error}")
