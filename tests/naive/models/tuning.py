"""Twins of GCoD's tuning, over a dense matrix whose entry (i, j) is the value of the edge from j to i."""

from __future__ import annotations

import numpy as np


def kept_pairs(value_U: list[float], distance_U: list[int], share: float) -> list[bool]:
    """One pair after the other goes: the one of least value, among equal ones the farthest, then the last."""
    kept = [True] * len(value_U)
    for _ in range(round(share * len(value_U))):
        left = [pair for pair, stays in enumerate(kept) if stays]
        kept[min(left, key=lambda pair: (value_U[pair], -distance_U[pair], -pair))] = False
    return kept


def in_full_chunks(edges: list[tuple[int, int]], block_N: list[int], floor: int) -> list[bool]:
    """Whether each edge is within a block, or between two with enough in one direction."""
    count: dict[tuple[int, int], int] = {}
    for src, dst in edges:
        chunk = block_N[src], block_N[dst]
        count[chunk] = count.get(chunk, 0) + 1
    found = []
    for src, dst in edges:
        one, other = block_N[src], block_N[dst]
        found.append(one == other or max(count[one, other], count.get((other, one), 0)) >= floor)
    return found


def scores(adjacency_NN: np.ndarray, x_ND: np.ndarray, layers: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """(N, C) of graph convolutions (Kipf and Welling 2017, equation 9); layers: weights (out, in) and biases."""
    looped_NN = adjacency_NN + np.eye(len(adjacency_NN))
    root_N = looped_NN.sum(1) ** -0.5
    norm_NN = root_N[:, None] * looped_NN * root_N
    found = x_ND
    for number, (weight, bias) in enumerate(layers):
        found = norm_NN @ ((np.maximum(found, 0) if number else found) @ weight.T) + bias
    return found


def cross_entropy(score_NC: np.ndarray, label_N: np.ndarray, train: np.ndarray) -> float:
    """Mean over the training nodes."""
    shifted = score_NC[train] - score_NC[train].max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return float(-logs[np.arange(len(train)), label_N[train]].mean())


def quantized(x: list[list[float]], bits: int, class_N: list[int]) -> list[list[float]]:
    """Each number at the nearest level of its row's class."""
    found = []
    for row, own in zip(x, class_N, strict=True):
        numbers = [value for other, its in zip(x, class_N, strict=True) if its == own for value in other]
        low, high = min(numbers), max(numbers)
        levels = [low + (high - low) * level / (2**bits - 1) for level in range(2**bits)]
        found.append([min(levels, key=lambda level: abs(level - value)) for value in row])
    return found
