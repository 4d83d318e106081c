"""The rows that one batch reads and changes: its ids grouped by row, once, for looking up and for the way back.

Legend: M ids of the batch, P bags, U distinct rows, W values of a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from any2vec.kernels.common.grouping import bags_of, cut_groups, sort_positions
from any2vec.kernels.rows.bags import pool_bags, sum_gradients


class BatchRows(NamedTuple):
    """Ids of a batch, bag by bag, and grouped by row."""

    id_M: np.ndarray
    """int64 (M,)"""
    start_P1: np.ndarray
    """int64 (P + 1,): bag p holds id_M[start_P1[p]:start_P1[p + 1]], which may be nothing"""
    row_U: np.ndarray
    """int64 (U,): the distinct ids, ascending"""
    first_U1: np.ndarray
    """int64 (U + 1,): row u stands at the positions member_M[first_U1[u]:first_U1[u + 1]]"""
    member_M: np.ndarray
    """int32 (M,): positions by row, those of one row ascending"""
    place_M: np.ndarray
    """int32 (M,): the u of each position"""
    bag_M: np.ndarray
    """int32 (M,): the bag of each position"""

    @classmethod
    def of(cls, id_M: np.ndarray, start_P1: np.ndarray) -> BatchRows:
        """Group ids, int64 (M,), each 0 or more, that start_P1, int64 (P + 1,), cuts into bags."""
        size = len(id_M)
        member_M, place_M, bag_M = (np.empty(size, np.int32) for _ in range(3))
        row_M, first_M1 = np.empty(size, np.int64), np.empty(size + 1, np.int64)
        sort_positions(id_M, int(id_M.max()) if size else 0, member_M, place_M)
        num_rows = cut_groups(id_M, member_M, row_M, first_M1, place_M)
        bags_of(start_P1, bag_M)
        return cls(id_M, start_P1, row_M[:num_rows], first_M1[: num_rows + 1], member_M, place_M, bag_M)

    @property
    def num_bags(self) -> int:
        return len(self.start_P1) - 1

    def pool(self, row_UC: np.ndarray, width: int) -> np.ndarray:
        """Sums over the bags, float32 (P, W), of the first `width` columns of the distinct rows, float32 (U, C)."""
        sum_PW = np.empty((self.num_bags, width), np.float32)
        pool_bags(row_UC, self.place_M, self.start_P1, sum_PW)
        return sum_PW

    def gradients(self, gradient_PW: np.ndarray) -> np.ndarray:
        """Gradients of the distinct rows, float32 (U, W), from those of the bags' sums."""
        sum_UW = np.empty((len(self.row_U), gradient_PW.shape[1]), np.float32)
        sum_gradients(np.ascontiguousarray(gradient_PW), self.bag_M, self.member_M, self.first_U1, sum_UW)
        return sum_UW
