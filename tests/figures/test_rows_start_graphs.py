"""Every row of the tables of graph networks and of training from disk starts."""

from __future__ import annotations

import pytest
from benchmarks.bench import Bench
from benchmarks.table import Row
from row_starts import rows_of, starts

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


@pytest.mark.parametrize("row", rows_of("graph-networks", "admm", "larger-than-memory"))
def test_row_starts(row: Row, bench: Bench) -> None:
    starts(row, bench)
