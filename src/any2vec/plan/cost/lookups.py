"""What columns cost, measured on batches of a sample: what a placement goes by.

Legend: F columns, M ids of a batch, P = B F bags of its B examples, K ranges of a column's rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

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
