"""Planted graphs as compressed sparse rows, node numbers shuffled."""

from __future__ import annotations

from pathlib import Path

import numpy as np

COMMUNITY, INSIDE, POWER = 2000, 0.7, 2.2


def write_graph(path: Path, num_nodes: int, mean_degree: float, seed: int = 0) -> None:
    """An .npz file with indptr int64 and indices int32, neighbors ascending and each once: degree-corrected blocks
    (Karrer and Newman 2011), undirected.

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
    _write(path, order[src], order[dst], num_nodes, is_directed=False)


def write_ring(path: Path, num_nodes: int, mean_degree: float, seed: int = 0) -> None:
    """The same of a graph of large diameter: nodes on a ring, each beside some of the 50 nearest to either side."""
    rng = np.random.default_rng(seed)
    src = np.repeat(np.arange(num_nodes), max(1, round(mean_degree / 2)))
    dst = (src + rng.integers(1, 51, len(src))) % num_nodes
    order = rng.permutation(num_nodes)
    _write(path, order[src], order[dst], num_nodes, is_directed=False)


def write_directed(path: Path, num_nodes: int, mean_degree: float, seed: int = 0) -> None:
    """The same of in-neighbors: of each node's, 7 of 10 are of its community, the others any by a power law."""
    rng = np.random.default_rng(seed)
    dst = np.repeat(np.arange(num_nodes), max(1, round(mean_degree)))
    near = dst // COMMUNITY * COMMUNITY + rng.integers(0, COMMUNITY, len(dst))
    far = num_nodes * rng.random(len(dst)) ** 3
    src = np.minimum(np.where(rng.random(len(dst)) < INSIDE, near, far.astype(np.int64)), num_nodes - 1)
    order = rng.permutation(num_nodes)
    _write(path, order[src], order[dst], num_nodes, is_directed=True)


def write_blocks(path: Path, num_nodes: int, size: int = 128, seed: int = 0) -> None:
    """The same of blocks of `size` nodes, within which every other pair is an edge, and 10 others a node anywhere."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, num_nodes, (2, 5 * num_nodes))
    ends = [(src, dst)]
    for start in range(0, num_nodes, size):
        stop = min(start + size, num_nodes)
        near = np.nonzero(np.triu(rng.random((stop - start, stop - start)) < 0.5, 1))
        ends.append((start + near[0], start + near[1]))
    src, dst = (np.concatenate(part) for part in zip(*ends, strict=True))
    order = rng.permutation(num_nodes)
    _write(path, order[src], order[dst], num_nodes, is_directed=False)


def _write(path: Path, src: np.ndarray, dst: np.ndarray, num_nodes: int, is_directed: bool) -> None:
    """In-neighbors of edges, each once, without loops."""
    src, dst = src[src != dst], dst[src != dst]
    key = dst * num_nodes + src
    key = np.unique(key if is_directed else np.concatenate([key, src * num_nodes + dst]))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(key // num_nodes, minlength=num_nodes))])
    with path.open("wb") as file:
        np.savez(file, indptr=indptr, indices=(key % num_nodes).astype(np.int32))
