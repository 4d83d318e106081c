"""Plain twin of `any2vec.kernels.clicks.planted`: one example at a time, Python integers and floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from naive.common.rng import below, draw, draw_alias, unit

FIRST_VALUE = 2


def pieces(bits: int) -> list[int]:
    return [(bits >> shift) & 0xFFFF for shift in (0, 16, 32, 48)]


def lengths(key: int, number: int, num_single: int, num_columns: int, longest: int) -> list[int]:
    """Sizes of an example's bags."""
    drawn = [below(draw(key, number * num_columns + f) >> 32, longest + 1) for f in range(num_columns)]
    return [1 if f < num_single else drawn[f] for f in range(num_columns)]


def bags(
    key: int,
    number: int,
    sizes: Sequence[int],
    longest: int,
    table: tuple[Sequence[int], Sequence[int]],
    shift: Sequence[int],
    offset: Sequence[int],
) -> list[list[int]]:
    """An example's ids by column, rows of the one table."""
    found = []
    for f, size in enumerate(sizes):
        first = (number * len(sizes) + f) * longest
        rows = [draw_alias(draw(key, first + at), *table) for at in range(size)]
        found.append([offset[f] + FIRST_VALUE + (row + shift[f]) % len(table[0]) for row in rows])
    return found


def dense(key: int, number: int, width: int) -> list[float]:
    """An example's dense numbers, before they are rounded to float32."""
    sums = [sum((piece + 0.5) / 65536 for piece in pieces(draw(key, number * width + x))) for x in range(width)]
    return [(total - 2) * math.sqrt(3) for total in sums]


def numbers(key: int, row: int, count: int) -> list[float]:
    """The first numbers of a row of the table."""
    words = (count + 3) // 4
    found = [piece for word in range(words) for piece in pieces(draw(key, row * words + word))]
    return [((piece + 0.5) / 65536 - 0.5) * math.sqrt(12) for piece in found[:count]]


def parts(
    key: int,
    num_factors: int,
    scale: Sequence[float],
    scale_of: Callable[[int], float],
    ids: Sequence[Sequence[int]],
    values: Sequence[float],
    hidden: Sequence[Sequence[float]],
    out: Sequence[float],
) -> tuple[float, float, float]:
    """The linear, pairwise (over all pairs of bags) and dense part of an example's logit; hidden is (X, H), scale by
    column, scale_of by row of the table."""
    means = []
    for column, bag in enumerate(ids):
        rows = [
            [scale[column] * scale_of(row) * number for number in numbers(key, row, num_factors + 1)] for row in bag
        ]
        means.append(
            [sum(column) / len(bag) for column in zip(*rows, strict=True)] if bag else [0.0] * (num_factors + 1)
        )
    pairs = sum(
        one * other
        for f, left in enumerate(means)
        for right in means[:f]
        for one, other in zip(left[1:], right[1:], strict=True)
    )
    inner = [sum(value * weights[h] for value, weights in zip(values, hidden, strict=True)) for h in range(len(out))]
    return sum(mean[0] for mean in means), pairs, sum(w * max(0.0, x) for w, x in zip(out, inner, strict=True))


def probability(found: Sequence[float], weights: Sequence[float], intercept: float) -> float:
    return 1 / (1 + math.exp(-intercept - sum(w * part for w, part in zip(weights, found, strict=True))))


def label(key: int, number: int, chance: float) -> int:
    return int(unit(draw(key, number)) < chance)
