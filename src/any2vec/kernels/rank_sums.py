"""Sums of what several trainers have of the same rows, one trainer after the other: the order is part of the result.

Legend: K rows of the sum, J rows of a trainer's part, W values of a row.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.jit import jit


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
