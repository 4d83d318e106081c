"""A run over a stream on several hosts: as threads of this process, as processes, on Ray, or as one of torchrun's."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from typing import Any

from any2vec.cluster.counters import Counters
from any2vec.cluster.launch.join import check_torch, join
from any2vec.cluster.link import parse_link
from any2vec.cluster.threads import run_logical
from any2vec.embeddings import Embeddings
from any2vec.errors import HostError
from any2vec.machine import keep_freed_memory, usable_cores
from any2vec.sources.opening import open_sources
from any2vec.sync.options.stream_hosts import StreamHosts
from any2vec.train.spread import carry_out, temporary_folder, told_by
from any2vec.train.stream.hosts.crew import check_model, run_rank
from any2vec.train.stream.hosts.job import StreamJob
from any2vec.train.stream.progress import RECORDS, StreamProgress
from any2vec.train.stream.request import StreamRequest

Made = tuple[Embeddings, dict[str, Any], list[StreamProgress]]
"""(vectors, summary, records)"""


def run_spread(request: StreamRequest, hosts: StreamHosts) -> Made:
    """Carry out a request on so many hosts.

    Raises:
        InputError: it cannot be spread so.
        HostError: a host was lost, and there are no restarts left; what to do is said.
        Others, as `stream`; of processes they are told as HostError, the sentence of the first rank that failed.
    """
    check_model(request.model, hosts)
    if hosts.hosts is not None:
        return _in_processes(request, hosts)
    ranks, link = hosts.num_ranks, None if hosts.link is None else parse_link(hosts.link)
    assert ranks is not None
    own = _with_threads(request, ranks)
    made = run_logical(ranks, lambda transport: run_rank(own, hosts, transport), link)[0]
    assert made is not None
    return made


def run_joined(request: StreamRequest, hosts: StreamHosts) -> Made | None:
    """Do the part of one of the processes that torchrun, Ray or a parent has started; None on ranks other than 0.

    Raises:
        HostError: another host is lost, or was asked for something else.
    """
    check_model(request.model, hosts)
    keep_freed_memory()
    own = _with_threads(request, int(os.environ.get("LOCAL_WORLD_SIZE", 1)))
    fingerprint = {
        "model": request.model.as_dict(), "sources": [str(source) for source in request.sources],
        **own.options.settings(), **asdict(hosts),
    }  # fmt: skip
    link = None if hosts.link is None else parse_link(hosts.link)
    with join(json.dumps(fingerprint), link, silence=hosts.host_timeout) as transport:
        transport.counters = Counters()  # what follows is the run, counted alike on any transport
        return run_rank(own, hosts, transport)


def _in_processes(request: StreamRequest, hosts: StreamHosts) -> Made:
    """Start processes, on this machine or on a Ray cluster, hear what rank 0 tells, and open the result."""
    for source in open_sources(request.sources, request.reading, request.options.seed):
        source.close()  # whatever is wrong with an address is said here, before anything starts
    records: list[StreamProgress] = []
    summary: dict[str, Any] = {}

    def hear(line: str) -> None:
        told = told_by(line)
        if "record" in told:
            record = StreamProgress(**told["record"])
            records[:] = [*records[-RECORDS + 1 :], record]
            if request.callback is not None:
                request.callback(record)
        summary.update(told.get("summary", {}))

    assert hosts.num_ranks is not None
    with temporary_folder() as folder:
        out = folder / "result" if request.out is None else request.out
        job = StreamJob.of(_with_threads(request, hosts.num_ranks), hosts, out)
        check_torch()
        restarts = carry_out(job, folder, hear)
        if not summary:
            raise HostError("Rank 0 ended without a summary.")
        embeddings = Embeddings.load(out, mmap=request.out is not None)
    return embeddings, summary | ({"restarts": restarts} if hosts.restarts else {}), records


def _with_threads(request: StreamRequest, local_hosts: int) -> StreamRequest:
    """The request with a number of threads for each trainer: local_hosts share this machine's cores."""
    threads = request.options.threads or max(1, usable_cores() // local_hosts)
    return replace(request, options=replace(request.options, threads=threads))
