"""Plain twins of `any2vec.kernels.common.grouping`, `bags`, `row_steps` and `dense_steps`: loops and NumPy in float64.

Sums over bags are float32 in a fixed order in the kernels, and here: they must be the same bits.
"""

from __future__ import annotations

import math

import numpy as np


def grouped(ids: list[int]) -> tuple[list[int], list[list[int]]]:
    """(distinct ids, ascending; where each stands, ascending)."""
    rows = sorted(set(ids))
    return rows, [[m for m, row in enumerate(ids) if row == one] for one in rows]


def pooled(table: np.ndarray, bags: list[list[int]], width: int) -> np.ndarray:
    """Sums of the first `width` columns of rows, float32, in the order of each bag; 0 where it is empty."""
    sums = np.zeros((len(bags), width), np.float32)
    for p, bag in enumerate(bags):
        for place, row in enumerate(bag):
            sums[p] = table[row, :width] if place == 0 else sums[p] + table[row, :width]
    return sums


def summed(gradients: np.ndarray, bags: list[list[int]]) -> tuple[list[int], np.ndarray]:
    """(distinct rows of the bags, ascending; the sum of the gradients of the bags that each is in, once for each
    place), float32, in the order of the bags."""
    total: dict[int, np.ndarray] = {}
    for bag, gradient in zip(bags, gradients, strict=True):
        for row in bag:
            total[row] = total[row] + gradient if row in total else gradient
    rows = sorted(total)
    return rows, np.array([total[row] for row in rows], np.float32).reshape(len(rows), gradients.shape[1])


def sgd(row: np.ndarray, gradient: np.ndarray, rate: float) -> np.ndarray:
    return np.clip(row - rate * gradient, -1e4, 1e4)


def adagrad(row: np.ndarray, gradient: np.ndarray, rate: float, epsilon: float) -> np.ndarray:
    """row: values, then h."""
    h = row[-1] + np.mean(gradient**2)
    return np.append(np.clip(row[:-1] - rate / (math.sqrt(h) + epsilon) * gradient, -1e4, 1e4), h)


def adam(row: np.ndarray, gradient: np.ndarray, rate: float, beta1: float, beta2: float, epsilon: float) -> np.ndarray:
    """row: values, their first moments, the second moment of the row, how often it stepped."""
    width = len(gradient)
    value, moment, second, count = row[:width], row[width : 2 * width], row[2 * width], row[2 * width + 1] + 1
    moment = beta1 * moment + (1 - beta1) * gradient
    second = beta2 * second + (1 - beta2) * np.mean(gradient**2)
    mean, square = moment / (1 - beta1**count), second / (1 - beta2**count)
    value = np.clip(value - rate * mean / (math.sqrt(square) + epsilon), -1e4, 1e4)
    return np.concatenate([value, moment, [second, count]])
