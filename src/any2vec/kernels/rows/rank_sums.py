"""Sums of what several trainers have of the same rows, one trainer after the other: the order is part of the result.

Legend: K rows of the sum, J rows of a trainer's part, W values of a row.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from any2vec.kernels.common.jit import jit


@jit
def add_in_turn(part_JW: np.ndarray, place_J: np.ndarray, is_begun_K: np.ndarray, sum_KW: np.ndarray) -> None:
    """sum_KW[place_J[j]] += part_JW[j], float32; the first part of a row is its sum, whatever stood there.

    is_begun_K uint8: which rows have had a part; 0 everywhere before the first trainer.
    """
    for j in range(place_J.size):
        k = place_J[j]
        if is_begun_K[k] == 0:
            is_begun_K[k] = 1
            for w in range(sum_KW.shape[1]):
                sum_KW[k, w] = part_JW[j, w]
        else:
            for w in range(sum_KW.shape[1]):
                sum_KW[k, w] += part_JW[j, w]


def sum_in_turn(parts: Iterable[tuple[np.ndarray, np.ndarray]], count: int, width: int) -> np.ndarray:
    """The sums of K = `count` rows of W = `width` values, float32 (K, W).

    Args:
        parts: (float32 (J, W), int64 (J,): which of the K rows they are of) of each trainer, in the order in which they
            are added; each row is in one of them at least.
    """
    sum_KW, is_begun_K = np.empty((count, width), np.float32), np.zeros(count, np.uint8)
    for part_JW, place_J in parts:
        add_in_turn(part_JW, place_J, is_begun_K, sum_KW)
    return sum_KW
