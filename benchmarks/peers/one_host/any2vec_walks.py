"""any2vec's second-order walks in memory, compilation and reading apart: one JSON line."""

from __future__ import annotations

import argparse
import itertools
import json
import threading
import time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", required=True)
    parser.add_argument("--walks-per-node", type=int, default=10)
    parser.add_argument("--walk-length", type=int, default=40, help="nodes of a walk")
    parser.add_argument("--p", type=float, default=1.0)
    parser.add_argument("--q", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=1)
    args = parser.parse_args()

    import numpy as np

    from any2vec.data.graph.reader import read_graph
    from any2vec.sampling.walks import Walker, WalkOptions

    graph = read_graph(args.edges)
    options = WalkOptions(walks_per_node=args.walks_per_node, walk_length=args.walk_length, p=args.p, q=args.q)
    walker = Walker(graph.csr, options, args.seed)
    walker.sample(0, 1, 0, np.empty(walker.stride, np.int32))  # compiles
    out = np.zeros(walker.num_walks * walker.stride, np.int32)
    cuts = [walker.num_walks * part // args.threads for part in range(args.threads + 1)]
    rates, steps = [], 0
    for epoch in range(args.repeats):
        parts = [
            threading.Thread(
                target=walker.sample, args=(start, stop, epoch, out[start * walker.stride : stop * walker.stride])
            )
            for start, stop in itertools.pairwise(cuts)
        ]
        started = time.perf_counter()
        for part in parts:
            part.start()
        for part in parts:
            part.join()
        seconds = time.perf_counter() - started
        steps = int((out >= 0).sum()) - walker.num_walks
        rates.append(steps / seconds)
    print(json.dumps({"steps": steps, "steps_per_s": rates}))


if __name__ == "__main__":
    main()
