"""Columns of categories nobody has yet: equally many rows each, used as Zipf's law says.

Legend: R rows of a column, G groups of ranks.
"""

from __future__ import annotations

import numpy as np

from any2vec.checks import check_number, check_whole
from any2vec.plan.sharding.columns import Column

_EXACT = 4096
"""ranks that are looked at one by one; those behind them in groups"""
_GROUPS = 4096


def zipf_columns(rows: int, num_columns: int, exponent: float, batch_size: int) -> list[Column]:
    """`rows` rows in all, over so many columns of single values; hashing spreads frequent rows evenly over a column.

    Raises:
        InputError: an argument is not legal.
    """
    check_whole("columns", num_columns, 1, 10_000)
    check_whole("rows", rows, num_columns, 10**13)
    check_number("zipf", exponent, 0, 10)
    sizes = [rows // num_columns + (column < rows % num_columns) for column in range(num_columns)]
    distinct = {size: expected_distinct(size, exponent, batch_size) / batch_size for size in set(sizes)}
    return [Column(name=f"C{number}", rows=size, distinct=distinct[size]) for number, size in enumerate(sizes, start=1)]


def expected_distinct(rows: int, exponent: float, draws: int) -> float:
    """How many different rows so many draws meet on average, where rank k has probability k ** -exponent / sum.

    Exact for the 4,096 most frequent; behind them ranks of a group count as that in its middle.
    """
    first = np.arange(1, min(rows, _EXACT) + 1, dtype=np.float64)
    middle_G, size_G = first, np.ones(len(first))
    if rows > _EXACT:
        edges = np.unique(np.round(np.geomspace(_EXACT, rows, _GROUPS + 1)))
        sizes = np.diff(edges)
        middle_G = np.concatenate([first, edges[:-1] + (sizes + 1) / 2])
        size_G = np.concatenate([size_G, sizes])
    weight_G = middle_G**-exponent
    chance_G = weight_G / (weight_G * size_G).sum()
    return float((size_G * -np.expm1(draws * np.log1p(-np.minimum(chance_G, 1 - 1e-15)))).sum())
