"""The table of text that never ends."""

from __future__ import annotations

from benchmarks.streams import crawler as streams_crawler
from benchmarks.streams import drift as streams_drift
from benchmarks.streams import faults as streams_faults
from benchmarks.streams import models as streams_models
from benchmarks.streams import pip
from benchmarks.streams import quality as streams_quality
from benchmarks.streams import speed as streams_speed
from benchmarks.streams import statistics as streams_statistics
from benchmarks.streams import traffic as streams_traffic
from benchmarks.streams import unseen as streams_unseen
from benchmarks.table import Table

TABLE = Table(
    name="streams",
    title="Text that never ends: open vocabulary, roles, and how good the vectors are",
    rows=(
        *streams_quality.ROWS,
        *streams_speed.ROWS,
        *streams_models.ROWS,
        *streams_unseen.ROWS,
        *streams_statistics.ROWS,
        *streams_drift.ROWS,
        *streams_traffic.ROWS,
        *streams_faults.ROWS,
        *streams_crawler.ROWS,
        *pip.ROWS,
    ),
)
