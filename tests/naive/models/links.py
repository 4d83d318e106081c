"""Plain twin of `kernels.graph.links`: one pair at a time, the same draws; and of `sampling.links.without_edges`."""

from __future__ import annotations

from collections.abc import Sequence

from naive.common.rng import below, draw

Table = tuple[Sequence[int], Sequence[int]] | None
"""threshold and alias by node; None: each node alike"""
TRIES = 16


def draw_node(bits: int, num_nodes: int, table: Table) -> int:
    node = below(bits >> 32, num_nodes)
    return node if table is None or bits & 0xFFFFFFFF < table[0][node] else table[1][node]


def draw_pairs(rows: Sequence[Sequence[int]], table: Table, key: int, item: int, number: int) -> list[tuple[int, int]]:
    """Pairs of an item that are no edge and not the same node, as far as 16 draws find such; rows: in-neighbors."""
    own, found = draw(key, item), []
    for j in range(number):
        for attempt in range(TRIES):
            place = 2 * (j * TRIES + attempt)
            src, dst = (draw_node(draw(own, place + end), len(rows), table) for end in (0, 1))
            if src != dst and src not in rows[dst]:
                break
        found.append((src, dst))
    return found


def draw_ends(
    rows: Sequence[Sequence[int]], num_src: int, tables: tuple[Table, Table], key: int, item: int, given: int | None,
    is_one_type: bool,
) -> tuple[int, int]:  # fmt: skip
    """One pair, its source given or drawn from `num_src`; tables: of sources and of targets."""
    own = draw(key, item)
    for attempt in range(TRIES):
        src = draw_node(draw(own, 2 * attempt), num_src, tables[0]) if given is None else given
        dst = draw_node(draw(own, 2 * attempt + 1), len(rows), tables[1])
        if not (is_one_type and src == dst) and src not in rows[dst]:
            break
    return src, dst


def partner(walk: Sequence[int], key: int, number: int) -> int:
    """A node of a walk behind its start; -1 where there is none."""
    behind = [node for node in walk[1:] if node >= 0]
    return behind[below(draw(key, number) >> 32, len(behind))] if behind else -1


def ranking(vectors: Sequence[Sequence[float]], edges: Sequence[Sequence[int]]) -> tuple[float, float]:
    """(MRR, Hits@10) of edges: each a source, its target and the candidates; a tie costs half a place."""
    ranks = []
    for src, dst, *candidates in edges:
        own, *others = (
            sum(a * b for a, b in zip(vectors[src], vectors[node], strict=True)) for node in (dst, *candidates)
        )
        ranks.append(1 + sum(other > own for other in others) + 0.5 * sum(other == own for other in others))
    return sum(1 / rank for rank in ranks) / len(ranks), sum(rank <= 10 for rank in ranks) / len(ranks)
