"""The table of graph networks."""

from __future__ import annotations

from benchmarks.graphs import (
    blocks,
    building,
    determinism,
    disk_adjacency,
    on_disk,
    residency,
    speed,
    superbatch,
    training,
    tuned_blocks,
    zoo,
)
from benchmarks.graphs.learned import accuracy, families, links, own_module, relations
from benchmarks.table import Table

TABLE = Table(
    name="graph-networks",
    title="Graph networks on one machine",
    rows=(
        *speed.ROWS,
        *training.ROWS,
        *zoo.ROWS,
        *blocks.ROWS,
        *tuned_blocks.ROWS,
        *residency.ROWS,
        *accuracy.ROWS,
        *families.ROWS,
        *relations.ROWS,
        *links.ROWS,
        *own_module.ROWS,
        *building.ROWS,
        *determinism.ROWS,
        *on_disk.ROWS,
        *disk_adjacency.ROWS,
        *superbatch.ROWS,
    ),
)
