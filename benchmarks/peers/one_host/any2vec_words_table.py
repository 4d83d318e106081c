"""Skip-gram with a share of its table in memory, whatever memory there is: one JSON line, as `any2vec train --json` has
it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import any2vec
from any2vec.plan.cost.size import Size
from any2vec.plan.order.buffer import BufferPlan, plan_buffer
from any2vec.tasks.words import table as word_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--share", type=float, required=True, help="of the table, blocks of partitions on their way too"
    )
    for name in ("dim", "window", "num-negatives", "min-count", "epochs", "threads", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("subsample", "learning-rate"):
        parser.add_argument(f"--{name}", type=float, required=True)
    args = parser.parse_args()

    def plan(request: Any, size: Size) -> BufferPlan:
        table = size.tables[0]
        return plan_buffer(table.rows, table.row_bytes, int(args.share * table.num_bytes))

    word_table.plan_table = plan  # what a budget of that share of the table, and of all else, would give
    model = any2vec.SkipGram(
        dim=args.dim, window=args.window, num_negatives=args.num_negatives, min_count=args.min_count,
        subsample=args.subsample, learning_rate=args.learning_rate,
    )  # fmt: skip
    result = any2vec.fit(
        model, args.text, out=args.out, overwrite=True, epochs=args.epochs, threads=args.threads, seed=args.seed,
        storage="1GB",
    )  # fmt: skip
    print(json.dumps(result.summary))


if __name__ == "__main__":
    main()
