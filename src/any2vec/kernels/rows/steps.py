"""Steps of the row optimizers: row by row, the state in the same row behind its values.

Legend: V rows of the table, C its columns, W values, U rows of a step. Each row comes once in slot_U. No component of a
row leaves [-BOUND, BOUND].
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.prefetch import prefetch_row
from any2vec.kernels.common.row_words import square_of, step_row
from any2vec.kernels.common.scalar import bounded

_AHEAD = 16
_ONE = np.float32(1.0)


@jit
def sgd_rows(table_VC: np.ndarray, slot_U: np.ndarray, gradient_UW: np.ndarray, rate: float) -> None:
    """row -= rate * gradient."""
    for u in range(slot_U.size):
        if u + _AHEAD < slot_U.size:
            prefetch_row(table_VC, slot_U[u + _AHEAD])
        step_row(table_VC, slot_U[u], gradient_UW, u, np.float32(rate))


@jit
def adagrad_rows(
    table_VC: np.ndarray, slot_U: np.ndarray, gradient_UW: np.ndarray, rate: float, epsilon: float
) -> None:
    """Row-wise Adagrad: h += mean(gradient ** 2); row -= rate / (sqrt(h) + epsilon) * gradient. State: h.

    Duchi, Hazan, Singer 2011, with one accumulator for each row instead of one for each number.
    """
    width = gradient_UW.shape[1]
    for u in range(slot_U.size):
        if u + _AHEAD < slot_U.size:
            prefetch_row(table_VC, slot_U[u + _AHEAD])
        row = slot_U[u]
        total = table_VC[row, width] + square_of(gradient_UW, u) / np.float32(width)
        table_VC[row, width] = total
        step_row(table_VC, row, gradient_UW, u, np.float32(rate) / (np.sqrt(total) + np.float32(epsilon)))


@jit
def adam_rows(
    table_VC: np.ndarray, slot_U: np.ndarray, gradient_UW: np.ndarray, rate: float, beta1: float, beta2: float,
    epsilon: float,
) -> None:  # fmt: skip
    """Adam with one second moment for each row. State: W first moments, the second moment, the row's own steps.

    Kingma, Ba 2015, algorithm 1; the second moment is of mean(gradient ** 2), and biases are taken out by how often
    the row itself has stepped.
    """
    width = gradient_UW.shape[1]
    first, second = np.float32(beta1), np.float32(beta2)
    for u in range(slot_U.size):
        if u + _AHEAD < slot_U.size:
            prefetch_row(table_VC, slot_U[u + _AHEAD])
        row = slot_U[u]
        square = square_of(gradient_UW, u)
        count = table_VC[row, 2 * width + 1] + _ONE
        table_VC[row, 2 * width + 1] = count
        moment = second * table_VC[row, 2 * width] + (_ONE - second) * square / np.float32(width)
        table_VC[row, 2 * width] = moment
        bias = _ONE - np.float32(beta1**count)
        step = np.float32(rate) / bias
        scale = np.sqrt(moment / (_ONE - np.float32(beta2**count))) + np.float32(epsilon)
        for w in range(width):
            mean = first * table_VC[row, width + w] + (_ONE - first) * gradient_UW[u, w]
            table_VC[row, width + w] = mean
            table_VC[row, w] = bounded(table_VC[row, w] - step * mean / scale)
