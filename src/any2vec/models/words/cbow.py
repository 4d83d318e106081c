"""CBOW, a model of words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from any2vec.models.words.config import SequenceModel


@dataclass(frozen=True, kw_only=True)
class CBOW(SequenceModel):
    """CBOW: the mean of the context predicts the center word (Mikolov et al. 2013, arXiv 1301.3781, section 3.1).

    Continuous bag of words over sentences, with negative sampling or hierarchical softmax.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "cbow"
    start_spread: ClassVar[float] = 6.0
    """A mean of contexts starts smaller than one row: with 0.5 the first epoch learns little (docs/log.md)."""
    block_centers: ClassVar[int] = 32
    """Each center meets its row once, so that a longer block only shares its negatives among more (docs/log.md)."""

    @property
    def architecture(self) -> str:
        return "cbow"
