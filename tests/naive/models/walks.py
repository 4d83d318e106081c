"""Plain twin of `kernels.graph.walk` and of the alias tables: one walk at a time, the same draws."""

from __future__ import annotations

from collections.abc import Sequence

from naive.common.rng import GOLDEN, MASK, below, draw, mix64, unit

PATIENCE = 32
Neighbors = Sequence[Sequence[tuple[int, float]]]
"""of each node: (neighbor, weight), ascending"""


def build_alias(weights: Sequence[float]) -> tuple[list[int], list[int]]:
    """Vose's method with the stacks in the kernel's order."""
    n, total = len(weights), 0.0
    for weight in weights:
        total += weight
    share = [weight / total * n for weight in weights]
    poor = [i for i in range(n) if share[i] < 1.0]
    rich = [i for i in range(n) if not share[i] < 1.0]
    threshold, alias = [(1 << 32) - 1] * n, list(range(n))
    while poor and rich:
        low, high = poor.pop(), rich[-1]
        threshold[low], alias[low] = int(min(share[low] * 2.0**32, 2.0**32 - 1)), high
        share[high] = (share[high] + share[low]) - 1.0
        if share[high] < 1.0:
            poor.append(rich.pop())
    return threshold, alias


def start_node(order_key: int, walk: int, num_nodes: int) -> int:
    """Cycle-walking Feistel network of eight half rounds."""
    pass_key = draw(order_key, walk // num_nodes)
    log = max(2, (num_nodes - 1).bit_length())
    low_log = log // 2
    x = walk % num_nodes
    while True:
        low, high = x % (1 << low_log), x >> low_log
        for turn in range(4):
            high ^= draw(pass_key, low | (2 * turn) << 32) % (1 << (log - low_log))
            low ^= draw(pass_key, high | (2 * turn + 1) << 32) % (1 << low_log)
        x = high << low_log | low
        if x < num_nodes:
            return x


class Stream:
    """The walk's own random words."""

    def __init__(self, key: int, walk: int) -> None:
        self.state = draw(key, walk) | 1

    def next(self) -> int:
        self.state = (self.state + 2 * GOLDEN) & MASK
        return mix64(self.state)


def walk(
    neighbors: Neighbors,
    is_weighted: bool,
    number: int,
    length: int,
    p: float,
    q: float,
    walk_key: int,
    order_key: int,
    patience: int = PATIENCE,
) -> list[int]:
    """Walk `number`, at most `length` nodes."""
    stream = Stream(walk_key, number)
    nodes = [start_node(order_key, number, len(neighbors))]
    if length > 1 and neighbors[nodes[0]]:
        bits = stream.next()
        nodes.append(_drawn(neighbors[nodes[0]], is_weighted, bits, bits & 0xFFFFFFFF))
    while 1 < len(nodes) < length and neighbors[nodes[-1]]:
        if p == q == 1:
            bits = stream.next()
            nodes.append(_drawn(neighbors[nodes[-1]], is_weighted, bits, bits & 0xFFFFFFFF))
        else:
            nodes.append(_second_order(neighbors, is_weighted, nodes[-2], nodes[-1], p, q, stream, patience))
    return nodes


def _drawn(row: Sequence[tuple[int, float]], is_weighted: bool, bits: int, coin: int) -> int:
    column = below(bits >> 32, len(row))
    if is_weighted:
        threshold, alias = build_alias([weight for _, weight in row])
        column = alias[column] if coin >= threshold[column] else column
    return row[column][0]


def _second_order(
    neighbors: Neighbors, is_weighted: bool, last: int, node: int, p: float, q: float, stream: Stream, patience: int
) -> int:
    row, near = neighbors[node], {other for other, _ in neighbors[last]}
    ceiling = max(1.0, 1.0 / q)
    surplus = 1.0 / p - ceiling
    back = dict(row).get(last, 0.0)
    accept = {"far": 1.0 / q / ceiling, "near": 1.0 / ceiling, "back": min(1.0, 1.0 / p / ceiling)}
    tries = 0
    while True:
        bits = stream.next()
        coin = bits & 0xFFFFFFFF
        found = _drawn(row, is_weighted, bits, coin)
        if is_weighted:
            coin = stream.next() >> 32
        if surplus > 0:
            total = sum(weight for _, weight in row) if is_weighted else float(len(row))
            if unit(stream.next()) * (total * ceiling + surplus * back) < surplus * back:
                return last
        kind = "back" if found == last else "near" if found in near else "far"
        if coin < round(accept[kind] * 2.0**32):
            return found
        tries += 1
        if tries > len(row) + patience:
            return exact_step(row, near, last, p, q, unit(stream.next()))


def exact_step(row: Sequence[tuple[int, float]], near: set[int], last: int, p: float, q: float, share: float) -> int:
    masses = transition_masses(row, near, last, p, q)
    target, total = share * _sum(masses), 0.0
    for (found, _), mass in zip(row, masses, strict=True):
        total += mass
        if total > target:
            return found
    return row[-1][0]


def transition_masses(row: Sequence[tuple[int, float]], near: set[int], last: int, p: float, q: float) -> list[float]:
    """node2vec, section 3.2.1: the edge's weight times 1/p (back), 1 (near) or 1/q (far)."""
    bias = [1.0 / p if found == last else 1.0 if found in near else 1.0 / q for found, _ in row]
    return [b * weight for b, (_, weight) in zip(bias, row, strict=True)]


def _sum(values: Sequence[float]) -> float:
    total = 0.0  # from left to right, as the kernel adds
    for value in values:
        total += value
    return total
