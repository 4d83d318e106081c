"""Graph augmentation: what a node's features become when those of its neighborhood stand beside them.

Wang et al., arXiv 2105.09837, section III (GA-MLP): X = [psi_1(A) H, ..., psi_K(A) H], A sparse throughout. Every psi
acts on each column of H alone, so that columns go through in blocks and the memory stays bounded.

Legend: N nodes, D features, B features of a block, R rows that are kept, K functions, O columns of a product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy import sparse

from any2vec.errors import InputError
from any2vec.types import Csr

MEMORY = 1 << 28
"""bytes that the blocks at work take, about, beside what comes in and goes out"""

Features: TypeAlias = np.ndarray | sparse.csr_array
"""float32 (N, D), dense or sparse"""
UserPsi: TypeAlias = Callable[[sparse.csr_array, np.ndarray], Sequence[np.ndarray]]
"""(normalized adjacency (N, N), block of features float32 (N, B)) -> K arrays (N, B), each column from its own alone"""


class Psi(Protocol):
    """K functions of the adjacency, applied."""

    def blocks(self, adjacency: sparse.csr_array, features_NB: np.ndarray) -> Iterator[np.ndarray]:
        """psi_1(A) H, ..., psi_K(A) H, each float32 (N, B), one after the other."""


@dataclass(frozen=True)
class Powers:
    """I, A, A^2, ..., A^hops: the published choice (hops 3)."""

    hops: int

    def blocks(self, adjacency: sparse.csr_array, features_NB: np.ndarray) -> Iterator[np.ndarray]:
        yield features_NB
        for _ in range(self.hops):
            features_NB = adjacency @ features_NB
            yield features_NB


@dataclass(frozen=True)
class PageRank:
    """I, and personalized PageRank: the sum of restart (1 - restart)^i A^i, i = 0, 1, ..., the last with what is left.

    Gasteiger et al. 2019 (APPNP), equation 4.
    """

    restart: float
    hops: int

    def blocks(self, adjacency: sparse.csr_array, features_NB: np.ndarray) -> Iterator[np.ndarray]:
        yield features_NB
        found_NB = features_NB
        for _ in range(self.hops):
            found_NB = np.float32(1 - self.restart) * (adjacency @ found_NB) + np.float32(self.restart) * features_NB
        yield found_NB


@dataclass(frozen=True)
class Own:
    """Functions of the user's."""

    function: UserPsi

    def blocks(self, adjacency: sparse.csr_array, features_NB: np.ndarray) -> Iterator[np.ndarray]:
        found = self.function(adjacency, features_NB)
        for block in found:
            array = np.asarray(block, np.float32)
            if array.shape != features_NB.shape or not np.isfinite(array).all():
                raise InputError(
                    f"psi must give finite arrays of the shape that it is given, {features_NB.shape}, got "
                    f"{array.shape}."
                )
            yield array


def normalized_adjacency(csr: Csr, row_V: np.ndarray, num_nodes: int) -> sparse.csr_array:
    """(D + I)^-1/2 (A + I) (D + I)^-1/2, float32 (N, N), symmetric: edges count in both directions, loops not at all.

    Args:
        csr: the graph of V nodes, directed or not; weights count.
        row_V: the row, 0..N - 1, of each of its nodes; the other rows are nodes without edges.
    """
    src = np.repeat(row_V, np.diff(csr.indptr))
    dst = row_V[csr.indices]
    weight = np.asarray(csr.weights, np.float64) if len(csr.weights) else np.ones(len(src))
    keep = src != dst
    one_way = sparse.csr_array((weight[keep], (src[keep], dst[keep])), shape=(num_nodes, num_nodes))
    both = one_way.maximum(one_way.T) + sparse.eye_array(num_nodes, format="csr")
    scale_N = np.asarray(both.sum(axis=1)).ravel() ** -0.5
    both = sparse.csr_array(sparse.diags_array(scale_N) @ both @ sparse.diags_array(scale_N))
    return both.astype(np.float32)


def augment(
    adjacency: sparse.csr_array, features: Features, psi: Psi, rows_R: np.ndarray, memory: int = MEMORY
) -> np.ndarray:
    """X of some nodes, float32 (R, K D), the functions side by side; neighbors outside rows_R count all the same.

    Raises:
        InputError: psi is the user's and gives something else than it should.
    """
    found: list[list[np.ndarray]] = []
    for columns in _columns(features, memory):
        blocks = [block[rows_R] for block in psi.blocks(adjacency, _dense(features, columns))]
        found.append(blocks)
    if len({len(blocks) for blocks in found}) != 1 or not found[0]:
        raise InputError("psi must give the same number of arrays, one or more, for every block of features.")
    return np.ascontiguousarray(np.hstack([blocks[k] for k in range(len(found[0])) for blocks in found]))


def multiply(
    adjacency: sparse.csr_array, features: Features, psi: Psi, weights_XO: np.ndarray, memory: int = MEMORY
) -> np.ndarray:
    """X W of all nodes, float32 (N, O), without an X: weights_XO (K D, O) lie as `augment` lays columns."""
    num_nodes, num_features = features.shape
    total_NO = np.zeros((num_nodes, weights_XO.shape[1]), np.float32)
    for columns in _columns(features, memory):
        for k, block in enumerate(psi.blocks(adjacency, _dense(features, columns))):
            at = k * num_features
            total_NO += block @ weights_XO[at + columns.start : at + columns.stop]
    return total_NO


def _columns(features: Features, memory: int) -> Iterator[slice]:
    """Slices of the columns: three float32 blocks of such a width are about `memory` bytes."""
    num_nodes, num_features = features.shape
    width = max(1, memory // (12 * max(1, num_nodes)))
    for start in range(0, num_features, width):
        yield slice(start, min(start + width, num_features))


def _dense(features: Any, columns: slice) -> np.ndarray:
    block = features[:, columns]
    return np.ascontiguousarray(block.toarray() if sparse.issparse(block) else block, np.float32)
