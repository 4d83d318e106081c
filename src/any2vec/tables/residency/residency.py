"""Which rows are in which slots of a cache: a map of ids, and a policy that says who comes in and who gives way.

A policy works batch by batch on arrays; there are no lists that each access would reorder, and victims are chosen only
where a batch has more new rows than there are free slots. Memory goes with the slots, never with the table. Used with
one lock around it, or by one thread.

Source: HET (Miao et al. 2022, PVLDB 15(2), and its released cache). Ours: uses are counted by batch, and slots are
chosen for a batch at once.

Legend: K slots, N ids of a call, U distinct ids of a batch, E rows that gave way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from any2vec.checks import check_whole
from any2vec.errors import InputError
from any2vec.kernels.cache.residency import EMPTY
from any2vec.plan.lookahead.oracle import NEVER
from any2vec.tables.registry import RESIDENCIES
from any2vec.tables.residency.slot_map import SlotMap

MOST_SLOTS = 1 << 40


class Placed(NamedTuple):
    """Where the rows of a batch stand."""

    slot_U: np.ndarray
    """int64: -1 where there was no room: the row passes by"""
    is_new_U: np.ndarray
    """bool: came in with this batch"""
    gone_slot_E: np.ndarray
    """int64: slots whose rows gave way; each is now the slot of a new row"""
    gone_id_E: np.ndarray
    """int64: which rows they were"""


class Residency:
    """K slots and whose they are. owner_K[map[id]] == id at all times, and no slot that is held gives way.

    Args:
        capacity: K, 0 or more.
        policy: name of a registered `ResidencyPolicy`.
        kept: of static, int64 (K or fewer,), none twice: its rows, from first to last.

    Raises:
        InputError: an argument is not legal, or static is not given its rows (or another policy is).
    """

    def __init__(self, capacity: int, policy: str = "tinylfu", kept: np.ndarray | None = None) -> None:
        check_whole("cache rows", capacity, 0, MOST_SLOTS)
        kind = RESIDENCIES.named(policy)
        if (policy == "static") != (kept is not None) or (kept is not None and len(kept) > capacity):
            raise InputError(
                f"A static cache of {capacity} rows needs the rows that it keeps, and no other policy takes them; got "
                f"policy {policy!r} and {'no rows' if kept is None else f'{len(kept)} rows'}."
            )
        self.map = SlotMap(capacity)
        self.owner_K = np.full(capacity, EMPTY, np.int64)
        self.held_K = np.zeros(capacity, np.int32)
        """how many hold the slot: while one does it does not give way"""
        self.policy = kind(self.owner_K, self.held_K)
        self._free = np.arange(capacity)[::-1].copy()
        """the first _num_free of them are free slots; the last of these is the next one used"""
        self._num_free = capacity
        if kept is not None:
            self.owner_K[: len(kept)] = kept
            self.map.put(kept, np.arange(len(kept)))

    def __len__(self) -> int:
        return len(self.map)

    @property
    def capacity(self) -> int:
        return len(self.owner_K)

    def place(self, id_U: np.ndarray, next_U: np.ndarray | None = None) -> Placed:
        """Hold a slot for each row of a batch (int64, none twice), until `release`; says which rows were evicted.

        A row of the batch never gives way to another one, nor does a row that is held.

        Args:
            next_U: int64, the step that uses each row next, NEVER where that is not known; None: of none it is.

        Raises:
            InputError: the policy needs next uses, and there are none.
        """
        if next_U is None:
            if self.policy.needs_next_uses:
                raise InputError("This cache policy needs to know when rows are used next; choose lru or static here.")
            next_U = np.full(len(id_U), NEVER, np.int64)
        slot_U = self.map.find(id_U)
        is_new_U = slot_U == EMPTY
        self.policy.begin(id_U)
        self._use(slot_U[~is_new_U], next_U[~is_new_U])
        gone_slot_E, gone_id_E = self._admit(id_U, next_U, slot_U, np.flatnonzero(is_new_U))
        is_new_U &= slot_U != EMPTY
        return Placed(slot_U, is_new_U, gone_slot_E, gone_id_E)

    def held(self, id_U: np.ndarray) -> Placed:
        """Where rows (int64, none twice) stand, held until `release`; none comes in or gives way, no use is counted."""
        slot_U = self.map.find(id_U)
        self.hold(slot_U[slot_U != EMPTY])
        none = np.empty(0, np.int64)
        return Placed(slot_U, np.zeros(len(id_U), bool), none, none)

    def expect(self, id_N: np.ndarray, step: int) -> None:
        """A step to come uses these rows (int64, none twice)."""
        slot_N = self.map.find(id_N)
        self.policy.expect(slot_N[slot_N != EMPTY], step)

    def hold(self, slot_N: np.ndarray) -> None:
        """Let these slots, none twice, not give way until `release`."""
        self.held_K[slot_N] += 1

    def release(self, slot_N: np.ndarray) -> None:
        """They may give way, unless somebody else holds them."""
        self.held_K[slot_N] -= 1

    def drop(self, id_N: np.ndarray) -> np.ndarray:
        """Free the slots of these ids, none twice and none held; which those were, of the ids that had one."""
        slot_N = self.map.find(id_N)
        slot_N = slot_N[slot_N != EMPTY]
        self._clear(slot_N)
        self._free[self._num_free : self._num_free + len(slot_N)] = slot_N
        self._num_free += len(slot_N)
        return slot_N

    def _admit(
        self, id_U: np.ndarray, next_U: np.ndarray, slot_U: np.ndarray, new: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Give the new ones slots, as far as there are any: (slots that gave way, whose they were)."""
        room = min(len(new), self._num_free)
        order, gone = self.policy.admit(id_U[new], next_U[new], room)
        room = min(room, len(order))
        owner_E = self.owner_K[gone]
        self._clear(gone)
        self._num_free -= room
        slots = np.concatenate([self._free[self._num_free : self._num_free + room], gone])
        new = new[order[: len(slots)]]
        slot_U[new] = slots
        self.owner_K[slots] = id_U[new]
        self.map.put(id_U[new], slots)
        self.policy.enter(slots, id_U[new], next_U[new])
        self._use(slots, next_U[new])
        return gone, owner_E

    def _use(self, slots: np.ndarray, next_N: np.ndarray) -> None:
        """A batch uses these slots."""
        self.held_K[slots] += 1
        self.policy.use(slots, next_N)

    def _clear(self, slots: np.ndarray) -> None:
        self.policy.leave(slots, self.owner_K[slots])
        self.map.drop(self.owner_K[slots])
        self.owner_K[slots] = EMPTY
