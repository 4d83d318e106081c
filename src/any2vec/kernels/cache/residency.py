"""Where ids stand in a cache, and which slots give way: a hash map, and a choice by counts and stamps.

Legend: H places of the map (a power of two, at least twice as many as ids), K slots of the cache, N ids of a call.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import mix64

EMPTY = -1
"""no id: a place of the map, or a slot, that is free"""
COUNTS, AGES = 1024, 4096
"""more uses, or batches ago, than this less one are alike to `choose_victims`"""


@jit
def _home(key: int, mask: int) -> np.int64:
    return np.int64(mix64(np.uint64(key)) & np.uint64(mask))


@jit
def find_slots(key_H: np.ndarray, slot_H: np.ndarray, id_N: np.ndarray, slot_N: np.ndarray) -> None:
    """slot_N = the slot of each id, EMPTY where it has none. All int64; the map is open addressing, place by place."""
    mask = key_H.size - 1
    for n in range(id_N.size):
        place = _home(id_N[n], mask)
        while key_H[place] != EMPTY and key_H[place] != id_N[n]:
            place = (place + 1) & mask
        slot_N[n] = slot_H[place] if key_H[place] != EMPTY else EMPTY


@jit
def put_slots(key_H: np.ndarray, slot_H: np.ndarray, id_N: np.ndarray, slot_N: np.ndarray) -> int:
    """Enter ids (0 or more), or give those that are there another slot; how many are new. At least a place stays
    empty."""
    mask, new = key_H.size - 1, 0
    for n in range(id_N.size):
        place = _home(id_N[n], mask)
        while key_H[place] != EMPTY and key_H[place] != id_N[n]:
            place = (place + 1) & mask
        if key_H[place] == EMPTY:
            new += 1
        key_H[place], slot_H[place] = id_N[n], slot_N[n]
    return new


@jit
def drop_slots(key_H: np.ndarray, slot_H: np.ndarray, id_N: np.ndarray) -> int:
    """Take ids out; how many were there. What stands behind moves up, so that nothing marks where something was.

    Knuth, The Art of Computer Programming 3, section 6.4, algorithm R.
    """
    mask, gone = key_H.size - 1, 0
    for n in range(id_N.size):
        hole = _home(id_N[n], mask)
        while key_H[hole] != EMPTY and key_H[hole] != id_N[n]:
            hole = (hole + 1) & mask
        if key_H[hole] == EMPTY:
            continue
        gone += 1
        place = (hole + 1) & mask
        while key_H[place] != EMPTY:
            # It may fill the hole unless its home lies behind the hole on the way to its place.
            if ((place - _home(key_H[place], mask)) & mask) >= ((place - hole) & mask):
                key_H[hole], slot_H[hole] = key_H[place], slot_H[place]
                hole = place
            place = (place + 1) & mask
        key_H[hole] = EMPTY
    return gone


@jit
def choose_victims(
    owner_K: np.ndarray, count_K: np.ndarray, stamp_K: np.ndarray, kept_K: np.ndarray, now: int, by_count: bool,
    victim_N: np.ndarray,
) -> int:  # fmt: skip
    """Fill victim_N, int64, with the N slots that give way first, ascending; how many could be found.

    The rarest used first (by_count), among them those longest ago, among them the lowest; without by_count those
    longest ago. Counts from COUNTS - 1 and ages from AGES - 1 on are alike. Three passes over the slots, no lists.

    Args:
        count_K, stamp_K: int64: how often a slot's id was used, and in which batch last, `now` at most.
        kept_K: bool: slots that must stay.
    """
    at_count = np.zeros(COUNTS, np.int64)
    for k in range(owner_K.size):
        if owner_K[k] != EMPTY and not kept_K[k]:
            at_count[min(count_K[k], COUNTS - 1) if by_count else 0] += 1
    wanted = min(victim_N.size, at_count.sum())
    left, last = wanted, 0
    while last < COUNTS - 1 and at_count[last] < left:
        left -= at_count[last]
        last += 1
    at_age = np.zeros(AGES, np.int64)
    for k in range(owner_K.size):
        if owner_K[k] != EMPTY and not kept_K[k] and (not by_count or min(count_K[k], COUNTS - 1) == last):
            at_age[min(now - stamp_K[k], AGES - 1)] += 1
    age = AGES - 1
    while age > 0 and at_age[age] < left:
        left -= at_age[age]
        age -= 1
    found = 0
    for k in range(owner_K.size):
        if owner_K[k] == EMPTY or kept_K[k] or found == wanted:
            continue
        count = min(count_K[k], COUNTS - 1) if by_count else last
        own = min(now - stamp_K[k], AGES - 1)
        takes = count < last or (count == last and own > age)
        if not takes and count == last and own == age and left > 0:
            left -= 1
            takes = True
        if takes:
            victim_N[found] = k
            found += 1
    return found
