"""Who has the layers beside one's own, and whether what they send is what is due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from any2vec.errors import MessageError


class Neighbors(NamedTuple):
    """Ranks of the hosts of the layers below and above; None: there are none."""

    below: int | None
    above: int | None


def neighbors_of(rank: int, bounds: Sequence[int]) -> Neighbors:
    """Who has the layers beside those of a host that has [bounds[rank], bounds[rank + 1]), one or more."""
    hosts = len(bounds) - 1
    below = rank - 1 if bounds[rank] > 0 else None
    above = rank + 1 if rank + 1 < hosts and bounds[rank + 1] < bounds[-1] else None
    return Neighbors(below, above)


def array_from(peer: int, phase: str, array: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array that a neighbor has sent.

    Raises:
        MessageError: it is of another shape or dtype than is due.
    """
    if array.shape != shape or array.dtype != dtype:
        raise MessageError(
            f"Rank {peer} sent {phase} as {array.dtype} {array.shape} where {dtype} {shape} was due: the "
            "hosts do not run the same job."
        )
    return array
