"""How often ids were used, of more ids than there is memory for: counts that may be too high, never too low.

A count-min sketch with conservative update (Cormode, Muthukrishnan 2005; Estan, Varghese 2002): an id has a cell in
each of R rows, and its count is the least of them. Only ids whose cells are all shared with more frequent ones are
overrated.

Legend: R rows, H cells of a row (a power of two), N ids of a call.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import draw

MOST = 255
"""a count in one byte ends here"""


@jit
def least_cell(cell_RH: np.ndarray, number: np.uint64) -> float:
    """The count of one id (uint64)."""
    mask = np.uint64(cell_RH.shape[1] - 1)
    count = cell_RH[0, draw(number, np.uint64(0)) & mask]
    for r in range(1, cell_RH.shape[0]):
        count = min(count, cell_RH[r, draw(number, np.uint64(r)) & mask])
    return count


@jit
def read_counts(cell_RH: np.ndarray, id_N: np.ndarray, count_N: np.ndarray) -> None:
    """count_N = the count of each id. cell_RH uint8 or float64, id_N int64 or uint64."""
    for n in range(id_N.size):
        count_N[n] = least_cell(cell_RH, np.uint64(id_N[n]))


@jit
def raise_counts(cell_RH: np.ndarray, id_N: np.ndarray, count_N: np.ndarray, most: float) -> None:
    """Let each id have been used at least so often, as far as `most`."""
    mask = np.uint64(cell_RH.shape[1] - 1)
    for n in range(id_N.size):
        count = min(count_N[n], most)
        for r in range(cell_RH.shape[0]):
            place = draw(np.uint64(id_N[n]), np.uint64(r)) & mask
            if cell_RH[r, place] < count:
                cell_RH[r, place] = count
