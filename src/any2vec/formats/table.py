"""What every reader of vectors returns and every writer takes, and the checks that both share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from any2vec.errors import Any2VecError, FormatError, InputError

BLOCK_BYTES = 16 << 20
"""bytes of a matrix that are converted, checked or formatted at a time, so that no second matrix comes to be"""
CHECKED_BYTES = 256 << 20
"""a memory-mapped matrix up to this size is checked for NaN on opening; a larger one when its norms are computed"""

MOST_COUNT = 10**18
"""counts are below: 18 digits, as vocabularies are read"""


class Table(NamedTuple):
    """Keys and their rows, as they stand in a file. N rows, D numbers each."""

    keys: Sequence[str]
    vectors: Any
    """float32 (N, D): an array, or what is sliced by rows as one is"""
    output: Any = None
    """likewise, the context side of the model; None where there is none"""
    counts: np.ndarray | None = None
    """int64 (N,)"""
    meta: dict[str, Any] = {}  # noqa: RUF012  (read only)
    encoder: dict[str, np.ndarray] | None = None
    """what makes vectors of other words: arrays that the native folder keeps in meta["maker"]["file"]"""


def real_matrix(given: Any, name: str) -> np.ndarray:
    """What is given as a matrix, float32, as it stands where it is that. InputError: it is not of real numbers."""
    try:
        if "complex" not in str(getattr(given, "dtype", "")):
            return np.asarray(given, dtype=np.float32)
    except (TypeError, ValueError, RuntimeError):  # PyTorch's of a tensor with gradients
        pass
    raise InputError(f"{name} must be a matrix of real numbers, as many in each row; got {given!r:.80}.")


def whole_counts(given: Any) -> np.ndarray:
    """What is given as counts, int64. InputError: they are not whole numbers."""
    try:
        found = np.asarray(given)
        if found.dtype.kind in "biufO":
            with np.errstate(invalid="ignore"):
                counts = found.astype(np.int64, copy=False)
            if found.dtype.kind in "biu" or np.array_equal(counts, found):
                return counts
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"counts must be whole numbers from 0 to below 10^18; got {given!r:.80}.")


def row_blocks(matrix: np.ndarray, block_bytes: int | None = None) -> Iterator[slice]:
    """Slices over the rows of a (N, D) matrix, about `block_bytes` (default BLOCK_BYTES) each."""
    rows = max(1, (block_bytes or BLOCK_BYTES) // max(1, matrix[:1].nbytes))
    for start in range(0, len(matrix), rows):
        yield slice(start, min(start + rows, len(matrix)))


def first_bad_row(matrix: np.ndarray) -> int | None:
    """The first row of a (N, D) matrix that holds NaN or infinity, or None. Memory O(block)."""
    for block in row_blocks(matrix):
        good = np.isfinite(matrix[block]).all(axis=1)
        if not good.all():
            return block.start + int(np.argmin(good))
    return None


def first_duplicate(keys: Sequence[str]) -> str | None:
    """A key that stands in `keys` twice, or None. Memory 8 bytes a key: strings are compared only where hashes meet."""
    stored = keys.stored() if hasattr(keys, "stored") else keys  # bytes as in the file need no decoding
    hashes = np.fromiter(map(hash, stored), dtype=np.int64, count=len(keys))
    order = np.argsort(hashes, kind="stable")
    met = np.flatnonzero(hashes[order[1:]] == hashes[order[:-1]])
    if len(met) == 0:
        return None
    seen: set[str] = set()
    for row in np.unique(np.concatenate([order[met], order[met + 1]])):
        key = keys[int(row)]
        if key in seen:
            return key
        seen.add(key)
    return None


def check_sizes(table: Table, where: str, error: type[Any2VecError] = FormatError) -> None:
    """Raise `error` unless keys, vectors, output and counts belong together (N >= 1, D >= 1). Reads no row."""
    if table.vectors.ndim != 2 or 0 in table.vectors.shape:
        raise error(f"{where}: vectors must be a matrix of at least one row and one column, not {table.vectors.shape}.")
    rows = len(table.vectors)
    if len(table.keys) != rows:
        raise error(f"{where}: there are {len(table.keys):,} keys for {rows:,} vectors; each row needs one key.")
    if table.output is not None and table.output.shape != table.vectors.shape:
        raise error(
            f"{where}: output rows have shape {table.output.shape}, vectors {table.vectors.shape}; must be equal."
        )
    if table.counts is not None and table.counts.shape != (rows,):
        raise error(f"{where}: counts have shape {table.counts.shape}; expected ({rows},).")
    if table.counts is not None and not 0 <= table.counts.min() <= table.counts.max() < MOST_COUNT:
        raise error(
            f"{where}: counts must be from 0 to below 10^18; they reach from {table.counts.min():,} to "
            f"{table.counts.max():,}."
        )


def check_contents(table: Table, where: str, error: type[Any2VecError] = FormatError, mapped: bool = False) -> None:
    """Raise `error` for sizes that do not fit, a key that comes twice, NaN or infinity.

    mapped: leave a matrix of more than CHECKED_BYTES unread; the norms find its NaN later.
    """
    check_sizes(table, where, error)
    for name, matrix in (("vectors", table.vectors), ("output", table.output)):
        if matrix is None or (mapped and matrix.nbytes > CHECKED_BYTES):
            continue
        bad = first_bad_row(matrix)
        if bad is not None:
            raise error(f"{where}: row {bad:,} of {name} (key {table.keys[bad]!r}) holds NaN or infinity.")
    twice = first_duplicate(table.keys)
    if twice is not None:
        raise error(f"{where}: key {twice!r} stands there twice; keys must be distinct.")


def check_writable(keys: Sequence[str]) -> None:
    """InputError for a key that has no UTF-8 form (half a surrogate pair)."""
    if hasattr(keys, "stored"):  # bytes were decoded, which leaves no half
        return
    for key in keys:
        try:
            _ = key.isascii() or key.encode()
        except UnicodeEncodeError:
            raise InputError(f"key {key!r} is not valid Unicode (it holds half a surrogate pair); rename it.") from None


def to_float16(block: np.ndarray, where: str) -> np.ndarray:
    """A block in half precision; raises InputError when a number is beyond its range of ±65504."""
    with np.errstate(over="ignore"):
        half = block.astype(np.float16)
    if not np.isfinite(half).all():
        raise InputError(f"{where}: a number is beyond float16's range of ±65504; use dtype='float32'.")
    return half
