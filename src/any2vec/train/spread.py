"""A run over processes: the parent starts them, passes on what rank 0 tells, and opens the result."""

from __future__ import annotations

import json
import logging
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from any2vec.cluster.launch.join import run_processes
from any2vec.data.io.files import STDIN
from any2vec.data.text.corpus import Corpus
from any2vec.embeddings import Embeddings
from any2vec.errors import HostError, InputError
from any2vec.models.clicks.config import ClickModel
from any2vec.models.layers.ga_mlp import GAMLP
from any2vec.models.triples.config import TripleModel
from any2vec.models.words.config import SequenceModel
from any2vec.sync.options.run_hosts import RunHosts
from any2vec.train.call import own_threads
from any2vec.train.checkpoint import FILE
from any2vec.train.job import TrainJob
from any2vec.train.losses import updates_lost
from any2vec.train.run_folder import has_table, is_begun, note_restarts, summary_of
from any2vec.train.words.prepare import Stage, open_graph
from any2vec.types import Progress

_RAY_PATIENCE = 50.0
"""seconds at least for a Ray cluster to answer, and that one of its actors may be silent"""
_OWN_FAULT = re.compile(r"Rank \d+ (failed: |could not start|did not start)")
_log = logging.getLogger("any2vec")


def train_in_processes(
    job: TrainJob, data: Any, callback: Callable[[Progress], None] | None, stage: Stage | None
) -> tuple[Embeddings, dict[str, Any], list[Progress], Any]:
    """(vectors, summary, records, scorer, if the model has one) of a job whose hosts are processes of this machine.

    job.data is filled in here.

    Each restart is told at once, as a warning of the logger "any2vec": a line on standard error, if nobody set it up.

    Raises:
        HostError: a host was lost, and there are no restarts left.
        Interrupted: the run was asked to stop.
        Others, as `fit`, are told as HostError: the sentence of the first rank that failed.
    """
    records: list[Progress] = []

    def hear(line: str) -> None:
        told = told_by(line)
        if "stage" in told and stage is not None:
            stage(*told["stage"])
        if "record" in told:
            record = Progress(**told["record"])
            while records and records[-1].items >= record.items:  # hosts that were started again went on from before
                records.pop()
            records.append(record)
            if callback is not None:
                callback(records[-1])

    out = job.arguments["out"]
    with temporary_folder() as folder:
        result = folder / "result" if out is None else Path(out)
        threads = job.arguments["threads"] or own_threads(job.hosts, job.hosts.num_ranks)
        arguments = job.arguments | {"out": str(result), "threads": threads, "init": _stored_init(job, folder)}
        if job.nodes is not None:
            from any2vec.train.layers.files import stored_options

            job = replace(job, nodes=stored_options(job.nodes, folder))
        restarts = carry_out(replace(_stored(job, data, folder, stage), arguments=arguments), folder, hear)
        if job.hosts.restarts:
            note_restarts(result, restarts)
        embeddings = Embeddings.load(result) if out is not None else Embeddings.load(result, mmap=False)
        scorer: Any = None
        if isinstance(job.model, ClickModel):
            from any2vec.models.clicks.scorer import ClickScorer

            scorer = ClickScorer.load(result)
        elif isinstance(job.model, GAMLP):
            from any2vec.models.layers.classifier import NodeClassifier

            scorer = NodeClassifier.load(result)
        if isinstance(job.model, TripleModel):
            from any2vec.models.triples.scorer import TripleScorer

            scorer = TripleScorer.load(result)
        return embeddings, summary_of(result), records, scorer


def told_by(line: str) -> dict[str, Any]:
    """What a line of rank 0 tells; nothing where it is not our worker's: libraries write to standard output, too."""
    try:
        told = json.loads(line)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


class Job(Protocol):
    """What processes carry out: a frozen dataclass."""

    worker: ClassVar[str]
    """the module that does it, see `launch`"""

    @property
    def hosts(self) -> Any:
        """`RunHosts`"""

    @property
    def arguments(self) -> dict[str, Any]:
        """ "out", "threads", "resume" and "overwrite" among them"""

    def to_json(self) -> str: ...


def carry_out(job: Job, folder: Path, hear: Callable[[str], None]) -> int:
    """Start the hosts, again where one was lost and restarts are allowed; they go on from the last checkpoint.

    Returns how often they were started again.
    """
    restarts, allowed, out = 0, job.hosts.restarts, Path(job.arguments["out"])
    while True:
        try:
            _start(job, folder, hear)
            return restarts
        except HostError as error:
            if error.is_lasting:
                raise
            is_kept = not out.is_relative_to(folder)
            has_checkpoint = is_kept and is_begun(out)
            kept_in = None if not has_checkpoint else out if has_table(out) else out / FILE
            if restarts == allowed:
                raise _with_way_on(error, allowed, is_kept, kept_in) from error
            restarts += 1
            where = "the last checkpoint" if has_checkpoint else "the beginning, for there is no checkpoint yet"
            if lost := updates_lost(out):
                where += f" ({lost:,} updates of rows are lost in all)"
            _log.warning("%s; starting again from %s (%d of %d).", str(error).rstrip("."), where, restarts, allowed)
        job = replace(job, arguments=job.arguments | {"resume": True, "overwrite": False})  # type: ignore[type-var]


def _with_way_on(error: HostError, allowed: int, is_kept: bool, kept_in: Path | None) -> HostError:
    """The error, which goes on with what to do about it.

    is_kept: --out was given; kept_in: the checkpoint, or the run folder that holds a table, if one does.
    """
    ways = [f"It was the last of {allowed} restarts."] if allowed > 1 else ["It was the only restart."] * allowed
    if kept_in is not None:
        ways.append(f"{kept_in} holds the work so far: run again with --resume (resume=True) to go on from it.")
    elif not allowed and not _OWN_FAULT.match(str(error)):
        missing = "--restarts" if is_kept else "--out and --restarts"
        ways.append(f"With {missing} the hosts are started again and go on from the last checkpoint.")
    told = HostError(" ".join([str(error), *ways]))
    for line in getattr(error, "__notes__", []):
        told.add_note(line)
    return told


def _start(job: Job, folder: Path, hear: Callable[[str], None]) -> None:
    """Start the hosts once, on this machine or on a Ray cluster, and wait for all of them."""
    spread: RunHosts = job.hosts
    assert spread.num_ranks is not None
    if spread.ray is not None:
        from any2vec.cluster.ray.hosts import run_ray

        # The job itself travels: nodes need not see this process's temporary files.
        return run_ray(
            spread.ray, spread.num_ranks, job.worker, job.to_json(), hear, cpus_per_host=job.arguments["threads"],
            patience=max(_RAY_PATIENCE, spread.host_timeout),
        )  # fmt: skip
    file = folder / "job.json"
    file.write_text(job.to_json(), encoding="utf-8")
    run_processes(spread.num_ranks, job.worker, str(file), hear)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A temporary folder for what parent and hosts tell each other by files."""
    folder = Path(tempfile.mkdtemp(prefix="any2vec-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _stored_init(job: TrainJob, folder: Path) -> str | None:
    """Where the hosts find the start vectors."""
    init = job.arguments["init"]
    if isinstance(init, Embeddings):
        init.save(folder / "init")
        return str(folder / "init")
    return None if init is None else str(init)


def _stored(job: TrainJob, data: Any, folder: Path, stage: Stage | None) -> TrainJob:
    """The job with the place where the hosts find the data: as they lie, or stored for them."""
    if isinstance(data, Corpus) or (isinstance(job.model, ClickModel) and hasattr(data, "path")):
        return replace(job, data=[str(data.path)])
    names = data if isinstance(data, list | tuple) else [data]
    if all(isinstance(name, str | Path) and str(name) != STDIN for name in names) and _are_files(names):
        return replace(job, data=[str(name) for name in names])
    if isinstance(job.model, GAMLP) or (isinstance(job.model, SequenceModel) and job.model.is_graph):
        open_graph(data, job.graph, None, stage).save(folder / "graph")
        return replace(job, data=[str(folder / "graph")], graph=None)  # the options have done their work
    raise InputError(
        "Processes read files, and these data are in memory or come through a pipe; write them to a file, "
        "store them with any2vec.encode_text(...), or use logical_hosts."
    )


def _are_files(names: Any) -> bool:
    return all(any(sign in str(name) for sign in "*?[") or _exists(name) for name in names)


def _exists(name: str | Path) -> bool:
    with suppress(OSError, ValueError):  # a sentence may be no name at all: too long, or with a NUL in it
        return Path(name).exists()
    return False
