"""DistMult, a model of triples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from any2vec.models.triples.config import TripleModel


@dataclass(frozen=True, kw_only=True)
class DistMult(TripleModel):
    """DistMult: the sum of head times relation times tail (Yang et al. 2015, section 3.1).

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "distmult"
    query: ClassVar[str] = "real"
    predicts_relations: ClassVar[bool] = True

    n3: float = 0.05
    """weight of N3 regularization (cubes), 0..1000"""
