"""A run of a model of triples with all rows in memory, or with some partitions of them: one JSON line.

The triples are planted. Both sides read the same ones, draw as many negatives, and have the same threads; what is
timed is training, of the second side with all waiting, and with the commit at its end.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from any2vec.cluster.threads import single_host_transport
from any2vec.data.triples.triples import TripleReport, Triples
from any2vec.data.vocab.found_texts import integer_keys
from any2vec.models.triples.config import TRIPLE_MODELS
from any2vec.options.run import RunOptions
from any2vec.options.storage import StorageOptions
from any2vec.plan.order.buffer import BufferPlan
from any2vec.registry import loaded
from any2vec.tasks.triples.budget import row_bytes
from any2vec.tasks.triples.prepare import PreparedTriples
from any2vec.tasks.triples.program import TripleProgram
from any2vec.tasks.triples.table import TripleTableProgram
from any2vec.testing.planted_triples import PlantedTriples
from any2vec.train.frame import Program, run_frame
from any2vec.train.spec import Hooks, Request, RunSpec


def planted(entities: int, relations: int, number: int) -> Triples:
    """The triples, all entities and relations named by their numbers."""
    found = PlantedTriples(entities=entities, relations=relations, group=20).triples(0, number).astype(np.int32)
    head_M, relation_M, tail_M = (np.ascontiguousarray(column) for column in found.T)
    names, of_relations = (integer_keys(np.arange(size)) for size in (entities, relations))
    report = TripleReport(num_triples=number, num_entities=entities, num_relations=relations)
    return Triples(head_M, relation_M, tail_M, names, of_relations, report)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--model", choices=sorted(TRIPLE_MODELS), default="complex")
    parser.add_argument("--relations", type=int, default=10)
    parser.add_argument("--order", default=None, help="by default the model's own")
    for name in ("--entities", "--triples", "--dim", "--num-negatives", "--threads"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=1)
    for name in ("--partitions", "--capacity"):
        parser.add_argument(name, type=int, default=0, help="0: all rows are in memory")
    args = parser.parse_args()
    model = loaded(TRIPLE_MODELS[args.model])(
        dim=args.dim, num_negatives=args.num_negatives, batch_size=args.batch_size
    )
    prepared = PreparedTriples(planted(args.entities, args.relations, args.triples), {})
    shutil.rmtree(args.folder, ignore_errors=True)
    spec = RunSpec(
        task="triples", model=model, data=[],
        run=RunOptions(epochs=args.epochs, threads=args.threads, out=args.folder, checkpoint_seconds=1e9),
        storage=StorageOptions(memory="1GB", order=args.order) if args.partitions else StorageOptions(),
    )  # fmt: skip
    request = Request(
        spec=spec, hooks=Hooks(), threads=args.threads, agreement=None, settings={}, started=time.perf_counter()
    )
    with threadpool_limits(limits=1, user_api="blas"):
        if args.partitions:
            plan = BufferPlan(args.entities, row_bytes(model), args.partitions, args.capacity, 0, 0)
            program: Program = TripleTableProgram(request, prepared, plan, single_host_transport())
        else:
            program = TripleProgram(request, prepared, single_host_transport())
        result = run_frame(request, program, program.transport)
    assert result is not None
    summary = result.summary
    if args.partitions:
        seconds = summary["train_seconds"] + summary["seconds_committing"]
        summary["items_per_s"] = summary["items"] / seconds
    shutil.rmtree(args.folder)
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
