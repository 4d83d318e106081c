"""Residency policies: which new rows come into a cache, and which slots give way to them.

Legend: K slots, U distinct ids of a batch, N some ids or slots, E slots that give way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from any2vec.kernels.cache.residency import choose_victims
from any2vec.kernels.common.sketch import MOST, raise_counts, read_counts
from any2vec.plan.lookahead.oracle import NEVER
from any2vec.tables.residency.slot_map import num_places


class ResidencyPolicy(ABC):
    """Sees ids, slots and steps, never a value, and never moves a row itself.

    Args:
        owner_K: int64, the id in each slot, EMPTY where it is free; kept, changed by the `Residency`.
        held_K: int32, how many hold each slot; kept likewise.
    """

    needs_next_uses: ClassVar[bool] = False
    """whether it decides by the next use of each row, so that something must look ahead"""

    def __init__(self, owner_K: np.ndarray, held_K: np.ndarray) -> None:
        self.owner_K, self.held_K = owner_K, held_K

    @property
    def capacity(self) -> int:
        return len(self.owner_K)

    def begin(self, id_U: np.ndarray) -> None:
        """A batch begins."""
        return

    def admit(self, id_N: np.ndarray, next_N: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
        """Which rows come in, and for whom.

        Args:
            id_N: of the batch's rows that have no slot.
            next_N: int64, the step that uses each next, NEVER where that is not known.
            room: free slots for them, N at most.

        Returns:
            (positions among the N, those for free slots first; slots that give way to the others, none of which is
            held). Of positions beyond room and slots the rows pass by.
        """
        return np.arange(len(id_N)), self.give_way(len(id_N) - room)

    def enter(self, slot_N: np.ndarray, id_N: np.ndarray, next_N: np.ndarray) -> None:
        """These rows have come in; `use` follows."""
        return

    def use(self, slot_N: np.ndarray, next_N: np.ndarray) -> None:
        """A batch uses these slots."""
        return

    def leave(self, slot_N: np.ndarray, id_N: np.ndarray) -> None:
        """These rows have gone."""
        return

    def expect(self, slot_N: np.ndarray, step: int) -> None:
        """A step to come was found to use the rows in these slots."""
        return

    def give_way(self, number: int) -> np.ndarray:
        """`victims`, which look at all slots, and none where none is needed."""
        return self.victims(number) if number > 0 else np.empty(0, np.int64)

    @abstractmethod
    def victims(self, number: int) -> np.ndarray:
        """Slots that give way first, int64, at most so many (1 or more); none that is held."""

    def movable(self) -> np.ndarray:
        """bool (K,): slots that may give way: they have a row, and nobody holds it."""
        return (self.owner_K >= 0) & (self.held_K == 0)


class NextUsePolicy(ResidencyPolicy, ABC):
    """Keeps the step of the next use of each slot, NEVER where the look-ahead has not found one yet.

    It knows when each row is used next (`plan.lookahead.oracle`).
    """

    needs_next_uses: ClassVar[bool] = True

    def __init__(self, owner_K: np.ndarray, held_K: np.ndarray) -> None:
        super().__init__(owner_K, held_K)
        self.next_K = np.full(self.capacity, NEVER, np.int64)

    def use(self, slot_N: np.ndarray, next_N: np.ndarray) -> None:
        self.next_K[slot_N] = next_N

    def expect(self, slot_N: np.ndarray, step: int) -> None:
        self.next_K[slot_N] = np.minimum(self.next_K[slot_N], step)

    def victims(self, number: int) -> np.ndarray:
        """Those used last, or not as far as is known; of equal ones the lowest."""
        slots = np.flatnonzero(self.movable())
        return slots[np.argsort(-self.next_K[slots], kind="stable")[:number]]


class Static(ResidencyPolicy):
    """Nobody comes in and nobody gives way; `Residency` has the rows from the start.

    Data tiering: rows that are known to be used most stay, all others pass by.
    """

    def admit(self, id_N: np.ndarray, next_N: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
        return np.empty(0, np.int64), self.give_way(0)

    def victims(self, number: int) -> np.ndarray:
        return np.empty(0, np.int64)


class LeastRecentlyUsed(ResidencyPolicy):
    """Rows that were used longest ago give way; of those of one batch the lowest slots.

    Source: HET (Miao et al. 2022, PVLDB 15(2)).
    """

    def __init__(self, owner_K: np.ndarray, held_K: np.ndarray) -> None:
        super().__init__(owner_K, held_K)
        self.now = 0
        """number of the batch"""
        self.stamp_K = np.zeros(self.capacity, np.int64)

    def begin(self, id_U: np.ndarray) -> None:
        self.now += 1

    def use(self, slot_N: np.ndarray, next_N: np.ndarray) -> None:
        self.stamp_K[slot_N] = self.now

    def victims(self, number: int) -> np.ndarray:
        return self.oldest(number)

    def oldest(self, number: int, count_K: np.ndarray | None = None) -> np.ndarray:
        """Those used longest ago, among those of the least count where there is one."""
        victim_N = np.empty(min(number, self.capacity), np.int64)
        order = self.stamp_K if count_K is None else count_K, self.stamp_K, ~self.movable(), self.now
        return victim_N[: choose_victims(self.owner_K, *order, count_K is not None, victim_N)]


class LeastFrequentlyUsed(LeastRecentlyUsed):
    """Rows used in the fewest batches since they came in give way, of these the ones used longest ago.

    Source: HET (Miao et al. 2022, PVLDB 15(2)). Ours: uses are counted by batch.
    """

    def __init__(self, owner_K: np.ndarray, held_K: np.ndarray) -> None:
        super().__init__(owner_K, held_K)
        self.count_K = np.zeros(self.capacity, np.int64)
        """batches that used the row since it came in"""

    def use(self, slot_N: np.ndarray, next_N: np.ndarray) -> None:
        super().use(slot_N, next_N)
        self.count_K[slot_N] += 1

    def leave(self, slot_N: np.ndarray, id_N: np.ndarray) -> None:
        self.count_K[slot_N] = 0

    def victims(self, number: int) -> np.ndarray:
        return self.oldest(number, self.count_K)


PROMOTE_AFTER = 10
"""uses after which a row stays for good"""
PERMANENT = 0.9
"""of the slots at most hold rows that stay for good, so that new ones can still come in"""


class Promoted(LeastFrequentlyUsed):
    """A row used PROMOTE_AFTER times stays for good, while not more than PERMANENT of the slots do so.

    LFU whose frequent rows move to a permanent part, as in HET's released cache (Miao et al. 2022, PVLDB 15(2)).
    """

    def __init__(self, owner_K: np.ndarray, held_K: np.ndarray) -> None:
        super().__init__(owner_K, held_K)
        self.permanent_K = np.zeros(self.capacity, bool)

    def use(self, slot_N: np.ndarray, next_N: np.ndarray) -> None:
        super().use(slot_N, next_N)
        often = slot_N[(self.count_K[slot_N] >= PROMOTE_AFTER) & ~self.permanent_K[slot_N]]
        if len(often):
            room = int(PERMANENT * self.capacity) - int(self.permanent_K.sum())
            self.permanent_K[often[:room]] = True

    def leave(self, slot_N: np.ndarray, id_N: np.ndarray) -> None:
        super().leave(slot_N, id_N)
        self.permanent_K[slot_N] = False

    def movable(self) -> np.ndarray:
        return super().movable() & ~self.permanent_K


SKETCH_ROWS, SKETCH_CELLS = 4, 4
"""of the memory: rows, and cells of a row for each slot, rounded up to a power of two; a byte each"""
HALVED_AFTER = 64
"""uses, for each slot, after which all counts are halved, so that what was long ago fades"""


class TinyLfu(LeastFrequentlyUsed):
    """As lfu, but counts outlive a row's stay, in a sketch, and a new row passes by unless it has been used more often
    than the row that would give way.

    Source: Einziger, Friedman, Manes 2017, "TinyLFU: A highly efficient cache admission policy". Ours: the sketch
    holds only what is not resident, and a batch's rows are compared at once.
    """

    def __init__(self, owner_K: np.ndarray, held_K: np.ndarray) -> None:
        super().__init__(owner_K, held_K)
        self._sketch_RH = np.zeros((SKETCH_ROWS, num_places(SKETCH_CELLS * self.capacity // 2)), np.uint8)
        self._uses = 0
        self._known_N = np.empty(0, np.int64)
        """uses of the rows that are about to come in"""

    def begin(self, id_U: np.ndarray) -> None:
        super().begin(id_U)
        self._uses += len(id_U)
        if self._uses >= HALVED_AFTER * self.capacity:
            self._uses = 0
            self._sketch_RH >>= 1
            self.count_K >>= 1

    def admit(self, id_N: np.ndarray, next_N: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
        count_N = np.zeros(len(id_N), np.int64)
        read_counts(self._sketch_RH, id_N, count_N)
        raise_counts(self._sketch_RH, id_N, count_N + 1, MOST)
        order, victims = super().admit(id_N, next_N, room)
        if room < len(id_N):
            order = np.argsort(-count_N, kind="stable")
            # The rarest against the most frequent new one, and so on.
            victims = victims[np.lexsort((victims, self.stamp_K[victims], self.count_K[victims]))]
            victims = victims[self.count_K[victims] < count_N[order[room:]][: len(victims)] + 1]
        self._known_N = count_N[order]
        return order, victims

    def enter(self, slot_N: np.ndarray, id_N: np.ndarray, next_N: np.ndarray) -> None:
        self.count_K[slot_N] = self._known_N[: len(slot_N)]

    def leave(self, slot_N: np.ndarray, id_N: np.ndarray) -> None:
        raise_counts(self._sketch_RH, id_N, self.count_K[slot_N], MOST)
        super().leave(slot_N, id_N)


class FirstInFirstOut(ResidencyPolicy):
    """Rows that came in first give way, however often they are used; of one batch in the order of its ids.

    What BGL keeps of node features (NSDI 2023).
    """

    def __init__(self, owner_K: np.ndarray, held_K: np.ndarray) -> None:
        super().__init__(owner_K, held_K)
        self._turn_K = np.zeros(self.capacity, np.int64)
        self._turns = 0

    def enter(self, slot_N: np.ndarray, id_N: np.ndarray, next_N: np.ndarray) -> None:
        self._turn_K[slot_N] = self._turns + np.arange(len(slot_N))
        self._turns += len(slot_N)

    def victims(self, number: int) -> np.ndarray:
        slots = np.flatnonzero(self.movable())
        if number < len(slots):
            slots = slots[np.argpartition(self._turn_K[slots], number)[:number]]
        return slots[np.argsort(self._turn_K[slots])]


class Belady(NextUsePolicy):
    """A new row passes by unless it is used before the row that would give way.

    The rows whose next use is farthest give way (Belady 1966, IBM Systems Journal 5(2); Ginex, 2022, PVLDB 15(11)). It
    misses least of all policies, as far as the look-ahead goes; a batch comes in at once.
    """

    def admit(self, id_N: np.ndarray, next_N: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
        order, victims = np.argsort(next_N, kind="stable"), self.give_way(len(id_N) - room)
        # The soonest against the one used last, and so on.
        return order, victims[next_N[order[room:]][: len(victims)] < self.next_K[victims]]


class TimeToLive(NextUsePolicy):
    """Rows that no step to come is known to use give way, and no others; such rows do not come in, either.

    A row stays until the last use that the look-ahead knows of (Bagpipe: Agarwal et al. 2023, SOSP).
    """

    def admit(self, id_N: np.ndarray, next_N: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
        order = np.flatnonzero(next_N != NEVER)
        return order, self.give_way(len(order) - room)

    def movable(self) -> np.ndarray:
        return super().movable() & (self.next_K == NEVER)
