"""Every row of the table of many hosts starts."""

from __future__ import annotations

import pytest
from benchmarks.bench import Bench
from benchmarks.table import Row
from row_starts import rows_of, starts

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


@pytest.mark.parametrize("row", rows_of("many-hosts"))
def test_row_starts(row: Row, bench: Bench) -> None:
    starts(row, bench)
