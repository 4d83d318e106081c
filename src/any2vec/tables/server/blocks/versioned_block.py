"""Rows whose owner answers caches which of their copies are too old: HET's server side.

Source: HET (Miao et al. 2022, PVLDB 15(2), and its released code in Hetu): a clock for each embedding at server and
worker, reads and writes that may be late by a bounded number of updates, pushes and pulls in one message. As in the
code, the owner's clock adds up (a push that holds n updates moves it by n), changes are values to add, and they are
taken before the requests of the same message are answered. What an update is, one batch or one occurrence of an id,
is the caches' business (`tables.freshness`). Ours: state of the optimizer stands in the row and is added up as the
values are; ids and versions travel as varints; and a fresh row, which nobody has changed, is not sent to those who can
make it themselves.

Legend: B rows of the block, C columns, N pushes, A requests, S rows that are sent.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from any2vec.cluster.message import Part
from any2vec.kernels.cache.cached_rows import add_changes
from any2vec.kernels.rows.rows import gather_rows
from any2vec.tables.freshness import allowed_updates
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.server.blocks.trained_block import StoredBlock
from any2vec.tables.server.versioned_message import FRESH, UNKNOWN, Answer, RowQuery, pack_answer, unpack_query

EXCHANGE = 2
"""operation: a request of a cache (tables.server.versioned_message); gives the answer"""
_MOST = 1024
"""gaps from this less one on are counted as one"""


class VersionedBlock(StoredBlock):
    """A block whose rows are changed by what caches have summed up, and which counts updates by row.

    Values are added without a lock, as everywhere in a trained block: where the owner trains, too, and two threads add
    to one row at one moment, one of the two changes of a number may be lost, and a row may be read half changed. A
    dedicated server has one thread, and loses nothing. The versions are under a lock, for one lost count would leave a
    cache ahead for ever; a version is told only of values that are there.

    Args:
        table_BC: as TrainedBlock has it.
        is_fresh: every host can make the rows (`VersionedCache`, fresh_rows); False for a restored checkpoint.
    """

    def __init__(self, table_BC: np.ndarray, optimizer: RowOptimizer, is_fresh: bool = False) -> None:
        super().__init__(table_BC, optimizer)
        self._begun = 0 if is_fresh else 1
        """version with which each row begins"""
        self.version_B += self._begun
        self._lock = threading.Lock()
        self._gaps = np.zeros(_MOST, np.int64)

    @property
    def updates(self) -> int:
        """How many updates the rows have taken, as caches have counted them."""
        return super().updates - self._begun * self.num_rows

    def call(self, operation: int, trainer: int, parts: Sequence[Part]) -> list[Part]:
        """EXCHANGE, and what trained blocks can do.

        Raises:
            MessageError, InputError: the parts are at fault.
        """
        if operation != EXCHANGE:
            return super().call(operation, trainer, parts)
        return pack_answer(self.exchange(unpack_query(parts, self.num_rows, self.dim)))

    def exchange(self, query: RowQuery) -> Answer:
        """Take the changes, and then say which rows are too old."""
        add_changes(self.table, query.push_N, query.change_NC, self.optimizer.width)
        with self._lock:
            np.add.at(self.version_B, query.push_N, query.updates_N)
            version_A = self.version_B[query.ask_A]
            is_known_A = query.known_A != UNKNOWN
            gap_A = version_A - query.known_A
            is_made_A = (version_A == FRESH) & query.makes_fresh
            bound = query.pull_bound
            most = allowed_updates(version_A, bound) if query.spares_young else bound
            is_sent_A = np.where(is_known_A, gap_A > most, ~is_made_A)
            missed = np.clip(gap_A[is_known_A & ~is_sent_A], 0, _MOST - 1)
            self._gaps += np.bincount(missed, minlength=_MOST)
        row_SC = np.empty((int(is_sent_A.sum()), self.dim), np.float32)
        gather_rows(self.table, query.ask_A[is_sent_A], row_SC)
        return Answer(is_sent_A, version_A[is_sent_A], row_SC)

    def metrics(self) -> dict[str, dict[str, int]]:
        """Histogram "staleness": how many reads from caches missed so many updates that were here, number to count."""
        with self._lock:
            return {"staleness": {str(gap): int(self._gaps[gap]) for gap in np.flatnonzero(self._gaps)}}
