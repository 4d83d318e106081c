"""Examples of clicks as arrays, and how texts of one column of categories become rows.

Texts of one categorical column become its rows: 0 missing, 1 rare or unseen, from 2 on values or hash buckets.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from any2vec.data.vocab.found_texts import FoundTexts, buffers_of
from any2vec.data.vocab.vocabulary import Vocabulary
from any2vec.kernels.text import hash_strings


class ClickBatch(NamedTuple):
    """B examples of X dense and F categorical columns; bag p = b * F + f is `id_M[start_P[p] : start_P[p + 1]]`."""

    label_B: np.ndarray
    """float32 (B,): 0 or 1; NaN where the label is not known"""
    dense_BX: np.ndarray
    """float32 (B, X), finite"""
    id_M: np.ndarray
    """int64 (M,): rows of the one table that all columns share"""
    start_P: np.ndarray
    """int64 (B * F + 1,), ascending from 0 to M"""


MISSING, RARE, FIRST = 0, 1, 2
"""rows of a column: of missing values, of rare or unseen ones, and the first of the others"""
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
        data, offsets = buffers_of(texts)
        rows = np.empty(len(texts), np.int32)
        hash_strings.hash_rows(data, offsets, self.counts, rows)
        return rows


class FoundRows:
    """The different values of a column that is read for the first time: rows are provisional until `rank`.

    A provisional row is `FIRST` + the number of values that appeared before; memory O(different values).
    """

    def __init__(self) -> None:
        self._found = FoundTexts("A column", "use ids = 'hash'")
        self.num_missing = 0

    @property
    def num_values(self) -> int:
        """Different values so far."""
        return self._found.num_texts

    def rows_of(self, texts: Any) -> np.ndarray:
        """Raises DataError: a value holds a NUL byte, is longer than 1 MiB, or there are too many different ones."""
        out = self._found.rows_of(texts)
        is_missing = out < 0
        self.num_missing += int(np.count_nonzero(is_missing))
        out += FIRST
        out[is_missing] = MISSING
        return out

    def rank(self, min_count: int, taught_R: np.ndarray | None = None) -> tuple[np.ndarray, Vocabulary, np.ndarray]:
        """(final row by provisional row, int32; the values kept; how often each final row occurs, int64).

        Values are ranked by descending count, ties by first appearance; fewer than `min_count`: the row of rare ones.

        taught_R: int64 (provisional rows,), 0 or more: the counts that count, where some occurrences do not.
        """
        counts = self._found.counts[: self.num_values]
        taught = counts if taught_R is None else taught_R[FIRST:]
        order = np.argsort(-taught, kind="stable")
        order = order[: int(np.count_nonzero(taught >= min_count))]
        rank = np.full(FIRST + len(counts), RARE, np.int32)
        rank[MISSING] = MISSING
        rank[FIRST + order] = FIRST + np.arange(len(order), dtype=np.int32)
        kept = counts[order]
        rare = int(counts.sum() - kept.sum())
        vocabulary = Vocabulary(self._found.keys(order), taught[order])
        return rank, vocabulary, np.concatenate([[self.num_missing, rare], kept])


class KnownRows:
    """Rows by a vocabulary that is settled; what it does not hold is `RARE`."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._learn()

    def _learn(self) -> None:
        from any2vec.data.io.arrow import packed

        self._found = FoundRows()
        self._found.rows_of(packed(self.vocabulary.keys.offsets, self.vocabulary.keys.arena))

    def rows_of(self, texts: Any) -> np.ndarray:
        rows = self._found.rows_of(texts)
        rows[rows >= FIRST + len(self.vocabulary)] = RARE
        if self._found.num_values > 2 * len(self.vocabulary) + _FORGET:
            self._learn()  # forgets the unseen values: memory O(vocabulary), however long the stream
        return rows
