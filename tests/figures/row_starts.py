"""What the tests of rows that start share: the tables, and how a row is run on planted stand-ins for its data.

What a row needs and this machine lacks (a peer, rights to make networks and control groups) is named, and skipped.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import pytest
from benchmarks import run
from benchmarks.bench import Bench
from benchmarks.table import NotMeasuredError, Row, Table, figures

TABLES: dict[str, Table] = {name: importlib.import_module(module).TABLE for name, module in run.TABLES.items()}


def rows_of(*tables: str) -> list[Any]:
    """The rows of tables as parameters of a test."""
    return [pytest.param(row, id=f"{name}/{row.name}") for name in tables for row in TABLES[name].rows]


def starts(row: Row, bench: Bench) -> None:
    """A row begins and reads each of its measures; an infinite reading is its word for a run that ended badly."""
    try:
        with bench.row():
            readings = run.readings(row, bench)
    except NotMeasuredError as error:
        pytest.skip(str(error))
    assert len(figures(row, readings, quick=True)) == len(row.measures)
    assert not any(math.isinf(reading.value) for reading in readings), [reading.text for reading in readings]
