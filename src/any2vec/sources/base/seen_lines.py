"""The last lines that were new, by their keys: what comes again within a window is told.

Legend: N lines, W keys of the window, S slots.
"""

from __future__ import annotations

import numpy as np

from any2vec.checks import check_whole
from any2vec.errors import FormatError
from any2vec.kernels.text import lines as kernels
from any2vec.types import State

MOST_WINDOW = 1 << 30


class SeenLines:
    """Which keys are new among the last `window` new ones. Memory is fixed: 16 to 24 bytes a key.

    Two lines have the same key by chance with probability 2**-64: of a million lines and a window of a million, one is
    mistaken for another with probability 5e-8.

    Args:
        window: keys, 1..2**30.
    """

    def __init__(self, window: int) -> None:
        check_whole("window", window, 1, MOST_WINDOW)
        self._ring_W = np.zeros(window, np.uint64)
        self._slots_S = np.zeros(max(4, 1 << (2 * window - 1).bit_length()), np.uint32)
        self._count = 0

    @property
    def num_bytes(self) -> int:
        return self._ring_W.nbytes + self._slots_S.nbytes

    def fresh(self, key_N: np.ndarray) -> np.ndarray:
        """bool (N,): whether each key uint64 is not among the last `window` new ones before it. They are then known."""
        is_fresh_N = np.empty(len(key_N), bool)
        self._count = int(kernels.mark_fresh(key_N, self._ring_W, self._count, self._slots_S, is_fresh_N))
        return is_fresh_N

    def state_dict(self) -> State:
        """What `load_state_dict` takes: `keys` uint64, the oldest first."""
        window = len(self._ring_W)
        first = self._count % window if self._count > window else 0
        return {"keys": np.roll(self._ring_W, -first)[: min(self._count, window)]}

    def load_state_dict(self, state: State) -> None:
        """Go on as where `state_dict` was asked; with a smaller window, the oldest keys are forgotten.

        Raises:
            FormatError: it is no such state.
        """
        keys = np.asarray(state.get("keys", ()))
        if keys.dtype != np.uint64 or keys.ndim != 1:
            raise FormatError("The keys of lines seen must be uint64, in one row; the checkpoint is damaged.")
        self._count = 0
        self._slots_S[:] = 0
        self.fresh(keys[-len(self._ring_W) :])
