"""The items of users as sentences in a random order: so any two items of a set stand near each other equally often."""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import below, draw

END = np.int32(-1)
"""stands behind the items of each user"""


@jit
def shuffle_sets(
    indptr: np.ndarray, item_E: np.ndarray, first: int, last: int, key: np.uint64, token_T: np.ndarray
) -> None:
    """The items of users [first, last), each user's shuffled (Fisher and Yates) and END behind them.

    indptr: int64, item_E: int32. token_T: int32, one for each item and user, is written. Draws depend on key and the
    items' places alone.
    """
    _32 = np.uint64(32)
    at = 0
    for user in range(first, last):
        begin, end = indptr[user], indptr[user + 1]
        size = end - begin
        for k in range(size):
            token_T[at + k] = item_E[begin + k]
        for k in range(size - 1, 0, -1):
            other = below(draw(key, np.uint64(begin + k)) >> _32, k + 1)
            token_T[at + k], token_T[at + other] = token_T[at + other], token_T[at + k]
        token_T[at + size] = END
        at += size + 1
