"""The vocabulary: keys (words, node ids), their counts, and what follows from the counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from any2vec.data.io.array_file import HEADER_BYTES
from any2vec.data.io.npy import load_npy
from any2vec.errors import FormatError, InputError

MAX_WORD_BYTES = 1 << 20
"""a longer word is an error: it is no word"""


class Keys(Sequence[str]):
    """Strings kept as one UTF-8 arena and decoded when asked for: 8 bytes + the text a key, and no Python objects."""

    def __init__(self, arena: np.ndarray, offsets: np.ndarray, are_integers: bool = False) -> None:
        """arena: uint8 (bytes,); offsets: int64 (num_keys + 1,), ascending from 0.

        are_integers: whether the source had integers, of which these are the decimal texts.
        """
        self.arena = arena
        self.offsets = offsets
        self.are_integers = are_integers

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, row: int) -> str: ...

    @overload
    def __getitem__(self, row: slice) -> list[str]: ...

    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        row = range(len(self))[row]
        return self.arena[self.offsets[row] : self.offsets[row + 1]].tobytes().decode("utf-8", "replace")

    def __iter__(self) -> Iterator[str]:
        return (key.decode("utf-8", "replace") for key in self.stored())

    def stored(self) -> Iterator[bytes]:
        """The keys' bytes, none of which need decoding to be compared."""
        chunk = 1 << 16
        for first in range(0, len(self), chunk):
            offsets = self.offsets[first : first + chunk + 1].tolist()
            text = self.arena[offsets[0] : offsets[-1]].tobytes()
            base = offsets[0]
            for start, stop in pairwise(offsets):
                yield text[start - base : stop - base]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Keys):
            return np.array_equal(self.offsets, other.offsets) and np.array_equal(self.arena, other.arena)
        return (
            isinstance(other, Sequence)
            and len(self) == len(other)
            and all(a == b for a, b in zip(self, other, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]

    def head(self, num_keys: int) -> Keys:
        """The first `num_keys` keys; shares memory."""
        return Keys(self.arena[: self.offsets[num_keys]], self.offsets[: num_keys + 1], self.are_integers)

    @classmethod
    def of(cls, keys: Sequence[str]) -> Keys:
        """Pack `keys`; a `Keys` is returned as it is."""
        if isinstance(keys, Keys):
            return keys
        encoded = [key.encode("utf-8", "replace") for key in keys]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(key) for key in encoded], out=offsets[1:])
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets)


class Vocabulary:
    """Keys and their counts; row r of a matrix belongs to key r. In text the rows are ranked by descending count."""

    def __init__(self, keys: Keys, counts: np.ndarray) -> None:
        """counts: int64 (num_keys,)."""
        self.keys = keys
        self.counts = counts

    @classmethod
    def from_keys(cls, keys: Sequence[str], counts: np.ndarray | Sequence[int]) -> Vocabulary:
        """From strings and as many counts.

        Raises:
            InputError: the lengths differ.
        """
        packed = Keys.of(keys)
        counts = np.asarray(counts, np.int64)
        if counts.shape != (len(packed),):
            raise InputError(f"{len(packed)} keys need {len(packed)} counts, got an array of shape {counts.shape}.")
        return cls(packed, counts)

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, row: int) -> str:
        return self.keys[row]

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {key: row for row, key in enumerate(self.keys)}

    def row(self, key: str) -> int | None:
        """The row of `key`, or None; the first call builds an index, O(V)."""
        return self._rows.get(key)

    def truncate(self, min_count: int = 1, max_vocab: int | None = None) -> Vocabulary:
        """The first rows: those with at least `min_count` uses, at most `max_vocab` of them; may be empty.

        Ids at or above the new length are out of vocabulary. Shares memory.

        Raises:
            InputError: min_count < 0, max_vocab < 1, or the rows are not ranked by count and min_count drops some.
        """
        if min_count < 0:
            raise InputError(f"min_count must be 0 or more, got {min_count}.")
        if max_vocab is not None and max_vocab < 1:
            raise InputError(f"max_vocab must be 1 or more (or None for no limit), got {max_vocab}.")
        is_kept = np.asarray(self.counts) >= min_count
        size = len(self) if is_kept.all() else int(np.argmin(is_kept))
        if is_kept[size:].any():
            raise InputError("min_count needs rows ranked by descending count; this vocabulary has another order.")
        size = size if max_vocab is None else min(size, max_vocab)
        return Vocabulary(self.keys.head(size), self.counts[:size])

    def subsample_keep(self, threshold: float) -> np.ndarray:
        """The probability, float64 (V,), that one use of each word is kept: min(1, (sqrt(f/t) + 1) t/f); t = 0: ones.

        f = count / sum of the counts of this vocabulary. Mikolov et al. 2013, in the form of word2vec.c.

        Raises:
            InputError: the threshold is negative or not finite.
        """
        return keep_probabilities(self.counts, threshold)

    def save(self, folder: Path | str) -> None:
        """Write words.npy, offsets.npy and counts.npy into `folder` (inside an `atomic_folder`)."""
        for name, array in (("words", self.keys.arena), ("offsets", self.keys.offsets), ("counts", self.counts)):
            np.save(Path(folder) / f"{name}.npy", array)

    @classmethod
    def open(cls, folder: Path | str) -> Vocabulary:
        """Open what `save` wrote, memory-mapped.

        Raises:
            FormatError: a file is missing or damaged, or the files do not fit together.
        """
        words, offsets = open_array(folder, "words", np.uint8), open_array(folder, "offsets", np.int64)
        counts = open_array(folder, "counts", np.int64)
        fits = len(offsets) == len(counts) + 1 and offsets[0] == 0 and offsets[-1] == len(words)
        if not fits or (np.diff(offsets) < 0).any():
            raise FormatError(f"The vocabulary in {folder} is damaged: its files do not fit together; write it again.")
        return cls(Keys(words, offsets), counts)


def open_array(folder: Path | str, name: str, dtype: Any, mode: Literal["r", "c"] = "r") -> np.ndarray:
    """Open folder/name.npy, memory-mapped: one dimension, of `dtype`.

    mode: r, or c, copy on write: nobody writes, and kernels that are compiled for plain arrays take it.

    Raises:
        FormatError: it is missing, truncated, or not such an array.
    """
    path = Path(folder) / f"{name}.npy"
    try:
        is_empty = path.stat().st_size <= HEADER_BYTES  # which cannot be mapped
        array = load_npy(path, None if is_empty else mode)
    except (OSError, ValueError) as error:
        reason = "it is missing" if isinstance(error, FileNotFoundError) else str(error).split("\n")[0]
        raise FormatError(f"{path} cannot be opened: {reason}; write the folder again.") from error
    if array.ndim != 1 or array.dtype != dtype:
        raise FormatError(f"{path} should hold {np.dtype(dtype)} (N,), found {array.dtype} {array.shape}.")
    return np.asarray(array) if mode == "c" else array


def keep_probabilities(counts: np.ndarray, threshold: float) -> np.ndarray:
    """float64 (V,): word2vec's probability that an occurrence is kept, min(1, sqrt(t / f) + t / f), f the frequency.

    counts: (V,), 0 or more; threshold: t, 0 keeps all. InputError when it is negative or not finite.
    """
    if not (np.isfinite(threshold) and threshold >= 0):
        raise InputError(f"subsample must be a finite number, 0 or more, got {threshold}.")
    if threshold == 0 or len(counts) == 0:
        return np.ones(len(counts))
    counts = np.maximum(np.asarray(counts, np.float64), 1e-300)
    ratio = threshold * counts.sum() / counts
    return np.minimum(1.0, np.sqrt(ratio) + ratio)
