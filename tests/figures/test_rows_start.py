"""Every row of every table starts: each is run on planted stand-ins for its data, with the peers that are installed.

What a row needs and this machine lacks (a peer, rights to make networks and control groups) is named, and skipped.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator

import pytest
from benchmarks import run
from benchmarks.bench import Bench
from benchmarks.table import NotMeasuredError, Row, Table, figures

TABLES: dict[str, Table] = {name: importlib.import_module(module).TABLE for name, module in run.TABLES.items()}
ROWS = [pytest.param(row, id=f"{name}/{row.name}") for name, table in TABLES.items() for row in table.rows]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One for all rows: what they share is made once."""
    yield Bench.for_start(tmp_path_factory.mktemp("rows") / "bench")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("row", ROWS)
def test_row_starts(row: Row, bench: Bench) -> None:
    """And reads each of its measures; an infinite reading is a row's word for a run that ended badly."""
    try:
        with bench.row():
            readings = run.readings(row, bench)
    except NotMeasuredError as error:
        pytest.skip(str(error))
    assert len(figures(row, readings, quick=True)) == len(row.measures)
    assert not any(math.isinf(reading.value) for reading in readings), [reading.text for reading in readings]
