"""The six updates of pdADMM-G, one layer at a time, as pure functions beside what each of them makes smaller.

Wang et al., arXiv 2105.09837 (TNNLS 2022), equations 4 to 9 and appendix; where the printed formulas do not work, what
is done instead is said. Nodes are rows here and columns there, so W is transposed. Arrays: float32 or float64.

Legend: T training nodes, I inputs and O outputs of a layer, C classes. A layer l turns its input p (T, I) into
a = p W + b and f(a); z (T, O) is what it would like a to be, q (T, O) what it would like f(z) to be, and u (T, O) is
the dual of "the input of the next layer is q".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from any2vec.cluster.grid import Grid
from any2vec.models.layers.weights import linear

_SLACK = 1.0 + 1e-6
"""a step is so much shorter than the longest that is sure to be legal"""
_DOUBLINGS = 60


@dataclass(frozen=True)
class Steps:
    """How a gradient step finds its length, 1 / tau, with the majorization checked.

    phi(new) <= phi(old) + <gradient, change> + tau / 2 |change|^2 must hold.
    """

    start: float | None = None
    """tau of the first try, doubled while the majorization fails; None: the curvature of phi along the gradient, the
    smallest tau that is legal for the step that it makes"""
    tries: int = _DOUBLINGS
    """doublings, after which the block keeps its value"""


@dataclass(frozen=True)
class Moved:
    """A block after its update."""

    value: np.ndarray
    tau: float
    """of the step; 0: the block has kept its value"""
    decrease: float
    """by how much its objective fell, float64; never less than tau / 2 |change|^2 where there is no grid"""


def p_objective(
    p_TI: np.ndarray, w_IO: np.ndarray, b_O: np.ndarray, z_TO: np.ndarray, q_TI: np.ndarray, u_TI: np.ndarray,
    nu: float, rho: float,
) -> float:  # fmt: skip
    """phi of a layer with a left neighbor, whose q and u are given: what the p and W updates make smaller."""
    gap_TI = p_TI - q_TI
    return w_objective(w_IO, p_TI, b_O, z_TO, nu) + dot(u_TI, gap_TI) + 0.5 * rho * square(gap_TI)


def p_update(
    p_TI: np.ndarray, w_IO: np.ndarray, b_O: np.ndarray, z_TO: np.ndarray, q_TI: np.ndarray, u_TI: np.ndarray,
    nu: float, rho: float, steps: Steps, grid: Grid | None = None, a_TO: np.ndarray | None = None,
) -> Moved:  # fmt: skip
    """One gradient step on `p_objective`; on a grid, from there to the nearest of its values (equation 4).

    a_TO: p W + b, where it is known.
    """
    misfit_TO = z_TO - (linear(p_TI, w_IO, b_O) if a_TO is None else a_TO)
    gradient_TI = u_TI + rho * (p_TI - q_TI) - nu * (misfit_TO @ w_IO.T)

    def bend(change_TI: np.ndarray) -> float:
        return nu * square(change_TI @ w_IO) + rho * square(change_TI)

    return _step(p_TI, gradient_TI, bend, steps, grid)


def w_objective(
    w_IO: np.ndarray, p_TI: np.ndarray, b_O: np.ndarray, z_TO: np.ndarray, nu: float, decay: float = 0.0
) -> float:
    """nu / 2 |z - p W - b|^2 + decay / 2 |W|^2."""
    return 0.5 * nu * square(z_TO - linear(p_TI, w_IO, b_O)) + 0.5 * decay * square(w_IO)


def w_update(
    w_IO: np.ndarray, p_TI: np.ndarray, b_O: np.ndarray, z_TO: np.ndarray, nu: float, decay: float, steps: Steps
) -> Moved:
    """One gradient step on `w_objective` (equation 5; the decay is of the authors' code)."""
    misfit_TO = z_TO - linear(p_TI, w_IO, b_O)
    gradient_IO = decay * w_IO - nu * (p_TI.T @ misfit_TO)

    def bend(change_IO: np.ndarray) -> float:
        return nu * square(p_TI @ change_IO) + decay * square(change_IO)

    return _step(w_IO, gradient_IO, bend, steps, None)


def b_update(product_TO: np.ndarray, z_TO: np.ndarray) -> np.ndarray:
    """The b that makes `w_objective` smallest: the mean of z - p W over the nodes; product_TO: p W.

    Printed is one gradient step of length 1 / nu (equation 6), T times the longest that is legal.
    """
    return (z_TO - product_TO).mean(axis=0)


def q_update(p_TO: np.ndarray, u_TO: np.ndarray, f_TO: np.ndarray, nu: float, rho: float) -> np.ndarray:
    """The q of the smallest nu / 2 |q - f(z)|^2 + <u, p - q> + rho / 2 |p - q|^2 (equation 8), p the next layer's."""
    return (rho * p_TO + u_TO + nu * f_TO) / (rho + nu)


def q_objective(q_TO: np.ndarray, p_TO: np.ndarray, u_TO: np.ndarray, f_TO: np.ndarray, nu: float, rho: float) -> float:
    """What `q_update` makes smallest: the part of the Lagrangian that lies between two layers."""
    gap_TO = p_TO - q_TO
    return 0.5 * nu * square(q_TO - f_TO) + dot(u_TO, gap_TO) + 0.5 * rho * square(gap_TO)


def u_update(u_TO: np.ndarray, p_TO: np.ndarray, q_TO: np.ndarray, rho: float) -> np.ndarray:
    """One step up for the dual (equation 9)."""
    return u_TO + rho * (p_TO - q_TO)


def square(array: np.ndarray) -> float:
    """Sum of squares, added up in float64 by rows."""
    return float(np.einsum("ij,ij->i", array, array).sum(dtype=np.float64))


def dot(one: np.ndarray, other: np.ndarray) -> float:
    """Sum of products, added up in float64 by rows."""
    return float(np.einsum("ij,ij->i", one, other).sum(dtype=np.float64))


def _step(
    value: np.ndarray, gradient: np.ndarray, bend: Callable[[np.ndarray], float], steps: Steps, grid: Grid | None
) -> Moved:
    """A step against the gradient of a quadratic function whose second-order part along a change is bend(change) / 2.

    For such a function the majorization says bend(change) <= tau |change|^2. Without a grid the change is the gradient
    over -tau, so that one product gives the curvature of all tries.
    """
    size = square(gradient)
    if size == 0.0:
        return Moved(value, 0.0, 0.0)
    bent = bend(gradient)
    if bent <= 0.0 and steps.start is None:  # it has become 0 among the smallest numbers: there is nowhere to go
        return Moved(value, 0.0, 0.0)
    tau = _SLACK * bent / size if steps.start is None else steps.start
    for _ in range(steps.tries):
        found = value - value.dtype.type(1.0 / tau) * gradient
        if grid is None:
            along, across, length = -size / tau, bent / tau**2, size / tau**2
        else:
            found = grid.nearest(found)
            change = found - value
            along, across, length = dot(gradient, change), bend(change), square(change)
        if across <= tau * length * _SLACK:
            return Moved(found, tau, -along - 0.5 * across)
        tau *= 2.0
    return Moved(value, 0.0, 0.0)
