"""Pieces of text, or arrays of integers, become tokens in a `CorpusWriter`, ranked by count at the end.

Or it is only counted: the vocabulary, the sizes, and the first tokens as a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from any2vec.data.io.array_file import grown
from any2vec.data.text.corpus import Corpus, CorpusWriter
from any2vec.data.vocab.vocabulary import MAX_WORD_BYTES, Keys, Vocabulary
from any2vec.errors import DataError
from any2vec.kernels.text import tokens as kernel

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


_MAX_TYPES = (1 << 31) - 2
_FIRST_SLOTS = 1 << 15
_ARRAY_BLOCK = 1 << 20
_ENTRIES = 1 << 12


def text_classes() -> np.ndarray:
    """Classes of bytes, uint8 (256,), for text: a line is a sentence, words are split as `str.split` splits them."""
    classes = np.full(256, kernel.LETTER, np.uint8)
    classes[[9, 11, 12, 13, 28, 29, 30, 31, 32]] = kernel.SPACE
    classes[10] = kernel.END
    classes[[0xC2, 0xE1, 0xE2, 0xE3]] = kernel.LEAD
    return classes


WORD_END = b"\x00"
SENTENCE_END = b"\xff"
"""the separators of `exact_classes`: a NUL is refused in words, and 0xff never occurs in UTF-8"""


def exact_classes() -> np.ndarray:
    """Classes of bytes for words that come already split: they may hold spaces."""
    classes = np.full(256, kernel.LETTER, np.uint8)
    classes[WORD_END[0]] = kernel.SPACE
    classes[SENTENCE_END[0]] = kernel.END
    return classes


class _Encoder:
    """The hash table, the counts, and the block of tokens that is being filled; grown here, used by the kernels."""

    def __init__(self, writer: CorpusWriter) -> None:
        self.writer = writer
        self.state = np.zeros(kernel.STATE_SIZE, np.int64)
        self.table = np.zeros(2 * _FIRST_SLOTS, np.uint64)
        self.counts = np.zeros(_FIRST_SLOTS // 2, np.int64)
        self.out = np.empty(0, np.int32)

    @property
    def num_types(self) -> int:
        return int(self.state[kernel.NUM_TYPES])

    def _room(self, size: int) -> None:
        if len(self.out) < size:
            self.out = np.empty(size, np.int32)
        self.state[kernel.OUT_USED] = 0

    def _flush(self) -> None:
        self.writer.append(self.out[: self.state[kernel.OUT_USED]])
        self.state[kernel.OUT_USED] = 0

    def _grow_types(self) -> None:
        if self.num_types >= _MAX_TYPES:
            raise DataError(f"The input holds more than {_MAX_TYPES:,} different words; any2vec counts in 32 bits.")
        table = np.zeros(2 * len(self.table), np.uint64)
        kernel.rehash(self.table, table, self.num_types)
        self.table = table
        self.counts = grown(self.counts, 2 * len(self.counts))

    def end_sentence(self) -> None:
        """End the open sentence, if there is one."""
        if self.state[kernel.WORDS_IN_SENTENCE] > 0:
            self.writer.append(np.array([-1], np.int32))
            self.state[kernel.WORDS_IN_SENTENCE] = 0

    def _order(self) -> np.ndarray:
        """Provisional ids, int64 (T,), by descending count, then by first appearance."""
        return np.argsort(-self.counts[: self.num_types], kind="stable")

    def _finish(self, order: np.ndarray, keys: Keys, meta: dict[str, Any]) -> Corpus:
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        self.writer.remap(rank)
        return self.writer.finish(keys, self.counts[order], meta)


class WordEncoder(_Encoder):
    """Encodes pieces of bytes; the table of byte classes says what separates words."""

    def __init__(self, writer: CorpusWriter, classes: np.ndarray) -> None:
        super().__init__(writer)
        self.classes = classes
        self.arena = np.zeros(2 * _FIRST_SLOTS, np.uint64)
        self.lengths = np.zeros(len(self.counts), np.int32)
        self._block = np.zeros(0, np.uint8)
        self._entries = (np.empty(_ENTRIES, np.uint64), np.empty(_ENTRIES, np.int64), np.empty(_ENTRIES, np.int32))

    def feed(self, piece: bytes, name: str = "The input") -> None:
        """Encode `piece`, which must end with a separator.

        Raises:
            DataError: a word is longer than `MAX_WORD_BYTES`, or there are too many different words.
            StorageError: the tokens cannot be written.
        """
        size = len(piece)
        if len(self._block) < size + 16:
            self._block = np.zeros(-(-(size + 16) // 4096) * 4096, np.uint8)
        self._block[:size] = np.frombuffer(piece, np.uint8)
        self._block[size : size + 16] = 0
        self._room(size)
        at = 0
        while at < size:
            at = kernel.split_words(self._block, size, at, MAX_WORD_BYTES, self.classes, *self._entries, self.state)
            if self.state[kernel.TOO_LONG]:
                raise too_long(name)
            done = 0
            while True:
                done = kernel.encode_words(
                    self._block, *self._entries, done, self.table, self.arena, self.lengths, self.counts, self.out,
                    self.state,
                )  # fmt: skip
                if done >= self.state[kernel.ENTRIES]:
                    break
                self._grow()
        self._flush()

    def _grow(self) -> None:
        if self.num_types >= len(self.counts):
            self._grow_types()
            self.lengths = grown(self.lengths, len(self.counts))
        else:
            self.arena = grown(self.arena, max(2 * len(self.arena), len(self.arena) + MAX_WORD_BYTES))
        if len(self.arena) >= 1 << 32:
            raise DataError("The different words of the input take more than 16 GiB; any2vec does not count so many.")

    def finish(self, meta: dict[str, Any]) -> Corpus:
        """Rank the words by count, rewrite the tokens, write the vocabulary, open the corpus."""
        self.table = self.out = np.empty(0, np.uint64)
        order = self._order()
        lengths = self.lengths[: self.num_types]
        starts = np.zeros(len(order) + 1, np.int64)
        np.cumsum(8 * (lengths // 8 + 1), out=starts[1:])
        packed = np.empty(int(lengths.sum(dtype=np.int64)), np.uint8)
        offsets = np.zeros(len(order) + 1, np.int64)
        kernel.pack_words(self.arena.view(np.uint8), starts[order], lengths[order], packed, offsets)
        return self._finish(order, Keys(packed, offsets), meta)


def too_long(name: str) -> DataError:
    """The error of a word that is too long."""
    return DataError(
        f"{name} holds a word of more than {MAX_WORD_BYTES >> 20} MiB: it is no text with white space between words."
    )


class IdEncoder(_Encoder):
    """Encodes arrays of integers >= 0, with -1 as the end of a sentence; the keys are their decimal forms."""

    def __init__(self, writer: CorpusWriter) -> None:
        super().__init__(writer)
        self.ids = np.zeros(len(self.counts), np.int64)

    def feed(self, ids: np.ndarray, name: str = "The input") -> None:
        """Encode `ids`, an integer array (any,) of any width.

        Raises:
            DataError: not integers, below -1, above int64, or too many different ones.
            StorageError: the tokens cannot be written.
        """
        if not np.issubdtype(ids.dtype, np.integer):
            raise DataError(f"{name} holds {ids.dtype} values; sequences of ids need integers.")
        for first in range(0, len(ids), _ARRAY_BLOCK):
            part = ids[first : first + _ARRAY_BLOCK]
            if part.dtype == np.uint64 and part.max() > np.iinfo(np.int64).max:
                raise DataError(f"{name} holds the id {part.max()}, which overflows; ids go up to 2**63 - 2.")
            self._feed(np.ascontiguousarray(part, np.int64), name)

    def _feed(self, ids: np.ndarray, name: str) -> None:
        if ids.min() < -1:
            raise DataError(f"{name} holds the id {ids.min()}; ids are 0 or more, and -1 ends a sentence.")
        if ids.max() == np.iinfo(np.int64).max:
            raise DataError(f"{name} holds the id {ids.max()}, which overflows; ids go up to 2**63 - 2.")
        self._room(len(ids))
        at = 0
        while True:
            at = kernel.encode_ids(ids, at, self.table, self.ids, self.counts, self.out, self.state)
            if at >= len(ids):
                break
            self._grow_types()
            self.ids = grown(self.ids, len(self.counts))
        self._flush()

    def finish(self, meta: dict[str, Any]) -> Corpus:
        """Rank the ids by count, rewrite the tokens, write the vocabulary, open the corpus."""
        order = self._order()
        return self._finish(order, Keys.of(list(map(str, self.ids[order].tolist()))), meta)
