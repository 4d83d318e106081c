"""The way of a buffer of partitions through a run: which partitions it holds, where, what enters and what leaves.

An epoch goes through the states of an order of buckets (plan/order/bucket_orders.py). The next epoch's order is taken
under other names of the partitions, so that it begins with those that the buffer holds: then every epoch but the first
reads as many partitions as its order has swaps. A partition is read into the block that has been free for longest:
which block that is depends on no clock, so that a run that goes on where another was killed has the same blocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from any2vec.errors import InputError
from any2vec.plan.order.bucket_orders import Bucket, BucketOrder, State, make_order
from any2vec.plan.order.buffer import AHEAD


class Place(NamedTuple):
    """A partition, and the block of the buffer that has it."""

    part: int
    block: int


class Position(NamedTuple):
    """Where a run stands: what it has done before."""

    epoch: int = 0
    state: int = 0
    """of the epoch's order"""
    done: int = 0
    """triples of the state that are trained"""


START = Position()


@dataclass(frozen=True)
class Turn:
    """One state of the buffer, and what it takes to come there."""

    epoch: int
    state: int
    held: tuple[Place, ...]
    """by partition"""
    leaving: tuple[Place, ...]
    """of the state before"""
    entering: tuple[Place, ...]
    buckets: tuple[Bucket, ...]
    """that are trained now"""
    before: tuple[Bucket, ...]
    """that were trained earlier in the epoch"""
    ends_epoch: bool
    round: int = 0
    """of several hosts (plan/order/shared_walk.py), counted through the run"""

    @property
    def after(self) -> Position:
        """Where a run stands behind it."""
        return Position(self.epoch + 1) if self.ends_epoch else Position(self.epoch, self.state + 1)

    @property
    def block_of(self) -> Mapping[int, int]:
        """Partition -> block."""
        return dict(self.held)


@dataclass(frozen=True, kw_only=True)
class BufferWalk:
    """All turns of a run; iterate as often as you like.

    Raises:
        InputError: (iterating) an order, a number, or the position to go on from is not legal.
    """

    order: str
    """one of bucket_orders.ORDERS"""
    partitions: int
    capacity: int
    """partitions that are trained together"""
    epochs: int
    seed: int = 1
    group: int = 0
    """of comet; 0: as `make_order` has it"""
    ahead: int = AHEAD
    """blocks beside those of the capacity, for partitions that come and go meanwhile; 0: training waits for each"""
    start: Position = START
    """where to go on"""

    @property
    def blocks(self) -> int:
        """Blocks of memory of a partition's size that the walk needs."""
        return self.capacity + (0 if self.capacity == self.partitions else self.ahead)

    def orders(self) -> Iterator[BucketOrder]:
        """Each epoch's order."""
        held: tuple[int, ...] = ()
        for epoch in range(self.epochs):
            order = make_order(self.order, self.partitions, self.capacity, self.seed, epoch, self.group)
            order = renamed(order, held) if held else order
            held = order.states[-1].held
            yield order

    def states_of(self, epoch: int) -> tuple[State, ...]:
        """Of an epoch."""
        return next(islice(self.orders(), epoch, None)).states

    def __iter__(self) -> Iterator[Turn]:
        block_of: dict[int, int] = {}
        free = deque(range(self.blocks))
        is_begun = False
        for epoch, order in enumerate(self.orders()):
            before: list[Bucket] = []
            for number, state in enumerate(order.states):
                leaving, ends = left(block_of, state, free), number == len(order.states) - 1
                entering = tuple(Place(part, free.popleft()) for part in sorted(set(state.held) - set(block_of)))
                block_of |= dict(entering)
                if is_begun or (epoch, number) == self.start[:2]:
                    held = tuple(Place(part, block_of[part]) for part in sorted(block_of))
                    first = (held, ()) if not is_begun else (entering, leaving)
                    yield Turn(epoch, number, held, first[1], first[0], state.buckets, tuple(before), ends)
                    is_begun = True
                before += state.buckets
        if not is_begun and self.start != (self.epochs, 0, 0):
            raise InputError(
                f"A run of {self.epochs} epochs has no state {self.start.state} in epoch {self.start.epoch}; go on "
                "with the settings that it began with."
            )


def renamed(order: BucketOrder, held: tuple[int, ...]) -> BucketOrder:
    """The same order with other names of the partitions, so that it begins with those held."""
    names = dict(zip(order.states[0].held, held, strict=False))  # a few orders begin with less than a full buffer
    rest = (part for part in range(order.partitions) if part not in names)
    free = sorted(set(range(order.partitions)) - set(names.values()))
    names |= dict(zip(rest, free, strict=True))
    states = tuple(
        State(tuple(names[part] for part in state.held), tuple((names[i], names[j]) for i, j in state.buckets))
        for state in order.states
    )
    return BucketOrder(order.partitions, order.capacity, states)


def left(block_of: dict[int, int], state: State, free: deque[int]) -> tuple[Place, ...]:
    """Who leaves; they are no longer in `block_of`, and their blocks are free behind all that are."""
    leaving = tuple(Place(part, block_of[part]) for part in sorted(set(block_of) - set(state.held)))
    for part, block in leaving:
        del block_of[part]
        free.append(block)
    return leaving
