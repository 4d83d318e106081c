"""fastnode2vec's second-order walks on one thread: one JSON line. Runs in the environment 'fastnode2vec'."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", required=True, help="plain edge list, one 'u v' a line, each undirected edge once")
    parser.add_argument("--walks-per-node", type=int, default=10)
    parser.add_argument("--walk-length", type=int, default=40, help="nodes of a walk")
    parser.add_argument("--p", type=float, default=1.0)
    parser.add_argument("--q", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=1)
    args = parser.parse_args()

    import numba
    import numpy as np
    from fastnode2vec import Graph
    from fastnode2vec.graph import _random_walk
    from fastnode2vec.node2vec import set_seed

    with Path(args.edges).open() as lines:
        graph = Graph([tuple(line.split()) for line in lines], directed=False, weighted=False, verbose=False)
    graph.generate_random_walk(args.walk_length, args.p, args.q, 0)  # compiles
    set_seed(args.seed)
    order = np.random.default_rng(args.seed)
    kernel_rates, public_rates, steps = [], [], 0
    for _ in range(args.repeats):
        starts = [order.permutation(len(graph.node_names)) for _ in range(args.walks_per_node)]
        started, steps = time.perf_counter(), 0
        for start in np.concatenate(starts):
            steps += _random_walk(graph.indptr, graph.indices, args.walk_length, args.p, args.q, start).size - 1
        kernel_rates.append(steps / (time.perf_counter() - started))
        started, steps = time.perf_counter(), 0
        for start in np.concatenate(starts):
            steps += len(graph.generate_random_walk(args.walk_length, args.p, args.q, start)) - 1
        public_rates.append(steps / (time.perf_counter() - started))
    versions = {"numpy": np.__version__, "numba": numba.__version__, "fastnode2vec": "0.0.7"}
    # "steps_per_s" is the compiled walk called once for each start, without the translation into names.
    print(
        json.dumps(
            {"steps": steps, "steps_per_s": kernel_rates, "steps_per_s_with_names": public_rates, "versions": versions}
        )
    )


if __name__ == "__main__":
    main()
