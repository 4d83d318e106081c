"""Every row of the tables that no other file has starts."""

from __future__ import annotations

import pytest
from benchmarks.bench import Bench
from benchmarks.table import Row
from row_starts import TABLES, rows_of, starts

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
OF_OTHERS = ("many-hosts", "graph-networks", "admm", "larger-than-memory")


@pytest.mark.parametrize("row", rows_of(*(name for name in TABLES if name not in OF_OTHERS)))
def test_row_starts(row: Row, bench: Bench) -> None:
    starts(row, bench)
