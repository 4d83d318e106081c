"""Merging by directions: second moments of rows, and summed changes scaled along the eigenvectors of a curvature.

Rows go through a matrix four at a time and four of its rows at a time, so that each number that is loaded serves
several rows. What becomes of a row does not depend on those beside it.

Legend: B rows of a block, D dim, G rows at a time.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit

_AT_ONCE = 4
_HALVED = 64.0
"""2^6: exp(x) is the power of so much of the series of exp(x / 64)"""


@jit
def add_moment(rows_BD: np.ndarray, weight_B: np.ndarray, moment_DD: np.ndarray) -> None:
    """Add sum_b weight_b y_b y_b^T to the lower triangle of moment_DD, float64; rows_BD float32, weight_B float64."""
    dim = rows_BD.shape[1]
    y_GD, scaled_GD = np.zeros((_AT_ONCE, dim)), np.zeros((_AT_ONCE, dim))
    held = 0
    for b in range(weight_B.size):
        if weight_B[b] == 0.0:
            continue
        for d in range(dim):
            y_GD[held, d] = rows_BD[b, d]
            scaled_GD[held, d] = weight_B[b] * y_GD[held, d]
        held += 1
        if held == _AT_ONCE:
            _add_products(scaled_GD, y_GD, moment_DD)
            held = 0
    scaled_GD[held:] = 0.0
    _add_products(scaled_GD, y_GD, moment_DD)


@jit
def _add_products(left_GD: np.ndarray, right_GD: np.ndarray, moment_DD: np.ndarray) -> None:
    for i in range(moment_DD.shape[0]):
        a, b, c, d = left_GD[0, i], left_GD[1, i], left_GD[2, i], left_GD[3, i]
        for j in range(i + 1):
            moment_DD[i, j] += a * right_GD[0, j] + b * right_GD[1, j] + c * right_GD[2, j] + d * right_GD[3, j]


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
    along_DD, across_DD = np.ascontiguousarray(vector_DD), np.ascontiguousarray(vector_DD.T)
    sum_GD, part_GD = np.zeros((_AT_ONCE, dim)), np.zeros((_AT_ONCE, dim))
    from_G, work_3D = np.zeros(_AT_ONCE, np.int64), np.empty((3, dim))
    held = 0
    for b in range(count_B.size + 1):
        if b < count_B.size:
            if count_B[b] < 2:
                continue
            sum_GD[held] = sum_BD[b]
            from_G[held] = b
            held += 1
            if held < _AT_ONCE:
                continue
        _multiply(sum_GD, along_DD, part_GD)
        for g in range(held):
            _scale_by_shares(part_GD[g], step_B[from_G[g]], value_D, count_B[from_G[g]], work_3D)
        _multiply(part_GD, across_DD, sum_GD)
        for g in range(held):
            sum_BD[from_G[g]] = sum_GD[g]
        held = 0


@jit
def _scale_by_shares(part_D: np.ndarray, step: float, value_D: np.ndarray, hosts: int, work_3D: np.ndarray) -> None:
    """Multiply by (1 - q^m) / (m (1 - q)), q = exp(-step value / m): by the mean of q^0 .. q^(m - 1).

    It is added up by doubling: q^0 + .. + q^(2n - 1) = (1 + q^n) (q^0 + .. + q^(n - 1)). All terms are positive, so
    that nothing cancels, however small the decay. work_3D: memory.
    """
    total_D, run_D, power_D = work_3D[0], work_3D[1], work_3D[2]
    scale = -step / (hosts * _HALVED)
    for k in range(part_D.size):
        x = max(scale * value_D[k], -1.0)  # exp(-64) is as good as nothing
        q = 1.0 + x / 12
        for term in range(11, 0, -1):
            q = 1.0 + x * q / term
        q *= q
        q *= q
        q *= q
        q *= q
        q *= q
        power_D[k] = q * q
        run_D[k], total_D[k] = 1.0, 0.0
    left = hosts
    while left > 0:
        if left & 1:
            for k in range(part_D.size):
                total_D[k] = total_D[k] * power_D[k] + run_D[k]
        for k in range(part_D.size):
            run_D[k] += run_D[k] * power_D[k]
            power_D[k] *= power_D[k]
        left >>= 1
    for k in range(part_D.size):
        part_D[k] *= total_D[k] / hosts


@jit
def _multiply(left_GD: np.ndarray, matrix_DD: np.ndarray, out_GD: np.ndarray) -> None:
    """out = left @ matrix."""
    dim = matrix_DD.shape[0]
    out_GD[:] = 0.0
    whole = dim - dim % 4
    for d in range(0, whole, 4):
        one_D, two_D, three_D, four_D = matrix_DD[d], matrix_DD[d + 1], matrix_DD[d + 2], matrix_DD[d + 3]
        for g in range(_AT_ONCE):
            a, b, c, e = left_GD[g, d], left_GD[g, d + 1], left_GD[g, d + 2], left_GD[g, d + 3]
            out_D = out_GD[g]
            for k in range(dim):
                out_D[k] += a * one_D[k] + b * two_D[k] + c * three_D[k] + e * four_D[k]
    for d in range(whole, dim):
        for g in range(_AT_ONCE):
            for k in range(dim):
                out_GD[g, k] += left_GD[g, d] * matrix_DD[d, k]
