"""What a host that serves rows can tell of itself."""

from __future__ import annotations

from collections import Counter

from any2vec.tables.server import RowServer
from any2vec.tables.trained_block import TrainedBlock


def served_facts(server: RowServer) -> dict[str, int]:
    """What a server holds and has done.

    Bytes of its rows: "values", "state", "versions"; "rows"; "updates" that they took; and of other hosts "requests",
    "rows_pulled", "ids_pooled", "rows_pushed".
    """
    found: Counter[str] = Counter({"rows": 0, "updates": 0, "values": 0, "state": 0, "versions": 0})
    found.update({"requests": 0, "rows_pulled": 0, "ids_pooled": 0, "rows_pushed": 0})
    for block in server.blocks.values():
        if isinstance(block, TrainedBlock):
            found.update({"rows": block.num_rows, "updates": block.updates} | block.memory)
    found.update(server.served)
    return dict(found)
