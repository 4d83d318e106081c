"""A run carried out in this process: on one host, on logical hosts, or as one of several processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from any2vec.checks import check_whole
from any2vec.cluster.attempt import Attempt
from any2vec.cluster.counters import Counters
from any2vec.cluster.launch.join import is_first, join, joined, restarts
from any2vec.cluster.launch.processes import MOST_PROCESSES
from any2vec.cluster.launch.rendezvous import variable
from any2vec.cluster.threads import run_logical, single_host_transport
from any2vec.cluster.transport import LONG_WORK, Transport, control, first_other
from any2vec.errors import JobError
from any2vec.machine import keep_freed_memory
from any2vec.train.frame import run_frame
from any2vec.train.registry import task_named
from any2vec.train.result import Result
from any2vec.train.run_folder import is_finished, open_finished, own_folder, remove_table
from any2vec.train.spec import Hooks, Request, RunSpec
from any2vec.train.task import Task

Found = TypeVar("Found")


def run_here(spec: RunSpec, hooks: Hooks, started: float) -> Result:
    """Train in this process, on one host or on several logical ones. started: moment of `time.perf_counter`."""
    task = task_named(spec.task)
    hosts = task.num_ranks(spec) or 1
    data = task.read(spec, hooks)

    def host(transport: Transport) -> Result | None:
        return _train(task, spec, hooks, data, transport, hosts, started)

    with task.limits(spec):
        is_single = spec.hosts.logical_hosts is None
        made = host(single_host_transport()) if is_single else run_logical(hosts, host, spec.hosts.link_model)[0]
    assert made is not None
    return made


def run_joined(spec: RunSpec, hooks: Hooks, started: float) -> Result | None:
    """Train as one of the processes that torchrun, Ray or a parent has started; None on ranks other than 0.

    Raises:
        HostError: another host is lost, or was asked for something else, or sees other data.
    """
    task = task_named(spec.task)
    local_hosts = variable("LOCAL_WORLD_SIZE", "1")
    check_whole("LOCAL_WORLD_SIZE", local_hosts, 1, MOST_PROCESSES)
    keep_freed_memory()
    with join(spec.fingerprint(), spec.hosts.link_model, silence=spec.hosts.host_timeout) as transport:
        spec = _begun(task, spec, transport.attempt)
        data = _read_in_turn(transport, lambda: task.read(spec, hooks))
        with task.limits(spec):
            made = _train(task, spec, hooks, data, transport, local_hosts, started)
        transport.barrier("end", timeout=LONG_WORK)  # rank 0 writes the result, for as long as its disk takes
    return made


def _begun(task: Task, spec: RunSpec, attempt: Attempt) -> RunSpec:
    """The spec of an attempt, its folder claimed by rank 0; behind another it goes on from what is in there."""
    if spec.run.out is None:
        return spec
    if attempt.is_again:
        spec = replace(spec, run=replace(spec.run, resume=True, overwrite=False))
    if is_first():
        task.claim(spec, may_start_again=restarts()[1] > 0)
        attempt.begin()
    return spec


def _train(
    task: Task, spec: RunSpec, hooks: Hooks, data: Any, transport: Transport, local_hosts: int, started: float
) -> Result | None:
    """The course of one host. local_hosts: those that share this machine."""
    if task.shares_reading(spec):
        transport.counters = Counters()
    own = task.share(spec, hooks, data, transport)
    request = Request(
        spec=spec, hooks=hooks, threads=task.threads(spec, local_hosts),
        agreement=task.agreement(spec) if spec.hosts.is_distributed or joined() else None,
        settings=task.settings(spec, own, transport.hosts), started=started,
        validator=task.validator(spec, own) if transport.rank == 0 else None,
    )  # fmt: skip
    is_over, finished = _settled(task, request, transport)
    if is_over:
        return finished
    if not task.shares_reading(spec):
        transport.counters = Counters()  # what follows is the run, counted alike on any transport
    return run_frame(request, task.program(request, own, transport), transport)


def _read_in_turn(transport: Transport, read: Callable[[], Found]) -> Found:
    """The first host of each machine reads the data, the others find them cached."""
    is_first = variable("LOCAL_RANK", "0") == 0
    if not is_first:
        transport.barrier("read", timeout=LONG_WORK)
    found = read()
    if is_first:
        transport.barrier("read", timeout=LONG_WORK)
    return found


def _settled(task: Task, request: Request, transport: Transport) -> tuple[bool, Result | None]:
    """(whether there is nothing left to do, what rank 0 then returns): a collective call.

    Raises:
        JobError: not all hosts see the same data and start vectors.
    """
    other = first_other(transport, json.dumps(request.settings, sort_keys=True), "settings")
    if other >= 0:
        raise JobError(
            f"Rank {other} has read other data, or other start vectors, than rank 0; give all hosts the same files."
        )
    finished = _finished(task, request) if transport.rank == 0 else None
    return bool(transport.share([control(finished is not None)], "finished")[0].array[0]), finished


def _finished(task: Task, request: Request) -> Result | None:
    """What a former run has left in the folder, where this one is to go on from it and nothing is left to do."""
    out = request.spec.run.out
    if not request.spec.run.resume or out is None or not is_finished(out):
        return None
    made = Result(*open_finished(out, request.settings), [])
    if request.spec.storage.memory is not None:
        with own_folder(out):
            remove_table(out)  # of a run that was killed behind its result
    return replace(made, scorer=task.scorer(out))
