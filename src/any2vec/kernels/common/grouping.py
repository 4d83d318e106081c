"""The ids of a batch, grouped by row: which rows it reads, and where each stands in it.

Legend: M ids of a batch, U distinct ones.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit

_DIGIT = 11
"""bits sorted in one pass: counts of 2048 digits stay in the first cache"""


@jit
def sort_positions(id_M: np.ndarray, highest: int, member_M: np.ndarray, other_M: np.ndarray) -> None:
    """member_M = positions of id_M (int64, each in [0, highest]) in ascending order of id, equal ones in their order.

    A radix sort from the lowest digit up. member_M and other_M are int32; other_M is scratch.
    """
    size = id_M.size
    count = np.empty((1 << _DIGIT) + 1, np.int64)
    mask = (1 << _DIGIT) - 1
    passes = 1
    while (highest >> (passes * _DIGIT)) > 0:
        passes += 1
    # After an even number of further passes the result stands in member_M.
    source, target = (other_M, member_M) if passes % 2 == 1 else (member_M, other_M)
    for m in range(size):
        source[m] = m
    for number in range(passes):
        shift = number * _DIGIT
        count[:] = 0
        for m in range(size):
            count[((id_M[m] >> shift) & mask) + 1] += 1
        for digit in range(1 << _DIGIT):
            count[digit + 1] += count[digit]
        for m in range(size):
            position = source[m]
            digit = (id_M[position] >> shift) & mask
            target[count[digit]] = position
            count[digit] += 1
        source, target = target, source


@jit
def cut_groups(
    id_M: np.ndarray, member_M: np.ndarray, row_M: np.ndarray, first_M1: np.ndarray, place_M: np.ndarray
) -> int:
    """How many distinct ids there are, U; row_M[:U] becomes them, ascending.

    member_M[first_M1[u]:first_M1[u + 1]] are the positions of row u, and place_M[m] is the u of position m. row_M and
    first_M1 int64, place_M int32.
    """
    found, last = 0, np.int64(-1)
    first_M1[0] = 0
    for m in range(member_M.size):  # without a branch: whether a row is new is hard to foresee
        position = member_M[m]
        row = id_M[position]
        found += int(row != last)
        last = row
        row_M[found - 1] = row
        first_M1[found] = m + 1
        place_M[position] = found - 1
    return found


@jit
def cut_by(key_M: np.ndarray, stop_N1: np.ndarray) -> None:
    """stop[n]:stop[n + 1] = where those of key n stand once they are grouped; int64 (N + 1,), zeros on entry."""
    for m in range(key_M.size):
        stop_N1[key_M[m] + 1] += 1
    for n in range(stop_N1.size - 1):
        stop_N1[n + 1] += stop_N1[n]


@jit
def bags_of(start_P1: np.ndarray, bag_M: np.ndarray) -> None:
    """bag_M[m] = the bag p with start_P1[p] <= m < start_P1[p + 1]; bag_M int32."""
    for p in range(start_P1.size - 1):
        first, stop = start_P1[p], start_P1[p + 1]
        if stop == first + 1:  # most columns hold one id
            bag_M[first] = p
            continue
        for m in range(first, stop):
            bag_M[m] = p
