"""The oracle cacher: from the batches that come, what each trainer's cache of rows does in each step. Pure.

A row stands in a cache from the step that fetches it to the last one within L steps that uses it, and then it is
written back. In between it goes from the trainers that use it to those that use it next (`plan.lookahead.moves`).
Each trainer plans for itself; from the same batches all come to plans that fit together, though their caches hold
different rows.

Agarwal et al. 2023, "Bagpipe: accelerating deep recommendation model training" (SOSP), sections 3.2-3.5. Slots, classes
by trainer instead of by example, rows that move, and which rows give way when the cache is full are ours.

Legend: N trainers; G distinct rows of a step, of all trainers; U those of this trainer's batch; K, J, E some of them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from any2vec.checks import check_number, check_whole
from any2vec.errors import InputError
from any2vec.plan.lookahead.moves import SHARED, Transfers, count_copies, count_moves, reaches, transfers_of, unite
from any2vec.plan.lookahead.window import NONE, Uses, UseWindow, check_rows

CLEAN_SHARE = 0.02
"""the paper's is 0.25; with less, rows wait for a shorter time and what is written back travels in smaller bursts"""
_AWAY = -2
"""instead of a slot: the row stands in other trainers' caches"""


@dataclass(frozen=True)
class Clean:
    """Rows that leave the cache: whoever must write them back does, and all others wait for that."""

    number: int
    """0, 1, ...; the same for all trainers"""
    row_E: np.ndarray
    """int64, ascending: those that stand in this trainer's cache"""
    slot_E: np.ndarray
    sole_E: np.ndarray
    """int64: this trainer, or SHARED where all have the same copy"""


@dataclass(frozen=True)
class StepPlan(Transfers):
    """One step of one trainer."""

    step: int
    row_U: np.ndarray
    """int64, ascending: the rows of its batch"""
    slot_U: np.ndarray
    """int64: where they stand"""
    until_U: np.ndarray
    """int64: the next step that uses each, whose users have it from here on; NONE for one that leaves"""
    fetch_row_K: np.ndarray
    """int64, ascending: rows to fetch before the step"""
    fetch_slot_K: np.ndarray
    after_clean: int
    """slots that this step fills may be filled when every trainer has carried out this clean and all before it; NONE:
    at once"""
    own_slot_K: np.ndarray
    """int64: slots of the step's rows that this trainer alone has behind the step"""
    common_slot_K: np.ndarray
    """int64: the same of those of which all have a copy"""
    lost_slot_K: np.ndarray
    """int64: slots of rows that only another trainer has behind the step; a row that comes may stand there at once"""
    clean: Clean | None
    """to begin when the step's gradients, and the later ones of the step before, are in the rows"""
    num_rows: int
    """G"""
    num_fetched: int
    """of the G rows, by whomever"""
    num_slots: int
    """slots from 0 on that have been taken so far: no other of the cache's memory is used"""
    num_held: int
    """slots taken behind the step, where most are; those that wait to be written back among them"""
    horizon: int
    """rows whose next use lies behind this step are not kept: step + L, less where the cache is full"""


def plan_steps(
    batch_ids: Callable[[int, int], np.ndarray], num_steps: int, trainers: int, trainer: int, look_ahead: int,
    capacity: int, clean_share: float = CLEAN_SHARE, writer_of: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Iterator[StepPlan]:  # fmt: skip
    """The plans of all steps, one after the other; a batch is asked for when the step L before it is planned.

    batch_ids: (trainer, step) -> int64, the distinct rows of a batch, ascending. The rest as for `OracleCacher`.
    """
    cacher = OracleCacher(trainers, trainer, look_ahead, capacity, clean_share, writer_of)
    for step in range(num_steps):
        while cacher.newest < min(step + look_ahead, num_steps - 1):
            coming = cacher.newest + 1
            cacher.admit([batch_ids(rank, coming) for rank in range(trainers)])
        yield cacher.plan()


@dataclass
class _Coming:
    """A step of the window."""

    place_T: list[np.ndarray]
    """by trainer: which of the G rows are its own"""
    after_clean: int


@dataclass
class _Pending:
    """Rows whose last use is over, and which no clean has taken yet."""

    num_T: np.ndarray
    """int64 (N,): slots that they take at each trainer"""
    rows: list[np.ndarray] = field(default_factory=list)
    """of this trainer, as slots and soles"""
    slots: list[np.ndarray] = field(default_factory=list)
    soles: list[np.ndarray] = field(default_factory=list)

    def add(self, row_K: np.ndarray, slot_K: np.ndarray, sole_K: np.ndarray, is_here_K: np.ndarray) -> None:
        """Rows of whomever; is_here_K bool: those that this trainer has."""
        self.rows.append(row_K[is_here_K])
        self.slots.append(slot_K[is_here_K])
        self.soles.append(sole_K[is_here_K])
        self.num_T = self.num_T + count_copies(sole_K, len(self.num_T))


class OracleCacher:
    """Plans steps in turn: `admit` the batches of the steps that come, `plan` the oldest.

    Args:
        trainer: the rank, 0..trainers - 1, whose plans these are.
        look_ahead: L, steps behind a step that it knows of, 1 or more.
        capacity: slots of a trainer's cache; when more rows would be held, those used last within the window leave.
        clean_share: of L: a clean follows the last one after so many steps, rounded up.
        writer_of: int64 (K,) rows -> int64 (K,), the trainers that have their last changes when several use them last,
            and write them back; None: by turns.
    """

    def __init__(
        self, trainers: int, trainer: int, look_ahead: int, capacity: int, clean_share: float = CLEAN_SHARE,
        writer_of: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:  # fmt: skip
        check_whole("look_ahead", look_ahead, 1, 1_000_000)
        check_whole("capacity", capacity, 1, 1 << 40)
        check_number("clean_share", clean_share, 0, 1)
        self.trainers = trainers
        self.trainer = trainer
        self.look_ahead = look_ahead
        self.capacity = capacity
        self.every = max(1, math.ceil(clean_share * look_ahead))
        self._writer_of = writer_of or (lambda row_K: row_K % trainers)
        self._window = UseWindow()
        """its labels: the trainer that alone uses a row in a step, or SHARED; it has the row from the use before on"""
        self._coming: deque[_Coming] = deque()
        self._held_T = np.zeros(trainers, np.int64)
        """by trainer: rows that stand in its cache for a step to come"""
        self._pending = _Pending(np.zeros(trainers, np.int64))
        self._vacant = np.empty(0, np.int64)
        """slots that rows have moved out of: for those that move in at once, for others from the next clean on"""
        self._vacant_T = np.zeros(trainers, np.int64)
        """how many of these each trainer has"""
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
        self._window.admit(row_G, sole_G)
        # What left before this step was known may wait for the next clean; what is older is in the last one.
        after = self._cleans if self._pending.num_T.any() else self._cleans - 1
        self._coming.append(_Coming(place_T, after))

    def plan(self) -> StepPlan:
        """The plan of the oldest step; the L behind it have come, as far as there are so many.

        Raises:
            InputError: the cache is too small for two steps.
        """
        coming, uses = self._coming.popleft(), self._window.leave()
        step, row_G, user_G, slot_G = uses.step, uses.row_G, uses.label_G, uses.note_G
        if step == 0:
            self._check(len(row_G), step)
        is_first, was_here_G = slot_G == NONE, reaches(user_G, self.trainer)
        fetched = np.flatnonzero(is_first & was_here_G)
        slot_G[fetched], after_clean = self._take(len(fetched), coming.after_clean)
        self._keep(uses, is_first)
        to_G, horizon, is_full = self._make_room(uses)
        is_kept, is_here_G = uses.next_G != NONE, reaches(to_G, self.trainer)
        lost_slot_K, come = slot_G[was_here_G & ~is_here_G], np.flatnonzero(is_here_G & ~was_here_G)
        slot_G[come], after_clean = self._move(len(come), lost_slot_K, after_clean)
        self._window.put(uses.next_G[is_kept], np.where(is_here_G, slot_G, _AWAY)[is_kept])
        clean = self._clean(step) if self._is_clean_due(step, is_full) else None
        is_left = ~is_kept
        self._pending.add(row_G[is_left], slot_G[is_left], to_G[is_left], is_here_G[is_left])

        next_G, own = self._window.steps(uses.next_G), coming.place_T[self.trainer]
        travel = transfers_of(self.trainer, row_G, slot_G, user_G, to_G, next_G == step + 1, coming.place_T)
        return StepPlan(
            **vars(travel), step=step, row_U=row_G[own], slot_U=slot_G[own], until_U=next_G[own],
            fetch_row_K=row_G[fetched], fetch_slot_K=slot_G[fetched],
            after_clean=after_clean if len(fetched) + len(come) else NONE,
            own_slot_K=slot_G[to_G == self.trainer], common_slot_K=slot_G[to_G == SHARED], lost_slot_K=lost_slot_K,
            clean=clean, num_rows=len(row_G), num_fetched=int(is_first.sum()), num_slots=self._fresh,
            num_held=int((self._held_T + self._pending.num_T + self._vacant_T).max()), horizon=horizon,
        )  # fmt: skip

    def _keep(self, uses: Uses, is_first_G: np.ndarray) -> None:
        """Rows of the step at hand stand for their next uses from here on; where they do is noted later."""
        next_K = uses.next_G[uses.next_G != NONE]
        self._window.put(next_K, np.full(len(next_K), _AWAY))
        self._held_T += self._count(self._window.labels(next_K)) - self._count(uses.label_G[~is_first_G])

    def _make_room(self, uses: Uses) -> tuple[np.ndarray, int, bool]:
        """(who has the rows of the step at hand from here on, int64 (G,); the last step for which rows are kept; is the
        cache too full to wait for the next clean). Rows that are kept no more have no next use in `uses`.

        Caches hold different rows, and all trainers must decide alike: the fullest one decides.
        """
        horizon = uses.step + self.look_ahead
        to_G, left_T, vacant_T = self._holders(uses)
        if not self._coming:
            return to_G, horizon, False
        _, number_K, note_K = self._window.peek(uses.step + 1)
        # A row that the next step uses may have to stand anywhere: its own next use may not have come.
        first_T = len(number_K) - self._count(self._window.labels(number_K[note_K != NONE]))
        is_full = (self._held_T + self._pending.num_T + vacant_T + left_T + first_T).max() > self.capacity
        while is_full and (self._held_T + left_T + first_T).max() > self.capacity:
            horizon = min(horizon, self.newest)
            if horizon <= uses.step + 1:
                break
            if self._drop(horizon, uses):
                to_G, left_T, vacant_T = self._holders(uses)
            horizon -= 1
        self._check(int((self._held_T + left_T + first_T).max()), uses.step)
        self._vacant_T = vacant_T
        return to_G, horizon, bool(is_full)

    def _holders(self, uses: Uses) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(who has the rows of the step at hand from here on, int64 (G,); by trainer: slots of those that leave, and
        slots that are vacant then)."""
        user_G, is_kept = uses.label_G, uses.next_G != NONE
        to_G = np.where(is_kept, self._window.labels(uses.next_G), user_G)
        is_last = ~is_kept & (user_G == SHARED)
        to_G[is_last] = self._writer_of(uses.row_G[is_last])
        taken_T, left_T = count_moves(user_G, to_G, self.trainers)
        return to_G, self._count(to_G[~is_kept]), np.maximum(self._vacant_T + left_T - taken_T, 0)

    def _drop(self, step: int, uses: Uses) -> bool:
        """Keep no rows for a step of the window: they leave now, and will be fetched again. Are some of the step at
        hand among them, whose gradients are not in them yet?"""
        row_K, number_K, note_K = self._window.peek(step)
        is_idle = note_K != NONE
        if not is_idle.any():
            return False
        user_K = self._window.labels(number_K)
        self._held_T -= self._count(user_K[is_idle])
        is_left = (uses.next_G >= number_K[0]) & (uses.next_G <= number_K[-1])
        is_idle[uses.next_G[is_left] - number_K[0]] = False
        uses.next_G[is_left] = NONE
        self._pending.add(row_K[is_idle], note_K[is_idle], user_K[is_idle], note_K[is_idle] != _AWAY)
        self._window.put(number_K, np.full(len(number_K), NONE))
        coming = self._coming[step - self._window.oldest]
        coming.after_clean = max(coming.after_clean, self._cleans + int(is_left.any()))
        return bool(is_left.any())

    def _is_clean_due(self, step: int, is_full: bool) -> bool:
        if not self._coming:
            return False
        is_late = step - self._cleaned >= self.every and bool(self._pending.num_T.any())
        return is_full or is_late or self._coming[0].after_clean >= self._cleans

    def _clean(self, step: int) -> Clean:
        """Take all that is pending out of the cache."""
        pending, self._pending = self._pending, _Pending(np.zeros(self.trainers, np.int64))
        none = np.empty(0, np.int64)
        row_E, slot_E, sole_E = (
            np.concatenate([none, *found]) for found in (pending.rows, pending.slots, pending.soles)
        )
        order = np.argsort(row_E)
        clean = Clean(self._cleans, row_E[order], slot_E[order], sole_E[order])
        self._freed.append((clean.number, np.concatenate([slot_E, self._vacant])))
        self._vacant, self._vacant_T = none, np.zeros(self.trainers, np.int64)
        self._cleans += 1
        self._cleaned = step
        return clean

    def _move(self, count: int, lost_slot_K: np.ndarray, after_clean: int) -> tuple[np.ndarray, int]:
        """As `_take`, for rows that come from other trainers: those fill vacant slots, also of this very step, for a
        trainer takes in what comes when it has sent what goes."""
        vacant = np.concatenate([lost_slot_K, self._vacant])
        self._vacant = vacant[count:]
        slots, after_clean = self._take(max(0, count - len(vacant)), after_clean)
        return np.concatenate([vacant[:count], slots]), after_clean

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

    def _count(self, user_K: np.ndarray) -> np.ndarray:
        return count_copies(user_K, self.trainers)

    def _check(self, count: int, step: int) -> None:
        if count > self.capacity:
            raise InputError(
                f"A cache of {self.capacity} rows is too small: steps {step} and {step + 1} use {count} rows at once; "
                "look fewer batches ahead, or make the batches smaller."
            )
