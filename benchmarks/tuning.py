"""Choosing a setting on data that do not judge: over a grid whose best value is not its edge."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.table import RowError

MOST_STEPS = 4
"""by which a grid grows beyond its ends"""


def best_inside(grid: Sequence[float], score: Callable[[float], float]) -> tuple[float, dict[float, float]]:
    """The value of the highest score, and all scores; where the best is an edge, the grid grows there by its own ratio.

    Args:
        grid: two positive values or more, ascending.

    Raises:
        RowError: the scores still rise at an edge after four steps.
    """
    values = list(grid)
    scores = {value: score(value) for value in values}
    for _ in range(MOST_STEPS + 1):
        best = max(values, key=lambda value: scores[value])
        if values[0] < best < values[-1]:
            return best, scores
        low = best == values[0]
        value = values[0] ** 2 / values[1] if low else values[-1] ** 2 / values[-2]
        values = [value, *values] if low else [*values, value]
        scores[value] = score(value)
    raise RowError(f"the best value lies on the edge of its grid, {', '.join(f'{value:g}' for value in values)}")
