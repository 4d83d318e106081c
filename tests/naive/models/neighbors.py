"""Plain twin of `kernels.graph.neighbors`: one node at a time, the same draws."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from naive.common.rng import MASK, below, draw, unit

Row = Sequence[tuple[int, float]]
"""(neighbor, weight), as in the adjacency"""


def take_uniform(degree: int, size: int, repeats: bool, key: int) -> list[int]:
    """Floyd's method, or draws with replacement."""
    if repeats:
        return [below(draw(key, j) >> 32, degree) for j in range(size)]
    taken: list[int] = []
    for j in range(size):
        top = degree - size + j
        chosen = below(draw(key, j) >> 32, top + 1)
        taken.append(top if chosen in taken else chosen)
    return taken


def take_least(row: Row, size: int, key: int) -> list[int]:
    """The neighbors with the least draws of their own."""
    return sorted(range(len(row)), key=lambda place: draw(key, row[place][0]))[:size]


def take_weighted(row: Row, table: tuple[list[int], list[int]], size: int, repeats: bool, key: int) -> list[int]:
    """Alias draws, those that fall on a taken place repeated; after 8 a neighbor, the least exponential times."""
    threshold, alias = table
    taken: list[int] = []
    at = 0
    while len(taken) < size and (repeats or at < 8 * size):
        bits = draw(key, at)
        at += 1
        column = below(bits >> 32, len(row))
        place = column if bits & 0xFFFFFFFF < threshold[column] else alias[column]
        if repeats or place not in taken:
            taken.append(place)
    times = [-log(1 - unit(draw(key, 8 * size + place))) / weight for place, (_, weight) in enumerate(row)]
    left = sorted((place for place in range(len(row)) if place not in taken), key=times.__getitem__)
    return taken + left[: size - len(taken)]


def sample(
    rows: Sequence[Row], seeds: Sequence[int], fanouts: Sequence[int], law: str, repeats: bool, keys: Sequence[int],
    tables: Sequence[tuple[list[int], list[int]]],
) -> tuple[list[int], dict[int, list[int]]]:  # fmt: skip
    """(nodes found, the neighbors that each has sampled; LABOR's, and so what they find, in another order)."""
    found, first = list(seeds), 0
    sampled: dict[int, list[int]] = {}
    for fanout, key in zip(fanouts, keys, strict=True):
        frontier = found[first:]
        first = len(found)
        for node in frontier:
            row, own = rows[node], draw(key & MASK, node)
            with_repeats = repeats and fanout >= 0 and len(row) > 0
            size = len(row) if fanout < 0 else fanout if with_repeats else min(fanout, len(row))
            if size == len(row) and not with_repeats:
                places = list(range(size))
            elif law == "uniform":
                places = take_uniform(len(row), size, with_repeats, own)
            elif law == "labor":
                places = take_least(row, size, key)
            else:
                places = take_weighted(row, tables[node], size, with_repeats, own)
            sampled[node] = [row[place][0] for place in places]
            known = set(found)
            found += [one for one in dict.fromkeys(sampled[node]) if one not in known]
    return found, sampled
