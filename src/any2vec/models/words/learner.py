"""The learner of every model over sequences: what one host does with one piece of work."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from any2vec.errors import DataError
from any2vec.kernels.common.alias import build_alias
from any2vec.kernels.common.rng import PURPOSE_NEGATIVE, PURPOSE_TOKEN, stream_key
from any2vec.kernels.skipgram.cbow import MAX_CENTERS as CBOW_CENTERS
from any2vec.kernels.skipgram.cbow import train_cbow_block
from any2vec.kernels.skipgram.classic import train_cbow_classic, train_skipgram_classic
from any2vec.kernels.skipgram.hierarchical import train_cbow_hierarchical, train_skipgram_hierarchical
from any2vec.kernels.skipgram.places import Places
from any2vec.kernels.skipgram.skipgram import MAX_CENTERS as SKIPGRAM_CENTERS
from any2vec.kernels.skipgram.skipgram import train_skipgram_block
from any2vec.kernels.skipgram.subwords import Subwords
from any2vec.kernels.skipgram.trace import trace_block, trace_classic, trace_hierarchical
from any2vec.kernels.text.huffman import huffman_codes
from any2vec.models.threads import TrainingThreads
from any2vec.models.words.config import SequenceModel
from any2vec.models.words.rates import linear_rate
from any2vec.models.words.source import TokenSource
from any2vec.plan.cost.occupancy import NOISE_POWER
from any2vec.types import ProgressLine, Span, State, Stats, Work

LOSS_EVERY = 256
"""the loss is measured on one block (or center) of so many"""


def shared_negatives(model: SequenceModel) -> int:
    """How many negatives a block shares: `shared_for_five` for five, rounded up to a multiple of 4, 4..1024."""
    return min(1024, 4 * -(-model.num_negatives * model.shared_for_five // 20))


def block_positions(model: SequenceModel, keep_rate: float) -> int:
    """Positions of the stream that keep `model.block_centers` tokens on average, at most 1024."""
    return min(1024, max(1, round(model.block_centers / max(keep_rate, 1e-6))))


class SequenceLearner:
    """Trains the tables "input" and "output" on pieces of a token stream with `threads` Hogwild threads.

    Args:
        config: the model's options.
        counts: int64 (V,), occurrences of each row; rows of the tables beyond V are carried, not trained.
        keep: float64 (V,), probability that an occurrence is kept (subsampling).
        source: the token stream; tokens >= V are out of the vocabulary.
        tables: "input" and "output", both (>= V, dim); others are kept in `state` alone. With places, of any sizes, and
            the arrays may be others in each round.
        places: where the rows of the round at hand lie in them; None: each at its own number.
        subwords: what input vectors are made of besides the rows of "input"; None: nothing.
    """

    def __init__(
        self,
        config: SequenceModel,
        counts: np.ndarray,
        keep: np.ndarray,
        source: TokenSource,
        tables: dict[str, np.ndarray],
        *,
        block: int,
        piece: int,
        threads: int,
        seed: int,
        places: Places | None = None,
        subwords: Subwords | None = None,
    ) -> None:
        self.config = config
        self.source = source
        self.tables = tables
        self.block = block
        self.piece = piece
        self.threads = threads
        self.seed = seed
        self._places = () if places is None and subwords is None else (places,)
        self._subwords = () if subwords is None else (subwords,)
        self._keep_V = np.minimum(keep * 2.0**32, 2.0**32).astype(np.uint64)
        self._distribution = self._output_side(counts)
        self._threads = TrainingThreads(threads)

    def state_dict(self) -> State:
        """The tables' rows themselves, no copies."""
        return dict(self.tables)

    def compile(self, for_hosts: bool = False) -> float:
        """Compile the kernel (and the inspection), or load it from the cache, by an empty call; seconds it took."""
        start = time.perf_counter()
        tokens, begin, _, offset = self.source.piece(0, 0, 0)
        self._kernel(tokens, begin, begin, offset, 0, (0.0, 0.0))
        if for_hosts:
            self._trace(tokens, begin, begin, offset, 0, np.zeros(1, np.uint8), np.zeros(1, np.uint8))
        return time.perf_counter() - start

    def run(self, work: Work[Span]) -> Stats:
        """Train one piece of work; threads take its pieces in turn. Deterministic with one thread."""

        def train(number: int, piece: tuple[int, int]) -> Stats:
            return self._kernel(*self.source.piece(work.epoch, *piece), work.epoch, self._rates(work.payload.line))

        return self._threads.train(self._pieces(work.payload.start, work.payload.stop), train)

    def inspect(self, epoch: int, start: int, stop: int, marks: Mapping[str, np.ndarray]) -> None:
        """Put 1 into uint8 (>= V,) marks, by table, for each row that `run` reads or writes on these positions."""

        def trace(number: int, piece: tuple[int, int]) -> Stats:
            self._trace(*self.source.piece(epoch, *piece), epoch, marks["input"], marks["output"])
            return Stats(0, 0.0, 0)

        self._threads.train(self._pieces(start, stop), trace)  # they may put the same 1 at the same place

    def learning_rate(self, progress: float) -> float:
        """Learning rate at a share of the whole run, 0..1."""
        return linear_rate(self.config, progress)

    def close(self) -> None:
        """End the threads."""
        self._threads.close()

    def _pieces(self, start: int, stop: int) -> list[tuple[int, int]]:
        """[start, stop) cut at multiples of the piece, and behind a first part of a block: where a host begins.

        Kernels cut blocks at multiples of the block from wherever a call starts, so calls start there, too.
        """
        aligned = min(stop, -(-start // self.source.unit) * self.source.unit)
        cuts = [
            start,
            *([aligned] if aligned > start else []),
            *range(-(-(aligned + 1) // self.piece) * self.piece, stop, self.piece),
        ]
        return [(begin, end) for begin, end in zip(cuts, [*cuts[1:], stop], strict=True) if begin < end]

    def _rates(self, line: ProgressLine) -> tuple[float, float]:
        """(learning rate at position 0, change per position) along a line of progress."""
        at_start, at_stop = self.learning_rate(line.progress_from), self.learning_rate(line.progress_to)
        step = (at_stop - at_start) / (line.stop - line.start)
        return at_start - step * line.start, step

    def _output_side(self, counts: np.ndarray) -> tuple[Any, ...]:
        """The noise distribution as an alias table, or the Huffman codes."""
        if self.config.objective == "hierarchical":
            return tuple(huffman_codes(counts))
        weights = counts.astype(np.float64) ** NOISE_POWER
        if not weights.sum() > 0:
            raise DataError("No item of the vocabulary occurs in the data; check min_count and the input.")
        return tuple(build_alias(weights))

    def _trace(
        self, tokens: np.ndarray, begin: int, end: int, offset: int, epoch: int, input_V: np.ndarray,
        output_V: np.ndarray,
    ) -> None:  # fmt: skip
        config, marks = self.config, (input_V, output_V)
        skipgram = config.architecture == "skipgram"
        where = (tokens, begin, end, offset, self._keep_V, stream_key(self.seed, PURPOSE_TOKEN, epoch))
        noise = (stream_key(self.seed, PURPOSE_NEGATIVE, epoch), *self._distribution)
        if config.objective == "hierarchical":
            trace_hierarchical(*where, *self._distribution[:2], config.window, *marks)
        elif config.kernel == "classic":
            trace_classic(*where, *noise, config.window, config.num_negatives, not skipgram, *marks)
        else:
            most = SKIPGRAM_CENTERS if skipgram else CBOW_CENTERS
            trace_block(*where, *noise, config.window, self.block, most, shared_negatives(config), *marks)

    def _kernel(
        self, tokens: np.ndarray, begin: int, end: int, offset: int, epoch: int, line: tuple[float, float]
    ) -> Stats:
        config = self.config
        input_VD, output_VD = self.tables["input"], self.tables["output"]
        token_key = stream_key(self.seed, PURPOSE_TOKEN, epoch)
        where = (tokens, begin, end, offset, self._keep_V, token_key)
        rates = (*line, LOSS_EVERY)
        skipgram = config.architecture == "skipgram"
        if config.objective == "hierarchical":
            train = train_skipgram_hierarchical if skipgram else train_cbow_hierarchical
            result = train(*where, *self._distribution, input_VD, output_VD, config.window, *rates, *self._places)
        else:
            noise = (stream_key(self.seed, PURPOSE_NEGATIVE, epoch), *self._distribution, input_VD, output_VD)
            width = (config.window, config.num_negatives)
            if config.kernel == "classic":
                train = train_skipgram_classic if skipgram else train_cbow_classic
                result = train(*where, *noise, *width, *rates, *self._places)
            else:
                train = train_skipgram_block if skipgram else train_cbow_block
                shared = shared_negatives(config)
                result = train(*where, *noise, *width, *rates, self.block, shared, *self._places, *self._subwords)
        items, loss_sum, examples = result
        return Stats(int(items), float(loss_sum), int(examples))
