"""Where rows lie in tables that hold some rows alone: those of a round, on hosts that pull what they read.

Kernels go from the rows of the vocabulary to places of the tables once a chunk. No two rows share a place, so all that
kernels ask of a row (is it this one, which comes first) has the same answer, and training the same bits.

Legend: V rows, M kept tokens of a chunk, B blocks of a chunk, K negatives of a block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from any2vec.kernels.common.jit import jit


class Places(NamedTuple):
    """int32 (V,) a table: the place of each row that the work at hand reads, as an inspection has found them."""

    input_V: np.ndarray
    output_V: np.ndarray


@jit
def place_inputs(
    places: Places, first: int, last: int, left_M: np.ndarray, right_M: np.ndarray, row_M: np.ndarray,
    slot_M: np.ndarray,
) -> None:  # fmt: skip
    """slot_M, int32, of the centers first..last - 1 and of all their contexts: places in the input table."""
    low, high = first, last
    for center in range(first, last):
        low, high = min(low, left_M[center]), max(high, right_M[center])
    for j in range(low, high):
        slot_M[j] = places.input_V[row_M[j]]


@jit
def place_outputs(places: Places, first: int, last: int, row_M: np.ndarray) -> None:
    """Turn the rows of the entries first..last - 1, int32, into places in the output table."""
    for j in range(first, last):
        row_M[j] = places.output_V[row_M[j]]


@jit
def place_negatives(places: Places, blocks: int, negative_BK: np.ndarray) -> None:
    """Turn the negatives of so many blocks, int32, into places in the output table."""
    for b in range(blocks):
        place_outputs(places, 0, negative_BK.shape[1], negative_BK[b])


@jit
def path_row(points: np.ndarray, n: int, places: Places | None) -> int:
    """points[n], or its place in the output table."""
    if places is not None:
        return places.output_V[points[n]]
    return points[n]
