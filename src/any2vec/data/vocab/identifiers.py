"""Ids become rows: integers in ascending order, strings in order of first appearance."""

from __future__ import annotations

from typing import Any

import numpy as np

from any2vec.data.vocab.vocabulary import Keys
from any2vec.errors import DataError

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
    import pyarrow as pa

    return keys_of(pa.array(np.asarray(ids, np.int64)).cast(pa.large_string()))


def string_rows(chunks: list[Any]) -> tuple[np.ndarray, Keys]:
    """(rows int32, keys) of pyarrow string arrays without nulls, one behind the other: in order of first appearance."""
    import pyarrow as pa

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
