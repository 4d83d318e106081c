"""Orders of a graph's nodes in which neighbors stand near one another, so that sums over them read rows that the
processor's caches hold. Pure: the same graph gives the same order.

Legend: N nodes.
"""

from __future__ import annotations

import numpy as np

from any2vec.plan.order.shuffle import random_order
from any2vec.plan.sharding.degree_blocks import diagonal_blocks
from any2vec.plan.sharding.graph import metis_partition
from any2vec.types import Csr

NODE_ORDERS = ("none", "degree", "rcm", "communities", "metis", "gcod")
BLOCK = 2048
"""nodes of a community at most, or of a part of METIS: their rows of 128 float32 numbers are 1 MB, a core's cache"""
_ROUNDS = 10
_SEED = 1


def node_order(csr: Csr, method: str) -> np.ndarray:
    """int64 (N,): the node at each place.

    Args:
        csr: in-neighbors; where a method needs an undirected graph it counts edges in both directions.
        method: none: as they are. degree: those with most in-neighbors first. rcm: reverse Cuthill-McKee (Cuthill and
            McKee 1969; SciPy's). communities: by label propagation, at most `BLOCK` nodes in each (Raghavan et al.
            2007; Meyerhenke, Sanders and Schulz 2014 for the bound). metis: by METIS's part, about `BLOCK` nodes each.
            gcod: as `diagonal_blocks`, about `BLOCK` nodes each.

    Nodes that a method does not tell apart stay in their order. O(N + edges) but for metis, which has its own.

    Raises:
        InputError: METIS is not installed, or the graph is too large for it.
    """
    num_nodes = len(csr.indptr) - 1
    if method == "degree":
        return np.argsort(-np.diff(csr.indptr), kind="stable")
    if method == "rcm":
        return _reverse_cuthill_mckee(csr)
    if method == "communities":
        return np.argsort(communities(csr, BLOCK), kind="stable")
    if method == "metis":
        return np.argsort(metis_partition(csr, max(1, num_nodes // BLOCK)), kind="stable")
    if method == "gcod":
        return diagonal_blocks(csr, max(1, num_nodes // BLOCK)).order_N
    return np.arange(num_nodes)


def communities(csr: Csr, most: int) -> np.ndarray:
    """int32 (N,): of each node a number that its community has, `most` nodes in one at most."""
    from any2vec.kernels.graph.partitioning import plain_symmetric, propagate_labels

    indptr, indices = plain_symmetric(csr.indptr, csr.indices)
    num_nodes = len(indptr) - 1
    label_N, size_N = np.arange(num_nodes, dtype=np.int32), np.ones(num_nodes, np.int64)
    count_N, found = np.zeros(num_nodes, np.int32), np.empty(max(1, int(np.diff(indptr).max(initial=0))), np.int32)
    for number in range(_ROUNDS):
        turns = random_order(num_nodes, _SEED, number)
        if not propagate_labels(indptr, indices, turns, most, label_N, size_N, count_N, found):
            break
    return label_N


def reordered(csr: Csr, order_N: np.ndarray) -> Csr:
    """The same graph, whose node p is order[p]; order: integers (N,), each node once. O(N + edges log)."""
    from any2vec.kernels.graph.csr import renumber

    out = Csr(np.zeros_like(csr.indptr), np.empty_like(csr.indices), np.empty_like(csr.weights))
    renumber(*csr, order_N, places_of(order_N), *out)
    return out


def places_of(order_N: np.ndarray) -> np.ndarray:
    """int64 (N,): where each node stands in an order, its inverse."""
    place_N = np.empty(len(order_N), np.int64)
    place_N[order_N] = np.arange(len(order_N))
    return place_N


def _reverse_cuthill_mckee(csr: Csr) -> np.ndarray:
    from scipy import sparse
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    from any2vec.kernels.graph.partitioning import plain_symmetric

    indptr, indices = plain_symmetric(csr.indptr, csr.indices)
    matrix = sparse.csr_array((np.ones(len(indices), np.int8), indices, indptr), shape=(len(indptr) - 1,) * 2)
    return np.asarray(reverse_cuthill_mckee(matrix, symmetric_mode=True), np.int64)
