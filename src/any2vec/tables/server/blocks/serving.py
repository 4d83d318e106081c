"""What a host that serves rows can tell of itself."""

from __future__ import annotations

from collections import Counter
from typing import Any

from any2vec.tables.server.blocks.row_block import RowBlock
from any2vec.tables.server.blocks.trained_block import TrainedBlock
from any2vec.tables.server.blocks.versioned_block import VersionedBlock
from any2vec.tables.server.server import RowServer


def served_metrics(server: RowServer) -> dict[str, Any]:
    """What a server holds and has done.

    Bytes of its rows: "values", "state", "versions"; "rows"; "updates" that they took (of bagpipe: write-backs); and of
    other hosts "requests", "rows_pulled", "ids_pooled", "rows_pushed". Of HET: "staleness",
    as `VersionedBlock` counts it.
    """
    found: Counter[str] = Counter({"rows": 0, "updates": 0, "values": 0, "state": 0, "versions": 0})
    found.update({"requests": 0, "rows_pulled": 0, "ids_pooled": 0, "rows_pushed": 0})
    staleness: dict[str, Any] = {}
    for block in server.blocks.values():
        if not isinstance(block, TrainedBlock | RowBlock):
            continue
        found.update({"rows": block.num_rows, "updates": block.updates} | block.memory)
        staleness |= block.metrics() if isinstance(block, VersionedBlock) else {}
    found.update(server.served)
    return {**found, **staleness}
