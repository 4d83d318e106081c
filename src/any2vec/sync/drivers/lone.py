"""The agreement of a host that has nobody to agree with: training alone, to the bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from any2vec.types import Span, Work


class LoneHost:
    """One host; tables: name -> float32 (V, D), trained in place."""

    def __init__(self, tables: dict[str, np.ndarray]) -> None:
        self.tables = tables

    def open(self, work: Work[Span]) -> None:
        """Every row is here already."""

    def close(self) -> None:
        """Nobody to agree with."""

    def collect(self) -> dict[str, np.ndarray] | None:
        """The tables."""
        return self.tables

    @property
    def memory(self) -> dict[str, np.ndarray]:
        """Nothing."""
        return {}

    def recall(self, memories: Sequence[dict[str, np.ndarray]]) -> None:
        """What hosts of a former run agreed on is all that counts here."""
