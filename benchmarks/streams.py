"""The table of text that never ends."""

from __future__ import annotations

from benchmarks import pip, streams_drift, streams_statistics
from benchmarks.table import Table

TABLE = Table(
    name="streams",
    title="Text that never ends: open vocabulary, roles, and how good the vectors are",
    rows=(*pip.ROWS, *streams_drift.ROWS, *streams_statistics.ROWS),
)
