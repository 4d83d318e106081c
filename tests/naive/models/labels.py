"""Plain twin of `any2vec.kernels.graph.partitioning.propagate_labels`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def propagated(edges: Sequence[Sequence[int]], turns: Sequence[int], most: int, label: list[int]) -> int:
    """One round, in place; returns how many nodes took another label."""
    moved = 0
    for node in turns:
        counts = Counter(label[other] for other in edges[node] if other != node)
        best = label[node]
        for candidate, times in counts.items():  # in the order of the neighbors
            if times > counts[best] and label.count(candidate) < most:
                best = candidate
        moved += best != label[node]
        label[node] = best
    return moved
