"""Time to live: a row stays until the last use that the look-ahead knows of (Bagpipe: Agarwal et al. 2023, SOSP)."""

from __future__ import annotations

import numpy as np

from any2vec.plan.lookahead.foresight import NEVER
from any2vec.tables.residency.foreseen import ForeseenUses


class TimeToLive(ForeseenUses):
    """Rows that no step to come is known to use give way, and no others; such rows do not come in, either."""

    def admit(self, id_N: np.ndarray, next_N: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
        order = np.flatnonzero(next_N != NEVER)
        return order, self.give_way(len(order) - room)

    def movable(self) -> np.ndarray:
        return super().movable() & (self.next_K == NEVER)
