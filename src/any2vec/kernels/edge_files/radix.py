"""Whole numbers in order, by their digits from the lowest up. Letter: M numbers."""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit

_WIDTH = 8
"""bits of a digit: places of so many fit into the first cache beside what they lead to"""


@jit
def sort_keys(key_M: np.ndarray, spare_M: np.ndarray, lowest: int) -> None:
    """In place; int64 (M,), none negative, by their bits from `lowest` up alone. spare_M: as key_M, scratch."""
    differ = np.int64(0)
    for key in key_M:
        differ |= key ^ key_M[0]
    given, other, is_spare = key_M, spare_M, False
    place = np.empty(1 << _WIDTH, np.int64)
    mask = (1 << _WIDTH) - 1
    for shift in range(lowest, 63, _WIDTH):
        if (differ >> shift) & mask == 0:
            continue
        place[:] = 0
        for key in given:
            place[(key >> shift) & mask] += 1
        total = 0
        for digit in range(place.size):
            count = place[digit]
            place[digit] = total
            total += count
        for key in given:
            digit = (key >> shift) & mask
            other[place[digit]] = key
            place[digit] += 1
        given, other, is_spare = other, given, not is_spare
    if is_spare:
        key_M[:] = given
