"""Groups round by round: of partitions that hosts hold (tournament), of hosts that average (DS-Sync).

Tournament: Which two groups of partitions each host holds round by round, so that every two groups meet once.

There are twice as many groups as hosts, and every round pairs all of them: the circle method of round-robin
tournaments. The pairs of two successive rounds form cycles; going round a cycle, each host keeps one of its groups and
takes one from a neighbor. So in every round but the first each host gets exactly one group, which no schedule with two
groups a host can better: a group that comes brings two groups together that had not met, and H (2 H - 1) pairs must.

Who averages with whom: the groups of DS-Sync round by round, agreed beforehand, so that nobody has to be asked.

Source: Divide-and-Shuffle Synchronization (arXiv 2007.03298). With groups of s drawn at random from N hosts, the
variance between the hosts shrinks by (N - s) / (s (N - 1)) in a round, on average; the butterfly makes all N = s^k
hosts equal in k rounds, the topology's two schedules make sites of equally many hosts equal in two.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from any2vec.errors import InputError

Pair = tuple[int, int]
"""groups: the one that the host has had in the round before, the one that comes"""


def tournament(hosts: int) -> tuple[tuple[Pair, ...], ...]:
    """2 hosts - 1 rounds, in each the pair of every host, by rank; a pure function of the number of hosts, 1 and up."""
    rounds: list[tuple[Pair, ...]] = []
    for pairs in _circle(2 * hosts):
        rounds.append(_taken_over(rounds[-1], pairs) if rounds else tuple(pairs))
    return tuple(rounds)


def _circle(groups: int) -> list[list[Pair]]:
    """The last group stays, all others go round it."""
    last = groups - 1
    return [
        [(last, turn), *(((turn + step) % last, (turn - step) % last) for step in range(1, groups // 2))]
        for turn in range(last)
    ]


def _taken_over(before: tuple[Pair, ...], pairs: list[Pair]) -> tuple[Pair, ...]:
    """The pairs by host: each goes to a host that had one of its groups, and each host has one."""
    host_of = {group: host for host, pair in enumerate(before) for group in pair}
    partner = {group: other for pair in pairs for group, other in (pair, pair[::-1])}
    found: dict[int, Pair] = {}
    for host, (first, _) in enumerate(before):
        kept = first
        while host not in found:  # round the cycle: who gives a group keeps its other one
            new = partner[kept]
            found[host] = (kept, new)
            host = host_of[new]
            kept = next(group for group in before[host] if group != new)
    return tuple(found[host] for host in range(len(before)))


def group_size(hosts: int) -> int:
    """Hosts of a group where nothing is said: the divisor of `hosts` nearest to its root, the smaller of two, or 2."""
    divisors = [size for size in range(2, hosts) if hosts % size == 0]
    return min(divisors, key=lambda size: (abs(size - math.sqrt(hosts)), size), default=2)


def blocks_of(hosts: int, size: int) -> list[list[int]]:
    """Hosts in groups of about `size`, by rank; as equal as can be."""
    count = max(1, round(hosts / size))
    return [list(range(hosts * index // count, hosts * (index + 1) // count)) for index in range(count)]


def random_groups(hosts: int, size: int, seed: int, number: int) -> list[list[int]]:
    """Groups of about `size`, any partition as likely as another; a pure function of seed and number of the round."""
    order = random.Random(f"{seed}:{number}").sample(range(hosts), hosts)
    return [sorted(order[place] for place in places) for places in blocks_of(hosts, size)]


def butterfly_groups(hosts: int, size: int, number: int) -> list[list[int]]:
    """Hosts whose ranks, written to the base `size`, differ in one digit alone, each round another one.

    Raises:
        InputError: hosts is no power of size.
    """
    stride = size ** (number % _digits(hosts, size))
    return [[first + digit * stride for digit in range(size)] for first in range(hosts) if first // stride % size == 0]


def topology_groups(hosts: int, sites: int, number: int) -> list[list[int]]:
    """The hosts of a site in even rounds; in odd ones the hosts that have the same place in their sites.

    With one site, or one host a site, one of the two schedules is all hosts and the other leaves each alone: then it
    is all hosts in every round.

    Raises:
        InputError: sites cannot have equally many hosts.
    """
    if hosts % sites:
        raise InputError(f"{hosts} hosts do not make {sites} sites of equally many; take a number that divides them.")
    if sites in (1, hosts):
        return [list(range(hosts))]
    inside = hosts // sites
    if number % 2 == 0:
        return [list(range(site * inside, (site + 1) * inside)) for site in range(sites)]
    return [list(range(place, hosts, inside)) for place in range(inside)]


@dataclass(frozen=True)
class GroupSchedule:
    """The groups of DS-Sync among so many hosts, by the number of the round or step.

    Raises:
        InputError: the schedule does not go with the number of hosts.
    """

    kind: str
    """random, butterfly or topology"""
    hosts: int
    size: int
    """of a group"""
    seed: int
    sites: int
    """of the topology"""

    @classmethod
    def of(cls, kind: str, hosts: int, size: int | None, seed: int, sites: int = 1) -> GroupSchedule:
        """size: None: as `group_size`; sites: 1: as many as groups."""
        size = size or group_size(hosts)
        return cls(kind, hosts, size, seed, sites if sites > 1 else max(1, hosts // size))

    def __post_init__(self) -> None:
        self.groups(0)

    def groups(self, number: int) -> list[list[int]]:
        """The groups of a round, each ascending."""
        if self.kind == "butterfly":
            return butterfly_groups(self.hosts, self.size, number)
        if self.kind == "topology":
            return topology_groups(self.hosts, self.sites, number)
        return random_groups(self.hosts, self.size, self.seed, number)

    @property
    def mixing_rounds(self) -> int:
        """Rounds until what one host knows has come to all: surely, or for a random schedule very likely."""
        if self.kind == "topology":
            return 1 if self.sites in (1, self.hosts) else 2
        if self.size >= self.hosts:
            return 1
        if self.kind == "butterfly":
            return _digits(self.hosts, self.size)
        return 2 + 2 * math.ceil(math.log(self.hosts) / math.log(self.size))


def _digits(hosts: int, size: int) -> int:
    """k of hosts = size ** k, 1 for a single host."""
    digits = max(1, round(math.log(hosts) / math.log(size)))
    if size**digits != hosts and hosts > 1:
        raise InputError(
            f"The butterfly needs {size} hosts, or {size**2}, {size**3} and so on, got {hosts}; "
            "take another size, or ds-sync:random."
        )
    return digits
