"""Many ranges of positions at once, as of the entries of some rows of a matrix in compressed sparse rows."""

from __future__ import annotations

import numpy as np


def positions_in(start_K: np.ndarray, stop_K: np.ndarray) -> np.ndarray:
    """int64: the positions of [start, stop) of each of K ranges, one range behind the other."""
    size_K = stop_K - start_K
    end_K = np.cumsum(size_K)
    return np.repeat(start_K - (end_K - size_K), size_K) + np.arange(size_K.sum())
