"""Where a host trains the rows that it has pulled: in whole tables, or in small ones that hold those of a round alone.

Legend: V rows of the whole table, D dim, K rows of a round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from any2vec.cluster.message import Part
from any2vec.kernels.rows.rows import gather_rows
from any2vec.sync.base.pool import ThreadPool
from any2vec.tables.copying import num_rows_of, put_packed, rows_of

ROOM = 8
"""a table that grows gets room for one part in so many more: rounds differ a little"""


class HostRows(ABC):
    """The rows that one host trains, round after round (abstract)."""

    tables: dict[str, np.ndarray]
    """name -> float32 (rows, D), trained in place; the arrays may be others in each round"""
    num_rows: Mapping[str, int]
    """name -> V"""

    @abstractmethod
    def first(self, name: str, ids: np.ndarray) -> np.ndarray:
        """float32 (K, D), a copy: the start values of the rows `ids`, int64 (K,). Before the first round alone."""

    @abstractmethod
    def open(self, name: str, ids: Sequence[np.ndarray]) -> None:
        """From now on the rows at hand are these: lists of ids, int64, K in all."""

    @abstractmethod
    def put(self, name: str, start: int, stop: int, rows: Sequence[Sequence[Part]]) -> None:
        """Put rows, as `pack_rows` packed them, into the rows at hand of the lists [start, stop); threads may call it
        side by side."""

    @abstractmethod
    def at_hand(self, name: str, pool: ThreadPool) -> np.ndarray:
        """float32 (K, D): the rows at hand, list after list, to be read before `put` is called again."""

    @abstractmethod
    def release(self) -> None:
        """Nobody asks for the rows at hand any more: a round begins next, or none."""


class WholeTables(HostRows):
    """Tables of all rows; those that are not at hand are stale."""

    def __init__(self, tables: dict[str, np.ndarray]) -> None:
        self.tables = tables
        self.num_rows = num_rows_of(tables)
        self._ids: dict[str, Sequence[np.ndarray]] = {}

    def first(self, name: str, ids: np.ndarray) -> np.ndarray:
        return rows_of(self.tables[name], ids)

    def open(self, name: str, ids: Sequence[np.ndarray]) -> None:
        self._ids[name] = ids

    def put(self, name: str, start: int, stop: int, rows: Sequence[Sequence[Part]]) -> None:
        put_packed(self.tables[name], self._ids[name][start:stop], rows)

    def at_hand(self, name: str, pool: ThreadPool) -> np.ndarray:
        return gathered(self.tables[name], self._ids[name], pool)

    def release(self) -> None:
        self._ids = {}


class RoundRows(HostRows):
    """Tables of the rows of a round alone, one behind the other, in memory that the next rounds use again.

    Args:
        num_rows: name -> V, below 2**31.
        start: start(name, ids): see `first`.
    """

    def __init__(self, num_rows: Mapping[str, int], dim: int, start: Callable[[str, np.ndarray], np.ndarray]) -> None:
        self.num_rows = num_rows
        self.places = {name: np.zeros(size, np.int32) for name, size in num_rows.items()}
        """name -> int32 (V,): where in its table each row at hand lies; of others it says nothing"""
        self._dim = dim
        self._start: Callable[[str, np.ndarray], np.ndarray] | None = start
        self._memory: dict[str, np.ndarray] = {}
        self._bounds: dict[str, np.ndarray] = {}
        self.tables = {}
        self.release()

    def first(self, name: str, ids: np.ndarray) -> np.ndarray:
        assert self._start is not None, "rounds have begun, and start values are gone"
        return self._start(name, ids)

    def open(self, name: str, ids: Sequence[np.ndarray]) -> None:
        self._start = None  # it may hold whole tables
        self._bounds[name] = np.cumsum([0, *(len(part) for part in ids)])
        size = int(self._bounds[name][-1])
        self.places[name][np.concatenate(ids)] = np.arange(size, dtype=np.int32)
        if size > len(self._memory[name]):
            self._drop(name)  # the old memory is free before the new one is asked for
            self._memory[name] = np.empty((min(self.num_rows[name], size + size // ROOM), self._dim), np.float32)
        self.tables[name] = self._memory[name][:size]

    def put(self, name: str, start: int, stop: int, rows: Sequence[Sequence[Part]]) -> None:
        slots = [np.arange(low, high) for low, high in pairwise(self._bounds[name][start : stop + 1])]
        put_packed(self.tables[name], slots, rows)

    def at_hand(self, name: str, pool: ThreadPool) -> np.ndarray:
        return self.tables[name]

    def release(self) -> None:
        for name in self.num_rows:
            self._drop(name)

    def _drop(self, name: str) -> None:
        self._memory[name] = self.tables[name] = np.empty((0, self._dim), np.float32)


def gathered(table_VD: np.ndarray, ids: Sequence[np.ndarray], pool: ThreadPool) -> np.ndarray:
    """float32 (K, D), a copy of a table's rows, list of ids after list: one call, for many lists are short."""
    id_K = np.concatenate(ids)
    rows_KD = np.empty((len(id_K), table_VD.shape[1]), table_VD.dtype)
    pool.each(lambda part: gather_rows(table_VD, id_K[slice(*part)], rows_KD[slice(*part)]), pool.parts(len(id_K)))
    return rows_KD
