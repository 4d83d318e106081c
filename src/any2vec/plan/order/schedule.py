"""The schedule of one host: epochs over its positions, cut into rounds (for agreements) and works (for records)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from any2vec.types import Round, Stretch, Work

PIECE_POSITIONS = 16_384
"""about this many positions make a piece: some milliseconds of one core"""
PIECE_COST = 25_000
"""multiply-adds of a position up to which pieces are that long; costlier models have shorter ones"""
WORK_SECONDS = 0.35
"""works grow or shrink to take about so long: a stop is soon heard, and threads seldom wait for each other"""
MOST_PIECES = 256
"""pieces of a work, per thread, at most"""

Range = tuple[int, int]


def piece_positions(unit: int, cost: int) -> int:
    """Positions of a piece: whole `unit`s (a block of tokens, a walk), fewer where one position has a high `cost`."""
    positions = PIECE_POSITIONS * PIECE_COST // max(PIECE_COST, cost)
    return max(1, positions // unit) * unit


@dataclass(frozen=True, kw_only=True)
class EpochSchedule:
    """Works over this host's positions [start, stop), epoch after epoch; cuts fall on multiples of `unit`.

    How many pieces make a work depends on the clock; what is learned does not, for rates and draws belong to positions.
    """

    start: int
    stop: int
    epochs: int
    unit: int
    """positions of a block, or of a walk: what a cut must leave whole"""
    piece: int
    """positions of a piece, a multiple of unit"""
    threads: int = 1
    rounds: int = 1
    """rounds of an epoch, the same number on every host"""
    length: int = 0
    """positions of the host that has most: rounds are cut as its are; 0: as this one's"""
    steps: int = 1
    """pieces into which each part of a round is cut, wherever works end besides"""
    first: tuple[int, int, int] = (0, 0, 0)
    """(epoch, rounds of it that are done, position) where a resumed run goes on; positions before it are done"""
    rest: tuple[Range, ...] | None = None
    """positions that are left of the first epoch, where another number of hosts went before; None: from `first` on"""
    rest_progress: float = 0.0
    """share of the first epoch, 0..1, that was done before the rest"""
    clock: Callable[[], float] = time.perf_counter

    def __iter__(self) -> Iterator[Work]:
        pieces = 1  # of each thread: the first works are small, for nobody knows yet how slow they are
        for epoch, round_ in self.all_rounds():
            parts = list(zip(round_.parts, round_.stretches, strict=True))
            parts = [part for part in parts if part[0][0] < part[0][1]] or parts[:1]
            for index, ((start, stop), stretch) in enumerate(parts):
                cuts = [_cut(start, stop, (stop - start) * step // self.steps, self.unit) for step in range(self.steps)]
                at, is_over = start, False
                while not is_over:
                    step = min((cut for cut in cuts if cut > at), default=stop)
                    end = min(step, (at // self.piece + pieces * self.threads) * self.piece) if at < stop else stop
                    is_over = end == stop
                    began = self.clock()
                    opens, closes = index == 0 and at == start, index == len(parts) - 1 and is_over
                    yield Work(epoch, at, end, stretch, round_, opens, closes, end == step and not closes)
                    if at < end:
                        pieces = _next_size(pieces, self.clock() - began)
                    at = end

    def all_rounds(self) -> Iterator[tuple[int, Round]]:
        """(epoch, round) after round; every host has as many. A host with nothing to do in a round has an empty one."""
        first_epoch, done, position = self.first
        for epoch in range(first_epoch, self.epochs):
            stretches, rounds = self._epoch(epoch)
            length = self.length if self.rest is None or epoch > first_epoch else 0
            for index, cut in enumerate(_rounds(stretches, rounds, self.unit, length)):
                if epoch == first_epoch and self.rest is None:
                    cut = tuple((max(start, min(position, stop)), stop) for start, stop in cut)
                if epoch > first_epoch or index >= done or self.rest is not None:
                    is_whole, is_last = self.rest is None or epoch > first_epoch, index == rounds - 1
                    yield epoch, Round(epoch * self.rounds + index, stretches, cut, is_whole, is_last)

    def _epoch(self, epoch: int) -> tuple[tuple[Stretch, ...], int]:
        """(stretches, rounds) of an epoch."""
        if epoch > self.first[0] or self.rest is None:
            return (Stretch(self.start, self.stop, epoch / self.epochs, (epoch + 1) / self.epochs),), self.rounds
        return self._rest(epoch), max(1, round(self.rounds * (1 - self.rest_progress)))

    def _rest(self, epoch: int) -> tuple[Stretch, ...]:
        """The rest of an epoch, over which progress goes evenly."""
        assert self.rest is not None
        total = sum(stop - start for start, stop in self.rest) or 1
        at, found = (epoch + self.rest_progress) / self.epochs, []
        for start, stop in self.rest or ((self.start, self.start),):
            end = at + (1 - self.rest_progress) / self.epochs * (stop - start) / total
            found.append(Stretch(start, stop, at, end))
            at = end
        found[-1] = replace(found[-1], progress_to=(epoch + 1) / self.epochs)  # in spite of rounding
        return tuple(found)


def _rounds(stretches: Sequence[Stretch], rounds: int, unit: int, length: int) -> Iterator[tuple[Range, ...]]:
    """Stretches cut into `rounds` nearly equal parts at multiples of unit: for each round one part of each stretch.

    length: what they are cut as if they had; 0: what they have.
    """
    total = length or sum(stretch.stop - stretch.start for stretch in stretches)
    for number in range(rounds):
        low, high = total * number // rounds, total * (number + 1) // rounds
        before, parts = 0, []
        for stretch in stretches:
            start, stop = stretch.start, stretch.stop
            parts.append((_cut(start, stop, low - before, unit), _cut(start, stop, high - before, unit)))
            before += stop - start
        yield tuple(parts)


def _cut(start: int, stop: int, at: int, unit: int) -> int:
    """The multiple of unit at or behind start + at, within [start, stop]; the ends themselves are legal cuts."""
    if at <= 0:
        return start
    return min(stop, -(-(start + at) // unit) * unit)


def _next_size(pieces: int, seconds: float) -> int:
    """Pieces of the next work after one of `pieces` took `seconds`: at most four times as many, 1..MOST_PIECES."""
    wanted = round(pieces * WORK_SECONDS / max(seconds, 1e-9))
    return max(1, min(wanted, 4 * pieces, MOST_PIECES))
