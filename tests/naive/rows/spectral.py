"""Plain twin of `any2vec.kernels.rows.spectral` and of the rule `spectral`: one row, one direction after the other."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

import numpy as np


def moment(rows: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    """The sum of w y y^T, float64 (D, D)."""
    return sum(weight * np.outer(row.astype(np.float64), row) for row, weight in zip(rows, weights, strict=True))


def share_of_sum(decay: float, hosts: int) -> float:
    """Of the sum of what hosts did along a direction in which a row decays by exp(-decay) in a round."""
    return sum(exp(-decay * before / hosts) for before in range(hosts)) / hosts


def merge_along(
    step: float, values: np.ndarray, vectors: np.ndarray, start: np.ndarray, ends: Sequence[np.ndarray]
) -> np.ndarray:
    """The row that hosts agree on who started from `start` and ended with `ends`, float32 (D,) each."""
    changed = [end for end in ends if (end != start).any()]
    if not changed:
        return start
    if len(changed) == 1:
        return changed[0]
    total = sum(end.astype(np.float64) - start for end in changed)
    agreed = start.astype(np.float64)
    for k, value in enumerate(values):
        along = vectors[:, k]
        agreed = agreed + share_of_sum(step * value, len(changed)) * (total @ along) * along
    return np.clip(agreed.astype(np.float32), -1e4, 1e4)
