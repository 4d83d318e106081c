"""TinyLFU (Einziger, Friedman, Manes 2017, "TinyLFU: A highly efficient cache admission policy").

Ours: the sketch holds only what is not resident, and a batch's rows are compared at once.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.sketch import MOST, raise_counts, read_counts
from any2vec.tables.residency.lfu import LeastFrequentlyUsed
from any2vec.tables.residency.slot_map import num_places

SKETCH_ROWS, SKETCH_CELLS = 4, 4
"""of the memory: rows, and cells of a row for each slot, rounded up to a power of two; a byte each"""
HALVED_AFTER = 64
"""uses, for each slot, after which all counts are halved, so that what was long ago fades"""


class TinyLfu(LeastFrequentlyUsed):
    """As lfu, but counts outlive a row's stay, in a sketch, and a new row passes by unless it has been used more often
    than the row that would give way."""

    def __init__(self, owner_K: np.ndarray, held_K: np.ndarray) -> None:
        super().__init__(owner_K, held_K)
        self._sketch_RH = np.zeros((SKETCH_ROWS, num_places(SKETCH_CELLS * self.capacity // 2)), np.uint8)
        self._uses = 0
        self._known_N = np.empty(0, np.int64)
        """uses of the rows that are about to come in"""

    def begin(self, id_U: np.ndarray) -> None:
        super().begin(id_U)
        self._uses += len(id_U)
        if self._uses >= HALVED_AFTER * self.capacity:
            self._uses = 0
            self._sketch_RH >>= 1
            self.count_K >>= 1

    def admit(self, id_N: np.ndarray, next_N: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
        count_N = np.zeros(len(id_N), np.int64)
        read_counts(self._sketch_RH, id_N, count_N)
        raise_counts(self._sketch_RH, id_N, count_N + 1, MOST)
        order, victims = super().admit(id_N, next_N, room)
        if room < len(id_N):
            order = np.argsort(-count_N, kind="stable")
            # The rarest against the most frequent new one, and so on.
            victims = victims[np.lexsort((victims, self.stamp_K[victims], self.count_K[victims]))]
            victims = victims[self.count_K[victims] < count_N[order[room:]][: len(victims)] + 1]
        self._known_N = count_N[order]
        return order, victims

    def enter(self, slot_N: np.ndarray, id_N: np.ndarray, next_N: np.ndarray) -> None:
        self.count_K[slot_N] = self._known_N[: len(slot_N)]

    def leave(self, slot_N: np.ndarray, id_N: np.ndarray) -> None:
        raise_counts(self._sketch_RH, id_N, self.count_K[slot_N], MOST)
        super().leave(slot_N, id_N)
