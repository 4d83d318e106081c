"""The schedule: epochs over an axis of positions, cut into pieces (for threads) and works (for records)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from any2vec.types import Work

PIECE_POSITIONS = 16_384
"""about this many positions make a piece: some milliseconds of one core"""
PIECE_COST = 25_000
"""multiply-adds of a position up to which pieces are that long; costlier models have shorter ones"""
WORK_SECONDS = 0.35
"""works grow or shrink to take about so long: a stop is soon heard, and threads seldom wait for each other"""
MOST_PIECES = 256
"""pieces of a work, per thread, at most"""


@dataclass(frozen=True, kw_only=True)
class EpochSchedule:
    """Works over positions [0, num_positions), epoch after epoch; every cut falls on a multiple of `piece`.

    How many pieces make a work depends on the clock; what is learned does not, for a learner goes piece by piece.
    """

    num_positions: int
    epochs: int
    piece: int
    """positions of a piece; the grid of pieces depends on data and model alone, never on threads, works or hosts"""
    threads: int = 1
    first: tuple[int, int] = (0, 0)
    """(epoch, position) where a resumed run goes on"""
    clock: Callable[[], float] = time.perf_counter

    @classmethod
    def plan(
        cls, num_positions: int, epochs: int, unit: int, threads: int, first: tuple[int, int] = (0, 0), cost: int = 1
    ) -> EpochSchedule:
        """Pieces of whole `unit`s (a block of tokens, a walk), shorter where one position has a high `cost`."""
        positions = PIECE_POSITIONS * PIECE_COST // max(PIECE_COST, cost)
        piece = max(1, positions // unit) * unit
        return cls(num_positions=num_positions, epochs=epochs, piece=piece, threads=threads, first=first)

    def __iter__(self) -> Iterator[Work]:
        first_epoch, start = self.first
        pieces, number = 1, 0  # of each thread: the first works are small, for nobody knows yet how slow they are
        for epoch in range(first_epoch, self.epochs):
            while start < self.num_positions:
                stop = min(start + pieces * self.threads * self.piece, self.num_positions)
                began = self.clock()
                yield Work(epoch, number, start, stop, self.progress(epoch, start), self.progress(epoch, stop))
                pieces = _next_size(pieces, self.clock() - began)
                start, number = stop, number + 1
            start = 0

    def progress(self, epoch: int, position: int) -> float:
        """Share of the whole run, 0..1, that lies before a position of an epoch."""
        return (epoch + position / max(1, self.num_positions)) / self.epochs


def _next_size(pieces: int, seconds: float) -> int:
    """Pieces of the next work after one of `pieces` took `seconds`: at most four times as many, 1..MOST_PIECES."""
    wanted = round(pieces * WORK_SECONDS / max(seconds, 1e-9))
    return max(1, min(wanted, 4 * pieces, MOST_PIECES))
