"""Which nodes' rows batches will read most: scores by which rows stand in memory for good (data tiering); and lists.

Source: Min et al., KDD 2022 (arXiv 2111.05894): degree, reverse PageRank, and the same weighted by the training nodes;
GNNLab (Yang et al., EuroSys 2022): what a sampled epoch has read. Ours: the damping and steps are GIDS's defaults.
Lists: Ginex (Park et al. 2022, PVLDB 15(11)), by out-degree over in-degree: how often one is sampled goes by how many
nodes have its own as in-neighbor, and what it takes goes by its length.

Legend: N nodes, K of them whose lists stand in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from any2vec.models.networks.sizing import FLOAT
from any2vec.types import Csr

DAMPING, STEPS = 0.85, 20


class Asked(NamedTuple):
    """What a score may know."""

    csr: Csr
    """in-neighbors"""
    train: np.ndarray
    """int64: the training nodes"""
    batches: Callable[[], Iterable[np.ndarray]]
    """the rows that each batch of the first epoch reads, none twice"""


def num_targets(csr: Csr) -> np.ndarray:
    """int64 (N,): how many nodes have each as in-neighbor, and so may ask for its row."""
    found = np.zeros(len(csr.indptr) - 1, np.int64)
    for first in range(0, len(csr.indices), 1 << 22):
        found += np.bincount(csr.indices[first : first + (1 << 22)], minlength=len(found))
    return found


def reverse_pagerank(csr: Csr, start_N: np.ndarray) -> np.ndarray:
    """float64 (N,): where a walk from targets to in-neighbors is, that begins anew at `start` in 15 of 100 steps.

    start: 0 or more, not all 0. A node without in-neighbors gives nothing on. O(STEPS E).
    """
    from any2vec.kernels.graph.aggregate import spread_rows

    start_N1 = (start_N / start_N.sum())[:, None]
    found = start_N1
    for _ in range(STEPS):
        given = np.zeros_like(found)
        spread_rows(csr.indptr, csr.indices, found, True, 0, 1, given)
        found = (1 - DAMPING) * start_N1 + DAMPING * given
    return np.asarray(found[:, 0])


def _by_training_nodes(asked: Asked) -> np.ndarray:
    start_N = np.zeros(len(asked.csr.indptr) - 1)
    start_N[asked.train] = 1
    return reverse_pagerank(asked.csr, start_N)


def _presampled(asked: Asked) -> np.ndarray:
    found = np.zeros(len(asked.csr.indptr) - 1, np.int64)
    for rows in asked.batches():
        found[rows] += 1
    return found


SCORES: dict[str, Callable[[Asked], np.ndarray]] = {
    "degree": lambda asked: num_targets(asked.csr),
    "reverse-pagerank": lambda asked: reverse_pagerank(asked.csr, np.ones(len(asked.csr.indptr) - 1)),
    "weighted-reverse-pagerank": _by_training_nodes,
    "presampled": _presampled,
}
"""by name"""


def highest(score_N: np.ndarray, number: int) -> np.ndarray:
    """int64, ascending: nodes of the highest scores, the lower one of equal ones."""
    order = np.argsort(-score_N, kind="stable")[:number]
    return np.sort(order)


def most_useful_lists(csr: Csr, num_bytes: int) -> np.ndarray:
    """int64 (K,), ascending: nodes of the highest out-degree over in-degree, so many that their lists are no more than
    `num_bytes`; the lower one of equal ones first. Empty lists are nobody's.
    """
    degree_N = np.diff(csr.indptr)
    node_K = np.flatnonzero(degree_N)
    score_K = num_targets(csr)[node_K] / degree_N[node_K]
    node_K = node_K[np.argsort(-score_K, kind="stable")]
    fit = np.searchsorted(FLOAT * np.cumsum(degree_N[node_K]), num_bytes, side="right")
    return np.sort(node_K[:fit])
