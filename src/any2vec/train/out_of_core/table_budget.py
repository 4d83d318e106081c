"""How a run is laid out within a budget: all rows in memory, or partitions of them; whatever the rows are of."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from any2vec.cluster.transport import LONG_WORK, Transport, control
from any2vec.errors import InputError, JobError
from any2vec.machine import resident_bytes
from any2vec.plan.cost.shared_plan import plan_shared
from any2vec.plan.order.buffer import BufferPlan, plan_buffer
from any2vec.tables.disk.partition_store import read_index
from any2vec.train.checkpoint import FILE, check_settings
from any2vec.train.host import FitRequest
from any2vec.train.run_folder import TABLE, has_table, host_folder, is_shared, is_table

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
    if is_shared(request.out):
        raise InputError(
            f"{request.out} holds an unfinished run of several hosts; go on with as many, or start again with "
            "--overwrite (overwrite=True)."
        )
    return _known(request, request.out, num_rows, row_bytes, fixed_bytes)


def agreed_plan(
    request: FitRequest, transport: Transport, num_rows: int, row_bytes: int, fixed_bytes: int
) -> BufferPlan:
    """The plan of several hosts: of the unfinished run that they go on with, or one for the fullest of them. All hosts
    call it together.

    Raises:
        InputError: the budget is too small, or the run had other settings.
        FormatError: this host's store is damaged.
        JobError: hosts find several unfinished runs.
    """
    folder = None if request.out is None else host_folder(request.out, transport.rank)
    known = None
    if folder is not None and request.resume and is_table(folder):
        known = _known(request, folder, num_rows, row_bytes, fixed_bytes)
    own = control(fixed_bytes, *((known.partitions, known.capacity) if known else (0, 0)))
    gathered = transport.gather([own], "plan", timeout=LONG_WORK)
    answer = []
    if gathered:
        found_H3 = np.array([parts[0].array for parts in gathered.values()])
        of_a_run_H3 = found_H3[found_H3[:, 1] > 0]
        runs = len(np.unique(of_a_run_H3[:, 1:], axis=0))
        answer = [control(found_H3[:, 0].max(), *(of_a_run_H3[0, 1:] if runs else (0, 0)), runs)]
    told = transport.share(answer, "plan", timeout=LONG_WORK)[0].array.astype(np.int64)
    fixed, partitions, capacity, runs = (int(number) for number in told)
    if runs > 1:
        raise JobError(
            f"The hosts find parts of several unfinished runs below {request.out}; start again with --overwrite "
            "(overwrite=True)."
        )
    if partitions:  # a host without a part begins as the others did, unless they have gone on
        return BufferPlan(num_rows, row_bytes, partitions, capacity, fixed_bytes, 0)
    return plan_shared(num_rows, row_bytes, request.table.memory_bytes, fixed, transport.hosts)


def _known(request: FitRequest, folder: Path, num_rows: int, row_bytes: int, fixed_bytes: int) -> BufferPlan:
    index = read_index(folder / TABLE)
    note, partitions = index["note"], len(index["bounds"]) - 1
    check_settings(folder / TABLE, note["run"], request.settings)
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
    if not budget:
        return None
    plan = plan_buffer(num_rows, row_bytes, budget, fixed_bytes, more)
    return None if plan.is_in_memory else plan


def process_bytes() -> int:
    """What the process has now, and what compiling and libraries will yet take."""
    anonymous, mapped = resident_bytes()
    return anonymous + min(mapped, _LIBRARIES) + _COMPILER  # mapped data go when their room is wanted
