"""Sampled neighborhoods of a graph whose lists of neighbors lie on disk: the same samples, to the bit.

Draws are of places in a list, and need none of its entries; so places are drawn first, and only the pages that hold
them are read: of a hub as many as its fan-out, at most. What is read makes a small adjacency, all of which is taken.
Some lists stand in memory, chosen beforehand (Ginex' neighbor cache: Park et al. 2022, PVLDB 15(11)).

Legend: N nodes, F of a frontier, S entries sampled by it, K lists in memory, C their entries.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from any2vec.data.attributed.adjacency_file import AdjacencyFile
from any2vec.errors import InputError
from any2vec.kernels.common.ranges import positions_in
from any2vec.sampling.neighbors import Neighborhood, NeighborOptions, NeighborSampler, hop_key
from any2vec.types import Csr

_PIECE = 1 << 20
"""entries that are copied together"""


class ListReads(NamedTuple):
    """What sampling has read."""

    lists_missed: int = 0
    """lists not in memory of which entries were sampled"""
    bytes_read: int = 0
    """from the file, whole pages"""

    def plus(self, lists_missed: int, bytes_read: int) -> ListReads:
        return ListReads(self.lists_missed + lists_missed, self.bytes_read + bytes_read)


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
    ) -> tuple[np.ndarray, ListReads]:
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
        return id_S, ListReads(int(((held_F < 0) & (taken_F > 0)).sum()), num_bytes)


class DiskNeighborSampler(NeighborSampler):
    """The samples of a `NeighborSampler` over a graph in memory; any number of threads may call it at once.

    Args:
        indptr: int64 (N + 1,), where lists begin; it is in memory.

    Raises:
        InputError: the law is not `uniform`: others look at whole lists.
    """

    def __init__(self, indptr: np.ndarray, lists: CachedLists, options: NeighborOptions) -> None:
        if options.law != "uniform":
            raise InputError(f"Lists on disk are sampled by the law uniform, got {options.law}: it reads whole lists.")
        super().__init__(Csr(indptr, np.empty(0, np.int32), np.empty(0, np.float32)), options)
        self.lists = lists

    def sample(self, seeds: np.ndarray, epoch: int = 0, batch: int = 0, with_edges: bool = False) -> Neighborhood:
        """As that of `NeighborSampler`; raises as `read`, too."""
        return self.read(seeds, epoch, batch, with_edges)[0]

    def read(
        self, seeds: np.ndarray, epoch: int = 0, batch: int = 0, with_edges: bool = False
    ) -> tuple[Neighborhood, ListReads]:
        """(what `sample` gives, what it has read).

        Raises:
            InputError: a seed is no node, or comes twice. FormatError: the file is damaged. StorageError: it cannot be
                read.
        """
        from any2vec.kernels.graph import neighbors

        seed_B, rows = self._checked(seeds), self._rows
        scratch = self._scratch.of_thread()
        found = scratch.room("found", len(seed_B) + 1, np.int32)
        first, num, sampled, reads = 0, len(seed_B), 0, ListReads()
        hops, stops, locals_, edges = [num], [np.zeros(1, np.int64)], list[np.ndarray](), list[np.ndarray]()
        try:
            if not neighbors.number_seeds(seed_B, scratch.base, scratch.seen, found):
                raise InputError("A node comes twice among the seeds of a batch; give each once.")
            for hop, fanout in enumerate(self.options.fanouts):
                key = hop_key(self.options, epoch, batch, hop)
                place_S, start_F, stop_F1, widest = self._draw(found[first:num], fanout, key)
                id_S, read = self.lists.take(found[first:num], start_F, stop_F1, place_S)
                found = scratch.room("found", min(num + len(id_S), self.num_nodes) + 1, np.int32, num)
                local_S = np.empty(len(id_S), np.int32)
                before, first = first, num
                num = neighbors.sample_hop(
                    id_S, *rows.alias, rows.weights, found[before:num], stop_F1[:-1], np.diff(stop_F1), stop_F1,
                    rows.law, False, np.uint64(0), scratch.base, scratch.seen, found, num,
                    scratch.room("place", max(widest, neighbors.CHUNK), np.int64), local_S, np.empty(0, np.int64),
                )  # fmt: skip
                reads = reads.plus(*read)
                stops.append(sampled + stop_F1[1:])  # none where the hop before has found no node
                sampled += len(id_S)
                locals_.append(local_S)
                edges.append(place_S if with_edges else place_S[:0])
                hops.append(num - first)
        finally:
            scratch.base += num
        arrays = np.concatenate(stops), np.concatenate(locals_), np.concatenate(edges)
        by_hop = tuple(hops), tuple(map(len, locals_))
        return Neighborhood(found[:num].copy(), *arrays, *by_hop), reads

    def _draw(
        self, node_F: np.ndarray, fanout: int, key: np.uint64
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:  # fmt: skip
        """(places int64 (S,) that nodes sample, where their lists begin (F,), where their places end (F + 1,), from 0,
        and the most of one node)."""
        from any2vec.kernels.graph.neighbors import count_samples, draw_places

        (start_F, degree_F), stop_F1 = np.empty((2, len(node_F)), np.int64), np.zeros(len(node_F) + 1, np.int64)
        replace = self.options.replace
        total, widest = count_samples(self.csr.indptr, node_F, fanout, replace, start_F, degree_F, stop_F1)
        place_S = np.empty(total, np.int64)
        draw_places(node_F, start_F, degree_F, stop_F1, replace and fanout >= 0, key, place_S)
        return place_S, start_F, stop_F1, widest
