"""The table of many hosts: one program on logical hosts, processes, torchrun and Ray."""

from __future__ import annotations

from benchmarks.hosts import accuracy as hosts_accuracy
from benchmarks.hosts import agreements as hosts_agreements
from benchmarks.hosts import distributed_walks as travel
from benchmarks.hosts import exact as hosts_exact
from benchmarks.hosts import faults as hosts_faults
from benchmarks.hosts import links as hosts_links
from benchmarks.hosts import modeled as modeled
from benchmarks.hosts import pull_memory as pull_memory
from benchmarks.hosts import triples as hosts_triples
from benchmarks.table import Table

TABLE = Table(
    name="many-hosts",
    title="Many hosts: the same result from 32 machines as from one",
    rows=(
        *hosts_exact.ROWS,
        *hosts_accuracy.ROWS,
        *pull_memory.ROWS,
        *hosts_links.ROWS,
        *modeled.ROWS,
        *hosts_agreements.ROWS,
        *hosts_triples.ROWS,
        *travel.ROWS,
        *hosts_faults.ROWS,
    ),
)
