"""Cached rows that are what the owner had, and changes that the owner has not: their sum is the row.

Legend: K slots of the cache (or rows of a block), N rows of a call, C columns of a row, W those that are values (the
first ones); only they are kept in [-BOUND, BOUND], for state such as a sum of squares may be larger.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.scalar import bounded


@jit
def add_changes(table_KC: np.ndarray, slot_N: np.ndarray, change_NC: np.ndarray, width: int) -> None:
    """table[slot] = bounded(table[slot] + change), in float32 and in turn; a slot may come again."""
    for n in range(slot_N.size):
        row = slot_N[n]
        for c in range(width):
            table_KC[row, c] = bounded(table_KC[row, c] + change_NC[n, c])
        for c in range(width, table_KC.shape[1]):
            table_KC[row, c] += change_NC[n, c]


@jit
def read_cached(
    base_KC: np.ndarray, pending_KC: np.ndarray, slot_N: np.ndarray, width: int, row_NC: np.ndarray
) -> None:
    """row_NC[n] = base + pending, as `add_changes` would make it; rows of a negative slot stay as they are."""
    for n in range(slot_N.size):
        slot = slot_N[n]
        if slot >= 0:
            for c in range(width):
                row_NC[n, c] = bounded(base_KC[slot, c] + pending_KC[slot, c])
            for c in range(width, row_NC.shape[1]):
                row_NC[n, c] = base_KC[slot, c] + pending_KC[slot, c]


@jit
def take_pending(
    base_KC: np.ndarray, pending_KC: np.ndarray, slot_N: np.ndarray, width: int, change_NC: np.ndarray
) -> None:
    """change_NC = what is pending, which moves into the base: so the base is what the owner makes of the change."""
    for n in range(slot_N.size):
        slot = slot_N[n]
        for c in range(base_KC.shape[1]):
            change = pending_KC[slot, c]
            total = base_KC[slot, c] + change
            base_KC[slot, c] = bounded(total) if c < width else total
            change_NC[n, c] = change
            pending_KC[slot, c] = np.float32(0.0)
