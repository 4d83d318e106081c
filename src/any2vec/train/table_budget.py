"""How a run is laid out within a budget: all rows in memory, or partitions of them; whatever the rows are of."""

from __future__ import annotations

from any2vec.errors import InputError
from any2vec.machine import resident_bytes
from any2vec.plan.buffer import BufferPlan, plan_buffer
from any2vec.tables.partition_store import read_index
from any2vec.train.checkpoint import FILE, check_settings
from any2vec.train.host import FitRequest
from any2vec.train.run_folder import TABLE, has_table

_COMPILER = 100 << 20
"""bytes of what kernels, libraries and threads will yet take"""
_LIBRARIES = 150 << 20
"""bytes of mapped files that are code, at most"""


def known_plan(request: FitRequest, num_rows: int, row_bytes: int, fixed_bytes: int) -> BufferPlan | None:
    """The plan of the unfinished run that this one goes on with; None where there is none with a table on disk.

    Raises:
        InputError: it had other settings, or fewer threads, and the budget has no room for more.
        FormatError: its store is damaged.
    """
    if request.out is None or not request.resume or not has_table(request.out):
        return None
    index = read_index(request.out / TABLE)
    note, partitions = index["note"], len(index["bounds"]) - 1
    check_settings(request.out / TABLE, note["run"], request.settings)
    plan = BufferPlan(num_rows, row_bytes, partitions, note["capacity"], fixed_bytes, 0)
    budget, threads = request.table.memory_bytes, note["threads"]
    if request.threads > threads and plan.memory_bytes > budget:
        raise InputError(
            f"The run in {request.out} began with threads {threads}; with {request.threads} it needs a memory of "
            f"{plan.memory_bytes:,} bytes, and has {budget:,}: go on with threads {threads}."
        )
    return plan


def plan_table(request: FitRequest, num_rows: int, row_bytes: int, fixed_bytes: int, more: int) -> BufferPlan | None:
    """Partitions of a table that does not fit; None: all rows are in memory, as they are without a budget.

    Args:
        fixed_bytes: what the process needs beside the rows.
        more: what it needs besides where all rows are in memory.

    Raises:
        InputError: the budget is too small; it says the smallest one that works.
    """
    has_checkpoint = request.resume and request.out is not None and (request.out / FILE).exists()
    return None if has_checkpoint else plan_budget(request.table.memory_bytes, num_rows, row_bytes, fixed_bytes, more)


def plan_budget(budget: int, num_rows: int, row_bytes: int, fixed_bytes: int, more: int) -> BufferPlan | None:
    """`plan_table` of a budget in bytes, 0: there is none."""
    whole = fixed_bytes + num_rows * row_bytes
    if not budget or whole + more <= budget:
        return None
    return plan_buffer(num_rows, row_bytes, min(budget, whole - 1), fixed_bytes)


def process_bytes() -> int:
    """What the process has now, and what compiling and libraries will yet take."""
    anonymous, mapped = resident_bytes()
    return anonymous + min(mapped, _LIBRARIES) + _COMPILER  # mapped data go when their room is wanted
