"""PecanPy (SparseOTF) walks, alone or followed by gensim: one JSON line. Runs in the environment 'pecanpy'."""

from __future__ import annotations

import argparse
import json
import os
import time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", required=True, help="plain edge list, one 'u v' a line, each undirected edge once")
    parser.add_argument("--walks-per-node", type=int, default=10)
    parser.add_argument("--walk-length", type=int, default=40, help="nodes of a walk")
    parser.add_argument("--p", type=float, default=1.0)
    parser.add_argument("--q", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=1, help="timed repeats of the walks")
    parser.add_argument(
        "--train", action="store_true", help="train gensim's skip-gram on the walks and save the vectors"
    )
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--window", type=int, default=10)
    parser.add_argument("--num-negatives", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--out", help="word2vec binary file to write")
    args = parser.parse_args()
    os.environ["NUMBA_NUM_THREADS"] = str(args.threads)  # read by numba when it is imported, below

    import gensim
    import numba
    import numpy as np
    from gensim.models import Word2Vec
    from pecanpy import pecanpy

    graph = pecanpy.SparseOTF(args.p, args.q, args.threads, False, random_state=args.seed)
    started = time.perf_counter()
    graph.read_edg(args.edges, weighted=False, directed=False, delimiter=" ")
    read_seconds = time.perf_counter() - started
    # PecanPy makes its step a new closure at each call, so that each call compiles again. One closure kept for all
    # calls and a warm-up take the compilation out of the timing: better for PecanPy than its own command.
    move_forward, has_nbrs = graph.get_move_forward(), graph.get_has_nbrs()
    graph.get_move_forward, graph.get_has_nbrs = lambda: move_forward, lambda: has_nbrs
    started = time.perf_counter()
    graph.simulate_walks(num_walks=1, walk_length=2)
    compile_seconds = time.perf_counter() - started

    walk_seconds, steps = [], 0
    for _ in range(args.repeats):
        started = time.perf_counter()
        walks = graph.simulate_walks(num_walks=args.walks_per_node, walk_length=args.walk_length - 1)
        walk_seconds.append(time.perf_counter() - started)
        steps = sum(len(walk) - 1 for walk in walks)
    result = {
        "read_seconds": read_seconds,
        "compile_seconds": compile_seconds,
        "walk_seconds": walk_seconds,
        "num_walks": len(walks),
        "steps": steps,
        "steps_per_s": [steps / seconds for seconds in walk_seconds],
        "versions": {
            "numpy": np.__version__,
            "numba": numba.__version__,
            "gensim": gensim.__version__,
            "pecanpy": "2.0.9",
        },
    }
    if args.train:
        started = time.perf_counter()
        model = Word2Vec(
            walks,
            vector_size=args.dim,
            window=args.window,
            negative=args.num_negatives,
            epochs=args.epochs,
            sg=1,
            hs=0,
            sample=0,
            min_count=0,
            alpha=0.025,
            min_alpha=1e-4,
            workers=args.threads,
            seed=args.seed,
        )
        result["train_seconds"] = time.perf_counter() - started
        if args.out:
            model.wv.save_word2vec_format(args.out, binary=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
