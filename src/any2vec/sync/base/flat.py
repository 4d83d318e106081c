"""Tables as one flat array of numbers, for agreements on replicas; a dense vector is a table of one row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from any2vec.plan.sharding.sharding import contiguous_bounds


class Piece(NamedTuple):
    """Whole rows of one table, within a slice of the flat array."""

    table: str
    first: int
    """of the rows"""
    place: slice
    """in that slice"""
    columns: int
    width: int
    """columns of values; those behind it are states of an optimizer"""

    @property
    def stop(self) -> int:
        """Behind the last row."""
        return self.first + (self.place.stop - self.place.start) // self.columns


@dataclass(frozen=True)
class Flat:
    """Tables one behind the other, row by row."""

    shapes: Mapping[str, tuple[int, int]]
    """name -> (rows, columns)"""
    widths: Mapping[str, int]
    """name -> columns of values"""

    @classmethod
    def vector(cls, size: int) -> Flat:
        """That of a dense vector."""
        return cls({"dense": (1, size)}, {"dense": size})

    @property
    def size(self) -> int:
        """Numbers in all."""
        return sum(rows * columns for rows, columns in self.shapes.values())

    def views(self, value_Q: np.ndarray) -> dict[str, np.ndarray]:
        """The tables of a flat array, by name."""
        found, at = {}, 0
        for name, (rows, columns) in self.shapes.items():
            found[name] = value_Q[at : at + rows * columns].reshape(rows, columns)
            at += rows * columns
        return found

    def bounds(self, owners: int) -> list[int]:
        """owners + 1 cuts between rows, so that owners have about equally many rows."""
        cuts = contiguous_bounds(sum(rows for rows, _ in self.shapes.values()), owners)
        return [self._numbers_before(cut) for cut in cuts]

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """What lies between two cuts."""
        at = 0
        for name, (rows, columns) in self.shapes.items():
            low, high = (min(max(cut - at, 0) // columns, rows) for cut in (start, stop))
            if low < high:
                begin = at + low * columns - start
                yield Piece(name, low, slice(begin, begin + (high - low) * columns), columns, self.widths[name])
            at += rows * columns

    def _numbers_before(self, row: int) -> int:
        found = 0
        for rows, columns in self.shapes.values():
            found += min(row, rows) * columns
            row = max(0, row - rows)
        return found
