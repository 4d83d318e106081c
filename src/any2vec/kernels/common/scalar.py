"""The scalar pieces that every embedding kernel shares: sigmoid, loss of one pair, and the bound that rules out NaN."""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit

BOUND = np.float32(1e4)
"""No component of a trained row leaves [-BOUND, BOUND]. With rows finite and inside it at the start, every dot product
is at most dim * 1e8 in size and every step a finite sum, so that neither NaN nor infinity can ever arise."""

_ONE = np.float32(1.0)
_LOW = np.float32(-BOUND)


@jit
def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)) of a finite float32, exact to a few ulp, without overflow on either side."""
    if x >= np.float32(0.0):
        return _ONE / (_ONE + np.exp(-x))
    e = np.exp(x)
    return e / (_ONE + e)


@jit
def log_loss(x: float) -> float:
    """-log sigmoid(x) of a finite float32 as float64, without overflow: max(-x, 0) + log(1 + exp(-|x|))."""
    wide = np.float64(x)
    return max(-wide, 0.0) + np.log1p(np.exp(-abs(wide)))


@jit
def bounded(x: np.float32) -> np.float32:
    """x float32 clamped to [-BOUND, BOUND]; selects, no branches, so that loops over a row stay vectorized."""
    return min(max(x, _LOW), BOUND)


@jit
def rate_at(position: int, lr_zero: float, lr_step: float) -> np.float32:
    """Learning rate (float32) at a global position: lr_zero, that of position 0, plus lr_step for each position.

    A line through the whole epoch, so that cuts of the work leave every rate as it is.
    """
    return np.float32(lr_zero + lr_step * np.float64(position))
