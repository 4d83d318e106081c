"""Rows are dealt out to owners: every row has one place, and frequent rows are spread evenly."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from any2vec.plan.sharding.graph import contiguous_bounds
from any2vec.plan.sharding.striped import Deal


@pytest.mark.parametrize(("num_rows", "hosts"), [(10, 3), (12, 4), (7, 1), (3, 5), (1000, 32)])
def test_places_and_rows_are_one_to_one(num_rows: int, hosts: int) -> None:
    deal = Deal(num_rows, hosts)
    rows = deal.rows(np.arange(num_rows))
    assert sorted(rows) == list(range(num_rows))
    assert list(rows) == sorted(range(num_rows), key=lambda row: (row % hosts, row))
    assert (deal.flags(np.arange(num_rows)) == rows).all()


def test_every_owner_has_its_share_of_the_frequent_rows() -> None:
    num_rows, hosts = 10_007, 32
    cuts, rows = contiguous_bounds(num_rows, hosts), Deal(num_rows, hosts).rows(np.arange(num_rows))
    frequent = [(rows[low:high] < 320).sum() for low, high in pairwise(cuts)]
    assert min(frequent) >= 9 and max(frequent) <= 12
