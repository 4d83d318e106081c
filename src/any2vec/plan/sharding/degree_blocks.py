"""An order of nodes in which edges gather in blocks on the diagonal of the adjacency: by degree class and by METIS.

Source: GCoD (You et al., HPCA 2022, section IV): classes by thresholds of the in-degree, as many subgraphs of a class
as it has edges for, METIS within each class with edges balanced, subgraphs dealt to groups in turn. Ours: the default
threshold, and how many subgraphs there are.

Legend: N nodes, C classes, P blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from any2vec.checks import check_whole
from any2vec.errors import InputError
from any2vec.plan.sharding.graph import MAX_PARTS, metis_partition
from any2vec.types import Csr


class DiagonalBlocks(NamedTuple):
    """An order of nodes, cut into blocks."""

    order_N: np.ndarray
    """int64: the node at each place"""
    stop_P1: np.ndarray
    """int64 (P + 1,), ascending from 0 to N: block p has places [stop[p], stop[p + 1])"""
    class_P: np.ndarray
    """int64: the degree class of each block's nodes, from 0, the lowest degrees"""


def diagonal_blocks(
    csr: Csr, num_blocks: int, thresholds: Sequence[int] | None = None, groups: int = 2
) -> DiagonalBlocks:
    """Order the nodes by degree class, within it by group, within that by METIS's part.

    Args:
        csr: in-neighbors. num_blocks: P at most, 1..65,536, and one for each class with nodes at least.
        thresholds: ascending; class c has in-degrees below thresholds[c] that no class before it has, the last one the
            others (GCoD: 4 for Cora; 3 and 6 for Citeseer). By default the mean degree, rounded up.
        groups: to which blocks of a class are dealt in turn, 1 or more: those of a group stand together.

    Raises:
        InputError: an argument is not legal, or METIS is not installed.
    """
    check_whole("num_blocks", num_blocks, 1, MAX_PARTS)
    check_whole("groups", groups, 1, MAX_PARTS)
    degree_N = np.diff(csr.indptr)
    if thresholds is None:
        thresholds = [int(np.ceil(degree_N.mean()))] if len(degree_N) else []
    if sorted(set(thresholds)) != list(thresholds):
        raise InputError(f"thresholds must ascend, got {list(thresholds)}.")
    class_N = np.searchsorted(np.asarray(thresholds, np.int64), degree_N, side="right")
    classes = np.unique(class_N)
    edges_C = np.array([degree_N[class_N == one].sum() for one in classes])
    found: list[np.ndarray] = []
    class_of: list[int] = []
    for one, parts in zip(classes.tolist(), shares(edges_C, num_blocks).tolist(), strict=True):
        nodes = np.flatnonzero(class_N == one)
        part = metis_partition(_induced(csr, nodes), min(parts, len(nodes)))
        blocks = [nodes[part == number] for number in range(parts)]
        dealt = [block for group in range(groups) for block in blocks[group::groups] if len(block)]
        found += dealt
        class_of += [one] * len(dealt)
    order_N = np.concatenate([np.empty(0, np.int64), *found])
    stop_P1 = np.concatenate([[0], np.cumsum([len(block) for block in found])]).astype(np.int64)
    return DiagonalBlocks(order_N, stop_P1, np.array(class_of, np.int64))


def shares(weight_C: np.ndarray, total: int) -> np.ndarray:
    """int64 (C,): whole numbers in proportion to weights, one at least, by largest remainders; their sum is `total`, or
    C where that is more."""
    spare = max(0, total - len(weight_C))
    exact = weight_C / max(1, weight_C.sum()) * spare
    found = np.floor(exact).astype(np.int64)
    most = np.argsort(found - exact, kind="stable")[: spare - int(found.sum())]
    found[most] += 1
    return found + 1


def entries_within(csr: Csr, stop_P1: np.ndarray) -> np.ndarray:
    """int64 (P,): entries of each block on the diagonal."""
    num_nodes = len(csr.indptr) - 1
    block_N = np.repeat(np.arange(len(stop_P1) - 1), np.diff(stop_P1))
    row_M = np.repeat(np.arange(num_nodes), np.diff(csr.indptr))
    is_within_M = block_N[row_M] == block_N[csr.indices]
    return np.bincount(block_N[row_M[is_within_M]], minlength=len(stop_P1) - 1)


def _induced(csr: Csr, nodes: np.ndarray) -> Csr:
    """The graph of some nodes, ascending, and the edges among them."""
    place_N = np.full(len(csr.indptr) - 1, -1, np.int32)
    place_N[nodes] = np.arange(len(nodes))
    row_M = np.repeat(place_N, np.diff(csr.indptr))
    to_M = place_N[csr.indices]
    kept = (row_M >= 0) & (to_M >= 0)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row_M[kept], minlength=len(nodes)))]).astype(np.int64)
    return Csr(indptr, to_M[kept], np.empty(0, np.float32))
