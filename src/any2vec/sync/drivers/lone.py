"""The agreement of a host that has nobody to agree with: training alone, to the bit."""

from __future__ import annotations

import numpy as np

from any2vec.sync.drivers.rounds import Agreement


class LoneHost(Agreement):
    """One host; tables: name -> float32 (V, D), trained in place."""

    def __init__(self, tables: dict[str, np.ndarray]) -> None:
        self.tables = tables

    def end_round(self) -> None:
        """Nobody to agree with."""

    def gather_result(self) -> dict[str, np.ndarray] | None:
        """The tables."""
        return self.tables
