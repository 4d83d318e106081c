"""Whole-table kernels: the start values."""

from __future__ import annotations

import numpy as np

from any2vec.kernels.jit import jit
from any2vec.kernels.rng import draw, unit


@jit
def fill_uniform(table_VD: np.ndarray, start: int, stop: int, key: np.uint64, spread: float) -> None:
    """table[start:stop] = uniform in [-spread, spread) / D; element i of the table is draw i of `key`."""
    dim = table_VD.shape[1]
    for row in range(start, stop):
        for q in range(dim):
            value = 2.0 * unit(draw(key, np.uint64(row * dim + q))) - 1.0
            table_VD[row, q] = np.float32(spread * value / dim)
