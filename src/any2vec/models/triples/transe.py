"""TransE, a model of triples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from any2vec.models.triples.config import TripleModel


@dataclass(frozen=True, kw_only=True)
class TransE(TripleModel):
    """TransE: the tail lies near head plus relation, by Euclidean distance (Bordes et al. 2013, equation 1).

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "transe"
    query: ClassVar[str] = "shift"
    is_near: ClassVar[bool] = True

    learning_rate: float = 0.1
    """initial learning rate of Adagrad, in (0, 10]"""
