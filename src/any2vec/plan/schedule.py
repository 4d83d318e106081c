"""The schedule: epochs over an axis of positions, cut into pieces (for threads) and works (for records)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from any2vec.types import Work

PIECE_POSITIONS = 16_384
"""about this many positions make a piece: some milliseconds of one core"""
PIECES_PER_WORK = 64
"""pieces of a work, per thread: about a third of a second, so that a stop is soon heard"""


@dataclass(frozen=True, kw_only=True)
class EpochSchedule:
    """Works over positions [0, num_positions), epoch after epoch; every cut falls on a multiple of `piece`."""

    num_positions: int
    epochs: int
    piece: int
    """positions of a piece; the grid of pieces depends on the data alone, never on threads, works or hosts"""
    work: int
    """positions of a work, a multiple of piece"""
    first: tuple[int, int] = (0, 0)
    """(epoch, position) where a resumed run goes on"""

    @classmethod
    def plan(
        cls, num_positions: int, epochs: int, unit: int, threads: int, first: tuple[int, int] = (0, 0)
    ) -> EpochSchedule:
        """Pieces of whole `unit`s (a block of tokens, a walk). Pure; O(1)."""
        piece = max(1, PIECE_POSITIONS // unit) * unit
        work = piece * PIECES_PER_WORK * threads
        return cls(num_positions=num_positions, epochs=epochs, piece=piece, work=work, first=first)

    def __iter__(self) -> Iterator[Work]:
        first_epoch, start = self.first
        for epoch in range(first_epoch, self.epochs):
            while start < self.num_positions:
                stop = min(start + self.work, self.num_positions)
                yield Work(
                    epoch, start // self.work, start, stop, self.progress(epoch, start), self.progress(epoch, stop)
                )
                start = stop
            start = 0

    def progress(self, epoch: int, position: int) -> float:
        """Share of the whole run, 0..1, that lies before a position of an epoch."""
        return (epoch + position / max(1, self.num_positions)) / self.epochs
