"""What HET's bounds would save with a perfect cache: each trainer keeps the hottest rows of the whole trace for ever.

Pure counting over a trace of batches, to hold measured bytes against. No cache that keeps as many rows and admits by
what it has seen so far knows as much; a row is still fetched when it is first read, and pushed at the end.

Legend: V rows of the table, T trainers, U distinct rows of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from any2vec.checks import check_whole
from any2vec.kernels.common.varint import varint_size

_UNKNOWN = -1
_MOST = 1 << 40
_SIZES = 32
"""bytes of a question's control part"""


class Traffic(NamedTuple):
    """What travels between trainers and owners, heads of messages not counted."""

    reads: int
    """distinct rows of all batches: without a cache as many are pulled, and as many pushed"""
    pulled: int
    """rows"""
    pushed: int
    """rows"""
    row_bytes: int
    metadata_bytes: int
    """ids, versions and counts"""

    @property
    def num_bytes(self) -> int:
        return self.row_bytes + self.metadata_bytes


def hottest(trace: Iterable[Sequence[np.ndarray]], num_rows: int, capacity: int) -> np.ndarray:
    """bool (V,): the `capacity` rows that stand in most batches of a trace, as `ideal_traffic` takes it; ties by id."""
    check_whole("cache rows", capacity, 0, _MOST)
    uses_V = np.zeros(num_rows, np.int64)
    for batches in trace:
        for row_U in batches:
            uses_V[row_U] += 1
    is_kept_V = np.zeros(num_rows, bool)
    is_kept_V[np.argsort(-uses_V, kind="stable")[:capacity]] = True
    return is_kept_V


def ideal_traffic(
    trace: Iterable[Sequence[np.ndarray]],
    is_kept_V: np.ndarray,
    num_columns: int,
    pull_bound: int,
    push_bound: int,
    makes_fresh: bool = False,
) -> Traffic:
    """What `VersionedRows` would send if the rows is_kept_V, bool (V,), and no others, stayed in every trainer's cache.

    Args:
        trace: for each step the batches of the T trainers, who take turns; a batch is its distinct rows, int64 (U,)
            ascending.
        num_columns: float32 numbers of a row that travels, state of the optimizer included.
        pull_bound, push_bound: as `VersionedCache` has them.
        makes_fresh: rows that nobody has changed are not sent, as with its fresh_rows.
    """
    version_V = np.full(len(is_kept_V), 0 if makes_fresh else 1, np.int64)
    caches: list[_Cache] = []
    reads = pulled = pushed = metadata = 0
    for batches in trace:
        caches += [_Cache(is_kept_V) for _ in range(len(batches) - len(caches))]
        for cache, row_U in zip(caches, batches, strict=True):
            push, updates = cache.take_due(push_bound)
            version_V[push] += updates
            known_U = cache.known_V[row_U]
            is_unknown_U = known_U == _UNKNOWN
            is_sent_U = np.where(is_unknown_U, version_V[row_U] > 0, version_V[row_U] - known_U > pull_bound)
            sent = row_U[is_sent_U]
            cache.read(row_U, row_U[is_unknown_U | is_sent_U], version_V)
            reads, pulled, pushed = reads + len(row_U), pulled + len(sent), pushed + len(push)
            metadata += _query_size(push, updates, row_U, known_U) + -(-len(row_U) // 8)
            metadata += varint_size(version_V[sent])
    for cache in caches:
        push, updates = cache.take(np.flatnonzero(cache.updates_V))
        pushed += len(push)
        metadata += _query_size(push, updates, push[:0], push[:0]) if len(push) else 0
    return Traffic(reads, pulled, pushed, 4 * num_columns * (pulled + pushed), metadata)


class _Cache:
    """One trainer's clocks. A row that is not kept is unknown at each read, and due after it."""

    def __init__(self, is_kept_V: np.ndarray) -> None:
        self.known_V = np.full(len(is_kept_V), _UNKNOWN, np.int64)
        self.updates_V = np.zeros(len(is_kept_V), np.int64)
        self._is_kept_V = is_kept_V
        self._last = np.empty(0, np.int64)

    def take_due(self, push_bound: int) -> tuple[np.ndarray, np.ndarray]:
        """What the last batch has left to push: nothing older is due, for it was pushed before that batch."""
        is_due = (self.updates_V[self._last] > push_bound) | ~self._is_kept_V[self._last]
        return self.take(self._last[is_due])

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows, updates that their pushes hold)."""
        updates = self.updates_V[rows]
        self.updates_V[rows] = 0
        self.known_V[rows] += updates
        self.known_V[rows[~self._is_kept_V[rows]]] = _UNKNOWN
        return rows, updates

    def read(self, row_U: np.ndarray, new: np.ndarray, version_V: np.ndarray) -> None:
        """A batch reads and changes its rows, of which some are as the owner has them now."""
        kept = new[self._is_kept_V[new]]
        self.known_V[kept] = version_V[kept]
        self.updates_V[row_U] += 1
        self._last = row_U


def _query_size(push: np.ndarray, updates: np.ndarray, asked: np.ndarray, known: np.ndarray) -> int:
    """Bytes of metadata of a question, as tables.server.versioned_message packs it for one owner."""
    numbers = [np.diff(push, prepend=0), updates, np.diff(asked, prepend=0), known + 1]
    return _SIZES + int(varint_size(np.concatenate(numbers)))
