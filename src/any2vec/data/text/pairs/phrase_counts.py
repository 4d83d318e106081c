"""How often words stand next to each other in a corpus, and which of them are phrases, pass by pass.

Legend: P tokens, T types (words and phrases of former passes), N pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from any2vec.data.io.ahead import made_ahead
from any2vec.data.io.array_file import grown
from any2vec.data.io.direct import Spill
from any2vec.data.options import PhraseOptions
from any2vec.data.text.corpus import Corpus
from any2vec.data.text.pairs.sorted_runs import Run, SortedRuns, merge_all
from any2vec.kernels.text.phrases import FIRST_PREFIX, gather_phrases, join_phrases, number_prefixes, put_pairs
from any2vec.types import Stage

T = TypeVar("T")
Scores = Mapping[tuple[str, ...], float]
"""the phrases of a pass: their words (or phrases of the pass before), and their score"""
_BLOCK_TOKENS = 1 << 20
_BUFFER_KEYS = 1 << 20
_LOW32 = np.uint64(0xFFFFFFFF)


class PairTable(NamedTuple):
    """Pairs and what they stand for, see kernels/text/phrases.py."""

    pair_H: np.ndarray
    value_H: np.ndarray

    @classmethod
    def of(cls, pair_N: np.ndarray, value_N: np.ndarray, room: int = 0) -> PairTable:
        """From uint64 and int64 (N,); room: how many pairs it is made for, if more."""
        size = 1 << (2 * max(8, room, len(pair_N))).bit_length()
        table = cls(np.zeros(size, np.uint64), np.zeros(size, np.int64))
        put_pairs(pair_N, value_N, *table)
        return table


class JoinedCorpus:
    """A corpus in which the phrases of former passes stand in the place of their words."""

    def __init__(self, corpus: Corpus, connectors: frozenset[str], delimiter: str) -> None:
        self.corpus, self.delimiter = corpus, delimiter
        self.names: dict[int, str] = {}
        """of the tokens that are phrases"""
        self._num_types = len(corpus.vocabulary)
        self._row_of: dict[str, int] = {}
        self._passes: list[PairTable] = []
        row_of = self._rows([*connectors])
        connector = [row_of[word] for word in connectors if word in row_of]
        self.is_connector_T = np.zeros(self._num_types, np.bool_)
        self.is_connector_T[connector] = True

    def _rows(self, words: Sequence[str]) -> dict[str, int]:
        """The tokens of words, as far as there are such."""
        wanted = set(words) - self._row_of.keys()
        if wanted:
            self._row_of |= {key: row for row, key in enumerate(self.corpus.vocabulary.keys) if key in wanted}
        return self._row_of

    def name(self, token: int) -> str:
        """The word, or the phrase."""
        return self.names[token] if token in self.names else self.corpus.vocabulary[token]

    def join(self, found: Scores) -> None:
        """From now on the phrases of a further pass are single tokens."""
        joined = {words: self.delimiter.join(words) for words in found}
        row_of = self._rows([*{word for words in found for word in words}, *joined.values()])
        pairs: dict[int, int] = {}
        num_prefixes = 0
        for words, name in joined.items():
            if not all(word in row_of for word in words):
                continue
            left = row_of[words[0]]
            for word in words[1:-1]:
                pair = left << 32 | row_of[word]
                if pair not in pairs:
                    pairs[pair] = FIRST_PREFIX + num_prefixes
                    num_prefixes += 1
                left = pairs[pair]
            if name not in row_of:
                row_of[name] = self._num_types + len(self.names)
                self.names[row_of[name]] = name
            pairs[left << 32 | row_of[words[-1]]] = row_of[name]
        keys, values = np.array(list(pairs), np.uint64), np.array(list(pairs.values()), np.int64)
        self._passes.append(PairTable.of(keys, values))
        more = self._num_types + len(self.names) - len(self.is_connector_T)
        self.is_connector_T = np.concatenate([self.is_connector_T, np.zeros(more, np.bool_)])

    def blocks(self, threads: int, work: Callable[[np.ndarray], T]) -> Iterator[tuple[T, int]]:
        """work(tokens) of every stretch of whole sentences, in order, and where the stretch ends in the corpus."""

        def joined(stretch: tuple[int, int]) -> tuple[T, int]:
            first, last = stretch
            tokens = np.array(self.corpus.tokens[first:last])
            for table in self._passes:
                out = np.empty_like(tokens)
                tokens = out[: join_phrases(tokens, self.is_connector_T, *table, out)]
            return work(tokens), last

        return made_ahead(joined, pairwise(_cuts(self.corpus.tokens)), max(1, threads), "phrases")


def _cuts(tokens: np.ndarray) -> Iterator[int]:
    """Where blocks begin: behind the end of a sentence; 0 and the end are among them."""
    position = 0
    yield 0
    while position < len(tokens):
        position = min(position + _BLOCK_TOKENS, len(tokens))
        while position < len(tokens) and tokens[position - 1] >= 0:
            ends = np.flatnonzero(tokens[position : position + _BLOCK_TOKENS] < 0)
            position = position + int(ends[0]) + 1 if len(ends) else min(position + _BLOCK_TOKENS, len(tokens))
        yield position


def find_phrases(
    text: JoinedCorpus, options: PhraseOptions, spill: Spill, threads: int, stage: Stage | None
) -> dict[tuple[str, ...], float]:
    """The phrases of one pass, in the order of their pairs."""
    prefix_N = _prefixes(text) if text.is_connector_T.any() else np.empty(0, np.uint64)
    pairs, count_T = SortedRuns(spill, 1), np.zeros(len(text.is_connector_T), np.int64)
    table = PairTable.of(prefix_N, _numbers(len(prefix_N)))
    for (run, counts), done in text.blocks(threads, lambda tokens: _count(tokens, text.is_connector_T, table)):
        count_T[: len(counts)] += counts
        if len(run.pair_N):
            pairs.add(run)
        if stage is not None:
            stage("counting phrases", done, len(text.corpus.tokens))
    first_N = _first_words(prefix_N)
    is_word = (count_T > 0) & ~text.is_connector_T
    num_types = int(is_word.sum()) + sum(len(block.pair_N) for block in pairs.blocks(_BUFFER_KEYS))
    phrases = {}
    for block in pairs.blocks(_BUFFER_KEYS):
        left_N, right_N = (block.pair_N >> np.uint64(32)).astype(np.int64), (block.pair_N & _LOW32).astype(np.int64)
        word_N, is_prefix_N = left_N.copy(), left_N >= FIRST_PREFIX
        word_N[is_prefix_N] = first_N[left_N[is_prefix_N] - FIRST_PREFIX]
        totals = (num_types, int(count_T.sum()))
        score_N = _scores(count_T[word_N], count_T[right_N], block.weight_NC[:, 0], *totals, options)
        for n in np.flatnonzero(score_N > options.threshold).tolist():
            tokens = [*_unrolled(int(left_N[n]), prefix_N), int(right_N[n])]
            phrases[tuple(map(text.name, tokens))] = float(score_N[n])
    return phrases


def _prefixes(text: JoinedCorpus) -> np.ndarray:
    """uint64: what may stand before the last word of a phrase and is more than a word, as kernels/text/phrases.py."""
    pair_N, size = np.empty(1 << 12, np.uint64), 0
    table = PairTable.of(pair_N[:0], _numbers(0), len(pair_N))
    for tokens, _ in text.blocks(1, lambda tokens: tokens):
        position, left = 0, -1
        while position < len(tokens):
            if size == len(pair_N):
                pair_N = grown(pair_N, 2 * size)
                table = PairTable.of(pair_N[:size], _numbers(size), len(pair_N))
            position, left, size = number_prefixes(tokens, position, left, text.is_connector_T, *table, pair_N, size)
    return pair_N[:size].copy()


def _numbers(size: int) -> np.ndarray:
    """int64: what prefixes stand as, in their order."""
    return np.arange(size, dtype=np.int64) + FIRST_PREFIX


def _count(tokens: np.ndarray, is_connector_T: np.ndarray, table: PairTable) -> tuple[Run, np.ndarray]:
    """(the pairs of a stretch of sentences, how often each token comes)"""
    key_B = np.empty(min(_BUFFER_KEYS, len(tokens)), np.uint64)
    runs, position, left = [Run(np.empty(0, np.uint64), np.empty((0, 1), np.int64))], 0, -1
    while position < len(tokens):
        position, left, size = gather_phrases(tokens, position, left, is_connector_T, *table, key_B)
        pair_N, count_N = np.unique(key_B[:size], return_counts=True)
        runs.append(Run(pair_N, count_N.astype(np.int64)[:, None]))
    return merge_all(runs), np.bincount(tokens[tokens >= 0])


def _first_words(prefix_N: np.ndarray) -> np.ndarray:
    """int64 (N,): the word that each prefix begins with. A shorter prefix has a lower number."""
    first_N = (prefix_N >> np.uint64(32)).astype(np.int64)
    while len(deep := np.flatnonzero(first_N >= FIRST_PREFIX)):
        first_N[deep] = first_N[first_N[deep] - FIRST_PREFIX]
    return first_N


def _unrolled(left: int, prefix_N: np.ndarray) -> list[int]:
    """The tokens that a token, or a prefix, stands for."""
    behind: list[int] = []
    while left >= FIRST_PREFIX:
        pair = int(prefix_N[left - FIRST_PREFIX])
        behind.append(pair & 0xFFFFFFFF)
        left = pair >> 32
    return [left, *reversed(behind)]


def _scores(
    count_a: np.ndarray, count_b: np.ndarray, count_ab: np.ndarray, num_types: int, num_words: int,
    options: PhraseOptions,
) -> np.ndarray:  # fmt: skip
    """float64 (N,): the scores that `PhraseOptions` names."""
    if options.scoring == "default":
        return (count_ab - options.min_count) / (count_a.astype(np.float64) * count_b) * num_types
    share_a, share_b, share_ab = (count / float(num_words) for count in (count_a, count_b, count_ab))
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.log(share_ab / (share_a * share_b)) / -np.log(share_ab)
    return np.where(count_ab >= options.min_count, score, -np.inf)
