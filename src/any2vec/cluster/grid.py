"""Grids: numbers that are one of a few sorted values travel as the place of theirs, in 8 or 16 bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from any2vec.cluster.message import Part
from any2vec.errors import InputError, MessageError

MOST_VALUES = 1 << 16


class Grid:
    """Sorted values, 2 to 65,536 of them.

    Args:
        values: finite, ascending, float32 (G,).
        step: distance of neighbors, where all have the same: places are then computed instead of searched.

    Raises:
        InputError: they are not.
    """

    def __init__(self, values: np.ndarray | Sequence[float], step: float | None = None) -> None:
        with np.errstate(over="ignore"):
            values_G = np.asarray(values, np.float32)
        if values_G.ndim != 1 or not 2 <= values_G.size <= MOST_VALUES:
            raise InputError(f"A grid has 2 to {MOST_VALUES:,} values, got {values_G.size:,}.")
        if not np.isfinite(values_G).all() or (np.diff(values_G) <= 0).any():
            raise InputError("The values of a grid must be finite and ascending, each once, in float32.")
        self.values_G = values_G
        self._step = step
        self._middles = (values_G[1:].astype(np.float64) + values_G[:-1]) / 2

    @property
    def code(self) -> type[np.uint8] | type[np.uint16]:
        """What a place is packed into."""
        return np.uint8 if self.values_G.size <= 1 << 8 else np.uint16

    def places(self, array: np.ndarray) -> np.ndarray:
        """The place of the nearest value of each number (of any of them, right between two), `code`."""
        if self._step is not None:
            place = np.rint((array - array.dtype.type(self.values_G[0])) * array.dtype.type(1 / self._step))
            return place.clip(0, self.values_G.size - 1).astype(self.code)
        return np.searchsorted(self._middles, array).astype(self.code)

    def nearest(self, array: np.ndarray) -> np.ndarray:
        """The nearest value of each number, of the array's dtype."""
        return self.values_G.astype(array.dtype)[self.places(array)]

    def pack(self, array: np.ndarray) -> Part:
        """The part that carries numbers which are values of this grid: 1 or 2 bytes each."""
        return Part("dense", self.places(array))

    def unpack(self, part: Part, dtype: type[np.floating]) -> np.ndarray:
        """What `pack` put in.

        Raises:
            MessageError: these are no places on this grid.
        """
        code = part.array
        if code.dtype != self.code or (code.size and int(code.max()) >= self.values_G.size):
            raise MessageError(f"A host sent {code.dtype} where places on a grid of {self.values_G.size} were due.")
        return self.values_G.astype(dtype)[code]


def even_grid(bits: int, low: float, high: float) -> Grid:
    """2^bits values at equal distances from low to high, which are among them."""
    return Grid(np.linspace(low, high, 1 << bits), (high - low) / ((1 << bits) - 1))
