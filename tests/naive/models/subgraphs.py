"""Plain twins of `kernels.graph.subgraphs`: one walk, one edge at a time, the same draws."""

from __future__ import annotations

from collections.abc import Sequence

from naive.common.rng import below, draw


def walk_from(rows: Sequence[Sequence[int]], roots: Sequence[int], key: int, num: int, length: int) -> list[list[int]]:
    """The nodes of each walk; it ends where a row is empty."""
    walks = []
    for number in range(num):
        own = draw(key, number)
        walk = [roots[below(draw(own, 0) >> 32, len(roots))]]
        for step in range(1, length):
            row = rows[walk[-1]]
            if not row:
                break
            walk.append(row[below(draw(own, step) >> 32, len(row))])
        walks.append(walk)
    return walks


def induce(rows: Sequence[Sequence[int]], nodes: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Of each chosen node: (number of the neighbor among the chosen, its place in the row)."""
    number_of = {node: number for number, node in enumerate(nodes)}
    return [
        [(number_of[neighbor], place) for place, neighbor in enumerate(rows[node]) if neighbor in number_of]
        for node in nodes
    ]
