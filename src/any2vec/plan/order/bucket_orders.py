"""In which order buckets of edges are trained, while a buffer holds some of a table's partitions.

Nodes stand in p partitions; bucket (i, j) has the edges from partition i to partition j, and is trained while both are
in the buffer, which holds c partitions. An order is a list of states of the buffer, each with the buckets that it
trains; the fewer partitions differ from state to state, the less is read and written.

Sources: BETA: Marius (Mohoney et al., OSDI 2021). COMET: MariusGNN (Waleffe et al., EuroSys 2023). Inside-out and
affinity: PyTorch-BigGraph (Lerer et al., MLSys 2019). What an order of buckets alone leaves open, which partition makes
room, is Belady's choice: the one whose next use is farthest.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from any2vec.errors import InputError

ORDERS = ("beta", "comet", "hilbert", "hilbert-symmetric", "inside-out", "affinity", "row-major", "random")
Bucket = tuple[int, int]


class State(NamedTuple):
    """The buffer between two swaps."""

    held: tuple[int, ...]
    """partition in each slot; a partition keeps its slot while it stays"""
    buckets: tuple[Bucket, ...]
    """what is trained now"""


@dataclass(frozen=True)
class BucketOrder:
    """One epoch over all p * p buckets."""

    partitions: int
    capacity: int
    """partitions that the buffer holds"""
    states: tuple[State, ...]

    @property
    def swaps(self) -> int:
        """Partitions that are read after the buffer was filled for the first time."""
        return sum(len(set(after.held) - set(before.held)) for before, after in pairwise(self.states))

    @property
    def loads(self) -> int:
        """Partitions that are read, the first ones included."""
        return len(self.states[0].held) + self.swaps


def make_order(name: str, partitions: int, capacity: int, seed: int = 1, epoch: int = 0, group: int = 0) -> BucketOrder:
    """An epoch's order; a pure function of its arguments.

    Args:
        name: one of ORDERS.
        capacity: 2..partitions; 1 where there is one partition.
        group: comet: partitions that are swapped together, a divisor of partitions and capacity that leaves at least
            two groups in the buffer; 0: 2 where it can be, else 1.

    Raises:
        InputError: a name or a number is not legal.
    """
    if name not in ORDERS:
        raise InputError(f"The order of buckets must be one of {', '.join(ORDERS)}, got {name!r}.")
    if not min(2, partitions) <= capacity <= partitions:
        raise InputError(
            f"A buffer for {partitions} partitions holds from {min(2, partitions)} to {partitions} of them, got "
            f"{capacity}."
        )
    rng = random.Random(f"{name}:{seed}:{epoch}")
    states: Iterable[State]
    if name == "beta":
        states = _first_fit(beta_buffers(partitions, capacity, rng), partitions)
    elif name == "comet":
        states = _comet(partitions, capacity, group or _group_of(partitions, capacity), rng)
    else:
        states = _with_belady(list(_sequence(name, partitions, rng)), capacity)
    return BucketOrder(partitions, capacity, tuple(states))


def beta_swaps(partitions: int, capacity: int) -> int:
    """Swaps of BETA in closed form: with d = p - c and x = floor(d / (c - 1)), (x + 1) (d - x (c - 1) / 2) + d."""
    if partitions == capacity:
        return 0
    outside, fixed = partitions - capacity, capacity - 1
    turns = outside // fixed
    return (turns + 1) * outside - turns * (turns + 1) // 2 * fixed + outside


def fewest_swaps(partitions: int, capacity: int) -> int:
    """A bound below any order's: each swap brings at most c - 1 pairs of partitions together that had not met."""
    if partitions == capacity:
        return 0
    unmet = (partitions * (partitions - 1) - capacity * (capacity - 1)) // 2
    return math.ceil(unmet / (capacity - 1))


def beta_buffers(partitions: int, capacity: int, rng: random.Random) -> Iterator[tuple[int, ...]]:
    """BETA's states of the buffer: all but the last slot stay until they have met whoever is outside, one by one; then
    they leave for good, and some of those that they have met take their places.
    """
    order = rng.sample(range(partitions), partitions)
    held, outside = order[:capacity], order[capacity:]
    yield tuple(held)
    while outside:
        places = rng.sample(range(capacity), capacity)
        fixed, swapped = places[:-1], places[-1]
        rng.shuffle(outside)
        for place in range(len(outside)):
            held[swapped], outside[place] = outside[place], held[swapped]
            yield tuple(held)
        count = min(len(fixed), len(outside))
        for slot, entering in zip(fixed, outside[:count], strict=False):
            held[slot] = entering
            yield tuple(held)
        del outside[:count]


def _first_fit(buffers: Iterator[tuple[int, ...]], partitions: int) -> Iterator[State]:
    """Each bucket in the first state that holds both of its partitions."""
    is_done = [[False] * partitions for _ in range(partitions)]
    for held in buffers:
        found = [(i, j) for i in held for j in held if not is_done[i][j]]
        for i, j in found:
            is_done[i][j] = True
        yield State(held, tuple(found))


def _comet(partitions: int, capacity: int, group: int, rng: random.Random) -> Iterator[State]:
    """BETA over groups of partitions that are drawn anew, and each bucket in any of the states that hold it."""
    if partitions % group or capacity % group or (capacity // group < 2 and capacity < partitions):
        raise InputError(
            f"A group of comet must divide {partitions} partitions and a buffer of {capacity}, and leave room for two "
            f"groups, got {group}."
        )
    members = rng.sample(range(partitions), partitions)
    groups = [members[first : first + group] for first in range(0, partitions, group)]
    buffers = [
        tuple(part for number in held for part in groups[number])
        for held in beta_buffers(partitions // group, capacity // group, rng)
    ]
    where: dict[Bucket, list[int]] = {}
    for number, held in enumerate(buffers):
        for i in held:
            for j in held:
                where.setdefault((i, j), []).append(number)
    buckets: list[list[Bucket]] = [[] for _ in buffers]
    for bucket in sorted(where):
        buckets[rng.choice(where[bucket])].append(bucket)
    return (State(held, tuple(found)) for held, found in zip(buffers, buckets, strict=True))


def _group_of(partitions: int, capacity: int) -> int:
    return 2 if partitions % 2 == capacity % 2 == 0 and capacity >= 4 else 1


def _sequence(name: str, partitions: int, rng: random.Random) -> Iterator[Bucket]:
    if name == "hilbert":
        return _hilbert(partitions)
    if name == "hilbert-symmetric":
        return (bucket for i, j in _hilbert(partitions) if i <= j for bucket in dict.fromkeys([(i, j), (j, i)]))
    if name == "inside-out":
        return _inside_out(partitions, rng)
    if name == "affinity":
        return _affinity(partitions, rng)
    buckets = [(i, j) for i in range(partitions) for j in range(partitions)]
    if name == "random":
        rng.shuffle(buckets)
    return iter(buckets)


def _hilbert(partitions: int) -> Iterator[Bucket]:
    """Along Hilbert's curve through the square of buckets; the next power of two where p is none, outside left out."""
    side = 1 << (partitions - 1).bit_length()
    for number in range(side * side):
        i = j = 0
        rest, size = number, 1
        while size < side:
            is_right = 1 & (rest // 2)
            is_up = 1 & (rest ^ is_right)
            if not is_up:
                if is_right:
                    i, j = size - 1 - i, size - 1 - j
                i, j = j, i
            i, j = i + size * is_right, j + size * is_up
            rest //= 4
            size *= 2
        if i < partitions and j < partitions:
            yield i, j


def _inside_out(partitions: int, rng: random.Random) -> Iterator[Bucket]:
    """Layer by layer, the smallest first: layer i has the buckets whose lower partition is i, both directions of a pair
    together, the pairs in any order.
    """
    for layer in reversed(range(partitions)):
        others = rng.sample(range(layer, partitions), partitions - layer)
        for other in others:
            yield from dict.fromkeys([(layer, other), (other, layer)])


def _affinity(partitions: int, rng: random.Random) -> Iterator[Bucket]:
    """From bucket to bucket: the other direction first, then any that shares a partition, then any."""
    left = {(i, j) for i in range(partitions) for j in range(partitions)}
    at = rng.choice(sorted(left))
    while True:
        yield at
        left.remove(at)
        if not left:
            return
        if at[::-1] in left:
            at = at[::-1]
            continue
        near = [bucket for part in dict.fromkeys(at) for bucket in _of_partition(part, partitions) if bucket in left]
        at = rng.choice(near or sorted(left))


def _of_partition(part: int, partitions: int) -> Iterator[Bucket]:
    for other in range(partitions):
        yield from dict.fromkeys([(part, other), (other, part)])


def _with_belady(buckets: Sequence[Bucket], capacity: int) -> list[State]:
    """The states of a buffer that trains buckets in the order given."""
    uses: dict[int, list[int]] = {}
    for number, bucket in enumerate(buckets):
        for part in dict.fromkeys(bucket):
            uses.setdefault(part, []).append(number)
    for later in uses.values():
        later.reverse()  # the next use is the last
    held: list[int] = []
    states: list[tuple[tuple[int, ...], list[Bucket]]] = []
    for bucket in buckets:
        for part in dict.fromkeys(bucket):
            if part in held:
                continue
            if len(held) < capacity:
                held.append(part)
            else:
                leaving = max(
                    (slot for slot in range(capacity) if held[slot] not in bucket),
                    key=lambda slot: uses[held[slot]][-1] if uses[held[slot]] else len(buckets),
                )
                held[leaving] = part
        for part in dict.fromkeys(bucket):
            uses[part].pop()
        if not states or set(states[-1][0]) - set(held):
            states.append((tuple(held), []))
        elif len(states[-1][0]) < len(held):
            states[-1] = tuple(held), states[-1][1]
        states[-1][1].append(bucket)
    return [State(held, tuple(found)) for held, found in states]
