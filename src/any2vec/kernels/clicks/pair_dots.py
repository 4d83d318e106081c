"""Dot products of all pairs of vectors of an example, and the way of their gradients back.

Legend: B examples, G vectors of each, D dim, K = G (G - 1) / 2 pairs (1, 0), (2, 0), (2, 1), (3, 0)...
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import fast_jit


@fast_jit
def pair_dots(vector_BGD: np.ndarray, dot_BK: np.ndarray) -> None:
    """dot_BK[b, k] = <vector i, vector j> of the k-th pair i > j."""
    num_examples, num_vectors, dim = vector_BGD.shape
    for b in range(num_examples):
        k = 0
        for i in range(1, num_vectors):
            for j in range(i):
                total = np.float32(0.0)
                for d in range(dim):
                    total += vector_BGD[b, i, d] * vector_BGD[b, j, d]
                dot_BK[b, k] = total
                k += 1


@fast_jit
def pair_dots_back(vector_BGD: np.ndarray, gradient_BK: np.ndarray, gradient_BGD: np.ndarray) -> None:
    """gradient_BGD[b, i] = sum over the pairs of i of gradient_BK[b, pair] * the pair's other vector."""
    num_examples, num_vectors, dim = vector_BGD.shape
    for b in range(num_examples):
        k = 0
        for d in range(dim):
            gradient_BGD[b, 0, d] = np.float32(0.0)
        for i in range(1, num_vectors):
            for d in range(dim):
                gradient_BGD[b, i, d] = np.float32(0.0)
            for j in range(i):
                share = gradient_BK[b, k]
                for d in range(dim):
                    gradient_BGD[b, i, d] += share * vector_BGD[b, j, d]
                    gradient_BGD[b, j, d] += share * vector_BGD[b, i, d]
                k += 1
