"""The oracle cacher: from the batches that come, what each trainer's cache of rows does in each step. Pure.

All trainers hold the same copy of a row from the step that fetches it to the last one within L steps that uses it, and
then it is written back. Each trainer plans for itself; from the same batches all come to plans that fit together.

Agarwal et al. 2023, "Bagpipe: accelerating deep recommendation model training" (SOSP), sections 3.2-3.5. Slots, classes
by trainer instead of by example, and which rows give way when the cache is full are ours.

Legend: G distinct rows of a step, of all trainers; U those of this trainer's batch; K, J, E some of them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from any2vec.checks import check_number, check_whole
from any2vec.errors import InputError
from any2vec.kernels.grouping import cut_groups, sort_positions
from any2vec.plan.lookahead import NONE, UseWindow, check_rows

CLEAN_SHARE = 0.02
"""the paper's is 0.25; with less, rows wait for a shorter time and what is written back travels in smaller bursts"""
SHARED = -1
"""instead of a trainer: rows of which all have the same copy"""


@dataclass(frozen=True)
class Exchange:
    """Rows of a step whose gradients travel together."""

    row_K: np.ndarray
    """int64, ascending"""
    slot_K: np.ndarray
    """int64: where they stand in the cache"""
    own_J: np.ndarray
    """int64: which of this trainer's U rows are among them"""
    place_TJ: tuple[np.ndarray, ...]
    """by trainer, int64: which of the K rows it has gradients of, ascending; so no ids need travel"""


@dataclass(frozen=True)
class Clean:
    """Rows that leave the cache: whoever must write them back does, and all others wait for that."""

    number: int
    """0, 1, ...; the same for all trainers"""
    row_E: np.ndarray
    """int64, ascending"""
    slot_E: np.ndarray
    sole_E: np.ndarray
    """int64: the trainer that alone has changed the row, or SHARED"""


@dataclass(frozen=True)
class StepPlan:
    """One step of one trainer."""

    step: int
    row_U: np.ndarray
    """int64, ascending: the rows of its batch"""
    slot_U: np.ndarray
    """int64: where they stand"""
    until_U: np.ndarray
    """int64: the step up to which each stays, the next that uses it; NONE for one that leaves after this step"""
    fetch_row_K: np.ndarray
    """int64, ascending: rows to fetch before the step"""
    fetch_slot_K: np.ndarray
    after_clean: int
    """the fetch waits until every trainer has carried out this clean and all before it; NONE: it need not"""
    now: Exchange
    """the next step uses them: gradients are exchanged before it"""
    later: Exchange
    """all others that are exchanged, while the next step runs"""
    never_J: np.ndarray
    """int64: which of its U rows this trainer alone fetches, changes and writes back"""
    lost_slot_K: np.ndarray
    """int64: slots of rows that another trainer alone changes from here on: good no more"""
    clean: Clean | None
    """to begin when the step's gradients, and the later ones of the step before, are in the rows"""
    num_rows: int
    """G"""
    num_fetched: int
    """of the G rows, by whomever"""
    num_classes: tuple[int, int, int]
    """of the G rows: now, later, never"""
    num_slots: int
    """slots from 0 on that have been taken so far: no other of the cache's memory is used"""
    num_held: int
    """slots taken behind the step, those that wait to be written back among them"""
    horizon: int
    """rows whose next use lies behind this step are not kept: step + L, less where the cache is full"""


def plan_steps(
    batch_ids: Callable[[int, int], np.ndarray], num_steps: int, trainers: int, trainer: int, look_ahead: int,
    capacity: int, clean_share: float = CLEAN_SHARE,
) -> Iterator[StepPlan]:  # fmt: skip
    """The plans of all steps, one after the other; a batch is asked for when the step L before it is planned.

    batch_ids: (trainer, step) -> int64, the distinct rows of a batch, ascending. The rest as for `Cacher`.
    """
    cacher = Cacher(trainers, trainer, look_ahead, capacity, clean_share)
    for step in range(num_steps):
        while cacher.newest < min(step + look_ahead, num_steps - 1):
            coming = cacher.newest + 1
            cacher.admit([batch_ids(rank, coming) for rank in range(trainers)])
        yield cacher.plan()


@dataclass
class _Coming:
    """A step of the window."""

    sole_G: np.ndarray
    """int64: the trainer that alone uses the row in this step, or SHARED"""
    place_T: list[np.ndarray]
    """by trainer: which of the G rows are its own"""
    after_clean: int


@dataclass
class _Pending:
    """Rows whose last use is over, and which no clean has taken yet."""

    rows: list[np.ndarray] = field(default_factory=list)
    slots: list[np.ndarray] = field(default_factory=list)
    soles: list[np.ndarray] = field(default_factory=list)
    num_shared: int = 0
    """rows that every trainer has a slot for"""
    num_own_T: np.ndarray | int = 0
    """by trainer: rows that it alone has a slot for"""

    @property
    def most(self) -> int:
        """Slots that they take at the trainer where they take most."""
        return self.num_shared + int(np.max(self.num_own_T))

    def add(self, row_K: np.ndarray, slot_K: np.ndarray, sole_K: np.ndarray) -> None:
        self.rows.append(row_K)
        self.slots.append(slot_K)
        self.soles.append(sole_K)

    def join(self, other: _Pending) -> None:
        self.rows += other.rows
        self.slots += other.slots
        self.soles += other.soles
        self.num_shared += other.num_shared
        self.num_own_T = self.num_own_T + other.num_own_T


class Cacher:
    """Plans steps in turn: `admit` the batches of the steps that come, `plan` the oldest.

    Args:
        trainer: the rank, 0..trainers - 1, whose plans these are.
        look_ahead: L, steps behind a step that it knows of, 1 or more.
        capacity: slots of a trainer's cache; when more rows would be held, those used last within the window leave.
        clean_share: of L: a clean follows the last one after so many steps, rounded up.
    """

    def __init__(
        self, trainers: int, trainer: int, look_ahead: int, capacity: int, clean_share: float = CLEAN_SHARE
    ) -> None:
        check_whole("look_ahead", look_ahead, 1, 1_000_000)
        check_whole("capacity", capacity, 1, 1 << 40)
        check_number("clean_share", clean_share, 0, 1)
        self.trainers = trainers
        self.trainer = trainer
        self.look_ahead = look_ahead
        self.capacity = capacity
        self.every = max(1, math.ceil(clean_share * look_ahead))
        self._window = UseWindow()
        self._coming: deque[_Coming] = deque()
        self._held = 0
        """rows that stand in the cache for a step to come"""
        self._pending = _Pending()
        self._cleans = 0
        self._cleaned = -1
        """the step of the last clean"""
        self._fresh = 0
        """slots from here on have never been taken"""
        self._freed: deque[tuple[int, np.ndarray]] = deque()
        """(number of the clean, slots that it has emptied)"""

    @property
    def newest(self) -> int:
        """The step whose batches came last, -1 before the first."""
        return self._window.newest

    def admit(self, batches: Sequence[np.ndarray]) -> None:
        """The batches of the next step, by trainer: their distinct rows, int64, ascending.

        Raises:
            InputError: rows are not like that.
        """
        for batch in batches:
            check_rows(batch)
        row_G, sole_G, place_T = unite(batches)
        self._window.admit(row_G)
        # What left before this step was known may wait for the next clean; what is older is in the last one.
        after = self._cleans if self._pending.most else self._cleans - 1
        self._coming.append(_Coming(sole_G, place_T, after))

    def plan(self) -> StepPlan:
        """The plan of the oldest step; the L behind it have come, as far as there are so many.

        Raises:
            InputError: the cache is too small for two steps.
        """
        coming, uses = self._coming.popleft(), self._window.leave()
        step, sole_G, slot_G = uses.step, coming.sole_G, uses.note_G
        next_G = self._window.steps(uses.next_G)
        is_kept, is_first = next_G != NONE, slot_G == NONE
        is_never = ~is_kept & (sole_G != SHARED)
        is_lost = is_never & (sole_G != self.trainer)
        if step == 0:
            self._check(len(sole_G), step)
        fetched = np.flatnonzero(is_first & ~is_lost)
        slot_G[fetched], after_clean = self._take(len(fetched), coming.after_clean)
        self._window.put(uses.next_G[is_kept], slot_G[is_kept])
        self._held += int(is_kept.sum()) - int((~is_first).sum())
        left = self._left(uses.row_G, slot_G, np.where(is_never, sole_G, SHARED), is_kept, is_first & is_never)
        clean, horizon = self._make_room(step, left, uses.next_G, slot_G)
        next_G[next_G > horizon] = NONE
        own = coming.place_T[self.trainer]
        is_now = next_G == step + 1
        classes = [is_now, ~is_now & ~is_never, is_never]
        return StepPlan(
            step, uses.row_G[own], slot_G[own], next_G[own], uses.row_G[fetched], slot_G[fetched], after_clean,
            self._exchange(classes[0], uses.row_G, slot_G, coming.place_T),
            self._exchange(classes[1], uses.row_G, slot_G, coming.place_T),
            np.flatnonzero(is_never[own]), slot_G[is_lost & ~is_first], clean, len(sole_G), int(is_first.sum()),
            (int(classes[0].sum()), int(classes[1].sum()), int(classes[2].sum())),
            self._fresh, self._held + self._pending.most, horizon,
        )  # fmt: skip

    def _left(
        self, row_G: np.ndarray, slot_G: np.ndarray, sole_G: np.ndarray, is_kept: np.ndarray, is_own: np.ndarray
    ) -> _Pending:
        """The rows that this step uses last; is_own: only their one trainer has a slot for them."""
        left = _Pending(
            num_shared=int((~is_kept & ~is_own).sum()), num_own_T=np.bincount(sole_G[is_own], minlength=self.trainers)
        )
        is_here = ~is_kept & (slot_G != NONE)
        left.add(row_G[is_here], slot_G[is_here], sole_G[is_here])
        return left

    def _make_room(self, step: int, left: _Pending, next_G: np.ndarray, slot_G: np.ndarray) -> tuple[Clean | None, int]:
        """The clean behind this step, where there is one, and the last step for which rows are kept."""
        horizon = step + self.look_ahead
        if not self._coming:
            self._pending.join(left)
            return None, horizon
        first = int((self._window.peek(step + 1)[2] == NONE).sum())
        is_full = self._held + self._pending.most + left.most + first > self.capacity
        is_needed = self._coming[0].after_clean >= self._cleans
        is_due = step - self._cleaned >= self.every and self._pending.most > 0
        while is_full and self._held + left.most + first > self.capacity and min(horizon, self.newest) > step + 1:
            horizon = min(horizon, self.newest)
            self._drop(horizon, left, next_G)
            horizon -= 1
        self._check(self._held + left.most + first, step)
        clean = self._clean(step) if is_full or is_needed or is_due else None
        self._pending.join(left)
        return clean, horizon

    def _drop(self, step: int, left: _Pending, next_G: np.ndarray) -> None:
        """Keep no rows for a step of the window: they leave now, and will be fetched again."""
        row_K, number_K, slot_K = self._window.peek(step)
        is_held = slot_K != NONE
        if not is_held.any():
            return
        is_left = is_held & np.isin(number_K, next_G)  # the step at hand uses them; its gradients are not in them yet
        is_idle = is_held & ~is_left
        for is_in, to in ((is_left, left), (is_idle, self._pending)):
            to.add(row_K[is_in], slot_K[is_in], np.full(int(is_in.sum()), SHARED))
            to.num_shared += int(is_in.sum())
        self._window.put(number_K[is_held], np.full(int(is_held.sum()), NONE))
        self._held -= int(is_held.sum())
        coming = self._coming[step - self._window.oldest]
        coming.after_clean = max(coming.after_clean, self._cleans + int(is_left.any()))

    def _clean(self, step: int) -> Clean:
        """Take all that is pending out of the cache."""
        pending, self._pending = self._pending, _Pending(num_own_T=np.zeros(self.trainers, np.int64))
        none = np.empty(0, np.int64)
        row_E, slot_E, sole_E = (
            np.concatenate([none, *found]) for found in (pending.rows, pending.slots, pending.soles)
        )
        order = np.argsort(row_E)
        clean = Clean(self._cleans, row_E[order], slot_E[order], sole_E[order])
        self._freed.append((clean.number, slot_E))
        self._cleans += 1
        self._cleaned = step
        return clean

    def _take(self, count: int, after_clean: int) -> tuple[np.ndarray, int]:
        """(so many free slots, the clean that must be over before they may be filled).

        First those that cost no wait beyond `after_clean`, then fresh ones, then those whose wait is the shortest.
        """
        taken = [np.empty(0, np.int64)]
        while count > 0:
            if self._freed and (self._freed[0][0] <= after_clean or self._fresh == self.capacity):
                number, slots = self._freed.popleft()
                after_clean = max(after_clean, number)
                if len(slots) > count:
                    self._freed.appendleft((number, slots[count:]))
                taken.append(slots[:count])
            else:
                stop = min(self._fresh + count, self.capacity)
                taken.append(np.arange(self._fresh, stop))
                self._fresh = stop
            count -= len(taken[-1])
        return np.concatenate(taken), after_clean

    def _exchange(
        self, is_in_G: np.ndarray, row_G: np.ndarray, slot_G: np.ndarray, place_T: list[np.ndarray]
    ) -> Exchange:
        number_G = np.cumsum(is_in_G) - 1
        place_TJ = tuple(number_G[place[is_in_G[place]]] for place in place_T)
        own_J = np.flatnonzero(is_in_G[place_T[self.trainer]])
        return Exchange(row_G[is_in_G], slot_G[is_in_G], own_J, place_TJ)

    def _check(self, count: int, step: int) -> None:
        if count > self.capacity:
            raise InputError(
                f"A cache of {self.capacity} rows is too small: steps {step} and {step + 1} use {count} rows at once; "
                "look fewer batches ahead, or make the batches smaller."
            )


def unite(batches: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """(rows of all batches int64 (G,) ascending, int64 (G,) the one batch that has the row or SHARED, by batch int64
    where its rows are among the G)."""
    if len(batches) == 1:
        size = len(batches[0])
        return batches[0], np.zeros(size, np.int64), [np.arange(size)]
    row_M = np.concatenate(batches)
    cut_B = np.cumsum([len(batch) for batch in batches])
    size = len(row_M)
    member_M, place_M = np.empty(size, np.int32), np.empty(size, np.int32)
    row_G, first_G1 = np.empty(size, np.int64), np.empty(size + 1, np.int64)
    sort_positions(row_M, int(row_M.max()) if size else 0, member_M, place_M)
    count = cut_groups(row_M, member_M, row_G, first_G1, place_M)
    is_sole = np.diff(first_G1[: count + 1]) == 1
    owner_G = np.searchsorted(cut_B, member_M[first_G1[:count]], side="right")
    return row_G[:count], np.where(is_sole, owner_G, SHARED), np.split(place_M.astype(np.int64), cut_B[:-1])
