"""The table of click models: rows on servers, dense replicas, and training that goes on while they synchronise."""

from __future__ import annotations

from benchmarks import clicks_cache, clicks_links, clicks_paper, clicks_quality, clicks_real, clicks_rows
from benchmarks.table import Table

TABLE = Table(
    name="clicks",
    title="Click models with embedding servers",
    rows=(
        *clicks_rows.ROWS,
        *clicks_quality.ROWS,
        *clicks_cache.ROWS,
        *clicks_links.ROWS,
        *clicks_real.ROWS,
        *clicks_paper.ROWS,
    ),
)
