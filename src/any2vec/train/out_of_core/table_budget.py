"""How a run is laid out within a budget: all rows in memory, or partitions of them; whatever the rows are of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from any2vec import machine
from any2vec.cluster.transport import LONG_WORK, Transport, control
from any2vec.errors import InputError, JobError
from any2vec.plan.cost.shared_plan import plan_shared
from any2vec.plan.cost.size import Size
from any2vec.plan.order.buffer import BufferPlan
from any2vec.tables.disk.partition_store import read_index
from any2vec.train.checkpoint import FILE, check_settings
from any2vec.train.run_folder import TABLE, has_table, host_folder, is_shared, is_table
from any2vec.train.spec import Request


def known_plan(request: Request, size: Size) -> BufferPlan | None:
    """The plan of the unfinished run that this one goes on with; None where there is none with a table on disk.

    Raises:
        InputError: it had other settings, or fewer threads, and the budget has no room for more.
        FormatError: its store is damaged.
    """
    if request.spec.run.out is None or not request.spec.run.resume or not has_table(request.spec.run.out):
        return None
    if is_shared(request.spec.run.out):
        raise InputError(
            f"{request.spec.run.out} holds an unfinished run of several hosts; go on with as many, or start again with "
            "--overwrite (overwrite=True)."
        )
    return _known(request, request.spec.run.out, size)


def agreed_plan(request: Request, transport: Transport, size: Size) -> BufferPlan:
    """The plan of several hosts: of the unfinished run that they go on with, or one for the fullest of them. All hosts
    call it together.

    Raises:
        InputError: the budget is too small, or the run had other settings.
        FormatError: this host's store is damaged.
        JobError: hosts find several unfinished runs.
    """
    out, num_rows, row_bytes = request.spec.run.out, size.tables[0].rows, size.tables[0].row_bytes
    folder = None if out is None else host_folder(out, transport.rank)
    known = None
    if folder is not None and request.spec.run.resume and is_table(folder):
        known = _known(request, folder, size)
    own = control(fixed_of(request, size), *((known.partitions, known.capacity) if known else (0, 0)))
    gathered = transport.gather([own], "plan", timeout=LONG_WORK)
    answer = []
    if gathered:
        found_H3 = np.array([parts[0].array for parts in gathered.values()])
        of_a_run_H3 = found_H3[found_H3[:, 1] > 0]
        runs = len(np.unique(of_a_run_H3[:, 1:], axis=0))
        answer = [control(found_H3[:, 0].max(), *(of_a_run_H3[0, 1:] if runs else (0, 0)), runs)]
    numbers = transport.share(answer, "plan", timeout=LONG_WORK)[0].array.astype(np.int64)
    fixed, partitions, capacity, runs = (int(number) for number in numbers)
    if runs > 1:
        raise JobError(
            f"The hosts find parts of several unfinished runs below {out}; start again with --overwrite "
            "(overwrite=True)."
        )
    if partitions:  # a host without a part begins as the others did, unless they have gone on
        return BufferPlan(num_rows, row_bytes, partitions, capacity, fixed_of(request, size), 0)
    return plan_shared(num_rows, row_bytes, request.spec.storage.memory_bytes, fixed, transport.hosts)


def _known(request: Request, folder: Path, size: Size) -> BufferPlan:
    index = read_index(folder / TABLE)
    note, partitions = index["note"], len(index["bounds"]) - 1
    check_settings(folder / TABLE, note["run"], request.settings)
    whole = size.whole(fixed_of(request, size))
    plan = replace(whole, partitions=partitions, capacity=note["capacity"])
    budget, threads, out = request.spec.storage.memory_bytes, note["threads"], request.spec.run.out
    if request.threads > threads and plan.memory_bytes > budget:
        raise InputError(
            f"The run in {out} began with threads {threads}; with {request.threads} it needs a memory of "
            f"{plan.memory_bytes:,} bytes, and has {budget:,}: go on with threads {threads}."
        )
    return plan


def plan_table(request: Request, size: Size) -> BufferPlan | None:
    """Partitions of a table that does not fit; None: all rows are in memory, as they are without a budget.

    Raises:
        InputError: the budget is too small; it says the smallest one that works.
    """
    out = request.spec.run.out
    if request.spec.run.resume and out is not None and (out / FILE).exists():
        return None
    return size.within(request.spec.storage.memory_bytes, fixed_of(request, size))


def fixed_of(request: Request, size: Size) -> int:
    """What the process needs beside the rows that may lie on disk."""
    return machine.process_bytes() + size.fixed_bytes(request.threads)
