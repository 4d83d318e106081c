"""Texts of one categorical column become its rows: 0 missing, 1 rare or unseen, from 2 on values or hash buckets."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from any2vec.data.encoder import MAX_WORD_BYTES
from any2vec.data.vocabulary import Keys, Vocabulary
from any2vec.errors import DataError
from any2vec.kernels import hash_strings
from any2vec.kernels import tokens as kernel

MISSING, RARE, FIRST = 0, 1, 2
"""rows of a column: of missing values, of rare or unseen ones, and the first of the others"""
_FIRST_SLOTS = 1 << 10
_MAX_TYPES = (1 << 31) - 4
_FORGET = 1 << 20


class ColumnRows(Protocol):
    """What gives rows to the texts of one column."""

    def rows_of(self, texts: Any) -> np.ndarray:
        """int32 (N,) of a pyarrow large_binary array (N,) without nulls; an empty text is missing."""
        ...


class HashedRows:
    """Rows by the hash of the text; `counts` int64 (V,) says how often each was given."""

    def __init__(self, num_rows: int) -> None:
        self.counts = np.zeros(num_rows, np.int64)

    def rows_of(self, texts: Any) -> np.ndarray:
        data, offsets = _buffers(texts)
        rows = np.empty(len(texts), np.int32)
        hash_strings.hash_rows(data, offsets, self.counts, rows)
        return rows


class FoundRows:
    """The different values of a column that is read for the first time: rows are provisional until `rank`.

    A provisional row is `FIRST` + the number of values that appeared before; memory O(different values).
    """

    def __init__(self) -> None:
        self.state = np.zeros(kernel.STATE_SIZE, np.int64)
        self.table = np.zeros(2 * _FIRST_SLOTS, np.uint64)
        self.arena = np.zeros(2 * _FIRST_SLOTS, np.uint64)
        self.counts = np.zeros(_FIRST_SLOTS // 2, np.int64)
        self.lengths = np.zeros(_FIRST_SLOTS // 2, np.int32)
        self.num_missing = 0

    @property
    def num_values(self) -> int:
        """Different values so far."""
        return int(self.state[kernel.NUM_TYPES])

    def rows_of(self, texts: Any) -> np.ndarray:
        """Raises DataError: a value holds a NUL byte, is longer than 1 MiB, or there are too many different ones."""
        block, offsets = _padded(*_buffers(texts))
        size = len(texts)
        if size and int(np.diff(offsets).max()) > MAX_WORD_BYTES:
            raise DataError(f"A value is longer than {MAX_WORD_BYTES >> 20} MiB; it is no category.")
        tags, begins, lengths = np.empty(size, np.uint64), np.empty(size, np.int64), np.empty(size, np.int32)
        if (done := hash_strings.tag_texts(block, offsets, tags, begins, lengths)) < size:
            shown = texts[done].as_py()[:40].decode("utf-8", "replace")
            raise DataError(f"The value {shown!r} holds a NUL byte; no category can (ids = 'hash' takes it).")
        out = np.empty(size, np.int32)
        self.state[kernel.ENTRIES], self.state[kernel.OUT_USED] = size, 0
        done = 0
        while True:
            done = kernel.encode_words(
                block, tags, begins, lengths, done, self.table, self.arena, self.lengths, self.counts, out, self.state
            )
            if done >= size:
                break
            self._grow()
        is_missing = out < 0
        self.num_missing += int(np.count_nonzero(is_missing))
        out += FIRST
        out[is_missing] = MISSING
        return out

    def _grow(self) -> None:
        if self.num_values < len(self.counts):
            self.arena = _grown(self.arena, max(2 * len(self.arena), len(self.arena) + MAX_WORD_BYTES // 4))
            if len(self.arena) >= 1 << 32:
                raise DataError("The different values of a column take more than 16 GiB; use ids = 'hash'.")
            return
        if self.num_values >= _MAX_TYPES // 2:
            raise DataError(f"A column has more than {_MAX_TYPES // 2:,} different values; use ids = 'hash'.")
        table = np.zeros(2 * len(self.table), np.uint64)
        kernel.rehash(self.table, table, self.num_values)
        self.table = table
        self.counts = _grown(self.counts, 2 * len(self.counts))
        self.lengths = _grown(self.lengths, 2 * len(self.lengths))

    def rank(self, min_count: int) -> tuple[np.ndarray, Vocabulary, np.ndarray]:
        """(final row by provisional row, int32; the values kept; how often each final row occurs, int64).

        Values are ranked by descending count, ties by first appearance; fewer than `min_count`: the row of rare ones.
        """
        counts = self.counts[: self.num_values]
        order = np.argsort(-counts, kind="stable")
        order = order[: int(np.count_nonzero(counts >= min_count))]
        rank = np.full(FIRST + len(counts), RARE, np.int32)
        rank[MISSING] = MISSING
        rank[FIRST + order] = FIRST + np.arange(len(order), dtype=np.int32)
        kept = counts[order]
        rare = int(counts.sum() - kept.sum())
        return rank, Vocabulary(self._keys(order), kept), np.concatenate([[self.num_missing, rare], kept])

    def _keys(self, order: np.ndarray) -> Keys:
        lengths = self.lengths[: self.num_values]
        starts = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(8 * (lengths.astype(np.int64) // 8 + 1), out=starts[1:])
        packed = np.empty(int(lengths[order].sum(dtype=np.int64)), np.uint8)
        offsets = np.zeros(len(order) + 1, np.int64)
        kernel.pack_words(self.arena.view(np.uint8), starts[order], lengths[order], packed, offsets)
        return Keys(packed, offsets)


class KnownRows:
    """Rows by a vocabulary that is settled; what it does not hold is `RARE`."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._learn()

    def _learn(self) -> None:
        self._found = FoundRows()
        self._found.rows_of(texts_of_keys(self.vocabulary.keys))

    def rows_of(self, texts: Any) -> np.ndarray:
        rows = self._found.rows_of(texts)
        rows[rows >= FIRST + len(self.vocabulary)] = RARE
        if self._found.num_values > 2 * len(self.vocabulary) + _FORGET:
            self._learn()  # forgets the unseen values: memory O(vocabulary), however long the stream
        return rows


def texts_of_keys(keys: Keys) -> Any:
    """Keys as a pyarrow large_binary array, no copy."""
    import pyarrow as pa

    buffers = [None, pa.py_buffer(np.ascontiguousarray(keys.offsets)), pa.py_buffer(np.ascontiguousarray(keys.arena))]
    return pa.Array.from_buffers(pa.large_binary(), len(keys), buffers)


def _buffers(texts: Any) -> tuple[np.ndarray, np.ndarray]:
    """(bytes uint8, offsets int64 (N + 1,) into them) of a large_binary array, read-only."""
    _, offsets, data = texts.buffers()
    if not len(texts):
        return _frozen(np.zeros(0, np.uint8)), _frozen(np.zeros(1, np.int64))
    at = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return _frozen(np.frombuffer(data or b"", np.uint8)), _frozen(at)


def _frozen(array: np.ndarray) -> np.ndarray:
    """Read-only, so that kernels are compiled for one kind of array whoever owns the memory."""
    array.flags.writeable = False
    return array


def _padded(data: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The texts' bytes alone, aligned and with the room behind them that the kernels of words need."""
    used = data[offsets[0] : offsets[-1]]
    block = np.zeros((len(used) + 16 + 7) // 8, np.uint64).view(np.uint8)
    block[: len(used)] = used
    return block, offsets - offsets[0]


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    larger = np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger
