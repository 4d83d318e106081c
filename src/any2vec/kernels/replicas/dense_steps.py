"""Steps of the optimizers of dense parameters: number by number, in place, without a lock.

Legend: Q parameters.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit

_ONE = np.float32(1.0)


@jit
def sgd_dense(value_Q: np.ndarray, gradient_Q: np.ndarray, rate: float) -> None:
    """value -= rate * gradient."""
    step = np.float32(rate)
    for q in range(value_Q.size):
        value_Q[q] -= step * gradient_Q[q]


@jit
def adagrad_dense(
    value_Q: np.ndarray, square_Q: np.ndarray, gradient_Q: np.ndarray, rate: float, epsilon: float
) -> None:
    """h += gradient ** 2; value -= rate * gradient / (sqrt(h) + epsilon) (Duchi, Hazan, Singer 2011)."""
    step, least = np.float32(rate), np.float32(epsilon)
    for q in range(value_Q.size):
        total = square_Q[q] + gradient_Q[q] * gradient_Q[q]
        square_Q[q] = total
        value_Q[q] -= step * gradient_Q[q] / (np.sqrt(total) + least)


@jit
def adam_dense(
    value_Q: np.ndarray, mean_Q: np.ndarray, square_Q: np.ndarray, gradient_Q: np.ndarray, count: int, rate: float,
    beta1: float, beta2: float, epsilon: float,
) -> None:  # fmt: skip
    """Adam (Kingma, Ba 2015, algorithm 1); count: of this step, from 1."""
    first, second = np.float32(beta1), np.float32(beta2)
    step = np.float32(rate / (1.0 - beta1**count))
    bias = np.float32(1.0 / (1.0 - beta2**count))
    for q in range(value_Q.size):
        mean = first * mean_Q[q] + (_ONE - first) * gradient_Q[q]
        square = second * square_Q[q] + (_ONE - second) * gradient_Q[q] * gradient_Q[q]
        mean_Q[q], square_Q[q] = mean, square
        value_Q[q] -= step * mean / (np.sqrt(square * bias) + np.float32(epsilon))
