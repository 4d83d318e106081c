"""The factorization machine, a model of clicks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from any2vec.models.clicks.config import ClickModel


@dataclass(frozen=True, kw_only=True)
class FactorizationMachine(ClickModel):
    """Factorization machine (Rendle 2010): a linear part, and the dot products of all pairs of columns.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "fm"
    dense_share: ClassVar[float] = 1.0

    learning_rate: float = 0.01
    """learning rate of the rows, in (0, 10]"""
