"""How a table that does not fit into memory is cut: partitions, and how many of them a budget can hold.

A buffer holds c of p partitions; one more is being read ahead, and one written back, while the others are trained. Of
all numbers of partitions that leave room for two in the buffer the one is taken that moves the fewest bytes in an epoch
of BETA (plan/order/bucket_orders.py); of equal ones the fewest partitions.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from any2vec.errors import InputError
from any2vec.plan.order.bucket_orders import beta_swaps

MOST_PARTITIONS = 64
"""p * p buckets of edges: with more they become small, and training sees few edges between two swaps"""
AHEAD = 2
"""partitions beside the buffer: one that is read ahead, one that is written back"""

SLACK = 8_000_000
"""bytes by which the process itself may be larger when the same command is given again"""

PAGE = 4096
"""bytes; blocks of the buffer begin and end with whole pages, for they are read and written past the page cache"""


_DERIVED = ("partition_bytes", "memory_bytes", "epoch_bytes", "commit_bytes", "disk_bytes")


def block_rows(rows: int, row_bytes: int) -> int:
    """Rows that the block of a partition has room for: as few more as make whole pages."""
    unit = PAGE // math.gcd(PAGE, row_bytes)
    return -(-max(1, rows) // unit) * unit


@dataclass(frozen=True)
class BufferPlan:
    """A table's partitions, and what an epoch over all pairs of them moves."""

    num_rows: int
    row_bytes: int
    partitions: int
    capacity: int
    """partitions of the buffer; all of them: the table stays in memory"""
    fixed_bytes: int
    """of the process without the table"""
    swaps: int
    """partitions read in an epoch once the buffer is full"""

    @property
    def is_in_memory(self) -> bool:
        return self.capacity == self.partitions

    @property
    def partition_bytes(self) -> int:
        """Of the largest partition."""
        return -(-self.num_rows // self.partitions) * self.row_bytes

    @property
    def memory_bytes(self) -> int:
        """All that is needed."""
        if self.is_in_memory:
            return self.fixed_bytes + self.num_rows * self.row_bytes
        return self.fixed_bytes + (self.capacity + AHEAD) * _block_bytes(self.num_rows, self.row_bytes, self.partitions)

    @property
    def epoch_bytes(self) -> int:
        """Read and written in an epoch; each swap writes what leaves."""
        return 2 * self.swaps * self.partition_bytes

    @property
    def commit_bytes(self) -> int:
        """Written by a commit in the middle of a run: all partitions that are in memory."""
        return 0 if self.is_in_memory else self.capacity * self.partition_bytes

    @property
    def disk_bytes(self) -> int:
        """Of the table on disk: between two commits a partition has two versions."""
        return 0 if self.is_in_memory else 2 * self.partitions * self.partition_bytes

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        derived = {name: getattr(self, name) for name in _DERIVED}
        return asdict(self) | derived


def plan_buffer(
    num_rows: int, row_bytes: int, budget_bytes: int, fixed_bytes: int = 0, more_bytes: int = 0
) -> BufferPlan:
    """The plan that moves the fewest bytes within the budget.

    Args:
        num_rows: of the table, 1 or more.
        row_bytes: of a row with its optimizer's state.
        fixed_bytes: what the process needs beside the table.
        more_bytes: what it needs besides where all rows are in memory; below 0 where it then needs less.

    Raises:
        InputError: the budget is too small; it says one that works, `SLACK` above the smallest.
    """
    whole = BufferPlan(num_rows, row_bytes, 1, 1, fixed_bytes, 0)
    if whole.memory_bytes + more_bytes <= budget_bytes:
        return whole
    found = []
    for partitions in range(AHEAD + 3, min(MOST_PARTITIONS, num_rows) + 1):
        room = (budget_bytes - fixed_bytes) // _block_bytes(num_rows, row_bytes, partitions) - AHEAD
        capacity = min(room, partitions - 1)
        if capacity >= 2:
            swaps = beta_swaps(partitions, capacity)
            found.append(BufferPlan(num_rows, row_bytes, partitions, capacity, fixed_bytes, swaps))
    if not found:
        smallest = smallest_budget(num_rows, row_bytes, fixed_bytes, more_bytes)
        is_whole = smallest == whole.memory_bytes + more_bytes
        beside = fixed_bytes + more_bytes * is_whole
        raise too_small(f"A table of {num_rows:,} rows of {row_bytes:,} bytes", smallest, beside, budget_bytes)
    return min(found, key=lambda plan: (plan.epoch_bytes, plan.partitions))


def smallest_budget(num_rows: int, row_bytes: int, fixed_bytes: int = 0, more_bytes: int = 0) -> int:
    """The smallest budget that `plan_buffer` accepts."""
    whole = num_rows * row_bytes + more_bytes
    partitions = max(1, min(MOST_PARTITIONS, num_rows))
    if partitions < AHEAD + 3:
        return fixed_bytes + whole
    return fixed_bytes + min(whole, (2 + AHEAD) * _block_bytes(num_rows, row_bytes, partitions))


def too_small(table: str, smallest: int, beside: int, budget_bytes: int) -> InputError:
    """The refusal of a budget. It names one in whole MB, as it can be given, with room for a process that is a little
    larger the next time. beside: bytes of the smallest that are not for the table."""
    named = -(-(smallest + SLACK) // 1_000_000)
    return InputError(
        f"{table} needs memory {named}MB at least, of which {round(beside / 1e6)}MB are for everything else; "
        f"got {budget_bytes:,} bytes."
    )


def _block_bytes(num_rows: int, row_bytes: int, partitions: int) -> int:
    return block_rows(-(-num_rows // partitions), row_bytes) * row_bytes
