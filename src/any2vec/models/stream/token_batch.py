"""The payload of a work of a stream: the tokens of some lines, and the vocabulary as it was when they came.

Legend: T tokens, V rows of the tables (capacity), R rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from any2vec.types import Round, Work

GAP = 1024
"""positions of the stream that lie between two batches: each may begin at a multiple of up to so many"""
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class LinesOf:
    """What one source has given to a batch."""

    source: int
    """its number"""
    lines: int
    words: int
    duplicates: int
    """lines that were left out, for they have come before"""
    ids: Sequence[str] = ()
    """those of the lines, where they are logged"""


@dataclass(frozen=True, slots=True)
class Sentences:
    """Sentences of a batch that are trained one by one: how much each counts, and what it cost."""

    weight_N: np.ndarray
    """float64 (N,), in (0, 1]: the learning rate of each is multiplied by it"""
    loss_N: np.ndarray
    """float64 (N,), written by who trains them: the loss of each per pair before its update; -1 where it had
    none, and so tells nothing"""


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Tokens that are trained together. It holds all that training needs: what follows may be encoded meanwhile."""

    number: int
    """from 0; of an idle one that of the batch to come"""
    tokens: np.ndarray
    """int32 (T,), read-only: rows, -1 behind each line, V or more for a word that has none; empty in an idle one: the
    sources had nothing, and whoever keeps the run looks about"""
    offset: int
    """position in the whole stream of tokens[0]: draws belong to positions, and those of the GAP behind a batch are its
    own, too"""
    born: np.ndarray = field(default_factory=lambda: _NONE)
    """int64 (R,): rows that belong to new words from here on"""
    threshold_V: np.ndarray = field(default_factory=lambda: _NONE)
    """uint32 (V,), with alias_V int32 (V,): the noise distribution (kernels/common/alias.py)"""
    alias_V: np.ndarray = field(default_factory=lambda: _NONE)
    keep_V: np.ndarray = field(default_factory=lambda: _NONE)
    """uint64 (V,): 2**32 times the probability that an occurrence is kept"""
    keep_rate: float = 1.0
    """share of its words that are kept, about"""
    words: int = 0
    """words, those without a row too"""
    words_before: int = 0
    """words of the stream before this batch"""
    lines: tuple[LinesOf, ...] = ()
    prepared: Any = None
    """what `StreamLearner.prepare` has made of it"""
    is_settled: bool = True
    """nothing behind it has been encoded: the vocabulary is as this batch has left it"""

    is_replayed: bool = False
    """its lines have been trained before: it counts for no word, and for no loss"""
    sentences: Sentences | None = None
    """of a batch whose sentences count differently"""

    @property
    def work(self) -> Work[TokenBatch]:
        """As a schedule gives it: a stream is one round of one epoch, which has no end."""
        return Work(self, 0, Round(0), 0.0, step=self.number)

    @property
    def is_idle(self) -> bool:
        return not self.tokens.size and not self.lines and not self.is_replayed


def sentence_spans(tokens: np.ndarray) -> Iterator[tuple[int, int]]:
    """(first position, position behind the last word) of each sentence of tokens that end with -1."""
    start = 0
    for stop in np.flatnonzero(tokens < 0).tolist():
        yield start, stop
        start = stop + 1
