"""node2vec, a model of graph nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from any2vec.checks import check_number
from any2vec.models.words.config import WalkModel


@dataclass(frozen=True, kw_only=True)
class Node2Vec(WalkModel):
    """node2vec: skip-gram over second-order random walks (Grover and Leskovec 2016, arXiv 1607.00653, section 3.2).

    Skip-gram over walks that remember the node they came from: with p above 1 a walk rarely steps back, with p below 1
    it often does; with q above 1 it stays near where it came from, with q below 1 it moves away.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "node2vec"

    p: float = 1.0
    """return parameter, in (0, 1e6]"""
    q: float = 1.0
    """in-out parameter, in (0, 1e6]"""

    @property
    def architecture(self) -> str:
        return "skipgram"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("p", self.p, 0, 1e6, open_low=True)
        check_number("q", self.q, 0, 1e6, open_low=True)
