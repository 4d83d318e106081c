"""Merging what several hosts made of the same rows: sum, mean and AdaSum, row by row, host after host in rank order.

Legend: B rows of the block that an owner holds, K rows that one host sends, D dim.

The update of a host is delta = now - start. AdaSum (GraphAny2Vec, IPDPS 2021, equation 2; Maleki et al. 2021, "Scaling
distributed training with adaptive summation") adds to what the hosts before have agreed on, u, the next delta g:

    asymmetric  u + g - (u.g / |g|^2) g                 g, and the part of u that is orthogonal to it
    symmetric   (1 - u.g / 2|u|^2) u + (1 - u.g / 2|g|^2) g

The asymmetric form lets the last host that touched a row have its way along its own update. With a share s < 1 of a
row, u + g - s (u.g / |g|^2) g, it goes over into the sum (s = 0): our own rule "blend", see sync/rules/block.py.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.addresses import rows_at, slots_at
from any2vec.kernels.common.jit import fast_jit, jit
from any2vec.kernels.common.scalar import bounded

SUM, MEAN, ADASUM, ADASUM_SYMMETRIC = 0, 1, 2, 3
_TINY = 1.5e-154
"""squares of norms below it (the root of the smallest float64) are 0: what they belong to is neutral"""


@fast_jit
def _dots(u_D: np.ndarray, now_D: np.ndarray, start_D: np.ndarray) -> tuple[float, float, float]:
    """(u.g, |g|^2, |u|^2) in float64, g = now - start."""
    ug, gg, uu = 0.0, 0.0, 0.0
    for d in range(u_D.size):
        g = np.float64(now_D[d]) - np.float64(start_D[d])
        ug += u_D[d] * g
        gg += g * g
        uu += u_D[d] * u_D[d]
    return ug, gg, uu


@fast_jit
def merge_rows(
    rule: int,
    slot_K: np.ndarray,
    first: int,
    now_KD: np.ndarray,
    is_delta: bool,
    start_BD: np.ndarray,
    value_BD: np.ndarray,
    sum_BD: np.ndarray,
    count_B: np.ndarray,
    share_B: np.ndarray,
) -> None:
    """Add one host's rows to what is merged so far; rows that it did not change are passed over.

    slot_K int64 (K,): rows of the block, the first of which is number `first`; now_KD float32 (K, D): their values
    at this host, or with is_delta their changes; start_BD float32 (B, D): the values that all started from;
    value_BD float32 and sum_BD float64 (B, D): the first host's value and what is agreed on; count_B int32 (B,):
    hosts that changed the row, 0 on entry to a round; share_B float32 (B,): of asymmetric AdaSum, or (0,): all 1.
    Call for one host after the other in rank order.
    """
    dim = now_KD.shape[1]
    zero_D = np.zeros(dim, np.float32)
    for k in range(slot_K.size):
        slot = slot_K[k] - first
        now_D, u_D = now_KD[k], sum_BD[slot]
        start_D = zero_D if is_delta else start_BD[slot]
        is_changed = False
        for d in range(dim):
            is_changed |= now_D[d] != start_D[d]
        if not is_changed:
            continue
        count_B[slot] += 1
        if count_B[slot] == 1:
            for d in range(dim):
                u_D[d] = np.float64(now_D[d]) - np.float64(start_D[d])
                value_BD[slot, d] = now_D[d]
            continue
        keep, add = 1.0, 1.0
        if rule >= ADASUM:
            ug, gg, uu = _dots(u_D, now_D, start_D)
            if gg < _TINY:
                add = 0.0
            elif rule == ADASUM:
                add = 1.0 - (share_B[slot] if share_B.size else 1.0) * ug / gg
            else:
                add = 1.0 - 0.5 * ug / gg
                keep = 1.0 - 0.5 * ug / uu if uu >= _TINY else 1.0
        for d in range(dim):
            u_D[d] = keep * u_D[d] + add * (np.float64(now_D[d]) - np.float64(start_D[d]))


@jit
def finish_rows(
    rule: int,
    is_delta: bool,
    start_BD: np.ndarray,
    value_BD: np.ndarray,
    sum_BD: np.ndarray,
    count_B: np.ndarray,
) -> None:
    """Put what was merged into start_BD; arguments as `merge_rows`.

    A row that one host alone changed takes that host's value: start + (now - start) is not now in floating point.
    """
    for slot in range(count_B.size):
        count = count_B[slot]
        if count == 1 and not is_delta:
            start_BD[slot] = value_BD[slot]
        elif count > 0:
            scale = 1.0 / count if rule == MEAN else 1.0
            for d in range(start_BD.shape[1]):
                start_BD[slot, d] = bounded(np.float32(np.float64(start_BD[slot, d]) + scale * sum_BD[slot, d]))


@jit
def places_at(slots_H: np.ndarray, size_H: np.ndarray, begin: int) -> np.ndarray:
    """int64 (H,): where in its slots each host comes to row `begin`; arguments as `merge_hosts`."""
    place_H = np.zeros(size_H.size, np.int64)
    for h in range(size_H.size):
        if size_H[h] > 0:
            place_H[h] = np.searchsorted(slots_at(slots_H[h], size_H[h]), begin)
    return place_H


@jit
def place_before(slot_K: np.ndarray, place: int, last: int) -> int:
    """Where in its slots, from `place` on, a host comes to row `last`."""
    while place < slot_K.size and slot_K[place] < last:
        place += 1
    return place


@fast_jit
def merge_hosts(
    rule: int,
    slots_H: np.ndarray,
    values_H: np.ndarray,
    size_H: np.ndarray,
    step: int,
    begin: int,
    end: int,
    is_delta: bool,
    start_BD: np.ndarray,
    share_B: np.ndarray,
    changed_B: np.ndarray,
) -> None:
    """Merge what H hosts made of the rows [begin, end) of a block, and agree on it: `merge_rows` and `finish_rows`.

    slots_H, values_H uint64 (H,): addresses of each host's slots, int64 (K,) ascending, and values, float32 (K, D);
    size_H int64 (H,): K of each; share_B as there. step: rows at a time, so few that they stay in a cache;
    changed_B bool (B,): set where any host changed a row. The caller keeps the arrays alive; pointers, for a kernel
    takes no list of many arrays.
    """
    dim = start_BD.shape[1]
    value_ND, sum_ND = np.empty((step, dim), np.float32), np.empty((step, dim), np.float64)
    count_N = np.empty(step, np.int32)
    place_H = places_at(slots_H, size_H, begin)
    for first in range(begin, end, step):
        last = min(first + step, end)
        rows_ND = start_BD[first:last]
        count_N[:] = 0
        for h in range(size_H.size):
            if place_H[h] == size_H[h]:
                continue
            slot_K, now_KD = slots_at(slots_H[h], size_H[h]), rows_at(values_H[h], np.float32(0), size_H[h], dim)
            low = place_H[h]
            high = place_H[h] = place_before(slot_K, low, last)
            merge_rows(
                rule, slot_K[low:high], first, now_KD[low:high], is_delta, rows_ND, value_ND, sum_ND, count_N,
                share_B[first:last],
            )  # fmt: skip
        finish_rows(rule, is_delta, rows_ND, value_ND, sum_ND, count_N[: last - first])
        for slot in range(first, last):
            changed_B[slot] = count_N[slot - first] > 0


@jit
def changed_rows(now_VD: np.ndarray, start_VD: np.ndarray, changed_V: np.ndarray) -> None:
    """changed[v] = whether row v differs from its start; uint8 (V,)."""
    for v in range(now_VD.shape[0]):
        is_changed = False
        for d in range(now_VD.shape[1]):
            is_changed |= now_VD[v, d] != start_VD[v, d]
        changed_V[v] = is_changed
