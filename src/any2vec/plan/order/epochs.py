"""The schedule of one host: epochs over its positions, cut into rounds (for agreements), parts, and pieces.

It asks no clock: where pieces end depends on the positions, the rounds and the place where a run went on alone. So
anybody can look ahead of it; who wants longer works takes adjacent pieces together (`train.loop.paced`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from any2vec.plan.order.shares import Range, keep_rest, share_rest
from any2vec.types import ProgressLine, Round, Span, Work

PIECE_POSITIONS = 16_384
"""about this many positions make a piece: some milliseconds of one core"""
PIECE_COST = 25_000
"""multiply-adds of a position up to which pieces are that long; costlier models have shorter ones"""


def piece_positions(unit: int, cost: int) -> int:
    """Positions of a piece: whole `unit`s (a block of tokens, a walk), fewer where one position has a high `cost`."""
    positions = PIECE_POSITIONS * PIECE_COST // max(PIECE_COST, cost)
    return max(1, positions // unit) * unit


@dataclass(frozen=True, slots=True)
class _Part:
    """Positions that works do not go beyond."""

    start: int
    stop: int
    line: ProgressLine
    round: Round
    step: int
    """pieces of the epoch before it"""
    opens_round: bool
    ends_round: bool
    ends_epoch: bool


@dataclass(kw_only=True)
class EpochSchedule:
    """Works over one host's positions, epoch after epoch; cuts fall on multiples of `unit`, pieces' ends on those of
    `piece`. A `Schedule[Span]`.
    """

    bounds: Sequence[int]
    """host h trains positions [bounds[h], bounds[h + 1]) of an epoch"""
    rank: int = 0
    epochs: int
    unit: int
    """positions of a block, or of a walk: what a cut must leave whole"""
    piece: int
    """positions of a piece, a multiple of unit"""
    rounds: int = 1
    """rounds of an epoch, the same number on every host"""
    parts: int = 1
    """into which each span of a round is cut: pieces end there besides"""
    is_stepwise: bool = False
    """a part ends behind each piece, and none are taken together"""
    in_lockstep: bool = False
    """rounds are cut as those of the host that has most: all have the same steps in each but the last of an epoch"""
    boundary: Callable[[int], int] | None = None
    """position -> the first legal cut at or behind it, where hosts share out what others have left of an epoch; None:
    no host reads beyond its bounds"""
    is_whole: bool = field(default=True, init=False)
    """the epoch at hand began on as many hosts as there are now"""
    _epoch: int = field(default=0, init=False)
    """of the last work that was given; of the first one where none was"""
    _done: int = field(default=0, init=False)
    """rounds of it that are done"""
    _parts: list[_Part] = field(init=False, repr=False)
    _index: int = field(default=0, init=False)
    """of the part that comes next, or goes on"""
    _at: int = field(default=0, init=False)
    """where in it"""
    _base: int = field(default=0, init=False)
    """number of the epoch's first step"""

    def __post_init__(self) -> None:
        self._enter(0)

    def __iter__(self) -> Iterator[Work[Span]]:
        while (work := self.take(1)) is not None:
            yield work

    def take(self, steps: int) -> Work[Span] | None:
        """The next work: adjacent pieces, `steps` of them or as many as there are before a cut; None: there is none."""
        if self._index == len(self._parts):
            if self._epoch + 1 >= self.epochs:
                return None
            self._enter(self._epoch + 1)
        part, start = self._parts[self._index], self._at
        end = min(part.stop, (start // self.piece + (1 if self.is_stepwise else steps)) * self.piece)
        is_over = end == part.stop
        ends_round = is_over and part.ends_round
        work = Work(
            Span(start, end, part.line), self._epoch, part.round, part.line.progress(end),
            part.opens_round and start == part.start, ends_round, (is_over or self.is_stepwise) and not ends_round,
            is_over and part.ends_epoch, self._base + part.step + start // self.piece - part.start // self.piece,
        )  # fmt: skip
        self._done = part.round.number - self._epoch * self.rounds + ends_round
        if is_over:
            self._index += 1
        self._at = end if not is_over else self._start_of(self._index)
        return work

    def peek(self, steps: int) -> list[Work[Span]]:
        """The next pieces, `steps` of them or all that are left."""
        found: list[Work[Span]] = []
        ahead = copy(self)
        while len(found) < steps and (work := ahead.take(1)) is not None:
            found.append(work)
        return found

    def rounds_ahead(self) -> Iterator[tuple[int, Round]]:
        """(epoch, round) after round that is to open from here on; every host has as many. Nothing is consumed."""
        return copy(self)._rounds()

    @cached_property
    def steps_per_epoch(self) -> int:
        """Pieces of an epoch; in lockstep those of the host that has most."""
        sizes = [stop - start for start, stop in pairwise(self.bounds)]
        rank = sizes.index(max(sizes)) if self.in_lockstep else self.rank
        last = self._whole(0, rank)[-1]
        return last.step + _pieces(last.start, last.stop, self.piece)

    @property
    def num_steps(self) -> int:
        """Of a run that never stops."""
        return self.epochs * self.steps_per_epoch

    @property
    def step(self) -> int:
        """Number of the piece that comes next."""
        if self._index == len(self._parts):
            return (self._epoch + 1) * self.steps_per_epoch
        part = self._parts[self._index]
        return self._base + part.step + self._at // self.piece - part.start // self.piece

    def span_at(self, step: int) -> Span:
        """The positions of a step, whether it is done or to come; none behind the host's last step of an epoch."""
        epoch = step // self.steps_per_epoch
        is_now = epoch == self._epoch
        parts = self._parts if is_now else self._whole(epoch, self.rank)
        number = step - (self._base if is_now else epoch * self.steps_per_epoch)
        part = parts[max(0, bisect_right(parts, number, key=lambda one: one.step) - 1)]
        cell = part.start // self.piece + number - part.step
        start = min(max(part.start, cell * self.piece), part.stop)
        return Span(start, min((cell + 1) * self.piece, part.stop), part.line)

    def left(self) -> list[Range]:
        """Positions that this host has left of the epoch, behind the last work that was given."""
        for index in range(self._index, len(self._parts)):
            part = self._parts[index]
            at = self._at if index == self._index else part.start
            if at < part.stop:
                lines = [span.line for span in part.round.spans]
                behind = lines[lines.index(part.line) + 1 :]
                return [(at, part.line.stop), *((line.start, line.stop) for line in behind)]
        return []

    def state_dict(self, rest: Sequence[Sequence[Range]] | None = None) -> dict[str, Any]:
        """Where the run stands, behind the last work that was given: JSON, free of the number of hosts.

        rest: what each host has left of the epoch (`left`), by rank; None: this host is the only one.
        """
        rest = [self.left()] if rest is None else rest
        place = {"epoch": self._epoch, "rounds_done": self._done, "rounds": self.rounds, "is_whole": self.is_whole}
        if not any(rest):
            return place | {"epoch": self._epoch + 1, "rounds_done": 0, "rest": (), "is_whole": True}
        return place | {"rest": tuple(tuple(map(tuple, ranges)) for ranges in rest)}

    def load_state_dict(self, state: Mapping[str, Any], hosts: int) -> None:
        """Go on from `state_dict`, of a run on whatever number of hosts.

        hosts: that train now, those of the first ranks; with another number than before, or in other chunks, they share
        out what is left of the epoch.

        Raises:
            InputError: they cannot, for no host reads beyond its bounds.
        """
        epoch, rest = state["epoch"], [[(start, stop) for start, stop in ranges] for ranges in state["rest"]]
        if not any(rest):
            self._enter(epoch)
        elif self._is_alike(state, rest):
            own = rest[self.rank]
            position = own[0][0] if own else self.bounds[self.rank + 1]
            self._enter(epoch, self._whole(epoch, self.rank, state["rounds_done"], position))
            self._done = state["rounds_done"]
        else:
            self._share(epoch, rest, hosts)

    def _rounds(self) -> Iterator[tuple[int, Round]]:
        while True:
            yield from ((self._epoch, part.round) for part in self._parts[self._index :] if part.opens_round)
            if self._epoch + 1 >= self.epochs:
                return
            self._enter(self._epoch + 1)

    def _is_alike(self, state: Mapping[str, Any], rest: Sequence[Sequence[Range]]) -> bool:
        """Whether these hosts, with these bounds and rounds, have begun the epoch."""
        if not state["is_whole"] or state["rounds"] != self.rounds or len(rest) != len(self.bounds) - 1:
            return False
        return all(not left or left[-1][1] == end for left, end in zip(rest, self.bounds[1:], strict=True))

    def _share(self, epoch: int, rest: Sequence[Sequence[Range]], hosts: int) -> None:
        """Take this host's share of what others have left of an epoch; progress goes evenly over it."""
        if self.boundary is None:
            own = keep_rest(rest, self.bounds)[self.rank]
        elif self.rank < hosts:
            own = share_rest([range_ for ranges in rest for range_ in ranges], hosts, self.boundary)[self.rank]
        else:
            own = ()
        left = sum(stop - start for ranges in rest for start, stop in ranges) / (self.bounds[-1] - self.bounds[0])
        done = 1.0 - left
        total = sum(stop - start for start, stop in own) or 1
        at, lines = (epoch + done) / self.epochs, []
        for start, stop in own or ((self.bounds[self.rank],) * 2,):
            end = at + (1 - done) / self.epochs * (stop - start) / total
            lines.append(ProgressLine(start, stop, at, end))
            at = end
        lines[-1] = replace(lines[-1], progress_to=(epoch + 1) / self.epochs)  # in spite of rounding
        self._enter(epoch, self._cut(lines, max(1, round(self.rounds * (1 - done))), 0, epoch))
        self.is_whole = False
        last = self._parts[-1]
        steps = last.step + _pieces(last.start, last.stop, self.piece)
        self._base = max(epoch * self.steps_per_epoch, (epoch + 1) * self.steps_per_epoch - steps)

    def _enter(self, epoch: int, parts: list[_Part] | None = None) -> None:
        """Stand before an epoch's first work; parts: None: those of a whole epoch; none where the run is over."""
        self._epoch, self._done, self.is_whole, self._index = epoch, 0, True, 0
        self._base = epoch * self.steps_per_epoch
        if parts is None:
            parts = self._whole(epoch, self.rank) if epoch < self.epochs else []
        self._parts = parts
        self._at = self._start_of(0)

    def _start_of(self, index: int) -> int:
        return self._parts[index].start if index < len(self._parts) else 0

    def _whole(self, epoch: int, rank: int, done: int = 0, position: int | None = None) -> list[_Part]:
        """The parts of an epoch that began on these hosts, from round `done` and a position on."""
        start, stop = self.bounds[rank : rank + 2]
        line = ProgressLine(start, stop, epoch / self.epochs, (epoch + 1) / self.epochs)
        return self._cut([line], self.rounds, self._length, epoch, done, position)

    def _cut(
        self, lines: Sequence[ProgressLine], rounds: int, length: int, epoch: int = 0, done: int = 0,
        position: int | None = None,
    ) -> list[_Part]:  # fmt: skip
        """The parts of an epoch, from round `done` and a position on; there is one, if an empty one, in each round.

        length: of the epoch that is cut into rounds; 0: that of the lines.
        """
        found, step = [], 0
        for number, spans in enumerate(self._spans(lines, rounds, length)):
            numbered: list[tuple[int, int, ProgressLine, int]] = []
            for span in spans:
                for start, stop in self._parts_of(span):
                    at = start if position is None else min(max(start, position), stop)
                    numbered.append((at, stop, span.line, step + at // self.piece - start // self.piece))
                    step += _pieces(start, stop, self.piece)
            if number < done:
                continue
            if position is not None:
                spans = tuple(replace(span, start=max(span.start, min(position, span.stop))) for span in spans)
            whole = Round(epoch * self.rounds + number, spans)
            numbered = [one for one in numbered if one[0] < one[1]] or numbered[:1]
            for index, one in enumerate(numbered):
                is_last = index == len(numbered) - 1
                ends_epoch = is_last and number == rounds - 1
                found.append(_Part(*one[:3], whole, one[3], index == 0, is_last, ends_epoch))
        return found

    def _spans(self, lines: Sequence[ProgressLine], rounds: int, length: int) -> Iterator[tuple[Span, ...]]:
        """For each of `rounds` nearly equal rounds the span of each line, cut at multiples of unit."""
        total = length or sum(line.stop - line.start for line in lines)
        for number in range(rounds):
            low, high = total * number // rounds, total * (number + 1) // rounds
            before, spans = 0, []
            for line in lines:
                start, stop = (_cut(line.start, line.stop, at - before, self.unit) for at in (low, high))
                spans.append(Span(start, stop, line))
                before += line.stop - line.start
            yield tuple(spans)

    def _parts_of(self, span: Span) -> list[Range]:
        """A span of a round, cut into `parts` nearly equal ones."""
        size = span.stop - span.start
        cuts = {_cut(span.start, span.stop, size * part // self.parts, self.unit) for part in range(self.parts)}
        return list(pairwise(sorted(cuts | {span.stop}))) or [(span.start, span.stop)]

    @property
    def _length(self) -> int:
        """Positions of an epoch as rounds are cut."""
        if not self.in_lockstep:
            return 0
        return max(-(-(stop - start) // self.unit) for start, stop in pairwise(self.bounds)) * self.unit


def _cut(start: int, stop: int, at: int, unit: int) -> int:
    """The multiple of unit at or behind start + at, within [start, stop]; the ends themselves are legal cuts."""
    if at <= 0:
        return start
    return min(stop, -(-(start + at) // unit) * unit)


def _pieces(start: int, stop: int, piece: int) -> int:
    """Pieces of positions [start, stop)."""
    return -(-stop // piece) - start // piece if start < stop else 0
