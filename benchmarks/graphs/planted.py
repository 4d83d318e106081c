"""A planted graph: degree-corrected blocks (Karrer and Newman 2011), undirected, node numbers shuffled."""

from __future__ import annotations

from pathlib import Path

import numpy as np

COMMUNITY, INSIDE, POWER = 2000, 0.7, 2.2


def write_graph(path: Path, num_nodes: int, mean_degree: float, seed: int = 0) -> None:
    """An .npz file with indptr int64 and indices int32, neighbors ascending and each once.

    Propensities follow a power law of exponent 2.2, cut at the root of the number of nodes; 7 of 10 edges stay inside
    a community.
    """
    rng = np.random.default_rng(seed)
    propensity = np.minimum((1 - rng.random(num_nodes)) ** (-1 / (POWER - 1)), num_nodes**0.5)
    ends = np.cumsum(propensity)
    num_edges = int(num_nodes * mean_degree / 2 * 1.06)
    src = np.searchsorted(ends, rng.random(num_edges) * ends[-1])
    first = src // COMMUNITY * COMMUNITY
    low = np.where(first > 0, ends[first - 1], 0.0)
    high = ends[np.minimum(first + COMMUNITY, num_nodes) - 1]
    share = rng.random(num_edges)
    place = np.where(rng.random(num_edges) < INSIDE, low + share * (high - low), share * ends[-1])
    dst = np.minimum(np.searchsorted(ends, place), num_nodes - 1)
    order = rng.permutation(num_nodes)
    src, dst = order[src[src != dst]], order[dst[src != dst]]
    key = np.unique(np.concatenate([src * num_nodes + dst, dst * num_nodes + src]))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(key // num_nodes, minlength=num_nodes))])
    with path.open("wb") as file:
        np.savez(file, indptr=indptr, indices=(key % num_nodes).astype(np.int32))
