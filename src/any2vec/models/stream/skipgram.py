"""Skip-gram over a stream: the block kernel on token batches, rows that are reserved once and start with their words.

Legend: V rows of the tables (capacity), D dim, R rows, T tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from any2vec.data.stream.vocabulary import StreamVocabulary
from any2vec.embeddings import Embeddings
from any2vec.kernels.common.rng import PURPOSE_INIT, PURPOSE_NEGATIVE, PURPOSE_TOKEN, stream_key
from any2vec.kernels.rows.row_start import start_rows
from any2vec.kernels.skipgram.skipgram import MAX_CENTERS, train_skipgram_block
from any2vec.kernels.skipgram.subwords import Subwords
from any2vec.kernels.skipgram.trace import trace_block
from any2vec.models.stream.config import StreamSkipGram
from any2vec.models.stream.token_batch import Sentences, TokenBatch, sentence_spans
from any2vec.models.threads import TrainingThreads
from any2vec.models.words.config import SkipGram
from any2vec.models.words.learner import block_positions, shared_negatives
from any2vec.models.words.rates import endless_rate
from any2vec.types import State, Stats, Work

LOSS_EVERY = 64
"""the loss is measured on one block of so many"""
PIECE = 4096
"""positions that a thread takes at a time, about"""


class StreamedSkipGram:
    """Trains tables "input" and "output" of `max_rows` rows; pages of rows that no word ever had take no memory.

    With one thread the result depends on the batches alone; several are Hogwild.

    Args:
        max_rows: V, rows of each table.
        threads: 1 or more.
        spread: input rows start uniform in +-spread / dim; None: as skip-gram's.

    `subwords` is what input vectors are made of besides their rows, for the kernel: nothing, or one `Subwords`.
    """

    def __init__(
        self, config: StreamSkipGram, *, max_rows: int, threads: int, seed: int, spread: float | None = None
    ) -> None:
        self.config = config
        self.threads = threads
        self.input_VD = np.zeros((max_rows, config.dim), np.float32)
        self.output_VD = np.zeros((max_rows, config.dim), np.float32)
        self._blocks = SkipGram(dim=config.dim, window=config.window, num_negatives=config.num_negatives)
        self._keys = stream_key(seed, PURPOSE_TOKEN), stream_key(seed, PURPOSE_NEGATIVE)
        self._start_key = stream_key(seed, PURPOSE_INIT)
        self._spread = self._blocks.start_spread if spread is None else spread
        self.subwords: tuple[Subwords, ...] = ()
        self._high = 0
        """no row from here on has ever been used"""
        self._threads = TrainingThreads(threads)

    fixed_tables: ClassVar[tuple[str, ...]] = ()
    """those whose rows are all there from the start, whatever words come"""

    @staticmethod
    def row_bytes(config: StreamSkipGram) -> int:
        """Memory that a row takes: two tables, and their copies while a snapshot is written."""
        return 4 * 4 * config.dim

    @staticmethod
    def fixed_bytes(config: StreamSkipGram) -> int:
        """Memory that is taken whatever comes."""
        return 0

    def compile(self) -> None:
        self.start(np.zeros(0, np.int64))
        tokens = np.zeros(0, np.int32)
        tokens.flags.writeable = False
        noise = np.full(1, 2**32 - 1, np.uint32), np.zeros(1, np.int32)
        self._kernel(TokenBatch(0, tokens, 0, np.zeros(0, np.int64), *noise, np.zeros(1, np.uint64)), 16, 0, 0)

    def prepare(self, tokens: np.ndarray, vocabulary: StreamVocabulary) -> None:
        return None

    def run(self, work: Work[TokenBatch]) -> Stats:
        batch = work.payload
        self.start(batch.born)
        block = block_positions(self._blocks, batch.keep_rate)
        if batch.sentences is not None:
            return self._run_sentences(batch, batch.sentences, block)
        piece = max(1, PIECE // block) * block

        def train(number: int, start: int) -> Stats:
            return self._kernel(batch, block, start, min(start + piece, batch.tokens.size))

        return self._threads.train(range(0, batch.tokens.size, piece), train)

    def _run_sentences(self, batch: TokenBatch, sentences: Sentences, block: int) -> Stats:
        """Each at its own rate; its loss is that of all of its blocks."""

        def train(number: int, sentence: tuple[int, tuple[int, int]]) -> Stats:
            n, (start, stop) = sentence
            stats = self._kernel(batch, block, start, stop, sentences.weight_N[n], 1)
            sentences.loss_N[n] = stats.loss_sum / stats.loss_examples if stats.loss_examples else -1.0
            return stats

        return self._threads.train(enumerate(sentence_spans(batch.tokens)), train)

    @property
    def tables(self) -> dict[str, np.ndarray]:
        """The tables by name, float32 (V, D): what hosts that train together hold of them is a copy of these rows."""
        return {"input": self.input_VD, "output": self.output_VD}

    def rows_of(self, name: str, vocabulary: StreamVocabulary) -> np.ndarray:
        """The rows of a table that vectors are made of, int64."""
        return vocabulary.rows()

    def note(self, batch: TokenBatch) -> None:
        """Remember what is not in the rows of a batch that others train: nothing."""

    def start_values(self, name: str, rows: np.ndarray) -> np.ndarray:
        """What rows of a table begin with, float32 (R, D): input uniform as word2vec's, by their numbers; output 0."""
        fresh = np.zeros((rows.size, self.config.dim), np.float32)
        if name == "input":
            start_rows(fresh, rows, self.config.dim, self._start_key, self._spread / self.config.dim)
        return fresh

    def start(self, born: np.ndarray) -> None:
        """Rows of new words."""
        for name, table_VD in self.tables.items():
            table_VD[born] = self.start_values(name, born)
        self._high = max(self._high, int(born.max(initial=-1)) + 1)

    def trace(self, batch: TokenBatch, marks: Mapping[str, np.ndarray]) -> None:
        """Put 1 into uint8 (V,) marks of "input" and "output" for each row that `run` reads or writes."""
        block = block_positions(self._blocks, batch.keep_rate)
        whole = ((0, batch.tokens.size),)
        for start, stop in whole if batch.sentences is None else sentence_spans(batch.tokens):
            trace_block(
                batch.tokens, start, stop, -(-batch.offset // block) * block, batch.keep_V, self._keys[0],
                self._keys[1], batch.threshold_V, batch.alias_V, self.config.window, block, MAX_CENTERS,
                shared_negatives(self._blocks), marks["input"], marks["output"],
            )  # fmt: skip

    def learning_rate(self, words: float) -> float:
        config = self.config
        return endless_rate(config.learning_rate, config.min_learning_rate, words, config.rate_words)

    def state_dict(self) -> State:
        return {"input": self.input_VD[: self._high], "output": self.output_VD[: self._high]}

    def load_state_dict(self, state: State) -> None:
        self._high = len(state["input"])
        self.input_VD[: self._high] = state["input"]
        self.output_VD[: self._high] = state["output"]

    def embeddings(self, vocabulary: StreamVocabulary) -> Embeddings:
        counts_V, rows = vocabulary.counts_V, vocabulary.rows()
        rows = rows[np.argsort(-counts_V[rows], kind="stable")]
        counts = np.maximum(1, np.rint(counts_V[rows])).astype(np.int64)
        meta = {"model": self.config.name, "options": self.config.as_dict()}
        return Embeddings(vocabulary.keys(rows), self.input_VD[rows], self.output_VD[rows], counts, meta)

    def close(self) -> None:
        self._threads.close()

    def _kernel(
        self, batch: TokenBatch, block: int, start: int, stop: int, weight: float = 1.0, loss_every: int | None = None
    ) -> Stats:
        token_key, negative_key = self._keys
        offset = -(-batch.offset // block) * block  # blocks are cut where the stream's are, and so is the batch
        items, loss_sum, examples = train_skipgram_block(
            batch.tokens, start, stop, offset, batch.keep_V, token_key, negative_key, batch.threshold_V,
            batch.alias_V, self.input_VD, self.output_VD, self.config.window, self.config.num_negatives,
            weight * self.learning_rate(batch.words_before), 0.0, loss_every or LOSS_EVERY, block,
            shared_negatives(self._blocks), *((None, *self.subwords) if self.subwords else ()),
        )  # fmt: skip
        return Stats(int(items), float(loss_sum), int(examples))
