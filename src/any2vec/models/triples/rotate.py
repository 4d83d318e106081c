"""RotatE, a model of triples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from any2vec.models.triples.config import TripleModel


@dataclass(frozen=True, kw_only=True)
class RotatE(TripleModel):
    """RotatE: the tail lies near the head, turned by the relation's angles (Sun et al. 2019, equation 3).

    The distance is the Euclidean one over all complex numbers, where the paper adds up their moduli: so scores are
    matrix products.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "rotate"
    query: ClassVar[str] = "turn"
    is_complex: ClassVar[bool] = True
    has_angles: ClassVar[bool] = True
    is_near: ClassVar[bool] = True

    loss: Literal["softmax", "logistic", "margin"] = "logistic"
    """loss of an answer against its negatives"""
    gamma: float = 6.0
    """transe, rotate: scores are gamma - distance, 0..1000"""

    @property
    def relation_width(self) -> int:
        return self.dim // 2
