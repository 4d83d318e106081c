"""Which rows are in which slots of a cache: a map of ids, and policies that say who gives way. Never a value.

A policy works batch by batch on arrays of stamps and counts; there are no lists that each access would reorder, and
victims are chosen only where a batch has more new rows than there are free slots. Memory goes with the slots, never
with the table. Used with one lock around it, or by one thread.

Source: the policies are those of HET (Miao et al. 2022, PVLDB 15(2), and its released cache: LRU, LFU, and LFU whose
rows move to a permanent part after 10 uses), and TinyLFU (Einziger, Friedman, Manes 2017, "TinyLFU: A highly efficient
cache admission policy"); static is data tiering, where it is known before which rows are used most. Ours: uses are
counted by batch, slots are chosen for a batch at once, and TinyLFU's sketch holds only what is not resident.

Legend: K slots, N ids of a call, U distinct ids of a batch, E rows that gave way.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from any2vec.checks import check_choice, check_whole
from any2vec.errors import InputError
from any2vec.kernels.cache.residency import EMPTY, choose_victims, drop_slots, find_slots, put_slots
from any2vec.kernels.common.sketch import MOST, raise_counts, read_counts

Policy = Literal["static", "lru", "lfu", "lfu-promoted", "tinylfu"]
POLICIES = ("static", "lru", "lfu", "lfu-promoted", "tinylfu")
PROMOTE_AFTER = 10
"""uses after which lfu-promoted keeps a row for good"""
PERMANENT = 0.9
"""of the slots at most hold rows that stay for good, so that new ones can still come in"""
SKETCH_ROWS, SKETCH_CELLS = 4, 4
"""of the memory of tinylfu: rows, and cells of a row for each slot, rounded up to a power of two; a byte each"""
HALVED_AFTER = 64
"""uses, for each slot, after which tinylfu halves all counts, so that what was long ago fades"""
MOST_SLOTS = 1 << 40
_FEW = 16
_NOBODY = np.empty(0, np.int64)


class SlotMap:
    """int64 id (0 or more) -> int64 slot (0 or more); grows as it is filled, 16 to 64 bytes an id. Not thread-safe."""

    def __init__(self, expected: int = 0) -> None:
        """expected: ids for which it need not grow."""
        self._size = 0
        self._make(_places(expected))

    def __len__(self) -> int:
        return self._size

    def find(self, id_N: np.ndarray) -> np.ndarray:
        """The slot of each id, int64 (N,), -1 where there is none."""
        slot_N = np.empty(len(id_N), np.int64)
        find_slots(self._key_H, self._slot_H, id_N, slot_N)
        return slot_N

    def put(self, id_N: np.ndarray, slot_N: np.ndarray) -> None:
        """Enter ids, or give those that are there another slot. int64 both."""
        if 2 * (self._size + len(id_N)) > len(self._key_H):
            key_H, slot_H = self._key_H, self._slot_H
            self._make(_places(2 * (self._size + len(id_N))))
            put_slots(self._key_H, self._slot_H, key_H[key_H != EMPTY], slot_H[key_H != EMPTY])
        self._size += put_slots(self._key_H, self._slot_H, id_N, slot_N)

    def drop(self, id_N: np.ndarray) -> None:
        """Forget ids; those that are not there are passed over."""
        self._size -= drop_slots(self._key_H, self._slot_H, id_N)

    @property
    def num_bytes(self) -> int:
        return self._key_H.nbytes + self._slot_H.nbytes

    def _make(self, places: int) -> None:
        self._key_H, self._slot_H = np.full(places, EMPTY, np.int64), np.zeros(places, np.int64)


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
    """K slots and whose they are. owner_K[map[id]] == id at all times.

    Args:
        capacity: K, 0 or more.
        policy: who gives way: "static" nobody, the rows `kept` stand from first to last and all others pass by; "lru"
            those used longest ago; "lfu" those used in the fewest batches since they came in, of these the ones used
            longest ago; "lfu-promoted" as lfu, but a row used PROMOTE_AFTER times stays for good, while not more than
            PERMANENT of the slots do so; "tinylfu" as lfu, but counts outlive a row's stay, in a sketch, and a new row
            passes by unless it has been used more often than the row that would give way.
        kept: of static, int64 (K or fewer,), none twice.

    Raises:
        InputError: an argument is not legal, or static is not told its rows (or another policy is).
    """

    def __init__(self, capacity: int, policy: Policy = "tinylfu", kept: np.ndarray | None = None) -> None:
        check_whole("cache rows", capacity, 0, MOST_SLOTS)
        check_choice("cache policy", policy, POLICIES)
        if (policy == "static") != (kept is not None) or (kept is not None and len(kept) > capacity):
            raise InputError(
                f"A static cache of {capacity} rows is told which, and no other one is; got policy {policy!r} and "
                f"{'no rows' if kept is None else f'{len(kept)} rows'}."
            )
        self.capacity = capacity
        self.policy = policy
        self.map = SlotMap(capacity)
        self.owner_K = np.full(capacity, EMPTY, np.int64)
        self.held_K = np.zeros(capacity, np.int32)
        """how many hold the slot: while one does it does not give way"""
        self.count_K = np.zeros(capacity, np.int64)
        """batches that used the row since it came in; tinylfu: since ever, about"""
        self.permanent_K = np.zeros(capacity, bool)
        self.now = 0
        """number of the batch"""
        self._stamp_K = np.zeros(capacity, np.int64)
        self._free = np.arange(capacity)[::-1].copy()
        """the first _num_free of them are free slots; the last of these is the next one used"""
        self._num_free = capacity
        self._num_permanent = 0
        cells = _places(SKETCH_CELLS * capacity // 2) if policy == "tinylfu" else 0
        self._sketch_RH = np.zeros((SKETCH_ROWS, cells), np.uint8)
        self._uses = 0
        if kept is not None:
            self._keep(kept)

    def __len__(self) -> int:
        return len(self.map)

    def place(self, id_U: np.ndarray) -> Placed:
        """Hold a slot for each row of a batch (int64, none twice), until `release`; who had to give way is told.

        A row of the batch never gives way to another one, nor does a row that is held.
        """
        self.now += 1
        slot_U = self.map.find(id_U)
        is_new_U = slot_U == EMPTY
        self._fade(len(id_U))
        self._use(slot_U[~is_new_U])
        gone_slot_E, gone_id_E = self._admit(id_U, slot_U, np.flatnonzero(is_new_U))
        is_new_U &= slot_U != EMPTY
        return Placed(slot_U, is_new_U, gone_slot_E, gone_id_E)

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

    def _keep(self, kept: np.ndarray) -> None:
        """These rows take the first slots, in their order, and nobody takes another."""
        slots = np.arange(len(kept))
        self.owner_K[slots] = kept
        self.map.put(kept, slots)
        self.permanent_K[slots] = True
        self._num_permanent = len(kept)

    def _admit(self, id_U: np.ndarray, slot_U: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give the new ones slots, as far as there are any: (slots that gave way, whose they were)."""
        if self.policy == "static":
            return _NOBODY, _NOBODY
        count_N = np.zeros(len(new), np.int64)
        if self.policy == "tinylfu":
            read_counts(self._sketch_RH, id_U[new], count_N)
            raise_counts(self._sketch_RH, id_U[new], count_N + 1, MOST)
        room = min(len(new), self._num_free)
        gone = self._victims(len(new) - room)
        if self.policy == "tinylfu" and room < len(new):
            often = np.argsort(-count_N, kind="stable")
            new, count_N = new[often], count_N[often]
            gone = self._outdone(gone, count_N[room:] + 1)
        owner_E = self.owner_K[gone]
        self._clear(gone)
        self._num_free -= room
        slots = np.concatenate([self._free[self._num_free : self._num_free + room], gone])
        new = new[: len(slots)]
        slot_U[new] = slots
        self.owner_K[slots] = id_U[new]
        self.map.put(id_U[new], slots)
        self.count_K[slots] = count_N[: len(slots)]
        self._use(slots)
        return gone, owner_E

    def _victims(self, number: int) -> np.ndarray:
        if number <= 0:
            return np.empty(0, np.int64)
        victim_N = np.empty(min(number, self.capacity), np.int64)
        kept_K = (self.held_K > 0) | self.permanent_K
        found = choose_victims(
            self.owner_K, self.count_K, self._stamp_K, kept_K, self.now, self.policy != "lru", victim_N
        )
        return victim_N[:found]

    def _outdone(self, victims: np.ndarray, count_N: np.ndarray) -> np.ndarray:
        """Those victims that were used less often than who would come: the rarest against the most frequent one, and so
        on. count_N: of those that would come, descending."""
        victims = victims[np.lexsort((victims, self._stamp_K[victims], self.count_K[victims]))]
        return victims[self.count_K[victims] < count_N[: len(victims)]]

    def _fade(self, uses: int) -> None:
        """Count uses; after many of them all counts are halved."""
        self._uses += uses
        if self.policy == "tinylfu" and self._uses >= HALVED_AFTER * self.capacity:
            self._uses = 0
            self._sketch_RH >>= 1
            self.count_K >>= 1

    def _use(self, slots: np.ndarray) -> None:
        """A batch uses these slots."""
        self.held_K[slots] += 1
        self.count_K[slots] += 1
        self._stamp_K[slots] = self.now
        if self.policy == "lfu-promoted":
            often = slots[(self.count_K[slots] >= PROMOTE_AFTER) & ~self.permanent_K[slots]]
            often = often[: int(PERMANENT * self.capacity) - self._num_permanent]
            self.permanent_K[often] = True
            self._num_permanent += len(often)

    def _clear(self, slots: np.ndarray) -> None:
        if self.policy == "tinylfu":
            raise_counts(self._sketch_RH, self.owner_K[slots], self.count_K[slots], MOST)
        self.map.drop(self.owner_K[slots])
        self.owner_K[slots] = EMPTY
        self.count_K[slots] = 0
        self._num_permanent -= int(self.permanent_K[slots].sum())
        self.permanent_K[slots] = False


def _places(ids: int) -> int:
    """A power of two, twice the ids or more."""
    return 1 << max(2 * ids - 1, _FEW - 1).bit_length()
