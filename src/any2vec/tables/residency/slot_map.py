"""Where ids stand: a hash map from ids to slots that lies in arrays."""

from __future__ import annotations

import numpy as np

from any2vec.kernels.cache.residency import EMPTY, drop_slots, find_slots, put_slots

_FEW = 16


class SlotMap:
    """int64 id (0 or more) -> int64 slot (0 or more); grows as it is filled, 16 to 64 bytes an id. Not thread-safe."""

    def __init__(self, expected: int = 0) -> None:
        """expected: ids for which it need not grow."""
        self._size = 0
        self._make(num_places(expected))

    def __len__(self) -> int:
        return self._size

    def find(self, id_N: np.ndarray) -> np.ndarray:
        """The slot of each id, int64 (N,), -1 where there is none."""
        slot_N = np.empty(len(id_N), np.int64)
        find_slots(self._key_H, self._slot_H, id_N, slot_N)
        return slot_N

    def put(self, id_N: np.ndarray, slot_N: np.ndarray) -> None:
        """Enter ids, or give those that are there another slot. int64 both."""
        if 2 * (self._size + len(id_N)) > len(self._key_H):
            key_H, slot_H = self._key_H, self._slot_H
            self._make(num_places(2 * (self._size + len(id_N))))
            put_slots(self._key_H, self._slot_H, key_H[key_H != EMPTY], slot_H[key_H != EMPTY])
        self._size += put_slots(self._key_H, self._slot_H, id_N, slot_N)

    def drop(self, id_N: np.ndarray) -> None:
        """Forget ids; those that are not there are passed over."""
        self._size -= drop_slots(self._key_H, self._slot_H, id_N)

    @property
    def num_bytes(self) -> int:
        return self._key_H.nbytes + self._slot_H.nbytes

    def _make(self, places: int) -> None:
        self._key_H, self._slot_H = np.full(places, EMPTY, np.int64), np.zeros(places, np.int64)


def num_places(ids: int) -> int:
    """A power of two, twice the ids or more."""
    return 1 << max(2 * ids - 1, _FEW - 1).bit_length()
