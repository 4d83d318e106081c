"""Shifted positive PMI (SPPMI) of a corpus as skip-gram with negative sampling would fit it: sparse, in blocks of rows.

With #(w, c) the expected weight of the pair (w, c) in training, #(w) its marginal over pairs, P the distribution that
negatives are drawn from and k their number, the loss of skip-gram,

    - sum over w, c of  #(w, c) log s(x_w y_c) + k #(w) P(c) log s(-x_w y_c),

is least where x_w y_c = log(#(w, c) / (#(w) P(c))) - log k: Levy and Goldberg 2014, equations 8 to 12, with the noise
of the trainer, counts of words to the power 0.75, in the place of #(c). Where P(c) = #(c) / total, it is PMI - log k.
SPPMI is its positive part, and 0 where a pair never comes.

Such a matrix is not symmetric, and an inner product of vectors (PIP) is. PIP is compared with its symmetric form
(x_w y_c + x_c y_w) / 2, which has the same positive part in the symmetric case.

Legend: T types of the corpus, V vocabulary, N pairs, D dim, S rows of a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from any2vec.data.io.direct import Spill
from any2vec.data.options import TextOptions
from any2vec.data.text.corpus import Corpus, is_corpus
from any2vec.data.text.pairs.pair_counts import PairBlock, PairCounts, Stage, count_corpus
from any2vec.data.text.text import encode_text
from any2vec.errors import DataError, InputError
from any2vec.evaluate.words.target_options import TargetOptions
from any2vec.types import as_reading

if TYPE_CHECKING:
    from any2vec.data.stream.pairs import StreamPairs
    from any2vec.data.stream.vocabulary import StreamVocabulary

FIRST_PART, SECOND_PART, WHOLE = (0,), (1,), (0, 1)
"""which parts of the corpus a target is made of"""


class RowBlocks:
    """A symmetric sparse matrix (V, V) as blocks of rows: whatever is summed over rows is summed over them."""

    def __init__(self, blocks: Sequence[Any], num_rows: int) -> None:
        """blocks: scipy.sparse.csr_array (S, V) float64, which cover the V rows in order."""
        self.blocks = blocks
        self.num_rows = num_rows

    def spans(self) -> Iterator[tuple[int, int, Any]]:
        """(first row, row behind the last, block) of each block."""
        start = 0
        for block in self.blocks:
            yield start, start + block.shape[0], block
            start += block.shape[0]

    @property
    def num_pairs(self) -> int:
        """Entries that are not 0."""
        return sum(int(block.nnz) for block in self.blocks)

    @cached_property
    def norm(self) -> float:
        """The Frobenius norm."""
        return float(np.sqrt(sum(float(block.data @ block.data) for block in self.blocks)))

    def __matmul__(self, x: np.ndarray) -> np.ndarray:
        """Times float64 (V,) or (V, D)."""
        return np.concatenate([block @ x for block in self.blocks])

    def top_pairs(self, num: int, which: str = "LM") -> tuple[np.ndarray, np.ndarray]:
        """min(num, V) eigenvalues, the most extreme first, and their vectors: float64 (num,), (V, num).

        which: LM, the largest by magnitude, or LA, the largest. Lanczos (ARPACK), to about 1e-6 relatively; where its
        basis, V x (2 num + 1), would not be smaller than V x V, LAPACK.
        """
        from scipy.sparse.linalg import LinearOperator, eigsh

        if self.num_rows <= 2 * num + 1:
            value, vector = np.linalg.eigh(self @ np.eye(self.num_rows))
        else:
            shape = (self.num_rows, self.num_rows)
            operator = LinearOperator(shape, matvec=lambda x: self @ x, dtype=np.float64)
            start_V = np.random.default_rng(0).standard_normal(self.num_rows)  # ARPACK's own start is not seeded
            value, vector = eigsh(operator, k=num, which=which, v0=start_V, tol=1e-4)
        order = np.argsort(-(np.abs(value) if which == "LM" else value), kind="stable")[:num]
        return value[order], vector[:, order]


@dataclass(frozen=True)
class Pairs:
    """What is counted of a corpus for some words."""

    counts: PairCounts
    keys: list[str]
    """of the V rows"""
    count_V: np.ndarray
    """int64 (V,), how often each word occurs"""
    options: TargetOptions

    def offsets(self, parts: tuple[int, ...] = WHOLE) -> tuple[np.ndarray, np.ndarray]:
        """(log #(w), log P(c)), float64 (V,) each; -inf for a row without pairs, which has no cells to use it."""
        noise = self.count_V.astype(np.float64) ** self.options.noise_power
        with np.errstate(divide="ignore"):
            return np.log(self.counts.sum_V2[:, parts].sum(1)), np.log(noise / noise.sum())

    def cells(self, block: PairBlock, parts: tuple[int, ...] = WHOLE) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, other rows and weights (float64) of the pairs of a block that come in `parts`."""
        weight_N = block.weight_N2[:, parts].sum(1)
        seen = weight_N > 0
        return block.row_N[seen], block.other_N[seen], weight_N[seen].astype(np.float64)

    def sppmi(self, parts: tuple[int, ...] = WHOLE) -> RowBlocks:
        """The symmetric SPPMI. Memory: O(budget of the counts' spill)."""
        from scipy.sparse import csr_array

        log_pairs, log_noise = self.offsets(parts)
        half_V = (log_pairs + log_noise) / 2
        blocks = []
        for block in self.counts.blocks():
            row_N, other_N, weight_N = self.cells(block, parts)
            value_N = np.log(weight_N) - half_V[row_N] - half_V[other_N] - np.log(self.options.num_negatives)
            positive = value_N > 0
            rows = block.stop - block.start
            indptr = np.zeros(rows + 1, np.int64)
            np.cumsum(np.bincount(row_N[positive] - block.start, minlength=rows), out=indptr[1:])
            held = self.counts.spill.keep(value_N[positive], other_N[positive].astype(np.int32))
            blocks.append(csr_array((*held, indptr), shape=(rows, len(self.keys))))
        return RowBlocks(blocks, len(self.keys))


@contextmanager
def step(stage: Stage | None, name: str) -> Iterator[None]:
    """Tell `stage` that something begins, and that it is done."""
    if stage is not None:
        stage(name, 0, 1)
    yield
    if stage is not None:
        stage(name, 1, 1)


def read_corpus(
    data: Any, text: TextOptions | None, cache_dir: Path | str | None = None, stage: Stage | None = None
) -> Corpus:
    """The corpus that `data` is, names or becomes by `encode_text`.

    Raises:
        InputError: options of reading for what is encoded already.
        DataError: it cannot be read.
    """
    is_encoded = isinstance(data, Corpus) or (isinstance(data, str | Path) and is_corpus(data))
    if is_encoded and text not in (None, TextOptions()):
        raise InputError("The corpus is encoded already, so the options of reading text do not apply; leave them out.")

    return encode_text(data, text, cache_dir=cache_dir, progress=as_reading(stage))


def count_pairs(corpus: Corpus, known: Any, options: TargetOptions, spill: Spill, stage: Stage | None = None) -> Pairs:
    """Count the pairs of the words of `corpus` that `options` keep and for which known(key) is true.

    Raises:
        DataError: fewer than two words are left, or none stand near each other.
        StorageError: what is beyond the budget cannot be written.
    """
    vocabulary = corpus.vocabulary.truncate(options.min_count, options.max_vocab)
    kept = [row for row, key in enumerate(vocabulary.keys) if known(key)]
    if len(kept) < 2:
        raise DataError(
            f"Only {len(kept)} of the {len(corpus.vocabulary):,} distinct words of the corpus occur "
            f"{options.min_count} times or more and have a vector, and at least 2 are needed; give more text, or text "
            "that was read as in training."
        )
    row_T = np.full(len(corpus.vocabulary), -1, np.int32)
    row_T[kept] = np.arange(len(kept), dtype=np.int32)
    count_V = np.asarray(vocabulary.counts)[kept]
    counts = PairCounts(len(kept), options.window, spill)
    count_corpus(counts, corpus, row_T, count_V, options, stage)
    return Pairs(counts, [vocabulary.keys[row] for row in kept], count_V, options)


def pairs_of_stream(pairs: StreamPairs, vocabulary: StreamVocabulary, options: TargetOptions, spill: Spill) -> Pairs:
    """What is counted of a stream lately, for the words that have a row; as decayed as the counts are.

    options: window as in counting; min_count and max_vocab choose the words by their decayed counts.

    Raises:
        InputError: another window.
        DataError: fewer than two words are left.
    """
    from any2vec.data.stream.pairs import FIXED

    if options.window != pairs.window:
        raise InputError(f"The pairs were counted with window {pairs.window}, got {options.window}; give that.")
    counts_V = vocabulary.counts_V
    rows = np.argsort(-counts_V, kind="stable")[: options.max_vocab]
    rows = rows[(counts_V[rows] >= options.min_count) & (counts_V[rows] > 0)]
    if len(rows) < 2:
        raise DataError(
            f"Only {len(rows)} words of the stream have a row and a decayed count of {options.min_count} or more, and "
            "at least 2 are needed; give more text or a smaller min_count."
        )
    whole_V = np.rint(counts_V[rows] * FIXED).astype(np.int64)
    return Pairs(pairs.counted(rows, spill), list(vocabulary.keys(rows)), whole_V, options)
