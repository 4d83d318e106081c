"""The items of users as a token stream for the learner of words."""

from __future__ import annotations

import numpy as np

from any2vec.data.interactions.interactions import Interactions
from any2vec.kernels.common.rng import PURPOSE_ORDER, stream_key
from any2vec.kernels.recommend.item_sets import shuffle_sets


class ItemSets:
    """A `TokenSource`: the items of each user in an order of its own in each epoch, then an end."""

    unit = 1

    def __init__(self, interactions: Interactions, seed: int) -> None:
        self._data, self._seed = interactions, seed
        self._start_U1 = interactions.indptr + np.arange(len(interactions.indptr))
        """the first position of each user"""
        self.num_positions = int(self._start_U1[-1])

    def boundary(self, position: int) -> int:
        return int(self._start_U1[np.searchsorted(self._start_U1, position)])

    def piece(self, epoch: int, start: int, stop: int) -> tuple[np.ndarray, int, int, int]:
        first = int(np.searchsorted(self._start_U1, start, "right")) - 1
        last = max(first, int(np.searchsorted(self._start_U1, stop)))
        offset = int(self._start_U1[first])
        token_T = np.empty(int(self._start_U1[last]) - offset, np.int32)
        key = stream_key(self._seed, PURPOSE_ORDER, epoch)
        shuffle_sets(self._data.indptr, self._data.item_E, first, last, key, token_T)
        token_T.flags.writeable = False
        return token_T, start - offset, stop - offset, offset
