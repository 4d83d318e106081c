"""Plain pieces that the trainers' twins share, in float64."""

from __future__ import annotations

import math

import numpy as np

BOUND = 1e4


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


def log_loss(x: float) -> float:
    return max(-x, 0.0) + math.log1p(math.exp(-abs(x)))


def bounded(x: np.ndarray) -> np.ndarray:
    return np.clip(x, -BOUND, BOUND)


def rate_at(position: int, lr_zero: float, lr_step: float) -> float:
    return lr_zero + lr_step * position


def step_example(
    x: np.ndarray, labels: list[tuple[int, float]], output: np.ndarray, lr: float
) -> tuple[np.ndarray, float]:
    """One pass over (output row, label) pairs in order. Returns (the step of x, the loss)."""
    error, loss = np.zeros_like(x), 0.0
    for row, label in labels:
        dot = float(x @ output[row])
        loss += log_loss(dot if label else -dot)
        step = (label - sigmoid(dot)) * lr
        error += step * output[row]
        output[row] = bounded(output[row] + step * x)
    return error, loss
