"""A run over processes: the parent starts them, passes on what rank 0 reports, and opens the result."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from any2vec.cluster.launch.join import run_processes
from any2vec.cluster.launch.processes import FOLDER
from any2vec.embeddings import Embeddings
from any2vec.errors import HostError
from any2vec.registry import loaded
from any2vec.train.checkpoint import FILE, updates_lost
from any2vec.train.registry import task_named
from any2vec.train.result import Result
from any2vec.train.run_folder import has_table, has_unfinished_run, note_restarts, summary_of
from any2vec.train.spec import Hooks, RunSpec
from any2vec.train.task import file_names

WORKER = "any2vec.train.worker"
_RAY_PATIENCE = 50.0
"""seconds at least for a Ray cluster to answer, and that one of its actors may be silent"""
_NO_LOSS = re.compile(r"Rank \d+ (failed: |could not |did not (start|come))|(No|A local|The) Ray cluster |Ray cannot ")
"""errors of hosts by themselves, and before there were hosts: not of one that was lost"""
_log = logging.getLogger("any2vec")


def train_in_processes(spec: RunSpec, hooks: Hooks) -> Result:
    """The result of a run whose hosts are processes.

    Each restart is logged at once, as a warning of the logger "any2vec": a line on standard error, if nobody set it up.

    Raises:
        HostError: a host was lost, and there are no restarts left.
        Interrupted: the run was asked to stop.
        Others, as `fit`, are raised as HostError: the sentence of the first rank that failed.
    """
    records: list[Any] = []

    def on_line(line: str) -> None:
        message = message_of(line)
        if "stage" in message and hooks.stage is not None:
            hooks.stage(*message["stage"])
        if "record" in message:
            record = record_class(**message["record"])
            while records and record.replaces(records[-1]):  # hosts that were started again went on from before
                records.pop()
            records.append(record)
            del records[: -record.most]
            if hooks.progress is not None:
                hooks.progress(record)

    task, out = task_named(spec.task), spec.run.out
    record_class = loaded(task.record)
    ranks = task.num_ranks(spec)
    assert ranks is not None
    with TemporaryDirectory(prefix=FOLDER, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        result = folder / "result" if out is None else Path(out)
        if task.ends and spec.run.validate is not None and spec.run.validation_share is None:
            spec = replace(spec, run=replace(spec.run, validate=file_names(spec.run.validate)))
        own = task.stored(spec, folder, hooks)
        own = replace(own, run=replace(own.run, out=result, threads=task.threads(spec, ranks)))
        restarts = carry_out(own, ranks, folder, on_line)
        if spec.hosts.restarts:
            note_restarts(result / task.summary_file, restarts)
        from any2vec.formats.snapshots import has_snapshots  # late: of streams alone

        is_empty = not task.ends and not has_snapshots(result)  # a stream that was stopped before it had a vector
        embeddings = None if is_empty else Embeddings.load(result, mmap=out is not None)
        return Result(embeddings, summary_of(result / task.summary_file), records, task.scorer(result))  # type: ignore[arg-type]


def message_of(line: str) -> dict[str, Any]:
    """What a line of rank 0 says; nothing where it is not our worker's: libraries write to standard output, too."""
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def carry_out(spec: RunSpec, ranks: int, folder: Path, on_line: Callable[[str], None]) -> int:
    """Start the hosts, again where one was lost and restarts are allowed; they go on from the last checkpoint.

    folder: for files between parent and hosts; on_line: is called with each
    line that rank 0 prints.

    Returns how often they were started again.
    """
    restarts, allowed, out = 0, spec.hosts.restarts, Path(spec.run.out)
    while True:
        try:
            _start(spec, ranks, folder, on_line)
            return restarts
        except HostError as error:
            if error.is_lasting:
                raise
            is_kept = not out.is_relative_to(folder)
            has_checkpoint = is_kept and has_unfinished_run(out)
            kept_in = None if not has_checkpoint else out if has_table(out) else out / FILE
            if restarts == allowed:
                raise _with_way_on(error, allowed, is_kept, kept_in) from error
            restarts += 1
            where = "the last checkpoint" if has_checkpoint else "the beginning, for there is no checkpoint yet"
            if lost := updates_lost(out):
                where += f" ({lost:,} updates of rows are lost in all)"
            _log.warning("%s; starting again from %s (%d of %d).", str(error).rstrip("."), where, restarts, allowed)
        spec = replace(spec, run=replace(spec.run, resume=True, overwrite=False))


def _with_way_on(error: HostError, allowed: int, is_kept: bool, kept_in: Path | None) -> HostError:
    """The error, which goes on with what to do about it.

    is_kept: --out was given; kept_in: the checkpoint, or the run folder that holds a table, if one does.
    """
    ways = [f"It was the last of {allowed} restarts."] if allowed > 1 else ["It was the only restart."] * allowed
    if kept_in is not None:
        ways.append(f"{kept_in} holds the work so far: run again with --resume (resume=True) to go on from it.")
    elif not allowed and not _NO_LOSS.match(str(error)):
        missing = "--restarts" if is_kept else "--out and --restarts"
        ways.append(f"With {missing} the hosts are started again and go on from the last checkpoint.")
    failure = HostError(" ".join([str(error), *ways]))
    for line in getattr(error, "__notes__", []):
        failure.add_note(line)
    return failure


def _start(spec: RunSpec, ranks: int, folder: Path, on_line: Callable[[str], None]) -> None:
    """Start the hosts once, on this machine or on a Ray cluster, and wait for all of them."""
    hosts = spec.hosts
    if hosts.ray is not None:
        from any2vec.cluster.ray.hosts import run_ray

        # The spec itself travels: nodes need not see this process's temporary files.
        return run_ray(
            hosts.ray, ranks, WORKER, spec.to_json(), on_line, cpus_per_host=spec.run.threads,
            patience=max(_RAY_PATIENCE, hosts.host_timeout),
        )  # fmt: skip
    file = folder / "job.json"
    file.write_text(spec.to_json(), encoding="utf-8")
    run_processes(ranks, WORKER, str(file), on_line, folder=folder)
