"""Features of nodes that lie in the graph's folder, some of which stand in memory.

Legend: N nodes, D features, K rows asked for, U of them different, R rows in memory.
"""

from __future__ import annotations

import threading

import numpy as np

from any2vec.data.attributed.features import FeatureRows
from any2vec.data.attributed.row_file import Reads, RowFile
from any2vec.tables.residency.residency import Placed, Residency


class CachedFeatures:
    """Rows of a file, as float32; the values are those of the file, whatever is in memory. Threads may share it.

    Args:
        scale_N: float32 of int8; else (0,).
        policy: of `any2vec.tables.residency`; kept: of static, the rows that stand in memory, int64 (R,).
        num_rows: R.
    """

    def __init__(
        self, file: RowFile, scale_N: np.ndarray, num_rows: int, policy: str, kept: np.ndarray | None = None
    ) -> None:
        self.file, self.reads, self.residency = file, Reads(), Residency(num_rows, policy, kept)
        self._scale_N = scale_N
        self._row_RD = np.empty((num_rows, file.columns), file.dtype)
        self._is_filled_R = np.zeros(num_rows, bool)
        """whether a place has the row that it was given to: not before that is read, nor where reading failed"""
        self._lock = threading.Lock()
        self.bytes_filled = 0
        """read beforehand"""
        file.read(np.zeros(1, np.int64), np.empty((1, file.columns), file.dtype))  # compiles what reads, before a batch
        if kept is not None:
            order = np.argsort(kept)
            ascending = np.empty((len(kept), file.columns), file.dtype)
            self.bytes_filled = file.read(kept[order].astype(np.int64), ascending) if len(kept) else 0
            self._row_RD[order], self._is_filled_R[order] = ascending, True

    @property
    def columns(self) -> int:
        """D"""
        return self.file.columns

    def take(self, ids: np.ndarray) -> np.ndarray:
        """float32 (K, D): the rows of ids, integers (K,) in [0, N). Where plans decide it changes nothing.

        Raises:
            FormatError: the file is cut. StorageError: it cannot be read.
        """
        id_U, place_K = np.unique(np.asarray(ids, np.int64), return_inverse=True)
        with self._lock:
            row_UD = self._rows(id_U, self.residency.held(id_U) if self.needs_next_uses else self._placed(id_U, None))
        return self.rows_of(id_U, row_UD).take(place_K)

    @property
    def needs_next_uses(self) -> bool:
        """Whether batches are planned: `expect` and `place` tell when rows are used next."""
        return self.residency.policy.needs_next_uses

    def expect(self, id_U: np.ndarray, step: int) -> None:
        """A step to come reads these rows, int64, ascending, none twice."""
        with self._lock:
            self.residency.expect(id_U, step)

    def place(self, id_U: np.ndarray, next_U: np.ndarray | None) -> Placed:
        """Choose places for the rows of a batch, which `read` fills.

        next_U: the step that uses each next, where batches are planned.
        """
        with self._lock:
            return self._placed(id_U, next_U)

    def read(self, id_U: np.ndarray, placed: Placed) -> tuple[np.ndarray, Reads]:
        """The rows, as the file has them, of different ids, ascending, in the places that `place` gave; and what that
        came to. Those that come in are copied from what the batch has read (Ginex's changesets).

        Raises: as `take`.
        """
        with self._lock:
            before = self.reads
            row_UD = self._rows(id_U, placed)
            return row_UD, Reads(*np.subtract(self.reads, before).tolist())

    def rows_of(self, id_U: np.ndarray, row_UD: np.ndarray) -> FeatureRows:
        """Of rows as the file has them."""
        return FeatureRows(row_UD, self._scale_N[id_U] if len(self._scale_N) else self._scale_N)

    def _placed(self, id_U: np.ndarray, next_U: np.ndarray | None) -> Placed:
        placed = self.residency.place(id_U, next_U)
        self._is_filled_R[placed.slot_U[placed.is_new_U]] = False
        return placed

    def _rows(self, id_U: np.ndarray, placed: Placed) -> np.ndarray:
        """As the file has them, of different ids, ascending; places that have no rows yet are filled."""
        held = np.flatnonzero(placed.slot_U >= 0)
        slot_H = placed.slot_U[held]
        try:
            row_UD = np.empty((len(id_U), self.columns), self.file.dtype)
            is_filled_H = self._is_filled_R[slot_H]
            row_UD[held[is_filled_H]] = self._row_RD[slot_H[is_filled_H]]
            is_missed_U = np.ones(len(id_U), bool)
            is_missed_U[held[is_filled_H]] = False
            self._read_missed(id_U, np.flatnonzero(is_missed_U), row_UD)
            self._row_RD[slot_H[~is_filled_H]] = row_UD[held[~is_filled_H]]
            self._is_filled_R[slot_H] = True
        finally:
            self.residency.release(slot_H)
        return row_UD

    def _read_missed(self, id_U: np.ndarray, missed: np.ndarray, row_UD: np.ndarray) -> None:
        """Fill the rows of some ids from the file, by their places."""
        if not len(missed):
            return
        read = row_UD if len(missed) == len(id_U) else np.empty((len(missed), self.columns), self.file.dtype)
        num_bytes = self.file.read(id_U[missed], read)
        if read is not row_UD:
            row_UD[missed] = read
        self.reads = self.reads.plus(len(missed), num_bytes)

    def close(self) -> None:
        """Nothing is read any more."""
        self.file.close()
