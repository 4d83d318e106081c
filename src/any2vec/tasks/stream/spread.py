"""A run over a stream on several hosts: as threads of this process, as processes, on Ray, or as one of torchrun's."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from any2vec.cluster.counters import Counters
from any2vec.cluster.launch.join import check_torch, join
from any2vec.cluster.threads import run_logical
from any2vec.embeddings import Embeddings
from any2vec.errors import HostError, InputError
from any2vec.machine import keep_freed_memory, usable_cores
from any2vec.sources.opening import open_sources
from any2vec.sync.options.streams import StreamAgreement
from any2vec.tasks.stream.crew import check_model, run_rank
from any2vec.tasks.stream.progress import RECORDS, StreamProgress
from any2vec.train.launch import carry_out, message_of, temporary_folder
from any2vec.train.spec import Hooks, Request, RunSpec

Made = tuple[Embeddings, dict[str, Any], list[StreamProgress]]
"""(vectors, summary, records)"""
WORKER = "any2vec.tasks.stream.worker"


def run_spread(spec: RunSpec, hooks: Hooks, started: float) -> Made:
    """Carry out a run on so many hosts.

    Raises:
        InputError: it cannot be spread so.
        HostError: a host was lost, and there are no restarts left; what to do is said.
        Others, as `stream`; of processes they are told as HostError, the sentence of the first rank that failed.
    """
    agreement = StreamAgreement.of(spec.hosts, spec.sync)
    check_model(spec.model, agreement)
    ranks = agreement.num_ranks
    assert ranks is not None
    if spec.hosts.hosts is not None:
        return _in_processes(spec, hooks, ranks)
    request = request_of(spec, hooks, started, ranks)
    made = run_logical(ranks, lambda transport: run_rank(request, agreement, transport), spec.hosts.link_model)[0]
    assert made is not None
    return made


def run_joined(spec: RunSpec, hooks: Hooks, started: float) -> Made | None:
    """Do the part of one of the processes that torchrun, Ray or a parent has started; None on ranks other than 0.

    Raises:
        HostError: another host is lost, or was asked for something else.
    """
    agreement = StreamAgreement.of(spec.hosts, spec.sync)
    check_model(spec.model, agreement)
    keep_freed_memory()
    request = request_of(spec, hooks, started, int(os.environ.get("LOCAL_WORLD_SIZE", 1)))
    fingerprint = {
        "model": spec.model.as_dict(), "sources": [str(source) for source in spec.data], **spec.run.settings(),
        "hosts": asdict(spec.hosts), "sync": asdict(spec.sync), "storage": asdict(spec.storage),
    }  # fmt: skip
    with join(json.dumps(fingerprint), spec.hosts.link_model, silence=spec.hosts.host_timeout) as transport:
        transport.counters = Counters()  # what follows is the run, counted alike on any transport
        return run_rank(request, agreement, transport)


def request_of(spec: RunSpec, hooks: Hooks, started: float, local_hosts: int) -> Request:
    """As one host has it: local_hosts share this machine's cores."""
    threads = spec.run.threads or max(1, usable_cores() // local_hosts)
    agreement = StreamAgreement.of(spec.hosts, spec.sync) if spec.hosts.is_spread else None
    return Request(spec=spec, hooks=hooks, threads=threads, agreement=agreement, settings={}, started=started)


def _in_processes(spec: RunSpec, hooks: Hooks, ranks: int) -> Made:
    """Start processes, on this machine or on a Ray cluster, hear what rank 0 reports, and open the result."""
    sources, hosts, out = spec.reading["sources"], spec.hosts, spec.run.out
    _check_addresses(spec.data)
    for source in open_sources(spec.data, sources, spec.run.seed):
        source.close()  # whatever is wrong with an address is said here, before anything starts
    records: list[StreamProgress] = []
    summary: dict[str, Any] = {}

    def on_line(line: str) -> None:
        message = message_of(line)
        if "record" in message:
            record = StreamProgress(**message["record"])
            records[:] = [*records[-RECORDS + 1 :], record]
            if hooks.progress is not None:
                hooks.progress(record)
        summary.update(message.get("summary", {}))

    with temporary_folder() as folder:
        result = folder / "result" if out is None else out
        threads = spec.run.threads or max(1, usable_cores() // ranks)
        check_torch()
        own = replace(spec, run=replace(spec.run, out=result, threads=threads))
        restarts = carry_out(own, ranks, WORKER, folder, on_line)
        if not summary:
            raise HostError("Rank 0 ended without a summary.")
        embeddings = Embeddings.load(result, mmap=out is not None)
    return embeddings, summary | ({"restarts": restarts} if hosts.restarts else {}), records


def _check_addresses(sources: Sequence[Any]) -> None:
    """Raise InputError where a source is of this process alone."""
    for source in sources:
        if not isinstance(source, str) or source == "-":
            what = "standard input" if source == "-" else "an iterable"
            raise InputError(
                f"Processes read addresses, and {what} is of this one alone; use logical_hosts, or give them a "
                "file, a named pipe or a socket."
            )
