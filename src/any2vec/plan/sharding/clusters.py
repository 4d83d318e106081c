"""Clusters of a graph's nodes, from which batches are made: few edges lead from one to another.

Legend: N nodes, P clusters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from any2vec.checks import check_whole
from any2vec.plan.order.proximity import breadth_first_sequences
from any2vec.plan.sharding.graph import MAX_PARTS, has_metis, metis_partition, report_partition
from any2vec.plan.sharding.sharding import contiguous_bounds
from any2vec.types import Csr


class Clusters(NamedTuple):
    """Each node is in one."""

    part_N: np.ndarray
    """int32, in [0, num)"""
    num: int
    """P; some may be empty"""
    method: str
    """metis or breadth-first"""
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

    metis: few edges between them, stored edges balanced, with a fixed seed; breadth-first: as many nodes each, in the
    order in which a search from random nodes finds them (as BGL, Liu et al. 2023, begins), O(E); None: metis where
    pymetis is installed. Deterministic.

    Raises:
        InputError: there are fewer nodes than clusters, or METIS is asked for and not installed.
    """
    check_whole("num_parts", num, 1, min(MAX_PARTS, len(csr.indptr) - 1))
    method = method or ("metis" if has_metis() else "breadth-first")
    part_N = metis_partition(csr, num) if method == "metis" else breadth_first_parts(csr, num, seed)
    return Clusters(part_N, num, method, report_partition(csr, part_N, num, is_directed=True).cut_share)


def breadth_first_parts(csr: Csr, num: int, seed: int) -> np.ndarray:
    """int32 (N,): blocks of a breadth-first order, whose sizes differ by one at most."""
    num_nodes = len(csr.indptr) - 1
    order_N = next(breadth_first_sequences(csr, np.arange(num_nodes), seed))
    part_N = np.empty(num_nodes, np.int32)
    part_N[order_N] = np.repeat(np.arange(num, dtype=np.int32), np.diff(contiguous_bounds(num_nodes, num)))
    return part_N
