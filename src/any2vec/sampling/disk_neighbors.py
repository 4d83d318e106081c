"""Sampled neighborhoods of a graph whose lists of neighbors lie on disk: the same samples, to the bit.

Draws are of places in a list, and need none of its entries; so places are drawn first, and only the pages that hold
them are read: of a hub as many as its fan-out, at most. What is read makes a small adjacency, all of which is taken.
Some lists stand in memory, chosen beforehand (Ginex' neighbor cache: Park et al. 2022, PVLDB 15(11)).

Legend: N nodes, F of a frontier, S entries sampled by it, K lists in memory, C their entries.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from any2vec.data.attributed.adjacency_file import AdjacencyFile
from any2vec.data.attributed.row_file import Reads
from any2vec.errors import InputError
from any2vec.kernels.common.ranges import positions_in
from any2vec.sampling.neighbors import Entries, NeighborOptions, NeighborSampler
from any2vec.types import Csr

_PIECE = 1 << 20
"""entries that are copied together"""


class CachedLists:
    """Lists of neighbors in a file, some of them in memory for good. Threads may share it.

    Args:
        csr: whose `indices` are mapped from the file; it is read through once, where lists stand.
        kept: int64 (K,), ascending: nodes whose lists stand in memory.

    Memory: 8 bytes a node, 4 an entry in memory.
    """

    def __init__(self, csr: Csr, file: AdjacencyFile, kept: np.ndarray) -> None:
        self.file = file
        begin_K, end_K = csr.indptr[kept], csr.indptr[kept + 1]
        stop_K = np.cumsum(end_K - begin_K)
        self._start_N = np.full(len(csr.indptr) - 1, -1, np.int64)
        """where the list of each node begins in memory; -1: it is on disk"""
        self._start_N[kept] = stop_K - (end_K - begin_K)
        self._id_C = np.empty(int(stop_K[-1]) if len(kept) else 0, np.int32)
        cuts = np.unique([*np.searchsorted(stop_K, np.arange(0, len(self._id_C), _PIECE)), len(kept)])
        at = 0
        for first, stop in pairwise(cuts.tolist()):
            entries = csr.indices[positions_in(begin_K[first:stop], end_K[first:stop])]
            self._id_C[at : at + len(entries)] = entries
            at += len(entries)

    @property
    def bytes_filled(self) -> int:
        """Of the lists in memory."""
        return self._id_C.nbytes

    def take(
        self, node_F: np.ndarray, start_F: np.ndarray, stop_F1: np.ndarray, place_S: np.ndarray
    ) -> tuple[np.ndarray, Reads]:
        """(int32 (S,): entries at places of the lists of nodes, in their order; what that has read).

        start: where each list begins in the file; its places are at [stop[i], stop[i + 1]).

        Raises:
            FormatError: the file is damaged. StorageError: it cannot be read.
        """
        taken_F, held_F = np.diff(stop_F1), self._start_N[node_F]
        is_held_S = np.repeat(held_F >= 0, taken_F)
        id_S = np.empty(len(place_S), np.int32)
        id_S[is_held_S] = self._id_C[(place_S + np.repeat(held_F - start_F, taken_F))[is_held_S]]
        missed = np.flatnonzero(~is_held_S)
        id_S[missed], num_bytes = self.file.take(place_S[missed])
        return id_S, Reads(int(((held_F < 0) & (taken_F > 0)).sum()), num_bytes)


class DiskNeighborSampler(NeighborSampler):
    """The samples of a `NeighborSampler` over a graph in memory; any number of threads may call it at once.

    Args:
        indptr: int64 (N + 1,), where lists begin; it is in memory.

    Raises:
        InputError: the law is not `uniform`: others look at whole lists. `sample`: FormatError: the file is damaged.
            StorageError: it cannot be read.
    """

    def __init__(self, indptr: np.ndarray, lists: CachedLists, options: NeighborOptions) -> None:
        if options.law != "uniform":
            raise InputError(f"Lists on disk are sampled by the law uniform, got {options.law}: it reads whole lists.")
        super().__init__(Csr(indptr, np.empty(0, np.int32), np.empty(0, np.float32)), options)
        self.lists = lists

    def _entries(
        self, node_F: np.ndarray, start_F: np.ndarray, degree_F: np.ndarray, stop_F1: np.ndarray, repeats: bool,
        key: np.uint64, edge: np.ndarray,
    ) -> Entries:  # fmt: skip
        """The samples themselves, all of which are taken. FormatError: the file is damaged. StorageError: it cannot be
        read."""
        from any2vec.kernels.graph.neighbors import draw_places

        first, end_F1 = stop_F1[0], stop_F1 - stop_F1[0]
        place_S = np.empty(end_F1[-1], np.int64)
        draw_places(node_F, start_F, degree_F, end_F1, repeats, key, place_S)
        if edge.size:
            edge[first : stop_F1[-1]] = place_S
        id_S, reads = self.lists.take(node_F, start_F, end_F1, place_S)
        return id_S, end_F1[:-1], np.diff(end_F1), False, edge[:0], reads
