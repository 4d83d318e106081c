"""Pairs of words that a stream has brought lately, and how far the vectors are from what they say (PIP loss)."""

from __future__ import annotations

from any2vec.data.stream.pairs import StreamPairs
from any2vec.data.stream.vocabulary import StreamVocabulary
from any2vec.embeddings import Embeddings
from any2vec.errors import DataError
from any2vec.kernels.common.rng import PURPOSE_TOKEN, stream_key
from any2vec.models.stream.config import StreamModel
from any2vec.models.stream.token_batch import TokenBatch
from any2vec.types import State

MOST_WORDS = 10_000
"""the most frequent words, which are compared"""


class RecentPairs:
    """Counts what training meets, batch by batch, as it weighs it.

    Args:
        half_life: words (and ends of lines) after which a pair weighs half; None: none fades.
        seed: of training, whose subsampling is followed.

    Raises:
        InputError: the budget is too small.
    """

    def __init__(
        self, model: StreamModel, *, max_rows: int, budget_bytes: int, half_life: int | None, seed: int
    ) -> None:
        self.model = model
        self.pairs = StreamPairs(
            max_rows=max_rows, budget_bytes=budget_bytes, window=model.window, half_life=half_life, seed=seed
        )
        self._key = stream_key(seed, PURPOSE_TOKEN)

    def add(self, batch: TokenBatch, vocabulary: StreamVocabulary) -> None:
        """Count a batch; the vocabulary is as the batch has left it."""
        self.pairs.add(batch.tokens, batch.keep_V, self._key, batch.offset, vocabulary.birth_V)

    def pip(self, embeddings: Embeddings, vocabulary: StreamVocabulary) -> float | None:
        """Relative PIP loss against the SPPMI of what was counted, inner products scaled as fits best: 0..1.

        That of vectors of zeros is 1. None where no pair comes more often than chance and the negatives ask for.
        """
        from any2vec.data.io.direct import Spill
        from any2vec.evaluate.words.pip import pip_of_pairs
        from any2vec.evaluate.words.target import pairs_of_stream
        from any2vec.evaluate.words.target_options import TargetOptions

        model = self.model
        options = TargetOptions(
            window=model.window, subsample=model.subsample, min_count=1, max_vocab=MOST_WORDS,
            num_negatives=model.num_negatives,
        )  # fmt: skip
        try:
            with Spill() as spill:
                pairs = pairs_of_stream(self.pairs, vocabulary, options, spill)
                return pip_of_pairs(embeddings, pairs, references=False).relative_scaled
        except DataError:
            return None

    def state_dict(self) -> State:
        return self.pairs.state_dict()

    def load_state_dict(self, state: State) -> None:
        self.pairs.load_state_dict(state)
