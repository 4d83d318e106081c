"""Vectors of words from hashed n-grams of their characters (Bojanowski et al. 2017), see kernels/skipgram/subwords.py.

Legend: N words, D dim, H buckets, G rows of n-grams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from any2vec.checks import MAX_SEED
from any2vec.data.vocab.vocabulary import Keys
from any2vec.errors import InputError
from any2vec.formats.fasttext import LONGEST_GRAM
from any2vec.kernels.common.rng import PURPOSE_GRAM, stream_key
from any2vec.kernels.rows.row_start import start_rows
from any2vec.kernels.skipgram.subwords import MOST_GRAMS, Subwords, list_buckets, make_words, mark_buckets

_MOST_BUCKETS = 2**31 - 1
_LARGEST = float(np.finfo(np.float32).max)
_TABLE = 1 << 26
"""buckets of which a table is made, 4 bytes each; the rows of more are searched for"""


def used_buckets(keys: Keys, shortest: int, longest: int, buckets: int) -> np.ndarray:
    """The buckets that n-grams of these words fall into, int64, ascending."""
    mark_H = np.zeros(buckets, np.uint8)
    mark_buckets(np.ascontiguousarray(keys.arena), *bounds(keys), shortest, longest, mark_H)
    return np.flatnonzero(mark_H)


def bounds(keys: Keys) -> tuple[np.ndarray, np.ndarray]:
    """Where each key begins and ends in their bytes, int64 (N,)."""
    return np.ascontiguousarray(keys.offsets[:-1]), np.ascontiguousarray(keys.offsets[1:])


def start_grams(bucket_G: np.ndarray, dim: int, seed: int, spread: float) -> np.ndarray:
    """Rows of buckets as they are before training, float32 (G, D): uniform in [-spread, spread), by bucket."""
    rows = np.empty((len(bucket_G), dim), np.float32)
    start_rows(rows, bucket_G, dim, stream_key(seed, PURPOSE_GRAM), spread)
    return rows


class NGramEncoder:
    """The mean of the rows of a word's n-grams; of those alone that training has met, where there is one.

    Args:
        bucket_G: int64, the bucket of each row, ascending.
        gram_GD: float32.
        min_n, max_n: characters of an n-gram.
        buckets: H.
        seed, spread: where the rows started (`start_grams`).
    """

    kind: ClassVar[str] = "ngram"
    file: ClassVar[str] = "ngrams.safetensors"

    def __init__(
        self, bucket_G: np.ndarray, gram_GD: np.ndarray, *, min_n: int, max_n: int, buckets: int, seed: int,
        spread: float,
    ) -> None:  # fmt: skip
        self.bucket_G, self.gram_GD = bucket_G, gram_GD
        self.min_n, self.max_n, self.buckets, self.seed, self.spread = min_n, max_n, buckets, seed, spread
        self._row_H: np.ndarray | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> NGramEncoder:
        """Raises KeyError, TypeError or ValueError for what is missing in `options` and `arrays`."""
        bucket_G, gram_GD = arrays["buckets"], arrays["rows"]
        most = {"min_n": LONGEST_GRAM, "max_n": LONGEST_GRAM, "buckets": _MOST_BUCKETS, "seed": MAX_SEED}
        for name, high in most.items():
            if type(options[name]) is not int or not (name == "buckets") <= options[name] <= high:
                raise ValueError(f"{name} is {options[name]!r:.40}, and no whole number up to {high:,}")
        spread = options["spread"]
        if type(spread) not in (int, float) or not 0 <= spread <= _LARGEST:
            raise ValueError(f"spread is {spread!r:.40}, and no number of float32 from 0")
        is_sound = bucket_G.dtype == np.int64 and gram_GD.dtype == np.float32 and gram_GD.ndim == 2
        if not is_sound or bucket_G.shape != gram_GD.shape[:1] or (np.diff(bucket_G) <= 0).any():
            raise ValueError("rows and buckets of n-grams do not fit together")
        if len(bucket_G) and not 0 <= bucket_G[0] <= bucket_G[-1] < options["buckets"]:
            raise ValueError("a bucket of n-grams is out of its range")
        return cls(bucket_G, gram_GD, **{name: options[name] for name in most}, spread=float(spread))

    @property
    def dim(self) -> int:
        return int(self.gram_GD.shape[1])

    def make(self, words: Sequence[str]) -> np.ndarray:
        if not all(words):
            raise InputError("The empty word has no vector; ask for one with a letter at least.")
        keys, x_ND = Keys.of(words), np.empty((len(words), self.dim), np.float32)
        done = self._by_table(keys, x_ND) if self.buckets <= _TABLE else self._by_search(keys, x_ND)
        if done < len(keys):
            raise InputError(
                f"{words[done]!r} is among no words of the training and has no n-gram of {self.min_n} to {self.max_n} "
                "characters, so there is no vector for it; ask for a longer word."
            )
        return x_ND

    def _by_table(self, keys: Keys, x_ND: np.ndarray) -> int:
        """`make_words`."""
        if self._row_H is None:
            row_H = np.full(self.buckets, -1, np.int32)
            row_H[self.bucket_G] = np.arange(len(self.bucket_G))
            self._row_H = row_H
        text_B = np.array(keys.arena)  # one type for the kernel: that of bytes is read-only
        gram_GD = np.asarray(self.gram_GD).view()
        gram_GD.flags.writeable = False
        subwords = Subwords(text_B, *bounds(keys), self._row_H, gram_GD, self.min_n, self.max_n)
        return make_words(subwords, stream_key(self.seed, PURPOSE_GRAM), self.spread, x_ND)

    def _by_search(self, keys: Keys, x_ND: np.ndarray) -> int:
        """The same without a table of the buckets, in time O(log G) an n-gram."""
        text_B, bucket_N = np.array(keys.arena), np.empty(MOST_GRAMS, np.int32)
        for word, (begin, end) in enumerate(zip(*bounds(keys), strict=True)):
            found_N = bucket_N[: list_buckets(text_B, begin, end, self.min_n, self.max_n, self.buckets, bucket_N)]
            if not len(found_N):
                return word
            row_N = np.searchsorted(self.bucket_G, found_N)
            row_N = row_N[np.isin(found_N, self.bucket_G)]
            start_ND = self.gram_GD[row_N] if len(row_N) else self._started(found_N)
            x_ND[word] = start_ND.sum(axis=0) * np.float32(1 / len(start_ND))
        return len(keys)

    def _started(self, bucket_N: np.ndarray) -> np.ndarray:
        return start_grams(bucket_N.astype(np.int64), self.dim, self.seed, self.spread)

    def options(self) -> dict[str, Any]:
        names = ("min_n", "max_n", "buckets", "seed", "spread")
        return {name: getattr(self, name) for name in names}

    def arrays(self) -> dict[str, np.ndarray]:
        return {"buckets": self.bucket_G, "rows": self.gram_GD}
