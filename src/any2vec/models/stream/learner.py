"""What a model does with a stream: the protocol that its learner keeps."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from any2vec.data.stream.vocabulary import StreamVocabulary
from any2vec.embeddings import Embeddings
from any2vec.models.stream.token_batch import TokenBatch
from any2vec.types import State, Stats, Work


class StreamLearner(Protocol):
    """Trains on token batches, one after the other."""

    def compile(self) -> None:
        """Compile the kernels, or load them from the cache."""

    def prepare(self, tokens: np.ndarray, vocabulary: StreamVocabulary) -> Any:
        """What `run` needs of the vocabulary as it is when a batch is encoded (`TokenBatch.prepared`); None: nothing.

        tokens int32 (T,). It is called beside the training of the batch before, so it changes nothing.
        """

    def run(self, work: Work[TokenBatch]) -> Stats:
        """Start the rows that were born afresh, then train; the loss is that before the update (prequential)."""

    def learning_rate(self, words: float) -> float:
        """The learning rate after so many words of the stream."""

    def state_dict(self) -> State:
        """What a checkpoint keeps, by name: views, not copies."""

    def load_state_dict(self, state: State) -> None:
        """Go on from the state of a checkpoint."""

    def embeddings(self, vocabulary: StreamVocabulary) -> Embeddings:
        """The vectors of the words that have a row, by falling count: copies."""

    def close(self) -> None:
        """End the threads."""
