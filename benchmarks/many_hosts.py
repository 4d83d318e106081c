"""The table of many hosts: one program on logical hosts, processes, torchrun and Ray."""

from __future__ import annotations

from benchmarks import hosts_accuracy, hosts_agreements, hosts_exact, hosts_faults, hosts_links, modelled, travel
from benchmarks.table import Table

TABLE = Table(
    name="many-hosts",
    title="Many hosts: the same result from 32 machines as from one",
    rows=(
        *hosts_exact.ROWS,
        *hosts_accuracy.ROWS,
        *hosts_links.ROWS,
        *modelled.ROWS,
        *hosts_agreements.ROWS,
        *travel.ROWS,
        *hosts_faults.ROWS,
    ),
)
