"""Skip-gram, a model of words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from any2vec.models.words.config import SequenceModel


@dataclass(frozen=True, kw_only=True)
class SkipGram(SequenceModel):
    """Skip-gram: the context predicts the center word, pair by pair (Mikolov et al. 2013, arXiv 1310.4546).

    Skip-gram over sentences, with negative sampling or hierarchical softmax.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "skipgram"
    start_spread: ClassVar[float] = 2.0

    @property
    def architecture(self) -> str:
        return "skipgram"
