"""Logistic regression, a model of clicks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from any2vec.errors import InputError
from any2vec.models.clicks.config import ClickModel


@dataclass(frozen=True, kw_only=True)
class LogisticRegression(ClickModel):
    """Logistic regression over categories and numbers: the floor that other models are to beat.

    One weight for each category and number. Its vectors are these weights, of dim 1.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "logistic"
    dense_share: ClassVar[float] = 1.0

    dim: int = 1
    """always 1: the weight"""
    learning_rate: float = 0.05
    """learning rate of the rows, in (0, 10]"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim != 1:
            raise InputError(f"dim of logistic is 1, the weight of a category, got {self.dim!r}; leave it out.")

    @property
    def vector_dim(self) -> int:
        """Nothing but the weight."""
        return 0
