"""Sums of rows over bags, and of the gradients of bags over rows.

Legend: V rows of the table, C its columns, W those that are values (the first ones), M ids of a batch, P bags, U
distinct rows.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.prefetch import prefetch_row
from any2vec.kernels.common.row_words import sum_rows

_AHEAD = 32
"""rows whose way from memory is begun before they are needed"""


@jit
def pool_bags(table_VC: np.ndarray, id_M: np.ndarray, start_P1: np.ndarray, sum_PW: np.ndarray) -> None:
    """sum_PW[p] = sum of the values of rows id_M[start_P1[p]:start_P1[p + 1]], float32, in their order; 0 where none.

    id_M int32 or int64, each in [0, V). C order.
    """
    for m in range(min(_AHEAD, id_M.size)):
        prefetch_row(table_VC, id_M[m])
    for p in range(start_P1.size - 1):
        first, stop = start_P1[p], start_P1[p + 1]
        for m in range(first + _AHEAD, min(stop + _AHEAD, id_M.size)):
            prefetch_row(table_VC, id_M[m])
        if first == stop:
            sum_PW[p] = np.float32(0.0)
        else:
            sum_rows(table_VC, id_M, first, stop, sum_PW, p)


@jit
def sum_gradients(
    gradient_PW: np.ndarray, bag_M: np.ndarray, member_M: np.ndarray, first_U1: np.ndarray, sum_UW: np.ndarray
) -> None:
    """sum_UW[u] = sum of gradient_PW of the bags in which row u stands, float32, in the order of its positions.

    C order.
    """
    bag_by_row_M = np.empty_like(bag_M)
    for m in range(bag_M.size):
        bag_by_row_M[m] = bag_M[member_M[m]]
    for m in range(min(_AHEAD, member_M.size)):
        prefetch_row(gradient_PW, bag_by_row_M[m])
    for u in range(first_U1.size - 1):
        first, stop = first_U1[u], first_U1[u + 1]
        for m in range(first + _AHEAD, min(stop + _AHEAD, member_M.size)):
            prefetch_row(gradient_PW, bag_by_row_M[m])
        sum_rows(gradient_PW, bag_by_row_M, first, stop, sum_UW, u)
