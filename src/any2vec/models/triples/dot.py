"""The dot product, a model of plain graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from any2vec.models.triples.config import TripleModel


@dataclass(frozen=True, kw_only=True)
class DotProduct(TripleModel):
    """Dot product: linked nodes of a plain graph have rows that point the same way; relations are not told apart.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "dot"
    query: ClassVar[str] = "plain"
    has_relations: ClassVar[bool] = False

    @property
    def relation_width(self) -> int:
        return 0
