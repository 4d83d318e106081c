"""The lists of neighbors of a graph's folder, entry by entry, read past the page cache.

Legend: K entries asked for, P pages that they lie in.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from any2vec.data.attributed.row_file import IN_FLIGHT, RowFile
from any2vec.data.io.array_file import HEADER_BYTES
from any2vec.data.io.direct import PAGE
from any2vec.data.io.storage import storage_errors
from any2vec.errors import FormatError

_FEWEST, _MOST = 16, 256
"""pages that a reader takes together"""


class AdjacencyFile(RowFile):
    """`indices` of a graph of so many nodes. Only pages with entries that are asked for are read, each once a call.

    Raises:
        StorageError: the file cannot be opened.
    """

    def __init__(self, path: Path, num_entries: int, num_nodes: int) -> None:
        super().__init__(path, np.dtype(np.int32), num_entries, 1)
        self.num_nodes = num_nodes

    def take(self, place_K: np.ndarray) -> tuple[np.ndarray, int]:
        """(int32 (K,): entries at places, int64, in any order; how many bytes were read).

        Raises:
            FormatError: the file is cut, or leads outside the nodes. StorageError: it cannot be read.
        """
        if not len(place_K):
            return np.empty(0, np.int32), 0
        order_K = np.argsort(place_K)
        ascending_K = place_K[order_K]
        read_K1 = np.empty((len(place_K), 1), np.int32)
        page_K = (HEADER_BYTES + ascending_K * self.row_bytes) // PAGE
        number_K = np.concatenate([np.zeros(1, np.int64), np.cumsum(page_K[1:] != page_K[:-1])])
        num_pages = int(number_K[-1]) + 1
        pages = min(_MOST, max(_FEWEST, -(-num_pages // IN_FLIGHT)))
        cuts = [*np.searchsorted(number_K, np.arange(0, num_pages, pages)).tolist(), len(place_K)]
        parts = [slice(first, stop) for first, stop in pairwise(cuts)]
        with storage_errors(self.path):
            reads = [self._pool.submit(self._read, ascending_K[part], read_K1[part]) for part in parts]
            num_bytes = sum(read.result() for read in reads)
        if not 0 <= int(read_K1.min()) <= int(read_K1.max()) < self.num_nodes:
            raise FormatError(
                f"{self.path} is damaged (edges lead outside the nodes of its graph); build the graph again."
            )
        found_K = np.empty(len(place_K), np.int32)
        found_K[order_K] = read_K1[:, 0]
        return found_K, num_bytes
