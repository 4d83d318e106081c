"""Hosts that train one table of planted triples, as processes of this machine, or one host alone: one JSON line.

Both have the same partitions and as many of them in the memory of each host, the same triples and one thread a host.
What is timed is training with all waiting; making the triples and the table is not.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import any2vec
from any2vec.cluster.launch.join import join, joined, run_child, run_processes
from any2vec.cluster.threads import single_host_transport
from any2vec.cluster.transport import Transport
from any2vec.data.triples.triples import TripleReport, Triples
from any2vec.data.vocab.found_texts import integer_keys
from any2vec.machine import keep_freed_memory
from any2vec.options.run import RunOptions
from any2vec.options.storage import StorageOptions
from any2vec.plan.order.buffer import BufferPlan
from any2vec.tasks.triples.budget import row_bytes
from any2vec.tasks.triples.prepare import PreparedTriples
from any2vec.tasks.triples.table import TripleTableProgram
from any2vec.testing.planted_triples import PlantedTriples
from any2vec.train.frame import run_frame
from any2vec.train.out_of_core.shared_table import SharedTable
from any2vec.train.spec import Hooks, Request, RunSpec

RELATIONS = 10


def planted(entities: int, number: int) -> Triples:
    """The triples, all entities and relations named by their numbers."""
    found = PlantedTriples(entities=entities, relations=RELATIONS, group=20).triples(0, number).astype(np.int32)
    keys = (integer_keys(np.arange(size)) for size in (entities, RELATIONS))
    report = TripleReport(num_triples=number, num_entities=entities, num_relations=RELATIONS)
    return Triples(*(np.ascontiguousarray(column) for column in found.T), *keys, report)


def train(job: dict[str, Any], transport: Transport) -> dict[str, Any] | None:
    """The summary of a run, at rank 0."""
    model = any2vec.ComplEx(dim=job["dim"], num_negatives=job["num_negatives"], batch_size=1000)
    prepared = PreparedTriples(planted(job["entities"], job["triples"]), {})
    spec = RunSpec(
        task="triples", model=model, data=[], storage=StorageOptions(memory="1GB"),
        run=RunOptions(epochs=job["epochs"], threads=1, out=Path(job["folder"]), checkpoint_seconds=1e9),
    )  # fmt: skip
    request = Request(spec=spec, hooks=Hooks(), threads=1, agreement=None, settings={}, started=time.perf_counter())
    plan = BufferPlan(job["entities"], row_bytes(model), job["partitions"], job["capacity"], 0, 0)
    table = TripleTableProgram(request, prepared, plan, transport)
    with threadpool_limits(limits=1, user_api="blas"):
        result = run_frame(request, table if transport.hosts == 1 else SharedTable(table), transport)
    return None if result is None else result.summary


def one_of_several() -> None:
    """What each of the processes does."""
    job = json.loads(sys.argv[1])
    keep_freed_memory()
    with join(sys.argv[1]) as transport:
        summary = train(job, transport)
        if summary is not None:
            print(json.dumps(summary), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    names = ("hosts", "entities", "triples", "dim", "num-negatives", "epochs", "partitions", "capacity")
    for name in names:
        parser.add_argument(f"--{name}", type=int, required=True)
    job = vars(parser.parse_args())
    shutil.rmtree(job["folder"], ignore_errors=True)
    if job["hosts"] == 1:
        print(json.dumps(train(job, single_host_transport())))
    else:
        run_processes(job["hosts"], "benchmarks.peers.hosts.any2vec_two_hosts", json.dumps(job), print)
    shutil.rmtree(job["folder"], ignore_errors=True)


if __name__ == "__main__":
    run_child(one_of_several) if joined() else main()
