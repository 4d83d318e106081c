"""What lies between two layers, and the z that suits a layer and its output best.

pdADMM-G's z update (arXiv 2105.09837, equation 7) makes, number by number,

    nu / 2 ((z - a)^2 + (q - f(z))^2 + (z - old)^2)

smallest. ReLU has a closed form; f of other kinds starts from a table and goes on by Newton steps that are taken only
where they make it smaller.
"""

from __future__ import annotations

from functools import cache
from typing import Literal, Protocol

import numpy as np

ActivationName = Literal["relu", "tanh", "sigmoid"]
_REACH = 6.0
"""the table goes from -6 to 6 in m; where f is flat the best z is m itself"""
_BEYOND = 4.0
"""and in q so far beyond what f can be; further out it is as at its edge"""
_CELLS_M, _CELLS_Q, _TRIED = 121, 101, 193
_NEWTON_STEPS = 12


class Activation(Protocol):
    """f of all hidden layers."""

    slope: float
    """the largest |f'|: S in the theory"""
    is_odd: bool
    """f(-z) = -f(z)"""

    def __call__(self, z: np.ndarray) -> np.ndarray: ...

    def best_z(self, old: np.ndarray, a: np.ndarray, q: np.ndarray) -> np.ndarray:
        """The z of the smallest objective, of the arrays' shape and dtype."""


def z_objective(z: np.ndarray, old: np.ndarray, a: np.ndarray, q: np.ndarray, f_z: np.ndarray) -> np.ndarray:
    """Twice the objective over nu, number by number."""
    return (z - a) ** 2 + (q - f_z) ** 2 + (z - old) ** 2


class Relu:
    """max(z, 0)."""

    slope = 1.0
    is_odd = False

    def __call__(self, z: np.ndarray) -> np.ndarray:
        return np.maximum(z, 0)

    def best_z(self, old: np.ndarray, a: np.ndarray, q: np.ndarray) -> np.ndarray:
        """In closed form: the better one of the best below 0 and the best above it, the proximal term included."""
        below, above = np.minimum((a + old) / 2, 0), np.maximum((a + q + old) / 3, 0)
        is_below = z_objective(below, old, a, q, np.zeros_like(q)) <= z_objective(above, old, a, q, above)
        return np.where(is_below, below, above)


class Smooth:
    """tanh, or the logistic function."""

    def __init__(self, name: Literal["tanh", "sigmoid"]) -> None:
        self.name = name
        self.slope = 1.0 if name == "tanh" else 0.25
        self.is_odd = name == "tanh"
        self._low = -1.0 if name == "tanh" else 0.0

    def __call__(self, z: np.ndarray) -> np.ndarray:
        half = z.dtype.type(0.5)
        return np.tanh(z) if self.name == "tanh" else half + half * np.tanh(half * z)

    def best_z(self, old: np.ndarray, a: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Newton steps from the z of the four nearest places of the table, and from the old one; the best of them.

        There may be two valleys, and the one to take may differ between a number and the table's nearest place.
        """
        middle = (a + old) / 2  # (z - a)^2 + (z - old)^2 is 2 (z - middle)^2 and a constant
        at_m = _place(middle, -_REACH, 2 * _REACH, _CELLS_M)
        at_q = _place(q, self._low - _BEYOND, _span(self), _CELLS_Q)
        table_MQ = _table(self.name).astype(q.dtype)
        starts = [middle + table_MQ[at_m + m, at_q + q_] for m in (0, 1) for q_ in (0, 1)]
        z = np.stack([old, *starts])
        value = z_objective(z, old, a, q, self(z))
        for _ in range(_NEWTON_STEPS):
            f_z, slope, bend = self._derivatives(z)
            gradient = 2 * (z - middle) - (q - f_z) * slope
            tried = z - gradient / np.maximum(2 + slope**2 - (q - f_z) * bend, 0.5)
            value_tried = z_objective(tried, old, a, q, self(tried))
            is_better = value_tried < value
            z, value = np.where(is_better, tried, z), np.where(is_better, value_tried, value)
        return np.take_along_axis(z, value.argmin(axis=0)[None], axis=0)[0]

    def _derivatives(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(f, f', f'')."""
        f_z = self(z)
        if self.name == "tanh":
            slope = 1 - f_z**2
            return f_z, slope, -2 * f_z * slope
        slope = f_z * (1 - f_z)
        return f_z, slope, slope * (1 - 2 * f_z)


def _span(f: Smooth) -> float:
    """Length of the table in q."""
    return 2 * _BEYOND + (1.0 - f._low)


def _place(array: np.ndarray, low: float, span: float, cells: int) -> np.ndarray:
    """The place of the table below each number, which has another one above it."""
    place = np.clip((array - low) * ((cells - 1) / span), 0, cells - 2)
    return np.nan_to_num(place).astype(np.intp)  # NaN stays in what is made of the array itself, and is told


@cache
def _table(name: Literal["tanh", "sigmoid"]) -> np.ndarray:
    """z - m of the smallest 2 (z - m)^2 + (q - f(z))^2, by trying many, (M, Q)."""
    f = Smooth(name)
    m_M = np.linspace(-_REACH, _REACH, _CELLS_M)
    q_Q = np.linspace(f._low - _BEYOND, f._low - _BEYOND + _span(f), _CELLS_Q)
    most = f.slope * (_BEYOND + 2) / 2  # |z - m| <= slope |q - f| / 2
    away_T = np.linspace(-most, most, _TRIED)
    f_MT = f(m_M[:, None] + away_T)
    best_MQ = np.empty((_CELLS_M, _CELLS_Q))
    for cell, q in enumerate(q_Q):
        best_MQ[:, cell] = away_T[(2 * away_T**2 + (q - f_MT) ** 2).argmin(axis=1)]
    return best_MQ


def activation(name: ActivationName) -> Activation:
    """The activation of that name."""
    return Relu() if name == "relu" else Smooth(name)
