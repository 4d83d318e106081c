"""How often ids were used, of more ids than there is memory for: counts that may be too high, never too low.

A count-min sketch with conservative update (Cormode, Muthukrishnan 2005; Estan, Varghese 2002): an id has a cell in
each of R rows, and its count is the least of them. Only ids whose cells are all shared with more frequent ones are
overrated.

Legend: R rows, H cells of a row (a power of two), N ids of a call.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.jit import jit
from any2vec.kernels.rng import draw

MOST = 255
"""a count ends here"""


@jit
def read_counts(cell_RH: np.ndarray, id_N: np.ndarray, count_N: np.ndarray) -> None:
    """count_N = the count of each id. cell_RH uint8, the others int64."""
    mask = np.uint64(cell_RH.shape[1] - 1)
    for n in range(id_N.size):
        count_N[n] = MOST
        for r in range(cell_RH.shape[0]):
            count_N[n] = min(count_N[n], np.int64(cell_RH[r, draw(np.uint64(id_N[n]), np.uint64(r)) & mask]))


@jit
def raise_counts(cell_RH: np.ndarray, id_N: np.ndarray, count_N: np.ndarray) -> None:
    """Let each id have been used at least so often."""
    mask = np.uint64(cell_RH.shape[1] - 1)
    for n in range(id_N.size):
        count = min(count_N[n], MOST)
        for r in range(cell_RH.shape[0]):
            place = draw(np.uint64(id_N[n]), np.uint64(r)) & mask
            if np.int64(cell_RH[r, place]) < count:
                cell_RH[r, place] = np.uint8(count)
