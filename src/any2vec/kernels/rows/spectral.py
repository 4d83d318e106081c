"""Merging by directions: second moments of rows, and summed changes scaled along the eigenvectors of a curvature.

Legend: B rows of a block, D dim.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit

_FLAT, _STIFF = 1e-12, 60.0
"""between these bounds of a decay the share of the sum is computed: below it is 1, above 1 / hosts, in float64"""


@jit
def add_moment(rows_BD: np.ndarray, weight_B: np.ndarray, moment_DD: np.ndarray) -> None:
    """Add sum_b weight_b y_b y_b^T to the lower triangle of moment_DD, float64; rows_BD float32, weight_B float64."""
    dim = rows_BD.shape[1]
    row_D = np.empty(dim, np.float64)
    for b in range(weight_B.size):
        weight = weight_B[b]
        if weight == 0.0:
            continue
        for d in range(dim):
            row_D[d] = rows_BD[b, d]
        for i in range(dim):
            scaled = weight * row_D[i]
            for j in range(i + 1):
                moment_DD[i, j] += scaled * row_D[j]


@jit
def scale_along(
    sum_BD: np.ndarray, count_B: np.ndarray, step_B: np.ndarray, value_D: np.ndarray, vector_DD: np.ndarray
) -> None:
    """Scale summed changes, float64, in place along the eigenvectors, the columns of vector_DD, of a curvature.

    count_B integers (B,): hosts that changed a row; rows of fewer than two stay. step_B float64 (B,): what an
    eigenvalue is multiplied by to be the decay of a row along its vector in a round. Of m hosts that decay by a / m
    each, the share is (1 - exp(-a)) / (m (1 - exp(-a / m))): 1 along flat directions, 1 / m along stiff ones.
    """
    dim = value_D.size
    across_DD = np.ascontiguousarray(vector_DD.T)
    part_D = np.empty(dim, np.float64)
    for b in range(count_B.size):
        m = np.float64(count_B[b])
        if m < 2.0:
            continue
        sum_D = sum_BD[b]
        part_D[:] = 0.0
        for d in range(dim):
            for k in range(dim):
                part_D[k] += sum_D[d] * vector_DD[d, k]
        for k in range(dim):
            decay = min(step_B[b] * value_D[k], _STIFF)
            if decay > _FLAT:
                part_D[k] *= np.expm1(-decay) / (m * np.expm1(-decay / m))
        sum_D[:] = 0.0
        for k in range(dim):
            for d in range(dim):
                sum_D[d] += part_D[k] * across_DD[k, d]
