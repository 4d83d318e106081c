"""The order in which rows are dealt out to owners: like cards, so that each gets as many frequent rows as the others.

Rows are ranked by frequency, so blocks of consecutive rows would give the first owner nearly all that travels. In the
dealt order come first the rows 0, H, 2 H, ..., then 1, H + 1, ..., and so on; owners hold contiguous blocks of it. Who
owns a row changes nothing in what hosts agree on: its parts are merged in rank order by whomever.
"""

from __future__ import annotations

import numpy as np


class Deal:
    """Places 0..V - 1 of V rows in the order for H hosts."""

    def __init__(self, num_rows: int, hosts: int) -> None:
        self.num_rows = num_rows
        self.hosts = hosts
        sizes = [len(range(first, num_rows, hosts)) for first in range(hosts)]
        self._start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        """place of the first row of each round of the cards"""

    def flags(self, flag_V: np.ndarray) -> np.ndarray:
        """(V,) the flags of rows, by place."""
        return np.concatenate([flag_V[first :: self.hosts] for first in range(self.hosts)])

    def places(self, rows: np.ndarray) -> np.ndarray:
        """int64 (K,), the places of int64 (K,) rows."""
        return self._start[rows % self.hosts] + rows // self.hosts

    def rows(self, places: np.ndarray) -> np.ndarray:
        """int64 (K,), the rows at int64 (K,) places."""
        first = np.searchsorted(self._start, places, side="right") - 1
        return (places - self._start[first]) * self.hosts + first
