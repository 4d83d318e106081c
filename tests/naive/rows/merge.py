"""Plain twin of `any2vec.kernels.rows.merge`: one row, its hosts in rank order, NumPy in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def merge(rule: str, start: np.ndarray, values: Sequence[np.ndarray]) -> np.ndarray:
    """The row that hosts agree on who started from `start` and ended with `values`, float32 (D,) each."""
    changed = [value for value in values if (value != start).any()]
    if not changed:
        return start
    if len(changed) == 1:
        return changed[0]
    total: np.ndarray | None = None
    for value in changed:
        g = value.astype(np.float64) - start.astype(np.float64)
        total = g if total is None else combine(rule, total, g)
    assert total is not None
    total = total / len(changed) if rule == "mean" else total
    return np.clip((start.astype(np.float64) + total).astype(np.float32), -1e4, 1e4)


def combine(rule: str, u: np.ndarray, g: np.ndarray) -> np.ndarray:
    """What is agreed on so far, u, and one more update, g."""
    if rule in ("sum", "mean"):
        return u + g
    if g @ g < 1.5e-154:
        return u
    if rule in ("adasum", "blend"):
        return u + g - (u @ g) / (g @ g) * g
    keep = 1.0 if u @ u < 1.5e-154 else 1 - (u @ g) / (2 * (u @ u))
    return keep * u + (1 - (u @ g) / (2 * (g @ g))) * g
