"""Triples, or pairs, of rows of a partitioned table: which bucket each is in, and all grouped by it.

Legend: M triples, C columns of one, P partitions, B = P * P buckets.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.grouping import cut_by
from any2vec.kernels.common.jit import jit


@jit
def find_buckets(row_MC: np.ndarray, num_rows: int, partitions: int, bucket_M: np.ndarray) -> None:
    """bucket = P * partition of the first column + that of the last, int32; partition q begins at row q V // P."""
    last = row_MC.shape[1] - 1
    for m in range(row_MC.shape[0]):
        head = ((np.int64(row_MC[m, 0]) + 1) * partitions - 1) // num_rows
        tail = ((np.int64(row_MC[m, last]) + 1) * partitions - 1) // num_rows
        bucket_M[m] = head * partitions + tail


@jit
def group_buckets(row_MC: np.ndarray, bucket_M: np.ndarray, first_B1: np.ndarray, grouped_MC: np.ndarray) -> None:
    """grouped = the triples by bucket, equal ones in their order; bucket b has grouped[first[b]:first[b + 1]].

    first_B1 int64 (B + 1,) is written, too.
    """
    first_B1[:] = 0
    cut_by(bucket_M, first_B1)
    next_B = first_B1[:-1].copy()
    for m in range(bucket_M.size):
        place = next_B[bucket_M[m]]
        next_B[bucket_M[m]] = place + 1
        for c in range(row_MC.shape[1]):
            grouped_MC[place, c] = row_MC[m, c]
