"""Alternating least squares over implicit feedback: the rows of one side, while those of the other stand still.

Hu, Koren, Volinsky 2008, "Collaborative filtering for implicit feedback datasets", equation 4: a row x of a user solves
(G + sum alpha w y y') x = sum (1 + alpha w) y over its items, G the Gram matrix of all items' rows with the
regularization on its diagonal. By some steps of conjugate gradients from the present row (Takács, Pilászy, Tikk 2011,
"Applications of the conjugate gradient method for implicit feedback collaborative filtering", section 4).

Legend: U rows of this side, I of the other, D numbers of a row, E pairs.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import fast_jit
from any2vec.kernels.common.prefetch import prefetch_row

_AHEAD = 8
"""pairs by which rows are asked for before they are needed"""
_LEAST = 1e-10
"""square of a residual that is as good as none"""


@fast_jit
def _times(
    item_E: np.ndarray, weight_E: np.ndarray, begin: int, end: int, alpha: float, other_ID: np.ndarray,
    gram_DD: np.ndarray, x_D: np.ndarray, out_D: np.ndarray,
) -> None:  # fmt: skip
    """out = (G + sum alpha w y y') x."""
    dim = x_D.size
    for d in range(dim):
        total = np.float32(0.0)
        for c in range(dim):
            total += gram_DD[d, c] * x_D[c]
        out_D[d] = total
    for e in range(begin, end):
        if e + _AHEAD < end:
            prefetch_row(other_ID, int(item_E[e + _AHEAD]))
        item, dot = np.int64(item_E[e]), np.float32(0.0)
        for d in range(dim):
            dot += other_ID[item, d] * x_D[d]
        dot *= np.float32(alpha) * (weight_E[e] if weight_E.size else np.float32(1.0))
        for d in range(dim):
            out_D[d] += dot * other_ID[item, d]


@fast_jit
def solve_rows(
    indptr: np.ndarray, item_E: np.ndarray, weight_E: np.ndarray, start: int, stop: int, own_UD: np.ndarray,
    other_ID: np.ndarray, gram_DD: np.ndarray, alpha: float, steps: int,
) -> tuple[int, float]:  # fmt: skip
    """Solve rows [start, stop) in place, each apart; returns (pairs, sum of their loss, without the other side's L2).

    indptr: int64 (U + 1,); item_E: int32 (E,); weight_E: float32 (E,), or (0,) where all are 1. Rows: float32.
    gram_DD: float32 (D, D), of other_ID, l2 added on its diagonal. A row without pairs becomes 0.
    """
    dim = own_UD.shape[1]
    b, r, p, q = (
        np.empty(dim, np.float32),
        np.empty(dim, np.float32),
        np.empty(dim, np.float32),
        np.empty(dim, np.float32),
    )
    pairs, loss = 0, 0.0
    for u in range(start, stop):
        begin, end = indptr[u], indptr[u + 1]
        x = own_UD[u]
        if begin == end:
            x[:] = np.float32(0.0)
            continue
        b[:] = np.float32(0.0)
        total = 0.0
        for e in range(begin, end):
            confidence = np.float32(1.0) + np.float32(alpha) * (weight_E[e] if weight_E.size else np.float32(1.0))
            total += float(confidence)
            item = np.int64(item_E[e])
            for d in range(dim):
                b[d] += confidence * other_ID[item, d]
        _times(item_E, weight_E, begin, end, alpha, other_ID, gram_DD, x, q)
        square = np.float32(0.0)
        for d in range(dim):
            r[d] = b[d] - q[d]
            p[d] = r[d]
            square += r[d] * r[d]
        for _ in range(steps):
            if square < _LEAST:
                break
            _times(item_E, weight_E, begin, end, alpha, other_ID, gram_DD, p, q)
            curve = np.float32(0.0)
            for d in range(dim):
                curve += p[d] * q[d]
            step, former = square / curve, square
            square = np.float32(0.0)
            for d in range(dim):
                x[d] += step * p[d]
                r[d] -= step * q[d]
                square += r[d] * r[d]
            for d in range(dim):
                p[d] = r[d] + square / former * p[d]
        change = np.float32(0.0)  # x'Ax - 2x'b = -x'(b + r)
        for d in range(dim):
            change += x[d] * (b[d] + r[d])
        pairs += end - begin
        loss += total - float(change)
    return pairs, loss
