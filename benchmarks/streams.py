"""The table of text that never ends."""

from __future__ import annotations

<<<<<<< HEAD
from benchmarks import pip, streams_faults, streams_models, streams_speed, streams_traffic
=======
from benchmarks import pip, streams_drift, streams_statistics
>>>>>>> 0a46d3c75853c05336a555d88a3ea1982b2009f0
from benchmarks.table import Table

TABLE = Table(
    name="streams",
    title="Text that never ends: open vocabulary, roles, and how good the vectors are",
<<<<<<< HEAD
    rows=(*streams_speed.ROWS, *streams_models.ROWS, *streams_traffic.ROWS, *streams_faults.ROWS, *pip.ROWS),
=======
    rows=(*pip.ROWS, *streams_drift.ROWS, *streams_statistics.ROWS),
>>>>>>> 0a46d3c75853c05336a555d88a3ea1982b2009f0
)
