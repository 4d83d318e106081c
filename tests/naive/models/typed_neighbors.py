"""Plain twin of `sampling.typed_neighbors`: one node at a time, the same draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from naive.common.rng import draw
from naive.models import neighbors

Kind = tuple[str, str, str]


def sample(
    rows: Mapping[Kind, Sequence[neighbors.Row]], seeds: Mapping[str, Sequence[int]],
    fanouts: Mapping[Kind, Sequence[int]], law: str, repeats: bool, key: Callable[[int, int], int],
    tables: Mapping[Kind, Sequence[tuple[list[int], list[int]]]],
) -> tuple[dict[str, list[int]], dict[Kind, dict[int, list[int]]]]:  # fmt: skip
    """(nodes found by type, places in its row that each has sampled by type of edge); key: of (type, hop).

    A node samples at the hop after the one that finds it, along all types of edges that lead to it.
    """
    found = {kind: list(nodes) for kind, nodes in seeds.items()}
    sampled: dict[Kind, dict[int, list[int]]] = {kind: {} for kind in rows}
    first = dict.fromkeys(found, 0)
    for hop in range(len(next(iter(fanouts.values())))):
        stop = {kind: len(nodes) for kind, nodes in found.items()}
        for number, (kind, of_kind) in enumerate(rows.items()):
            src, _, dst = kind
            for node in found[dst][first[dst] : stop[dst]]:
                places = _places(of_kind[node], node, fanouts[kind][hop], law, repeats, key(number, hop), tables, kind)
                sampled[kind][node] = places
                known = set(found[src])
                chosen = [of_kind[node][place][0] for place in places]
                found[src] += [one for one in dict.fromkeys(chosen) if one not in known]
        first = stop
    return found, sampled


def _places(
    row: neighbors.Row, node: int, fanout: int, law: str, repeats: bool, key: int,
    tables: Mapping[Kind, Sequence[tuple[list[int], list[int]]]], kind: Kind,
) -> list[int]:  # fmt: skip
    with_repeats = repeats and fanout > 0 and len(row) > 0
    size = len(row) if fanout < 0 else fanout if with_repeats else min(fanout, len(row))
    if size == len(row) and not with_repeats:
        return list(range(size))
    if law == "labor":
        return neighbors.take_least(row, size, key) if size else []
    if law == "weighted" and kind in tables:
        return neighbors.take_weighted(row, tables[kind][node], size, with_repeats, draw(key, node))
    return neighbors.take_uniform(len(row), size, with_repeats, draw(key, node))
