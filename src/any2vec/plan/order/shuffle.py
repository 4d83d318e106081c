"""Random orders that are a pure function of the seed and the epoch."""

from __future__ import annotations

import numpy as np


def random_order(number: int, seed: int, epoch: int) -> np.ndarray:
    """int64 (number,): a permutation of [0, number), another one each epoch."""
    from any2vec.kernels.common.permutation import permute
    from any2vec.kernels.common.rng import PURPOSE_ORDER, stream_key

    places = np.arange(number)
    permute(places, number, stream_key(seed, PURPOSE_ORDER, epoch), places)
    return places
