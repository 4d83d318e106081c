"""What a run whose table may be larger than memory holds, moves and puts on the disk: arithmetic of its plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from any2vec.plan.order.bucket_orders import ORDERS, make_order
from any2vec.plan.order.buffer import BufferPlan


@dataclass(frozen=True, kw_only=True)
class TableRun:
    """A table's plan, the order that an epoch follows, and what is trained."""

    buffer: BufferPlan
    order: str
    """one of bucket_orders.ORDERS"""
    items: int
    """of an epoch"""
    item_bytes: int
    """of an item on the disk"""
    result_bytes: int
    """of what is left at the end: vectors, names, what was trained"""
    more_bytes: int = 0
    """of memory, where all rows are in memory"""

    @property
    def loads(self) -> dict[str, int]:
        """Partitions that each order reads in an epoch, the first one's first few apart; none in memory."""
        plan = self.buffer
        if plan.is_in_memory:
            return {}
        return {name: make_order(name, plan.partitions, plan.capacity).swaps for name in ORDERS}

    @property
    def resident_bytes(self) -> int:
        """Of rows in memory, partitions that come and go among them."""
        return self.buffer.memory_bytes - self.buffer.fixed_bytes

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        plan, loads = self.buffer, self.loads
        moved, items = loads.get(self.order, 0) * plan.partition_bytes, self.items * self.item_bytes
        table = plan.num_rows * plan.row_bytes
        disk = {"result": self.result_bytes, "table": plan.disk_bytes, "triples": 0 if plan.is_in_memory else items}
        return {
            "rows": plan.num_rows, "row_bytes": plan.row_bytes, "table_bytes": table, "items": self.items,
            "is_in_memory": plan.is_in_memory, "partitions": plan.partitions, "capacity": plan.capacity,
            "partition_bytes": plan.partition_bytes, "order": self.order, "loads_per_epoch": loads,
            "read_bytes_per_epoch": 0 if plan.is_in_memory else moved + items, "written_bytes_per_epoch": moved,
            "commit_bytes": plan.commit_bytes, "memory_bytes": plan.memory_bytes + self._more,
            "resident_bytes": self.resident_bytes, "fixed_bytes": plan.fixed_bytes + self._more,
            "disk_bytes": self.result_bytes, "disk_peak_bytes": sum(disk.values()), "disk": disk,
        }  # fmt: skip

    @property
    def _more(self) -> int:
        return self.more_bytes if self.buffer.is_in_memory else 0
