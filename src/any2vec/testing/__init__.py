"""Data whose right answer is known, of any size: to test learners against, ours and others'."""

from __future__ import annotations

from any2vec.testing.planted_clicks import BayesScores, PlantedClicks

__all__ = ["BayesScores", "PlantedClicks"]
