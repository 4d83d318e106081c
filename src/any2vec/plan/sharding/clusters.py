"""Clusters of a graph's nodes, from which batches are made: few edges lead from one to another.

Legend: N nodes, P clusters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from any2vec.checks import check_whole
from any2vec.plan.choices import MAX_PARTS
from any2vec.plan.order.proximity import breadth_first_sequences
from any2vec.plan.sharding.graph import has_metis, metis_partition, report_partition
from any2vec.types import Csr

PASSES = 10
"""over the nodes, of linear deterministic greedy"""


class Clusters(NamedTuple):
    """Each node is in one."""

    part_N: np.ndarray
    """int32, in [0, num)"""
    num: int
    """P; some may be empty"""
    method: str
    """metis or ldg"""
    cut_share: float
    """entries of the adjacency that lead from one to another, 0..1"""

    def members(self) -> tuple[np.ndarray, np.ndarray]:
        """(int32 (N,): the nodes of cluster p, ascending, at [start[p], start[p + 1]); int64 (P + 1,): start)."""
        start_P1 = np.zeros(self.num + 1, np.int64)
        np.cumsum(np.bincount(self.part_N, minlength=self.num), out=start_P1[1:])
        return np.argsort(self.part_N, kind="stable").astype(np.int32), start_P1

    def sentence(self) -> str:
        """How many, by what, and what they cut."""
        return f"{self.num:,} parts by {self.method}, {self.cut_share:.0%} of edges between them"


def find_clusters(csr: Csr, num: int, method: str | None, seed: int) -> Clusters:
    """Cut a graph into clusters.

    metis: few edges between them, stored edges balanced, with a fixed seed; ldg: see `greedy_parts`; None: metis where
    pymetis is installed. Deterministic.

    Raises:
        InputError: there are fewer nodes than clusters, or METIS is asked for and not installed.
    """
    check_whole("num_parts", num, 1, min(MAX_PARTS, len(csr.indptr) - 1))
    method = method or ("metis" if has_metis() else "ldg")
    part_N = metis_partition(csr, num) if method == "metis" else greedy_parts(csr, num, seed)
    return Clusters(part_N, num, method, report_partition(csr, part_N, num, is_directed=True).cut_share)


def greedy_parts(csr: Csr, num: int, seed: int) -> np.ndarray:
    """int32 (N,): parts of N / num nodes at most, by linear deterministic greedy in a breadth-first order from random
    nodes, again and again (Stanton and Kliot 2012; Nishimura and Ugander 2013). O(E) a pass, and no copy of the graph.
    """
    from any2vec.kernels.graph.partitioning import assign_greedily

    num_nodes = len(csr.indptr) - 1
    order_N = next(breadth_first_sequences(csr, np.arange(num_nodes), seed))
    part_N = np.full(num_nodes, -1, np.int32)
    for _ in range(PASSES):
        size_P, (count_P, found_P) = np.zeros(num, np.int64), np.zeros((2, num), np.int32)
        assign_greedily(csr.indptr, csr.indices, order_N, -(-num_nodes // num), part_N, size_P, count_P, found_P)
    return part_N
