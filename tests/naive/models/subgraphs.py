"""Plain twins of `kernels.graph.subgraphs`, and of the greedy parts: one walk, one edge at a time, the same draws."""

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


def assign_greedily(
    rows: Sequence[Sequence[int]], order: Sequence[int], num_parts: int, before: Sequence[int]
) -> list[int]:
    """Each node to the part with most neighbors, times the places left there."""
    part, size, most = list(before), [0] * num_parts, -(-len(rows) // num_parts)
    for node in order:
        near = [part[one] for one in rows[node] if part[one] >= 0 and one != node]
        choices = list(dict.fromkeys(near))
        open_part = next(one for one in range(num_parts) if size[one] < most)
        scores = [near.count(one) * (most - size[one]) for one in choices]
        part[node] = choices[scores.index(max(scores))] if max(scores, default=0) > 0 else open_part
        size[part[node]] += 1
    return part
