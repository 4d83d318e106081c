"""Features of edges: rows in the order in which edges are given, then by entry of the adjacency, and as batches take
them.

Legend: E entries of the adjacency, M edges as they are given, K features of an edge, R rows,
S entries taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from any2vec.data.attributed.features import FeatureRows
from any2vec.types import Csr


@dataclass(frozen=True)
class GivenRows:
    """Features of edges in the order in which these are given."""

    matrix: Any
    """numbers (M, K), an array or a SciPy sparse one"""
    kind: str
    """float32 or float16: as what they are kept"""
    name: str


class EntryRows:
    """A matrix of a row for each of some entries, made when a piece of it is asked for: the mean of the rows of the
    edges that have become the entry, one where no edge came twice.

    Args:
        number_M: int64, edges by entry; first_E: where those of each entry begin.
    """

    def __init__(self, matrix: Any, number_M: np.ndarray, first_E: np.ndarray) -> None:
        self.shape = len(first_E), int(matrix.shape[1])
        self._matrix, self._number_M = matrix, number_M
        self._stop_E1 = np.append(first_E, len(number_M))

    def __getitem__(self, entries: slice) -> np.ndarray:
        start, stop, _ = entries.indices(self.shape[0])
        at = self._stop_E1[start : stop + 1]
        given = self._matrix[self._number_M[at[0] : at[-1]]]
        rows: np.ndarray = np.asarray(given.toarray() if sparse.issparse(given) else given)
        if len(rows) == stop - start:
            return rows
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is refused behind
            total = np.add.reduceat(rows.astype(np.float64), at[:-1] - at[0], axis=0)
        return np.asarray(total / np.diff(at)[:, None])


class FeaturedCsr(Csr):
    """In-neighbors of nodes whose edges have features."""

    rows: FeatureRows
    """a row for each entry of the graph"""
    place_E: np.ndarray
    """int64 (E,): which of the rows belongs to each entry; (0,): the one at its place"""
    weight_R: np.ndarray
    """float32: the weight of the entry to which each of the rows belonged in the graph; (0,): there are none"""

    @classmethod
    def of(cls, csr: Csr, rows: FeatureRows) -> FeaturedCsr:
        """A graph, and features of its edges."""
        return cls._of(csr, csr.weights, rows, np.empty(0, np.int64), csr.weights)

    @classmethod
    def _of(
        cls, csr: Csr, weight_E: np.ndarray, rows: FeatureRows, place_E: np.ndarray, weight_R: np.ndarray
    ) -> FeaturedCsr:  # fmt: skip
        found = cls(csr.indptr, csr.indices, weight_E)
        found.rows, found.place_E, found.weight_R = rows, place_E, weight_R
        return found

    def numbered(self) -> Csr:
        """The same entries, the weight of each being the number of its row, int64: for what leaves some of them out, or
        gives them another order, see `again`."""
        return Csr(self.indptr, self.indices, self.place_E if len(self.place_E) else np.arange(len(self.indices)))

    def again(self, csr: Csr) -> FeaturedCsr:
        """What has become of `numbered`, with its features and weights."""
        weight_E = self.weight_R[csr.weights] if len(self.weight_R) else self.weight_R
        return self._of(csr, weight_E, self.rows, csr.weights, self.weight_R)

    def take(self, entry_S: np.ndarray | None = None) -> np.ndarray:
        """float32 (S, K): features of some entries, integers (S,) in [0, E); None: of all."""
        if entry_S is None:
            if not len(self.place_E) and self.rows.row_ND.dtype == np.float32:
                return self.rows.row_ND
            entry_S = np.arange(len(self.indices))
        return self.rows.take(self.place_E[entry_S] if len(self.place_E) else entry_S)


def edge_columns_of(csr: Csr) -> int:
    """K; 0: edges have no features."""
    return csr.rows.columns if isinstance(csr, FeaturedCsr) else 0
