"""The way of one host's buffer through a run in which several hosts train one table, without ever sharing a partition.

The p partitions stand in 2 H groups for H hosts. In each round of an epoch a host owns two groups
(plan/order/groups.py), keeps them on its own disk and trains the buckets between them, some of their partitions in
memory at a time; in one of the rounds those within its groups, too. Then one group goes on to another host. Every
second epoch goes through the rounds backwards: so nothing travels between two epochs, and a bucket is trained by the
same host in all of them, which alone needs its triples.

Within a round as many partitions of one group as the buffer holds beside one stay, while those of the other pass them,
to and fro: each is trained as it arrives.

Source: buckets for several hosts, no two of which share a partition: PyTorch-BigGraph (Lerer et al., MLSys 2019,
section 4.2), where a server hands them out; here a plan does.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from any2vec.errors import InputError
from any2vec.plan.order.bucket_orders import Bucket, State, make_order
from any2vec.plan.order.buffer import AHEAD
from any2vec.plan.order.buffer_walk import START, Place, Position, Turn, left, renamed
from any2vec.plan.order.groups import Pair, tournament


class Use(NamedTuple):
    """A state of the buffer that holds a partition."""

    epoch: int
    state: int


@dataclass(frozen=True)
class Rounds:
    """Who owns which partitions when; the same for all hosts.

    Raises:
        InputError: there are fewer partitions than groups.
    """

    hosts: int
    partitions: int
    """twice the hosts at least; a multiple of that gives every host the same work"""
    epochs: int

    def __post_init__(self) -> None:
        if self.partitions < 2 * self.hosts:
            raise InputError(
                f"{self.hosts} hosts need {2 * self.hosts} partitions at least, two for each, got {self.partitions}."
            )

    @property
    def per_epoch(self) -> int:
        return 2 * self.hosts - 1

    @property
    def number(self) -> int:
        """Rounds of a run."""
        return self.epochs * self.per_epoch

    def index(self, number: int) -> int:
        """Which round of the tournament the round `number` of a run is."""
        epoch, place = divmod(number, self.per_epoch)
        return place if epoch % 2 == 0 else self.per_epoch - 1 - place

    def pair(self, number: int, rank: int) -> Pair:
        """The groups of a host in a round of the run."""
        return self._pairs[self.index(number)][rank]

    def members(self, group: int) -> tuple[int, ...]:
        """The partitions of a group."""
        first, stop = (self.partitions * (group + end) // (2 * self.hosts) for end in (0, 1))
        return tuple(range(first, stop))

    def owned(self, number: int, rank: int) -> tuple[int, ...]:
        """The partitions of a host in a round, ascending."""
        return tuple(sorted(part for group in self.pair(number, rank) for part in self.members(group)))

    def owner(self, number: int, part: int) -> int:
        """The host of a partition in a round."""
        return self._owners[self.index(number)][part]

    def given(self, number: int, rank: int) -> tuple[int, ...]:
        """The partitions that a host has had in the round before, and has no longer."""
        if number == 0:
            return ()
        return tuple(part for part in self.owned(number - 1, rank) if self.owner(number, part) != rank)

    def taken(self, number: int, rank: int) -> tuple[int, ...]:
        """The partitions that another host had in the round before."""
        if number == 0:
            return ()
        return tuple(part for part in self.owned(number, rank) if self.owner(number - 1, part) != rank)

    def host_of(self, bucket: Bucket) -> int:
        """Who trains a bucket, in all epochs."""
        return self._hosts[self._group_of[bucket[0]]][self._group_of[bucket[1]]]

    @cached_property
    def _pairs(self) -> tuple[tuple[Pair, ...], ...]:
        return tournament(self.hosts)

    @cached_property
    def _owners(self) -> list[dict[int, int]]:
        return [
            {part: rank for rank, pair in enumerate(pairs) for group in pair for part in self.members(group)}
            for pairs in self._pairs
        ]

    @cached_property
    def _group_of(self) -> dict[int, int]:
        return {part: group for group in range(2 * self.hosts) for part in self.members(group)}

    @cached_property
    def _hosts(self) -> list[dict[int, int]]:
        found: list[dict[int, int]] = [{} for _ in range(2 * self.hosts)]
        for pairs in self._pairs:
            for rank, (one, other) in enumerate(pairs):
                found[one][other] = found[other][one] = rank
        for rank, pair in enumerate(self._pairs[0]):
            for group in pair:
                found[group][group] = rank
        return found


@dataclass(frozen=True, kw_only=True)
class SharedWalk:
    """All turns of a host; iterate as often as you like.

    Raises:
        InputError: a number, or (iterating) the position to go on from, is not legal.
    """

    hosts: int
    rank: int
    partitions: int
    capacity: int
    """partitions that a host trains together, 2 and up"""
    epochs: int
    seed: int = 1
    ahead: int = AHEAD
    """blocks beside those of the capacity"""
    start: Position = START
    """where to go on: the beginning of a round"""

    order = "beta"
    """of the partitions within a round that trains all of them"""
    group = 0

    def __post_init__(self) -> None:
        if self.capacity < 2:
            raise InputError(f"A host holds 2 partitions at least, got {self.capacity}.")

    @cached_property
    def rounds(self) -> Rounds:
        return Rounds(self.hosts, self.partitions, self.epochs)

    @property
    def blocks(self) -> int:
        """Blocks of memory of a partition's size that the walk needs."""
        return self.capacity + self.ahead

    @cached_property
    def round_after(self) -> dict[Position, int]:
        """Where rounds end -> the number of the next one."""
        ends = {turn.round: turn.after for turn in self._turns()}
        return {position: number + 1 for number, position in ends.items()}

    def last_use(self, number: int, part: int) -> Use:
        """The last state of a round that holds a partition; the host has it no longer behind it."""
        return self._last_uses[number, part]

    def states_of(self, epoch: int) -> tuple[State, ...]:
        """Of an epoch, those of all hosts."""
        walks = (replace(self, rank=rank, start=START) for rank in range(self.hosts))
        turns = (turn for walk in walks for turn in walk._turns() if turn.epoch == epoch)
        return tuple(State(tuple(part for part, _ in turn.held), turn.buckets) for turn in turns)

    def __iter__(self) -> Iterator[Turn]:
        is_begun = False
        for turn in self._turns():
            if is_begun:
                yield turn
            elif (turn.epoch, turn.state, 0) == self.start:
                is_begun = True
                yield replace(turn, leaving=(), entering=turn.held)
        if not is_begun and self.start != (self.epochs, 0, 0):
            raise InputError(
                f"A run of {self.epochs} epochs has no round that begins at state {self.start.state} of epoch "
                f"{self.start.epoch}; go on with the settings that it began with."
            )

    @cached_property
    def _last_uses(self) -> dict[tuple[int, int], Use]:
        return {(turn.round, part): Use(turn.epoch, turn.state) for turn in self._turns() for part, _ in turn.held}

    def _turns(self) -> Iterator[Turn]:
        block_of: dict[int, int] = {}
        free = deque(range(self.blocks))
        for epoch in range(self.epochs):
            before: list[Bucket] = []
            state_number = 0
            for place in range(self.rounds.per_epoch):
                number = epoch * self.rounds.per_epoch + place
                states = list(self._states(number, tuple(sorted(block_of))))
                for index, state in enumerate(states):
                    leaving = left(block_of, state, free)
                    entering = tuple(Place(part, free.popleft()) for part in _new(state, block_of))
                    block_of |= dict(entering)
                    held = tuple(Place(part, block_of[part]) for part in sorted(block_of))
                    ends = place == self.rounds.per_epoch - 1 and index == len(states) - 1
                    yield Turn(epoch, state_number, held, leaving, entering, state.buckets, tuple(before), ends, number)
                    before += state.buckets
                    state_number += 1

    def _states(self, number: int, held: tuple[int, ...]) -> Iterator[State]:
        """Of a round; held: partitions that are in memory before it."""
        rng = random.Random(f"shared:{self.seed}:{number}:{self.rank}")
        one, other = (self.rounds.members(group) for group in self.rounds.pair(number, self.rank))
        if self.rounds.index(number) == 0:
            return self._whole(sorted((*one, *other)), number, held)
        if len(set(other) & set(held)) > len(set(one) & set(held)):
            one, other = other, one
        return _passing(_first(one, held, rng), _first(other, held, rng), self.capacity, held)

    def _whole(self, parts: Sequence[int], number: int, held: tuple[int, ...]) -> Iterator[State]:
        """All buckets of some partitions."""
        capacity = min(self.capacity, len(parts))
        order = make_order(self.order, len(parts), capacity, self.seed, number)
        order = renamed(order, tuple(parts.index(part) for part in held if part in parts)[:capacity])
        for state in order.states:
            buckets = tuple((parts[i], parts[j]) for i, j in state.buckets)
            yield State(tuple(parts[slot] for slot in state.held), buckets)


def _passing(staying: list[int], passing: list[int], capacity: int, held: tuple[int, ...]) -> Iterator[State]:
    """The buckets between two groups."""
    size = min(len(staying), capacity - 1)
    room = capacity - size
    there = deque(part for part in passing if part in held)
    while len(there) > room:
        there.pop()
    state = State((), ())
    for first in range(0, len(staying), size):
        chunk = staying[first : first + size]
        for part in passing:
            if part not in there:
                if len(there) == room:
                    there.popleft()
                there.append(part)
            buckets = tuple(bucket for one in chunk for bucket in ((one, part), (part, one)))
            now = (*chunk, *there)
            if state.held == now:
                state = State(now, state.buckets + buckets)
                continue
            if state.held:
                yield state
            state = State(now, buckets)
        passing = passing[::-1]  # those that are there come first
    yield state


def _first(parts: Sequence[int], held: tuple[int, ...], rng: random.Random) -> list[int]:
    """Some partitions in any order, but first those that are held."""
    drawn = rng.sample(parts, len(parts))
    return sorted(drawn, key=lambda part: part not in held)


def _new(state: State, block_of: dict[int, int]) -> list[int]:
    return sorted(set(state.held) - set(block_of))
