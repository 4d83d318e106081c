"""How far a product of two tables is from some of its cells.

Legend: V vocabulary, D dim, N cells.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import fast_jit


@fast_jit
def weighted_square_error(
    vector_VD: np.ndarray, output_VD: np.ndarray, row_N: np.ndarray, other_N: np.ndarray, wanted_N: np.ndarray,
    weight_N: np.ndarray,
) -> float:  # fmt: skip
    """Sum of weight * (<vector of row, output of other> - wanted)^2. Rows are int64 (N,), the rest float64."""
    total = 0.0
    for n in range(row_N.size):
        one, two = vector_VD[row_N[n]], output_VD[other_N[n]]
        dot = 0.0
        for d in range(one.size):
            dot += one[d] * two[d]
        total += weight_N[n] * (dot - wanted_N[n]) ** 2
    return total
