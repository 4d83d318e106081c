"""Skip-gram over a stream of words that are made of n-grams: rows for words, and for all buckets from the start.

Legend: V rows of words (capacity), H buckets, D dim, R words of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from any2vec.data.stream.vocabulary import StreamVocabulary
from any2vec.data.vocab.vocabulary import Keys
from any2vec.embeddings import Embeddings
from any2vec.encoders.ngrams import NGramEncoder, bounds, start_grams
from any2vec.kernels.skipgram.subwords import Subwords, compose_all, mark_buckets
from any2vec.models.stream.config import StreamNGram
from any2vec.models.stream.skipgram import StreamedSkipGram
from any2vec.models.stream.token_batch import TokenBatch
from any2vec.models.words.config import NGram
from any2vec.types import State, Stats, Work


@dataclass(frozen=True)
class SpelledRows:
    """The words of a batch."""

    row_R: np.ndarray
    """int64, ascending"""
    arena: np.ndarray
    offsets: np.ndarray
    """as `Keys` has them"""


class StreamedNGram:
    """Trains rows of words as `StreamedSkipGram` does, and with them those of the buckets that their n-grams fall into.

    A word that comes back after its row was taken away begins where its n-grams are by then.

    Args:
        max_rows: V.
        threads: 1 or more; several are Hogwild.
    """

    def __init__(self, config: StreamNGram, *, max_rows: int, threads: int, seed: int) -> None:
        self.config, self.seed = config, seed
        self._spread = NGram.start_spread / config.dim
        self._words = StreamedSkipGram(config, max_rows=max_rows, threads=threads, seed=seed, spread=NGram.start_spread)
        self._gram_HD = start_grams(np.arange(config.buckets), config.dim, seed, self._spread)
        self._row_H = np.arange(config.buckets, dtype=np.int32)
        self._met_H = np.zeros(config.buckets, np.uint8)
        self._begin_V, self._end_V = np.zeros(max_rows, np.int64), np.zeros(max_rows, np.int64)

    fixed_tables: ClassVar[tuple[str, ...]] = ("grams",)

    @staticmethod
    def row_bytes(config: StreamNGram) -> int:
        """Memory that a row takes: as of skip-gram, and where its letters are."""
        return StreamedSkipGram.row_bytes(config) + 16

    @staticmethod
    def fixed_bytes(config: StreamNGram) -> int:
        """Memory that is taken whatever comes: the buckets' rows, and their copies while a snapshot is written."""
        return config.buckets * (2 * 4 * config.dim + 5)

    def compile(self) -> None:
        self._spell(np.zeros(0, np.int64), Keys.of([]))
        self._words.compile()

    def prepare(self, tokens: np.ndarray, vocabulary: StreamVocabulary) -> SpelledRows:
        row_R = np.unique(tokens[(tokens >= 0) & (tokens < len(self._begin_V))]).astype(np.int64)
        keys = vocabulary.keys(row_R)
        return SpelledRows(row_R, np.asarray(keys.arena), keys.offsets)

    def run(self, work: Work[TokenBatch]) -> Stats:
        self.note(work.payload)
        return self._words.run(work)

    @property
    def tables(self) -> dict[str, np.ndarray]:
        """Those of words (V, D), and "grams", float32 (H, D)."""
        return self._words.tables | {"grams": self._gram_HD}

    def rows_of(self, name: str, vocabulary: StreamVocabulary) -> np.ndarray:
        """The rows of a table that vectors are made of, int64."""
        return np.flatnonzero(self._met_H) if name == "grams" else vocabulary.rows()

    def start_values(self, name: str, rows: np.ndarray) -> np.ndarray:
        """What rows of a table begin with, float32 (R, D)."""
        if name == "grams":
            return start_grams(rows, self.config.dim, self.seed, self._spread)
        return self._words.start_values(name, rows)

    def start(self, born: np.ndarray) -> None:
        """Rows of new words."""
        self._words.start(born)

    def note(self, batch: TokenBatch) -> None:
        """Remember the letters of a batch's words, and which n-grams they have."""
        if batch.prepared is not None:
            spelled: SpelledRows = batch.prepared
            self._spell(spelled.row_R, Keys(spelled.arena, spelled.offsets))

    def trace(self, batch: TokenBatch, marks: Mapping[str, np.ndarray]) -> None:
        """Put 1 into uint8 marks of "input", "output" (V,) and "grams" (H,) for each row that `run` reads or writes."""
        self.note(batch)
        self._words.trace(batch, marks)
        row_R = np.flatnonzero(marks["input"])
        (subwords,) = self._words.subwords
        mark_buckets(
            subwords.text_B, self._begin_V[row_R], self._end_V[row_R], self.config.min_n, self.config.max_n,
            marks["grams"],
        )  # fmt: skip

    def learning_rate(self, words: float) -> float:
        return self._words.learning_rate(words)

    def state_dict(self) -> State:
        return self._words.state_dict() | {"grams": self._gram_HD, "met": self._met_H}

    def load_state_dict(self, state: State) -> None:
        self._words.load_state_dict(state)
        self._gram_HD[:] = state["grams"]
        self._met_H[:] = state["met"]

    def embeddings(self, vocabulary: StreamVocabulary) -> Embeddings:
        found = self._words.embeddings(vocabulary)
        keys = Keys.of(found.keys.names)
        subwords = self._subwords(np.array(keys.arena), *bounds(keys))
        vectors = np.empty_like(found.vectors)
        compose_all(subwords, found.vectors, np.arange(len(keys), dtype=np.int32), vectors)
        return Embeddings(found.keys, vectors, found.output, found.counts, found.meta, self._encoder())

    def close(self) -> None:
        self._words.close()

    def _encoder(self) -> NGramEncoder:
        config, bucket_G = self.config, np.flatnonzero(self._met_H)
        return NGramEncoder(
            bucket_G, self._gram_HD[bucket_G], min_n=config.min_n, max_n=config.max_n, buckets=config.buckets,
            seed=self.seed, spread=self._spread,
        )  # fmt: skip

    def _spell(self, row_R: np.ndarray, keys: Keys) -> None:
        """These are the rows of the batch at hand, and their words."""
        text_B = np.array(keys.arena)
        begin_R, end_R = bounds(keys)
        self._begin_V[row_R], self._end_V[row_R] = begin_R, end_R
        mark_buckets(text_B, begin_R, end_R, self.config.min_n, self.config.max_n, self._met_H)
        self._words.subwords = (self._subwords(text_B, self._begin_V, self._end_V),)

    def _subwords(self, text_B: np.ndarray, begin_V: np.ndarray, end_V: np.ndarray) -> Subwords:
        return Subwords(text_B, begin_V, end_V, self._row_H, self._gram_HD, self.config.min_n, self.config.max_n)
