"""The table of click models: rows on servers, dense replicas, and training that goes on while they synchronize."""

from __future__ import annotations

from benchmarks.clicks import bagpipe as clicks_bagpipe
from benchmarks.clicks import het as clicks_het
from benchmarks.clicks import links as clicks_links
from benchmarks.clicks import paper as clicks_paper
from benchmarks.clicks import quality as clicks_quality
from benchmarks.clicks import real as clicks_real
from benchmarks.clicks import rows as clicks_rows
from benchmarks.table import Table

TABLE = Table(
    name="clicks",
    title="Click models with embedding servers",
    rows=(
        *clicks_rows.ROWS,
        *clicks_quality.ROWS,
        *clicks_het.ROWS,
        *clicks_bagpipe.ROWS,
        *clicks_links.ROWS,
        *clicks_real.ROWS,
        *clicks_paper.ROWS,
    ),
)
