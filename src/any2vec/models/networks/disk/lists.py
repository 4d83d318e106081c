"""Which lists of neighbors stand in memory, where not all do.

Source: Ginex (Park et al. 2022, PVLDB 15(11)): lists by out-degree over in-degree. How often a list is sampled goes by
how many nodes have its own as in-neighbor, and what it takes goes by its length.

Legend: N nodes, K of them whose lists stand in memory.
"""

from __future__ import annotations

import numpy as np

from any2vec.models.networks.hot_rows import num_targets
from any2vec.models.networks.sizing import FLOAT
from any2vec.types import Csr


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
