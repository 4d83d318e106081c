"""What a run of a task needs on one host: its tables, and what stands beside them. One answer for `--memory`,
`estimate` and `plan`; arithmetic alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from any2vec.plan.order.bucket_orders import ORDERS, make_order
from any2vec.plan.order.buffer import BufferPlan, plan_buffer

TORCH_BYTES = 194_000_000
"""that torch.distributed adds to a process: 130 MB of its own, and mapped libraries"""


FORMER, BEST = "while a checkpoint is replaced", "best epoch"
"""parts of a disk's peak: what the former checkpoint takes until the new one is whole, beyond the room of the result,
which comes last; rows of the best epoch, in the checkpoint of a run that validates"""


def with_former(disk: Mapping[str, int]) -> dict[str, int]:
    """The parts of a disk's peak, with FORMER where it is more than nothing; they have a result and a checkpoint."""
    more = disk["checkpoint"] + disk.get(BEST, 0) - disk["result"]
    return {name: part for name, part in disk.items() if name != FORMER} | ({FORMER: more} if more > 0 else {})


@dataclass(frozen=True, kw_only=True)
class TableSize:
    """A table of float32 numbers."""

    name: str
    rows: int
    columns: int
    """numbers of a row, its optimizer's state included"""

    @property
    def row_bytes(self) -> int:
        return 4 * self.columns

    @property
    def num_bytes(self) -> int:
        return self.rows * self.row_bytes


@dataclass(frozen=True, kw_only=True)
class Size:
    """What a run needs on one host, the interpreter and libraries left out.

    The first table is the one that may lie on disk, where the task has that at all.
    """

    tables: tuple[TableSize, ...]
    resident: Mapping[str, int] = field(default_factory=dict)
    """bytes that stand in memory beside the tables, by what they are"""
    thread_bytes: int = 0
    """scratch of each thread"""
    whole_bytes: int = 0
    """of memory besides, where all rows are in memory; below 0 where it then needs less"""
    items: int = 0
    """of an epoch"""
    items_bytes: int = 0
    """of an epoch's items on the disk, where the first table lies there"""
    result_bytes: int = 0
    """of what is left at the end"""

    def fixed_bytes(self, threads: int) -> int:
        """Beside the first table, wherever that lies."""
        return sum(self.resident.values()) + threads * self.thread_bytes + sum(t.num_bytes for t in self.tables[1:])

    def whole(self, fixed_bytes: int) -> BufferPlan:
        """The first table in memory."""
        return BufferPlan(self.tables[0].rows, self.tables[0].row_bytes, 1, 1, fixed_bytes, 0)

    def within(self, budget_bytes: int, fixed_bytes: int) -> BufferPlan | None:
        """Partitions of the first table, where it does not fit into the budget; None: it does, or there is none (0).

        Raises:
            InputError: the budget is too small; it says the smallest one that works.
        """
        if not budget_bytes:
            return None
        table = self.tables[0]
        plan = plan_buffer(table.rows, table.row_bytes, budget_bytes, fixed_bytes, self.whole_bytes)
        return None if plan.is_in_memory else plan

    def as_dict(
        self, plan: BufferPlan, order: str = "", *, process_bytes: int, threads: int, sweeps: int = 0
    ) -> dict[str, Any]:
        """Memory, disk and moves of a run whose first table lies as `plan` says, JSON-ready.

        order: of the partitions; sweeps: of an epoch, each makes its items anew; 0: they stay on the disk. Loads count
        the partitions that each order reads in an epoch, the first one's first few apart.
        """
        loads, passes = {}, max(1, sweeps)
        if not plan.is_in_memory:
            loads = {name: passes * make_order(name, plan.partitions, plan.capacity).swaps for name in ORDERS}
        moved, items = loads.get(order, 0) * plan.partition_bytes, 0 if plan.is_in_memory else self.items_bytes
        beside = {table.name: table.num_bytes for table in self.tables[1:]} | {"threads": threads * self.thread_bytes}
        if plan.is_in_memory:
            beside["all rows in memory"] = self.whole_bytes
        memory = {"rows": plan.memory_bytes - plan.fixed_bytes, "process": process_bytes, **self.resident, **beside}
        checkpoint = sum(table.num_bytes for table in self.tables[0 if plan.is_in_memory else 1 :])
        disk = with_former({
            "result": self.result_bytes, "table": plan.disk_bytes, "triples": items // passes, "checkpoint": checkpoint
        })  # fmt: skip
        return {
            "tables": {table.name: {"rows": table.rows, "columns": table.columns} for table in self.tables},
            "rows": plan.num_rows, "row_bytes": plan.row_bytes, "table_bytes": plan.num_rows * plan.row_bytes,
            "items": self.items, "is_in_memory": plan.is_in_memory, "partitions": plan.partitions,
            "capacity": plan.capacity, "partition_bytes": plan.partition_bytes, "order": order,
            "loads_per_epoch": loads, "read_bytes_per_epoch": moved + items,
            "written_bytes_per_epoch": moved + (items if sweeps else 0), "commit_bytes": plan.commit_bytes,
            "memory_bytes": sum(memory.values()), "memory": memory, "resident_bytes": memory["rows"],
            "fixed_bytes": sum(memory.values()) - memory["rows"],
            "disk_bytes": self.result_bytes, "disk_peak_bytes": sum(disk.values()), "disk": disk,
        }  # fmt: skip


@dataclass(frozen=True)
class Forecast:
    """A run that has not begun: for programs, and for people."""

    result: dict[str, Any]
    """JSON-ready"""
    lines: list[tuple[str, str]]
    """(what, how much)"""
    tables: list[tuple[str, list[str], list[list[str]]]] = field(default_factory=list)
    """(title, headings, rows)"""
    notes: list[str] = field(default_factory=list)
