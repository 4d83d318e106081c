"""The rows whose next use is farthest give way (Belady 1966, IBM Systems Journal 5(2); Ginex: Park et al. 2022, PVLDB
15(11)), which misses least of all policies as far as the look-ahead goes. A batch comes in at once."""

from __future__ import annotations

import numpy as np

from any2vec.tables.residency.foreseen import ForeseenUses


class Belady(ForeseenUses):
    """A new row passes by unless it is used before the row that would give way."""

    def admit(self, id_N: np.ndarray, next_N: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
        order, victims = np.argsort(next_N, kind="stable"), self.give_way(len(id_N) - room)
        # The soonest against the one used last, and so on.
        return order, victims[next_N[order[room:]][: len(victims)] < self.next_K[victims]]
