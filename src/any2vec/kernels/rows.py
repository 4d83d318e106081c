"""Whole-table kernels: the start values."""

from __future__ import annotations

import numpy as np

from any2vec.kernels.jit import jit
from any2vec.kernels.rng import draw, unit


@jit
def fill_uniform(table_VD, start, stop, key):
    """table[start:stop] = uniform in [-0.5, 0.5) / D, word2vec's start; element i of the table is draw i of `key`."""
    dim = table_VD.shape[1]
    for row in range(start, stop):
        for q in range(dim):
            value = unit(draw(key, np.uint64(row * dim + q))) - 0.5
            table_VD[row, q] = np.float32(value / dim)
