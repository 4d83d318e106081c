"""Learning rates over a run. Light: no NumPy."""

from __future__ import annotations

from typing import Protocol


class Falling(Protocol):
    """Options of a model whose learning rate falls."""

    @property
    def learning_rate(self) -> float:
        """At the start."""

    @property
    def min_learning_rate(self) -> float:
        """At the end; never above the first."""


def linear_rate(model: Falling, progress: float) -> float:
    """Learning rate at a share of the whole run, 0..1."""
    first = model.learning_rate
    return first + (min(model.min_learning_rate, first) - first) * progress


def endless_rate(first: float, least: float, words: float, scale: int) -> float:
    """Learning rate after so many words of a stream without an end: first / sqrt(1 + words / scale), `least` at least.

    The root is that of Bottou 1998, "Online learning and stochastic approximations"; what never vanishes follows drift.
    """
    return max(min(first, least), first / (1 + words / scale) ** 0.5)
