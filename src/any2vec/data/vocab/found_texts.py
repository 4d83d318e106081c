"""Texts that come in pieces become rows, in order of first appearance: no list of all of them is ever made.

Letters: N texts of a piece, T different texts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from any2vec.data.io.array_file import grown
from any2vec.data.vocab.vocabulary import MAX_WORD_BYTES, Keys
from any2vec.errors import DataError
from any2vec.kernels.text import hash_strings
from any2vec.kernels.text import tokens as kernel

_FIRST_SLOTS = 1 << 10
_MAX_TYPES = (1 << 31) - 4


class FoundTexts:
    """The different texts so far, and their rows. Memory O(T): some 70 bytes each, and the text.

    Args:
        what, advice: of what there are too many texts, and what to do where one cannot be taken, for messages.
    """

    def __init__(self, what: str, advice: str) -> None:
        self.counts = np.zeros(_FIRST_SLOTS // 2, np.int64)
        """of texts; those beyond `num_texts` mean nothing"""
        self._what, self._advice = what, advice
        self._state = np.zeros(kernel.STATE_SIZE, np.int64)
        self._table = np.zeros(2 * _FIRST_SLOTS, np.uint64)
        self._arena = np.zeros(2 * _FIRST_SLOTS, np.uint64)
        self._lengths = np.zeros(_FIRST_SLOTS // 2, np.int32)

    @property
    def num_texts(self) -> int:
        """Different texts so far."""
        return int(self._state[kernel.NUM_TYPES])

    def rows_of(self, texts: Any) -> np.ndarray:
        """int32 (N,) of a pyarrow large_binary (or large_string) array without nulls; -1: the text is empty.

        Raises:
            DataError: a text holds a NUL byte, is longer than 1 MiB, or there are too many different ones.
        """
        block, offsets = _padded(*buffers_of(texts))
        size = len(texts)
        if size and int(np.diff(offsets).max()) > MAX_WORD_BYTES:
            raise DataError(f"A value is longer than {MAX_WORD_BYTES >> 20} MiB; {self._advice}.")
        tags, begins, lengths = np.empty(size, np.uint64), np.empty(size, np.int64), np.empty(size, np.int32)
        if (done := hash_strings.tag_texts(block, offsets, tags, begins, lengths)) < size:
            value = texts[done].as_py()[:40]
            shown = value if isinstance(value, str) else value.decode("utf-8", "replace")
            raise DataError(f"The value {shown!r} holds a NUL byte; {self._advice}.")
        out = np.empty(size, np.int32)
        self._state[kernel.ENTRIES], self._state[kernel.OUT_USED] = size, 0
        done = 0
        while True:
            done = kernel.encode_words(
                block, tags, begins, lengths, done, self._table, self._arena, self._lengths, self.counts, out,
                self._state,
            )  # fmt: skip
            if done >= size:
                return out
            self._grow()

    def keys(self, order_N: np.ndarray | None = None) -> Keys:
        """The texts of some rows, int64 (N,); or all, by row, and then no more can come."""
        if order_N is None:
            self._table = np.zeros(0, np.uint64)
        lengths = self._lengths[: self.num_texts]
        starts = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(8 * (lengths.astype(np.int64) // 8 + 1), out=starts[1:])
        if order_N is not None:
            starts, lengths = starts[order_N], lengths[order_N]
        packed = np.empty(int(lengths.sum(dtype=np.int64)), np.uint8)
        offsets = np.zeros(len(lengths) + 1, np.int64)
        kernel.pack_words(self._arena.view(np.uint8), starts[: len(lengths)], lengths, packed, offsets)
        return Keys(packed, offsets)

    def _grow(self) -> None:
        if self.num_texts < len(self.counts):
            self._arena = grown(self._arena, max(2 * len(self._arena), len(self._arena) + MAX_WORD_BYTES // 4))
            if len(self._arena) >= 1 << 32:
                raise DataError(f"{self._what} has different values of more than 16 GiB; {self._advice}.")
            return
        if self.num_texts >= _MAX_TYPES // 2:
            raise DataError(f"{self._what} has more than {_MAX_TYPES // 2:,} different values; {self._advice}.")
        table = np.zeros(2 * len(self._table), np.uint64)
        kernel.rehash(self._table, table, self.num_texts)
        self._table = table
        self.counts = grown(self.counts, 2 * len(self.counts))
        self._lengths = grown(self._lengths, 2 * len(self._lengths))


def buffers_of(texts: Any) -> tuple[np.ndarray, np.ndarray]:
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


MAX_ROWS = (1 << 31) - 1
_DENSE = 4


def integer_rows(ids: np.ndarray) -> tuple[np.ndarray, Keys]:
    """(rows int32 of ids int64 (M,), keys): ascending. O(M) where the ids lie densely, else O(M log M)."""
    low, high = int(ids.min()), int(ids.max())
    if high - low < _DENSE * len(ids) + 1024:
        is_used = np.zeros(high - low + 1, bool)
        is_used[ids - low] = True
        known = np.flatnonzero(is_used).astype(np.int64) + low
        rank = np.cumsum(is_used, dtype=np.int64) - 1
        _check(len(known))
        return rank.astype(np.int32)[ids - low], integer_keys(known)
    known = np.unique(ids)
    _check(len(known))
    return np.searchsorted(known, ids).astype(np.int32), integer_keys(known)


def integer_keys(ids: np.ndarray) -> Keys:
    """Keys of int64 ids."""
    from any2vec.data.io.arrow import pa

    keys = keys_of(pa.array(np.asarray(ids, np.int64)).cast(pa.large_string()))
    return Keys(keys.arena, keys.offsets, are_integers=True)


def string_rows(chunks: list[Any]) -> tuple[np.ndarray, Keys]:
    """(rows int32, keys) of pyarrow string arrays without nulls, one behind the other: in order of first appearance."""
    from any2vec.data.io.arrow import pa

    try:
        encoded = pa.chunked_array(chunks, pa.large_string()).dictionary_encode().unify_dictionaries()
    except pa.ArrowInvalid as error:
        raise DataError(f"There are too many different ids; {MAX_ROWS} is the most.") from error
    rows = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks]).astype(np.int32)
    return rows, keys_of(encoded.chunk(0).dictionary)


def keys_of(strings: Any) -> Keys:
    """Keys of a pyarrow large_string array."""
    buffers = strings.buffers()
    offsets = np.frombuffer(buffers[1], np.int64)[strings.offset : strings.offset + len(strings) + 1]
    text = np.frombuffer(buffers[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    return Keys(text.copy(), (offsets - offsets[0]).copy())


def _check(num_nodes: int) -> None:
    if num_nodes > MAX_ROWS:
        raise DataError(f"There are {num_nodes:,} different ids; {MAX_ROWS:,} is the most.")
