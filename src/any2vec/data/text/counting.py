"""What a text holds, without writing it: the vocabulary, the sizes, and the first tokens as a sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from any2vec.data.vocab.vocabulary import Keys, Vocabulary

SAMPLE_TOKENS = 1 << 21
"""int32 tokens kept: 8 MiB"""


@dataclass(frozen=True, kw_only=True)
class TextCounts:
    """Sizes of an encoded corpus that need not exist."""

    vocabulary: Vocabulary
    num_slots: int
    """int32 slots of the token file, ends of sentences included"""
    source_bytes: int
    """bytes of the files as they lie on the disk; 0 when the encoded text is in the cache already"""
    sample: np.ndarray
    """int32 (at most SAMPLE_TOKENS,): the first tokens, -1 ends a sentence"""


class CountingWriter:
    """Stands where a `CorpusWriter` stands, and keeps nothing but counts and a sample."""

    def __init__(self) -> None:
        self.num_slots = 0
        self.source_bytes = 0
        self._sample: list[np.ndarray] = []
        self._sampled = np.empty(0, np.int32)

    def append(self, tokens: np.ndarray) -> None:
        """Count `tokens`, int32 (any,); keep those at the beginning."""
        if self.num_slots < SAMPLE_TOKENS:
            self._sample.append(tokens[: SAMPLE_TOKENS - self.num_slots].astype(np.int32, copy=True))
        self.num_slots += len(tokens)

    def remap(self, rank: np.ndarray) -> None:
        """Rename the ids of the sample by rank[id], int32 (num_types,)."""
        sample = np.concatenate([*self._sample, np.empty(0, np.int32)])
        self._sampled = np.where(sample >= 0, rank[sample], sample).astype(np.int32)

    def finish(self, keys: Sequence[str], counts: np.ndarray, meta: dict[str, Any]) -> TextCounts:
        """The counts."""
        return TextCounts(
            vocabulary=Vocabulary.from_keys(Keys.of(keys), counts),
            num_slots=self.num_slots,
            source_bytes=self.source_bytes,
            sample=self._sampled,
        )
