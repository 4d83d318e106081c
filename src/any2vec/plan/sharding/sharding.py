"""Who owns row r: the one answer, whatever the rows are and however they are divided. Pure.

Legend: V rows, H owners, N ids or places of a call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from any2vec.checks import check_whole


class Sharding(ABC):
    """Every row, 0..V - 1, has one owner, 0..H - 1, and a slot in what that owner holds."""

    num_rows: int
    owners: int

    @abstractmethod
    def owner(self, id_N: np.ndarray) -> np.ndarray:
        """Of each row, int (N,)."""

    @abstractmethod
    def ids(self, owner: int) -> np.ndarray:
        """The rows of an owner, int (B,), in the order of their slots."""

    @abstractmethod
    def slot(self, id_N: np.ndarray) -> np.ndarray:
        """Place of each row, int64 (N,), among those of its owner."""


class Blocks(Sharding):
    """Rows in some order, of which owner h holds the places [bounds[h], bounds[h + 1]) (abstract).

    Messages name rows by place, which ascend from owner to owner.
    """

    bounds: list[int]

    @abstractmethod
    def place(self, id_N: np.ndarray) -> np.ndarray:
        """int64 (N,): where rows stand in the order of all."""

    @abstractmethod
    def rows(self, place_N: np.ndarray) -> np.ndarray:
        """int64 (N,): the rows at these places."""

    def owner(self, id_N: np.ndarray) -> np.ndarray:
        return owner_at(self.bounds, self.place(id_N))

    def slot(self, id_N: np.ndarray) -> np.ndarray:
        place_N = self.place(id_N)
        return place_N - np.asarray(self.bounds)[owner_at(self.bounds, place_N)]

    def ids(self, owner: int) -> np.ndarray:
        return self.rows(np.arange(*self.block(owner)))

    def block(self, owner: int) -> tuple[int, int]:
        """First place of an owner, and the place behind its last one."""
        return self.bounds[owner], self.bounds[owner + 1]

    def size(self, owner: int) -> int:
        low, high = self.block(owner)
        return high - low

    def marked(self, flag_V: np.ndarray) -> np.ndarray:
        """Places of the rows with a flag, int64 ascending."""
        return np.sort(self.place(np.flatnonzero(flag_V)))

    def cuts(self, place_N: np.ndarray) -> list[slice]:
        """Of ascending places those of each owner."""
        at = np.searchsorted(place_N, self.bounds)
        return [slice(int(low), int(high)) for low, high in pairwise(at)]

    def on_ranks(self, hosts: int, first: int = 0) -> list[int]:
        """Bounds of hosts of which rank first + h is owner h, and the others own nothing."""
        check_whole("hosts", hosts, first + self.owners, 2**31)
        return [self.bounds[min(max(rank - first, 0), self.owners)] for rank in range(hosts + 1)]


class Contiguous(Blocks):
    """Blocks of consecutive rows, whose sizes differ by one at most where bounds are not given."""

    def __init__(self, num_rows: int, owners: int) -> None:
        self.num_rows, self.owners = num_rows, owners
        self.bounds = contiguous_bounds(num_rows, owners)

    @classmethod
    def of(cls, bounds: Sequence[int]) -> Contiguous:
        """Blocks of any sizes: of layers, or those of another sharding by place."""
        found = cls(int(bounds[-1]), len(bounds) - 1)
        found.bounds = [int(bound) for bound in bounds]
        return found

    def place(self, id_N: np.ndarray) -> np.ndarray:
        return id_N

    def rows(self, place_N: np.ndarray) -> np.ndarray:
        return place_N


class Striped(Blocks):
    """Rows dealt out like cards, so that each owner gets as many frequent ones as the others.

    Rows are ranked by frequency, so blocks of consecutive rows would give the first owner nearly all that travels.
    First come the rows 0, H, 2 H, ..., then 1, H + 1, ..., and so on; owners hold equal blocks of that order. Who owns
    a row changes nothing in what hosts agree on: its parts are merged in rank order by whomever.
    """

    def __init__(self, num_rows: int, owners: int) -> None:
        self.num_rows, self.owners = num_rows, owners
        self.bounds = contiguous_bounds(num_rows, owners)
        sizes = [len(range(first, num_rows, owners)) for first in range(owners)]
        self._start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        """place of the first row of each round of the cards"""

    def marked(self, flag_V: np.ndarray) -> np.ndarray:
        return np.flatnonzero(self.by_place(flag_V) != 0)  # of bool it is several times as fast

    def by_place(self, value_V: np.ndarray) -> np.ndarray:
        """What stands beside rows, (V,), in the order of their places."""
        return np.concatenate([value_V[first :: self.owners] for first in range(self.owners)])

    def place(self, id_N: np.ndarray) -> np.ndarray:
        return self._start[id_N % self.owners] + id_N // self.owners

    def rows(self, place_N: np.ndarray) -> np.ndarray:
        first = np.searchsorted(self._start, place_N, side="right") - 1
        return (place_N - self._start[first]) * self.owners + first


def contiguous_bounds(num_items: int, parts: int) -> list[int]:
    """parts + 1 bounds: part r owns the items [bounds[r], bounds[r + 1]); sizes differ by one at most."""
    return [num_items * part // parts for part in range(parts + 1)]


def owner_at(bounds: Sequence[int] | np.ndarray, place_N: np.ndarray) -> np.ndarray:
    """The owner of each place, int64 (N,)."""
    return np.searchsorted(bounds, place_N, side="right") - 1
