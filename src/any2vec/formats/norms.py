"""Norms of the rows of a matrix, and rows at length 1.

Letters: N rows of the table, Q of any other, D dim.
"""

from __future__ import annotations

import numpy as np

from any2vec.errors import FormatError
from any2vec.formats.table import first_bad_row, row_blocks


def row_norms(matrix_ND: np.ndarray) -> np.ndarray:
    """Euclidean norms, float32 (N,), 1 for a zero row (whose cosine is 0 then). FormatError for NaN or infinity."""
    norms_N = np.empty(len(matrix_ND), dtype=np.float32)
    for block in row_blocks(matrix_ND):
        rows = matrix_ND[block]
        with np.errstate(over="ignore"):  # told below
            norms_N[block] = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    if not np.isfinite(norms_N).all():
        bad = first_bad_row(matrix_ND)
        raise FormatError(
            f"row {int(np.argmin(np.isfinite(norms_N))):,} of the vectors "
            + ("holds NaN or infinity." if bad is not None else "is too long for a float32 norm.")
        )
    norms_N[norms_N == 0.0] = 1.0
    return norms_N


def unit_rows(vectors_QD: np.ndarray) -> np.ndarray:
    """The rows at length 1, float32 (Q, D), a copy; zero rows stay zero."""
    return np.ascontiguousarray(vectors_QD / row_norms(vectors_QD)[:, None], dtype=np.float32)
