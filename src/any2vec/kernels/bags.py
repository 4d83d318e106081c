"""Sums of rows over bags, and of the gradients of bags over rows.

Legend: V rows of the table, C its columns, W those that are values (the first ones), M ids of a batch, P bags, U
distinct rows.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.jit import jit
from any2vec.kernels.prefetch import prefetch_row

_AHEAD = 16
"""rows whose way from memory is begun before they are needed"""


@jit
def pool_bags(table_VC: np.ndarray, id_M: np.ndarray, start_P1: np.ndarray, sum_PW: np.ndarray) -> None:
    """sum_PW[p] = sum of the values of rows id_M[start_P1[p]:start_P1[p + 1]], float32, in their order; 0 where none.

    id_M int32 or int64, each in [0, V).
    """
    width = sum_PW.shape[1]
    for m in range(min(_AHEAD, id_M.size)):
        prefetch_row(table_VC, id_M[m])
    for p in range(start_P1.size - 1):
        first, stop = start_P1[p], start_P1[p + 1]
        if first == stop:
            for w in range(width):
                sum_PW[p, w] = np.float32(0.0)
        for m in range(first, stop):
            if m + _AHEAD < id_M.size:
                prefetch_row(table_VC, id_M[m + _AHEAD])
            row = id_M[m]
            if m == first:
                for w in range(width):
                    sum_PW[p, w] = table_VC[row, w]
            else:
                for w in range(width):
                    sum_PW[p, w] += table_VC[row, w]


@jit
def sum_gradients(
    gradient_PW: np.ndarray, bag_M: np.ndarray, member_M: np.ndarray, first_U1: np.ndarray, sum_UW: np.ndarray
) -> None:
    """sum_UW[u] = sum of gradient_PW of the bags in which row u stands, float32, in the order of its positions."""
    width = sum_UW.shape[1]
    for u in range(first_U1.size - 1):
        for w in range(width):
            sum_UW[u, w] = gradient_PW[bag_M[member_M[first_U1[u]]], w]
        for m in range(first_U1[u] + 1, first_U1[u + 1]):
            bag = bag_M[member_M[m]]
            for w in range(width):
                sum_UW[u, w] += gradient_PW[bag, w]
