"""DeepWalk, a model of graph nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from any2vec.models.words.config import WalkModel


@dataclass(frozen=True, kw_only=True)
class DeepWalk(WalkModel):
    """DeepWalk: skip-gram over uniform random walks (Perozzi, Al-Rfou, Skiena 2014, arXiv 1403.6652).

    Skip-gram over first-order walks; edges are followed in proportion to their weights.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "deepwalk"

    @property
    def architecture(self) -> str:
        return "skipgram"
