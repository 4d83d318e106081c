"""ComplEx, a model of triples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from any2vec.models.triples.config import TripleModel


@dataclass(frozen=True, kw_only=True)
class ComplEx(TripleModel):
    """ComplEx: the real part of head times relation times the tail's conjugate (Trouillon et al. 2016, equation 9).

    Trained as Lacroix, Usunier, Obozinski (2018) do: reciprocal relations, softmax over all entities, N3.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "complex"
    query: ClassVar[str] = "complex"
    is_complex: ClassVar[bool] = True
    predicts_relations: ClassVar[bool] = True

    n3: float = 0.05
    """weight of N3 regularization (cubes), 0..1000"""
