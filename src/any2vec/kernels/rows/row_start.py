"""Start values of rows: a function of the row's number in the whole table, whichever host holds it."""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import draw, unit


@jit
def start_rows(table_BC: np.ndarray, row_B: np.ndarray, dim: int, key: np.uint64, spread: float) -> None:
    """The first `dim` numbers of slot b = uniform in [-spread, spread): draws row_B[b] * dim + d of `key`; the rest 0.

    row_B int64: the number in the whole table of each row of this block.
    """
    for b in range(row_B.size):
        for d in range(dim):
            value = 2.0 * unit(draw(key, np.uint64(row_B[b] * dim + d))) - 1.0
            table_BC[b, d] = np.float32(spread * value)
        for c in range(dim, table_BC.shape[1]):
            table_BC[b, c] = np.float32(0.0)
