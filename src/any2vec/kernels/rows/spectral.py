"""Merging by directions: second moments of rows, and summed changes scaled along the eigenvectors of a curvature.

Both are products of matrices in float32, register tile by register tile (kernels/common/tiles.py); moments of so many
rows are then added up in float64. What becomes of a row does not depend on those beside it.

Legend: B rows of a block, D dim, P numbers of a padded row, R rows at a time.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.tiles import fours, mix_rows, mix_rows_across
from any2vec.kernels.common.vectors import local_rows, padded

_SUMMED = 64
"""rows whose moment is a sum in float32"""
_SCALED = 32
"""rows that are turned at a time"""
_PIECE = 48
"""rows of the matrix that they meet at a time: so few that they stay in a core's first-level cache"""
_HALVED = 64.0
"""2^6: exp(x) is the power of so much of the series of exp(x / 64)"""
_TERMS = 1.0 / np.cumprod(np.array([1.0, *range(1, 11)]))
"""of that series, which has more digits than float64 where -1 <= x / 64 <= 0"""


@jit
def add_moment(rows_BD: np.ndarray, weight_B: np.ndarray, moment_DD: np.ndarray) -> None:
    """Add sum_b weight_b y_b y_b^T to the lower triangle of moment_DD, float64; rows_BD float32, weight_B float64."""
    dim = rows_BD.shape[1]
    y_RP, scaled_RP = local_rows(_SUMMED, padded(dim)), local_rows(_SUMMED, padded(dim))
    part_DP = local_rows(fours(dim), padded(dim))
    held = 0
    for b in range(weight_B.size):
        if weight_B[b] == 0.0:
            continue
        weight = np.float32(weight_B[b])
        for d in range(dim):
            y_RP[held, d] = rows_BD[b, d]
            scaled_RP[held, d] = weight * rows_BD[b, d]
        held += 1
        if held == _SUMMED:
            _add_product(scaled_RP, y_RP, held, part_DP, moment_DD)
            held = 0
    if held > 0:
        _add_product(scaled_RP, y_RP, held, part_DP, moment_DD)


@jit
def _add_product(
    left_RP: np.ndarray, right_RP: np.ndarray, held: int, part_DP: np.ndarray, moment_DD: np.ndarray
) -> None:
    mix_rows(left_RP, right_RP, part_DP, held, part_DP.shape[0])
    for i in range(moment_DD.shape[0]):
        for j in range(i + 1):
            moment_DD[i, j] += part_DP[i, j]


@jit
def turns(vector_DD: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The eigenvectors, columns of float64 (D, D), as `scale_along` takes them: columns, and rows; float32 (D, P)."""
    dim = vector_DD.shape[0]
    along_DP, across_DP = local_rows(dim, padded(dim)), local_rows(dim, padded(dim))
    for i in range(dim):
        for j in range(dim):
            along_DP[i, j], across_DP[i, j] = vector_DD[i, j], vector_DD[j, i]
    return along_DP, across_DP


@jit
def scale_along(
    sum_BD: np.ndarray,
    count_B: np.ndarray,
    step_B: np.ndarray,
    value_D: np.ndarray,
    along_DP: np.ndarray,
    across_DP: np.ndarray,
) -> None:
    """Scale summed changes, float64, in place along the eigenvectors of a curvature, see `turns`; to float32's digits.

    count_B integers (B,): hosts that changed a row; rows of fewer than two stay. step_B float64 (B,): what an
    eigenvalue is multiplied by to be the decay of a row along its vector in a round. Of m hosts that decay by a / m
    each, the share is (1 - exp(-a)) / (m (1 - exp(-a / m))): 1 along flat directions, 1 / m along stiff ones.
    """
    dim, width = value_D.size, along_DP.shape[1]
    pieces = (dim + _PIECE - 1) // _PIECE
    piece = (dim + pieces - 1) // pieces
    in_CRK = np.zeros((pieces, _SCALED, piece), np.float32)
    out_RP, part_RP = local_rows(_SCALED, width), local_rows(_SCALED, width)
    from_R, work_3D = np.zeros(_SCALED, np.int64), np.empty((3, dim))
    held = 0
    for b in range(count_B.size + 1):
        if b < count_B.size:
            if count_B[b] < 2:
                continue
            _cut(sum_BD[b], held, in_CRK)
            from_R[held] = b
            held += 1
            if held < _SCALED:
                continue
        _multiply(in_CRK, along_DP, held, part_RP, out_RP)
        for r in range(held):
            _scale_by_shares(out_RP[r], step_B[from_R[r]], value_D, count_B[from_R[r]], work_3D)
            _cut(out_RP[r, :dim], r, in_CRK)
        _multiply(in_CRK, across_DP, held, part_RP, out_RP)
        for r in range(held):
            for d in range(dim):
                sum_BD[from_R[r], d] = out_RP[r, d]
        held = 0


@jit
def _cut(row_D: np.ndarray, r: int, in_CRK: np.ndarray) -> None:
    piece = in_CRK.shape[2]
    for c in range(in_CRK.shape[0]):
        start = c * piece
        for k in range(min(piece, row_D.size - start)):
            in_CRK[c, r, k] = row_D[start + k]


@jit
def _multiply(in_CRK: np.ndarray, matrix_DP: np.ndarray, held: int, part_RP: np.ndarray, out_RP: np.ndarray) -> None:
    """out = in @ matrix of the first rows, piece by piece."""
    dim, piece = matrix_DP.shape[0], in_CRK.shape[2]
    mix_rows_across(in_CRK[0], matrix_DP[:piece], out_RP, min(piece, dim), fours(held))
    for c in range(1, in_CRK.shape[0]):
        last = min((c + 1) * piece, dim)
        mix_rows_across(in_CRK[c], matrix_DP[c * piece : last], part_RP, last - c * piece, fours(held))
        for r in range(held):
            for d in range(out_RP.shape[1]):
                out_RP[r, d] += part_RP[r, d]


@jit
def _scale_by_shares(part_P: np.ndarray, step: float, value_D: np.ndarray, hosts: int, work_3D: np.ndarray) -> None:
    """Multiply by (1 - q^m) / (m (1 - q)), q = exp(-step value / m): by the mean of q^0 .. q^(m - 1).

    It is added up by doubling: q^0 + .. + q^(2n - 1) = (1 + q^n) (q^0 + .. + q^(n - 1)). All terms are positive, so
    that nothing cancels, however small the decay. work_3D: memory.
    """
    total_D, run_D, power_D = work_3D[0], work_3D[1], work_3D[2]
    scale = -step / (hosts * _HALVED)
    for k in range(value_D.size):
        x = max(scale * value_D[k], -1.0)  # exp(-64) is as good as nothing
        q = _TERMS[10]
        for term in range(9, -1, -1):
            q = q * x + _TERMS[term]
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
            for k in range(value_D.size):
                total_D[k] = total_D[k] * power_D[k] + run_D[k]
        for k in range(value_D.size):
            run_D[k] += run_D[k] * power_D[k]
            power_D[k] *= power_D[k]
        left >>= 1
    for k in range(value_D.size):
        part_P[k] *= total_D[k] / hosts
