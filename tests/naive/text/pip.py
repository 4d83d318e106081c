"""Plain twin of co-occurrence counts, SPPMI and PIP loss: dictionaries and V x V arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from naive.common.rng import draw

FAR, PART_POSITIONS = 10_000, 1024


def pair_counts(
    tokens: Sequence[int], row: Sequence[int], keep: Sequence[int], key: int, window: int, offset: int = 0
) -> tuple[Counter, Counter]:
    """By part of the corpus: (row, other row) -> window times the expected count."""
    sentences: list[list[tuple[int, int]]] = [[]]
    for index, token in enumerate(int(token) for token in tokens):
        if token < 0:
            sentences.append([])
        elif row[token] >= 0 and (draw(int(key), offset + index) & 0xFFFFFFFF) < int(keep[row[token]]):
            sentences[-1].append((offset + index, int(row[token])))
    counts = (Counter(), Counter())
    for sentence in sentences:
        for place, (position, one) in enumerate(sentence):
            for distance in range(1, min(window, place) + 1):
                before, other = sentence[place - distance]
                if position - before <= FAR:
                    part = counts[position // PART_POSITIONS % 2]
                    part[one, other] += window + 1 - distance
                    part[other, one] += window + 1 - distance
    return counts


def shifted_pmi(count_VV: np.ndarray, words_V: np.ndarray, negatives: int, power: float) -> np.ndarray:
    """log(#(w, c) / (#(w) P(c))) - log k, -inf where a pair never comes; not symmetric."""
    noise = words_V**power / (words_V**power).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(count_VV / (count_VV.sum(1, keepdims=True) * noise)) - np.log(negatives)
    return np.where(count_VV > 0, value, -np.inf)


def sppmi(count_VV: np.ndarray, words_V: np.ndarray, negatives: int, power: float) -> np.ndarray:
    """The positive part of the symmetric form."""
    value = shifted_pmi(count_VV, words_V, negatives, power)
    return np.maximum(0, (value + value.T) / 2)


def pip_loss(vectors: np.ndarray, target: np.ndarray) -> float:
    return float(np.linalg.norm(vectors @ vectors.T - target))


def balanced(vectors: np.ndarray, output: np.ndarray) -> np.ndarray:
    """The inner products of U sqrt(S), (V, V)."""
    left, singular, _ = np.linalg.svd(vectors @ output.T)
    return (left * singular) @ left.T


def best_losses(target: np.ndarray, dim: int) -> tuple[float, float]:
    """PIP loss of U sqrt(S) of the SVD cut to dim, and the least of any vectors of that dimension."""
    left, singular, _ = np.linalg.svd(target)
    factors = left[:, :dim] * np.sqrt(singular[:dim])
    values = np.sort(np.linalg.eigvalsh(target))[::-1]
    kept = np.maximum(values[:dim], 0)
    return pip_loss(factors, target), float(np.sqrt((target**2).sum() - (kept**2).sum()))
