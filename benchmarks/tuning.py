"""Choosing a setting on data that do not judge: over a grid whose best value is not its edge."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.table import RowError

MOST_STEPS = 6
"""by which a grid grows beyond its ends"""
Each = Callable[[Callable[[float], float], Sequence[float]], list[float]]


def _in_turn(score: Any, values: Any) -> list[float]:
    return [score(value) for value in values]


def best_inside(
    grid: Sequence[float], score: Callable[[float], float], each: Each = _in_turn
) -> tuple[float, dict[float, float]]:
    """The value of the highest score, and all scores. Where the best is an edge, the grid grows there by its own ratio;
    then the middles between the best and the values beside it are tried.

    Args:
        grid: two positive values or more, ascending.
        each: the scores of several values; in turn unless told otherwise.

    Raises:
        RowError: the scores still rise at an edge after `MOST_STEPS` steps.
    """
    scores = dict(zip(grid, each(score, grid), strict=True))
    for _ in range(MOST_STEPS + 1):
        values = sorted(scores)
        place = values.index(max(values, key=lambda value: scores[value]))
        if 0 < place < len(values) - 1:
            middles = [_rounded(math.sqrt(values[place] * values[place + step])) for step in (-1, 1)]
            scores |= dict(zip(middles, each(score, middles), strict=True))
            return max(scores, key=lambda value: scores[value]), scores
        new = values[0] ** 2 / values[1] if place == 0 else values[-1] ** 2 / values[-2]
        scores[new] = score(new)
    raise RowError(f"the best value lies on the edge of its grid, {', '.join(f'{value:g}' for value in values)}")


def best_from_zero(grid: Sequence[float], score: Callable[[float], float]) -> tuple[float, dict[float, float]]:
    """As `best_inside`, of a setting that may be 0 and not less: 0 is tried, too, and is no edge; where it or the least
    value is the best, `MOST_STEPS` lesser ones are tried.

    Raises:
        RowError: the scores still rise at the upper edge after `MOST_STEPS` steps.
    """
    scores = {value: score(value) for value in (0.0, *grid)}
    for _ in range(MOST_STEPS + 1):
        values = sorted(scores)
        place = values.index(max(values, key=lambda value: scores[value]))
        if 1 < place < len(values) - 1:
            break
        new = values[1] ** 2 / values[2] if place <= 1 else values[-1] ** 2 / values[-2]
        scores[new] = score(new)
    if place == len(values) - 1:
        raise RowError(f"the best value lies on the edge of its grid, {', '.join(f'{value:g}' for value in values)}")
    for step in (-1, 1) if place > 1 else ():
        middle = _rounded(math.sqrt(values[place] * values[place + step]))
        scores[middle] = score(middle)
    return max(scores, key=lambda value: scores[value]), scores


def _rounded(value: float) -> float:
    """To two figures, as people write it."""
    return float(f"{value:.2g}")
