"""What a model of triples learns with all rows in memory, or with some partitions of them: one JSON line.

Partitions are given, not derived from a budget, for the table is small enough for memory: so both can be compared.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import any2vec
from any2vec.evaluate.triples import evaluate_triple_file
from any2vec.models.triples.config import TRIPLE_MODELS
from any2vec.plan.order.buffer import BufferPlan
from any2vec.registry import loaded
from any2vec.tasks.triples import table as triple_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="further true triples")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--model", choices=sorted(TRIPLE_MODELS), default="complex")
    for name in ("--dim", "--epochs", "--threads", "--seed"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--num-negatives", type=int, default=None)
    for name in ("--partitions", "--capacity"):
        parser.add_argument(name, type=int, default=0, help="0: all rows are in memory")
    parser.add_argument("--order", default=None)
    parser.add_argument("--staleness-bound", type=int, default=None)
    args = parser.parse_args()
    model = loaded(TRIPLE_MODELS[args.model])(dim=args.dim, num_negatives=args.num_negatives)

    def plan(request: Any, size: Any) -> BufferPlan:
        return BufferPlan(size.tables[0].rows, size.tables[0].row_bytes, args.partitions, args.capacity, 0, 0)

    shared = {"epochs": args.epochs, "threads": args.threads, "seed": args.seed}
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        if args.partitions:
            triple_table.plan_table = plan
            storage = any2vec.StorageOptions(memory="1GB", order=args.order)
            sync = any2vec.SyncOptions(staleness_bound=args.staleness_bound)
            out = Path(folder) / "out"
            result = any2vec.fit(model, args.train, out=out, storage=storage, sync=sync, **shared)
        else:
            result = any2vec.fit(model, args.train, **shared)
        found = evaluate_triple_file(result.scorer, args.test, args.known)
    reported = {
        name: result.summary.get(name) for name in ("train_seconds", "items_per_s", "loads", "order", "staleness")
    }
    print(json.dumps({"mrr": found.mrr, "num_triples": found.num_triples, **reported}))


if __name__ == "__main__":
    main()
