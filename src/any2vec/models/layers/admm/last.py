"""The last layer's z in pdADMM-G: cross-entropy against closeness to what the layer puts out, by FISTA.

Wang et al., arXiv 2105.09837, equation 7 for l = L; FISTA: Beck and Teboulle 2009, with the restart of O'Donoghue and
Candès 2015. The cross-entropy is summed over the nodes, not averaged: nu is measured against that.

Legend: T training nodes, C classes.
"""

from __future__ import annotations

import numpy as np

from any2vec.models.layers.admm.blocks import dot, square

CURVATURE = 0.5
"""largest eigenvalue of the Hessian of the cross-entropy of one node: steps of up to 2 are safe"""


def risk(z_TC: np.ndarray, label_T: np.ndarray) -> float:
    """Cross-entropy of softmax(z) and the labels (int64, 0..C - 1), summed over the nodes in float64."""
    z = z_TC.astype(np.float64)
    top_T = z.max(axis=1)
    total_T = np.log(np.exp(z - top_T[:, None]).sum(axis=1)) + top_T
    return float((total_T - z[np.arange(len(z)), label_T]).sum())


def risk_gradient(z_TC: np.ndarray, label_T: np.ndarray) -> np.ndarray:
    """softmax(z) minus 1 at the label, (T, C)."""
    share_TC = np.exp(z_TC - z_TC.max(axis=1, keepdims=True))
    share_TC /= share_TC.sum(axis=1, keepdims=True)
    share_TC[np.arange(len(z_TC)), label_T] -= 1
    return share_TC


def last_objective(z_TC: np.ndarray, a_TC: np.ndarray, label_T: np.ndarray, nu: float) -> float:
    """What `last_update` makes smallest: risk + nu / 2 |z - a|^2."""
    return risk(z_TC, label_T) + 0.5 * nu * square(z_TC - a_TC)


def last_update(
    z_TC: np.ndarray, a_TC: np.ndarray, label_T: np.ndarray, nu: float, steps: int = 100, tolerance: float = 1e-6
) -> np.ndarray:
    """The z that makes `last_objective` smallest, from the z at hand on.

    steps: at most so many; tolerance: largest entry of the gradient at which it ends.
    """
    rate = z_TC.dtype.type(1.0 / (CURVATURE + nu))
    now_TC = ahead_TC = z_TC
    speed = 1.0
    for _ in range(steps):
        gradient_TC = risk_gradient(ahead_TC, label_T) + nu * (ahead_TC - a_TC)
        if np.abs(gradient_TC).max() <= tolerance:
            return ahead_TC
        next_TC = ahead_TC - rate * gradient_TC
        if dot(gradient_TC, next_TC - now_TC) > 0:  # it runs uphill: forget the speed
            speed, ahead_TC = 1.0, next_TC
        else:
            faster = (1.0 + np.sqrt(1.0 + 4.0 * speed * speed)) / 2.0
            ahead_TC = next_TC + z_TC.dtype.type((speed - 1.0) / faster) * (next_TC - now_TC)
            speed = faster
        now_TC = next_TC
    return now_TC
