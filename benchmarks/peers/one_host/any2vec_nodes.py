"""any2vec's node2vec on a graph that is read before, compilation apart: walks + training. One JSON line."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", required=True)
    parser.add_argument("--walks-per-node", type=int, default=10)
    parser.add_argument("--walk-length", type=int, default=40, help="nodes of a walk")
    parser.add_argument("--p", type=float, default=1.0)
    parser.add_argument("--q", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--window", type=int, default=10)
    parser.add_argument("--num-negatives", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--out", required=True, help="run folder to write")
    args = parser.parse_args()

    import numpy as np

    from any2vec import Node2Vec, fit, read_graph

    model = Node2Vec(
        dim=args.dim,
        window=args.window,
        num_negatives=args.num_negatives,
        walks_per_node=args.walks_per_node,
        walk_length=args.walk_length,
        p=args.p,
        q=args.q,
    )
    nodes = np.arange(50)
    fit(model, (nodes, (nodes + 1) % 50), epochs=1, threads=args.threads)  # compiles and loads all that a run needs
    started = time.perf_counter()
    graph = read_graph(args.edges)
    read_seconds = time.perf_counter() - started
    started = time.perf_counter()
    result = fit(model, graph, epochs=args.epochs, threads=args.threads, seed=args.seed)
    seconds = time.perf_counter() - started
    result.embeddings.save(Path(args.out), overwrite=True)
    kept = {name: result.summary[name] for name in ("items", "items_per_s", "train_seconds", "loss", "rows")}
    print(json.dumps({"read_seconds": read_seconds, "seconds": seconds} | kept))


if __name__ == "__main__":
    main()
