"""The table of text that never ends."""

from __future__ import annotations

from benchmarks import (
    pip,
    streams_drift,
    streams_faults,
    streams_models,
    streams_speed,
    streams_statistics,
    streams_traffic,
)
from benchmarks.table import Table

TABLE = Table(
    name="streams",
    title="Text that never ends: open vocabulary, roles, and how good the vectors are",
    rows=(
        *streams_speed.ROWS,
        *streams_models.ROWS,
        *streams_statistics.ROWS,
        *streams_drift.ROWS,
        *streams_traffic.ROWS,
        *streams_faults.ROWS,
        *pip.ROWS,
    ),
)
