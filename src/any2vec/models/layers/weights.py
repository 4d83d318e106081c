"""Weights of a network of layers: how they start, grow by layers that change nothing, and answer.

Legend as in `admm.blocks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from any2vec.models.layers.activation import Activation

START_SPREAD = 0.1
"""standard deviation of the weights of a new network"""


@dataclass(frozen=True)
class Course:
    """Which network an epoch trains."""

    sizes: tuple[int, ...]
    """numbers of layers, ascending"""
    ends: tuple[int, ...]
    """the epoch behind the last one of each size"""

    def stage(self, epoch: int) -> int:
        """Index of the size of an epoch."""
        return next(stage for stage, end in enumerate(self.ends) if epoch < end)


class Weights(NamedTuple):
    """Of one layer."""

    w_IO: np.ndarray
    b_O: np.ndarray


def linear(p_TI: np.ndarray, w_IO: np.ndarray, b_O: np.ndarray) -> np.ndarray:
    """a = p W + b, (T, O)."""
    a_TO = p_TI @ w_IO
    a_TO += b_O
    return a_TO


def start_weights(sizes: Sequence[int], seed: int, dtype: type[np.floating] = np.float32) -> list[Weights]:
    """Weights N(0, 0.1^2) and biases 0 of a network whose layers go from sizes[l] to sizes[l + 1]."""
    found = []
    for layer, (size_in, size_out) in enumerate(pairwise(sizes)):
        random = np.random.default_rng((seed, layer))
        w_IO = (START_SPREAD * random.standard_normal((size_in, size_out))).astype(dtype)
        found.append(Weights(w_IO, np.zeros(size_out, dtype)))
    return found


def grow(weights: Sequence[Weights], num_layers: int) -> list[Weights]:
    """More hidden layers, identities without bias below the output layer: with ReLU, what comes out is the same.

    The authors' code does so too, but draws a new output layer each time; what it then forgets takes iterations.
    """
    *hidden, last = weights
    width, dtype = last.w_IO.shape[0], last.w_IO.dtype
    fresh = [Weights(np.eye(width, dtype=dtype), np.zeros(width, dtype)) for _ in range(num_layers - len(weights))]
    return [*hidden, *fresh, last]


def forward(weights: Sequence[Weights], a_TO: np.ndarray, f: Activation) -> tuple[np.ndarray, np.ndarray]:
    """(f of the last hidden layer's a, the last layer's a), from the first layer's a."""
    for w_IO, b_O in weights[1:]:
        hidden_TO = f(a_TO)
        a_TO = linear(hidden_TO, w_IO, b_O)
    return hidden_TO, a_TO
