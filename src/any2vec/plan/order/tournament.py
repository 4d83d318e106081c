"""Which two groups of partitions each host holds round by round, so that every two groups meet once.

There are twice as many groups as hosts, and every round pairs all of them: the circle method of round-robin
tournaments. The pairs of two successive rounds form cycles; going round a cycle, each host keeps one of its groups and
takes one from a neighbour. So in every round but the first each host gets exactly one group, which no schedule with two
groups a host can better: a group that comes brings two groups together that had not met, and H (2 H - 1) pairs must.
"""

from __future__ import annotations

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
