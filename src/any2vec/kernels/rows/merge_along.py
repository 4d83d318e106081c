"""Merging what several hosts made of the same rows, summed and then scaled along a curvature: a stretch at a time.

Rows are restored, added up and scaled while they are in a core's cache. Legend: as in kernels/rows/merge.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from any2vec.kernels.common.addresses import numbers_at, rows_at, slots_at
from any2vec.kernels.common.jit import jit
from any2vec.kernels.rows.merge import SUM, finish_rows, merge_rows, place_before, places_at
from any2vec.kernels.rows.quantize import restore_rows
from any2vec.kernels.rows.spectral import scale_along


@jit
def merge_along(
    slot_H: np.ndarray, value_H: np.ndarray, scale_H: np.ndarray, size_H: np.ndarray, like: np.integer[Any],
    step: int, begin: int, end: int, is_delta: bool, start_BD: np.ndarray, step_B: np.ndarray, value_D: np.ndarray,
    along_DP: np.ndarray, across_DP: np.ndarray, changed_B: np.ndarray,
) -> None:  # fmt: skip
    """Merge what H hosts made of the rows [begin, end) of a block: `merge_rows`, `scale_along` and `finish_rows`.

    slot_H uint64 (H,): addresses of each host's slots, int64 (K,) ascending; value_H, scale_H uint64 (H,): of its
    values, codes like `like` with a scale for each row, or float32 where the address of the scales is 0; size_H int64
    (H,): K of each. step: rows at a time; step_B to across_DP: see `scale_along`; changed_B bool (B,): set where any
    host changed a row. The caller keeps the arrays alive.
    """
    dim = start_BD.shape[1]
    value_ND, sum_ND = np.empty((step, dim), np.float32), np.empty((step, dim), np.float64)
    restored_ND, count_N = np.empty((step, dim), np.float32), np.empty(step, np.int32)
    share_0 = np.empty(0, np.float32)
    place_H = places_at(slot_H, size_H, begin)
    for first in range(begin, end, step):
        last = min(first + step, end)
        rows_ND = start_BD[first:last]
        count_N[:] = 0
        for h in range(size_H.size):
            if place_H[h] == size_H[h]:
                continue
            slot_K = slots_at(slot_H[h], size_H[h])
            low = place_H[h]
            high = place_H[h] = place_before(slot_K, low, last)
            if scale_H[h] == 0:
                now_ND = rows_at(value_H[h], np.float32(0), size_H[h], dim)[low:high]
            else:
                scale_K = numbers_at(scale_H[h], np.float32(0), size_H[h])
                now_ND = restored_ND[: high - low]
                restore_rows(scale_K[low:high], rows_at(value_H[h], like, size_H[h], dim)[low:high], now_ND)
            merge_rows(
                SUM, slot_K[low:high], first, now_ND, is_delta, rows_ND, value_ND, sum_ND, count_N, share_0
            )  # fmt: skip
        scale_along(sum_ND, count_N[: last - first], step_B[first:last], value_D, along_DP, across_DP)
        finish_rows(SUM, is_delta, rows_ND, value_ND, sum_ND, count_N[: last - first])
        for slot in range(first, last):
            changed_B[slot] = count_N[slot - first] > 0
