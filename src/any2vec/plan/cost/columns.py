"""Columns of categories: what they cost, measured on batches of a sample, or by Zipf's law; a placement goes by them.

Legend: F columns, M ids of a batch, P = B F bags of its B examples, K ranges of a column's rows; R rows of a
column, G groups of ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from any2vec.checks import check_number, check_whole
from any2vec.errors import InputError
from any2vec.plan.sharding.columns import Column

RANGES = 16
"""equal ranges of a column's rows whose cost is measured apart ..."""
LEAST_ROWS = 4096
"""... where it has so many rows"""


def measure_columns(
    names: Sequence[str], offset_F1: np.ndarray, batches: Iterable[tuple[np.ndarray, np.ndarray]]
) -> list[Column]:
    """Columns with the look-ups that batches make, each given as (id_M, start_P1) of a `ClickBatch`.

    Args:
        offset_F1: column f owns the rows [offset_F1[f], offset_F1[f + 1]).

    The batches should have the size that training will have: the larger, the fewer distinct rows an example has. A
    column is pooled where a bag of it has several ids.

    Raises:
        InputError: there is no example.
    """
    num_columns = len(names)
    edges = [_ranges(int(low), int(high)) for low, high in pairwise(offset_F1)]
    examples, lookup_F, distinct_F = 0, np.zeros(num_columns), np.zeros(num_columns)
    is_pooled_F = np.zeros(num_columns, np.bool_)
    seen = [np.ones(len(edge) - 1) for edge in edges]  # one each beforehand: what a sample lacks is rare, not absent
    for id_M, start_P1 in batches:
        count_BF = np.diff(start_P1).reshape(-1, num_columns)
        examples += len(count_BF)
        lookup_F += count_BF.sum(0)
        is_pooled_F |= (count_BF > 1).any(0)
        row_U = np.unique(id_M)
        distinct_F += np.diff(np.searchsorted(row_U, offset_F1))
        for edge, count in zip(edges, seen, strict=True):
            count += np.diff(np.searchsorted(row_U, edge))
    if not examples:
        raise InputError("Look-ups are measured on a sample, and it has no example.")
    return [
        Column(
            name=name, rows=int(offset_F1[f + 1] - offset_F1[f]), lookups=float(lookup_F[f] / examples),
            distinct=float(distinct_F[f] / examples), is_pooled=bool(is_pooled_F[f]), weight_K=tuple(seen[f].tolist()),
        )
        for f, name in enumerate(names)
    ]  # fmt: skip


def _ranges(low: int, high: int) -> np.ndarray:
    """The bounds of a column's ranges, as `edges_of` has them."""
    count = RANGES if high - low >= LEAST_ROWS else 1
    return np.array([low + (high - low) * k // count for k in range(count + 1)], np.int64)


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
