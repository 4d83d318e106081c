"""The table of knowledge graphs, and of tables larger than memory."""

from __future__ import annotations

from benchmarks.disk import buffers as memory_rows
from benchmarks.disk import partitions as partition_rows
from benchmarks.disk import rows as disk_rows
from benchmarks.disk import shared as shared_rows
from benchmarks.disk import triples_quality, triples_speed
from benchmarks.table import Table

TABLE = Table(
    name="larger-than-memory",
    title="Knowledge graphs, and tables larger than memory",
    rows=(
        *memory_rows.ROWS,
        *partition_rows.ROWS,
        *disk_rows.ROWS,
        *shared_rows.ROWS,
        *triples_quality.ROWS,
        *triples_speed.ROWS,
    ),
)
