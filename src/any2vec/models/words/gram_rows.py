"""The rows of n-grams of a vocabulary: where they start, what a kernel needs of them, and the vectors made with them.

Legend: V words, D dim, G rows of n-grams, H buckets.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from any2vec.data.vocab.vocabulary import Keys
from any2vec.encoders.ngrams import NGramEncoder, bounds, start_grams, used_buckets
from any2vec.kernels.skipgram.subwords import Subwords, compose_all
from any2vec.models.words.config import NGram


class GramRows:
    """Rows of all buckets that the n-grams of a fixed vocabulary fall into, in the order of the buckets.

    `table` holds those that are trained, float32 (G, D).
    """

    def __init__(self, keys: Sequence[str], model: NGram, seed: int) -> None:
        self.model, self.seed = model, seed
        self._keys = Keys.of(keys)
        self._bucket_G = used_buckets(self._keys, model.min_n, model.max_n, model.buckets)
        self._spread = model.start_spread / model.dim
        self.table = start_grams(self._bucket_G, model.dim, seed, self._spread)

    def subwords(self, gram_GD: np.ndarray) -> Subwords:
        """What the kernels need; it shares the rows of n-grams, float32 (G, D)."""
        row_H = np.full(self.model.buckets, -1, np.int32)
        row_H[self._bucket_G] = np.arange(len(self._bucket_G))
        text_B = np.array(self._keys.arena)
        return Subwords(text_B, *bounds(self._keys), row_H, gram_GD, self.model.min_n, self.model.max_n)

    def vectors(self, word_VD: np.ndarray, gram_GD: np.ndarray) -> np.ndarray:
        """The words' vectors, float32 (V, D), of their own rows and those of their n-grams."""
        x_VD = np.empty((len(self._keys), word_VD.shape[1]), np.float32)
        compose_all(self.subwords(gram_GD), word_VD, np.arange(len(self._keys), dtype=np.int32), x_VD)
        return x_VD

    def encoder(self, gram_GD: np.ndarray) -> NGramEncoder:
        """What makes vectors of other words; it shares the rows of n-grams."""
        model = self.model
        return NGramEncoder(
            self._bucket_G, gram_GD, min_n=model.min_n, max_n=model.max_n, buckets=model.buckets,
            seed=self.seed, spread=self._spread,
        )  # fmt: skip
