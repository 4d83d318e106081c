"""The table of layers in parallel: pdADMM-G and pdADMM-G-Q for graph-augmented MLPs."""

from __future__ import annotations

from benchmarks.layers import accuracy as layers_accuracy
from benchmarks.layers import hosts as layers_hosts
from benchmarks.table import Table

TABLE = Table(
    name="admm",
    title="Layers in parallel: pdADMM-G for classes of nodes",
    rows=(*layers_hosts.ROWS[:1], *layers_accuracy.ROWS, *layers_hosts.ROWS[1:], layers_accuracy.FROM_VECTORS),
)
