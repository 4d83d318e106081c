"""Which host has which layers, what travels between them, and how fast that could be at best. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from any2vec.cluster.message import overhead


def layers_of_hosts(costs: Sequence[float], hosts: int) -> list[int]:
    """Bounds: host h has layers [bounds[h], bounds[h + 1]), each at least one, so that the dearest host is cheapest.

    Where there are fewer layers than hosts the last hosts have none. Among equally good deals the first hosts take as
    many layers as they can. O(layers^2 hosts).
    """
    layers = len(costs)
    busy = min(hosts, layers)
    before = [0.0, *accumulate(costs)]
    best: list[list[tuple[float, int]]] = [[(before[stop], 0) for stop in range(layers + 1)]]
    """best[h][stop]: (dearest of hosts 0..h that have layers [0, stop), where the last of them starts)"""
    for host in range(1, busy):
        row: list[tuple[float, int]] = [(float("inf"), 0)] * (layers + 1)
        for stop in range(host + 1, layers + 1):
            tried = ((max(best[-1][start][0], before[stop] - before[start]), -start) for start in range(host, stop))
            dearest, start = min(tried)
            row[stop] = (dearest, -start)
        best.append(row)
    bounds = [layers]
    for host in range(busy - 1, -1, -1):
        bounds.append(best[host][bounds[-1]][1])
    return bounds[::-1] + [layers] * (hosts - busy)


def boundary_bytes(nodes: int, width: int, p_bytes: int = 4, q_bytes: int = 4, u_bytes: int = 4) -> dict[str, int]:
    """Bytes that cross one boundary in one iteration, by kind; u_bytes 0: u does not travel.

    A message each for p, q and u: its head counts as control.
    """
    size = nodes * width
    found = {"p": size * p_bytes, "q": size * q_bytes, "u": size * u_bytes}
    return found | {"control": sum(overhead(1) for kind in found if found[kind])}


def critical_path(costs: Sequence[float], bounds: Sequence[int]) -> float:
    """How many times as fast hosts with these layers are as one host, at best: the sum of costs over the dearest's."""
    each = [sum(costs[start:stop]) for start, stop in pairwise(bounds)]
    return sum(each) / max(each)


def pipeline_path(costs: Sequence[float], bounds: Sequence[int], micro_batches: int) -> float:
    """The same for back-propagation in micro-batches through hosts in a row (GPipe, arXiv 1811.06965).

    costs: of each layer, up and down with all micro-batches. The first micro-batch goes through all hosts, the others
    follow at the pace of the dearest; with hosts alike it takes (m + s - 1) / m times a host's own work, for s hosts.
    """
    each = [sum(costs[start:stop]) for start, stop in pairwise(bounds)]
    return sum(each) * micro_batches / (sum(each) + (micro_batches - 1) * max(each))
