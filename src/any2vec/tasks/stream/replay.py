"""Sentences of before that are trained once more behind each batch: drawn alike, or by their losses.

Legend: T tokens, N drawn sentences.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from any2vec.data.stream.vocabulary import StreamVocabulary
from any2vec.models.stream.token_batch import Sentences
from any2vec.sampling.replay import ReplayBuffer
from any2vec.types import State

LAG = 2
"""batches behind which losses count: so far ahead is encoded at most, so that what is drawn depends on no clock"""


class _Owed(NamedTuple):
    """Losses that the buffer is to learn."""

    batch: int
    number_N: np.ndarray
    loss_N: np.ndarray
    """those of `Sentences`: NaN until they are trained"""


class Replay:
    """Draws from a buffer in place of so many new sentences, and keeps the new ones.

    Args:
        share: for each new sentence so many of before.
    """

    def __init__(self, buffer: ReplayBuffer, share: float) -> None:
        self.buffer = buffer
        self.share = share
        self._owed: list[_Owed] = []

    def exchange(
        self, tokens_T: np.ndarray, vocabulary: StreamVocabulary, batch: int
    ) -> tuple[np.ndarray, Sentences | None]:
        """Sentences of before for the new ones, int32 (T,) with -1 behind each, which are kept for later.

        The second is None where all of them count alike.
        """
        self._learn(batch - LAG)
        drawn = self.buffer.draw(int(self.share * np.count_nonzero(tokens_T < 0)), vocabulary.birth_V)
        self.buffer.put(tokens_T, vocabulary.births)
        if not self.buffer.alpha:
            return drawn.tokens, None
        sentences = Sentences(drawn.weight_N, np.full(len(drawn.weight_N), np.nan))
        self._owed.append(_Owed(batch, drawn.number_N, sentences.loss_N))
        return drawn.tokens, sentences

    def state_dict(self) -> State:
        """The buffer's, and the losses that it is to learn; where all that was given is trained."""
        if not self.buffer.alpha:
            return self.buffer.state_dict()
        owed = [one for one in self._owed if not np.isnan(one.loss_N).any()]
        batch_N = [np.full(len(one.number_N), one.batch, np.int64) for one in owed]
        return self.buffer.state_dict() | {
            "owed.batch": np.concatenate([np.zeros(0, np.int64), *batch_N]),
            "owed.number": np.concatenate([np.zeros(0, np.int64), *(one.number_N for one in owed)]),
            "owed.loss": np.concatenate([np.zeros(0), *(one.loss_N for one in owed)]),
        }

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`."""
        self.buffer.load_state_dict(state)
        if not self.buffer.alpha:
            return
        batch_N, number_N, loss_N = (np.array(state[f"owed.{name}"]) for name in ("batch", "number", "loss"))
        self._owed = [
            _Owed(batch, number_N[batch_N == batch], loss_N[batch_N == batch]) for batch in np.unique(batch_N).tolist()
        ]

    def _learn(self, last: int) -> None:
        """Take the losses of the batches up to `last`; hosts may report theirs later, which then count later."""
        later = []
        for one in self._owed:
            if one.batch <= last and not np.isnan(one.loss_N).any():
                has_pairs_N = one.loss_N >= 0
                self.buffer.learn(one.number_N[has_pairs_N], one.loss_N[has_pairs_N])
            else:
                later.append(one)
        self._owed = later
