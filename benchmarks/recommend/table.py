"""The table of recommending."""

from __future__ import annotations

from benchmarks.recommend import lists, speed
from benchmarks.table import Table

TABLE = Table(
    name="recommend", title="Recommending from implicit feedback, on one machine", rows=(*speed.ROWS, *lists.ROWS)
)
