"""The table of click models: rows on servers, dense replicas, and training that goes on while they synchronise."""

from __future__ import annotations

from benchmarks.table import Table

TABLE = Table(name="clicks", title="Click models with embedding servers", rows=())
