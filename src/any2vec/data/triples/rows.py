"""Names of triples that come in pieces become rows, and the rows three columns: of many triples, files that are mapped.

Letters: M triples.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from any2vec.data.io.storage import storage_errors
from any2vec.data.vocab.vocabulary import Keys

IN_MEMORY = 1 << 22
"""triples whose rows stay in memory: 48 MB"""
_SORTED = 1 << 21
"""triples that are sorted at once"""


class KnownRows:
    """Rows of names among keys; -1: it is none of them."""

    def __init__(self, keys: Keys) -> None:
        from any2vec.data.io.arrow import packed

        self._keys = keys
        self._words = packed(keys.offsets, keys.arena)

    def rows_of(self, names: Any) -> np.ndarray:
        """int32 (M,) of a pyarrow large_string array without nulls."""
        from any2vec.data.io.arrow import pc

        return np.asarray(pc.fill_null(pc.index_in(names, value_set=self._words), -1), np.int32)

    def keys(self) -> Keys:
        return self._keys


class TripleStack:
    """Three columns of int32 that grow. Beyond IN_MEMORY they are files without a name, which end with who maps them.

    A context: files that nobody maps end with it.

    Args:
        folder: for files; made when there are any.

    Raises (add):
        StorageError: the disk is full.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: list[tuple[np.ndarray, ...]] = []
        self._size = 0
        self._files: list[IO[bytes]] = []
        self._open = ExitStack()

    def __enter__(self) -> TripleStack:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def add(self, *column_M: np.ndarray) -> None:
        """Head, relation and tail, int32 (M,)."""
        self._waiting.append(column_M)
        self._size += len(column_M[0])
        if self._size > IN_MEMORY:
            self._spill()

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All of them."""
        if not self._files:
            head_M, relation_M, tail_M = (np.concatenate(one) for one in zip(*self._waiting, strict=True))
            return head_M, relation_M, tail_M
        with storage_errors(self._folder):
            for file in self._files:
                file.flush()
        head_M, relation_M, tail_M = (np.memmap(file, np.int32, "r") for file in self._files)
        return head_M, relation_M, tail_M

    def _spill(self) -> None:
        with storage_errors(self._folder):
            if not self._files:
                self._folder.mkdir(parents=True, exist_ok=True)
                opened = (tempfile.TemporaryFile(dir=self._folder) for _ in range(3))  # noqa: SIM115
                self._files.extend(map(self._open.enter_context, opened))
            for columns in self._waiting:
                for file, column_M in zip(self._files, columns, strict=True):
                    file.write(np.ascontiguousarray(column_M, np.int32).data)
        self._waiting.clear()


def num_duplicates(head_M: np.ndarray, relation_M: np.ndarray, tail_M: np.ndarray) -> int:
    """How many triples stand there before. Sorted some at a time, by the last digits of their heads."""
    turns = -(-len(head_M) // _SORTED)
    return sum(_duplicates(head_M, relation_M, tail_M, turn, turns) for turn in range(turns))


def _duplicates(head_M: np.ndarray, relation_M: np.ndarray, tail_M: np.ndarray, turn: int, turns: int) -> int:
    """Of the triples whose heads leave that rest."""
    columns: tuple[np.ndarray, ...] = (head_M, relation_M, tail_M)
    if turns > 1:
        starts = range(0, len(head_M), _SORTED)
        places = [start + np.flatnonzero(head_M[start : start + _SORTED] % turns == turn) for start in starts]
        found = [[column_M[place] for place in places] for column_M in columns]
        columns = tuple(np.concatenate(pieces) for pieces in found)
    order = np.lexsort(columns)
    is_same = np.ones(max(0, len(order) - 1), bool)
    for column_M in columns:
        is_same &= np.diff(column_M[order]) == 0
    return int(is_same.sum())
