"""Samples batches of neighborhoods: GRAPH.npz FANOUTS BATCHES ROUNDS THREADS [LAW]; edges/s a round, counts."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from any2vec.sampling.neighbors import NeighborOptions, NeighborSampler
from any2vec.types import Csr

BATCH = 1024


def main(path: str, fanouts: str, batches: str, rounds: str, threads: str, law: str = "uniform") -> None:
    stored = np.load(path)
    csr = Csr(stored["indptr"], stored["indices"], np.empty(0, np.float32))
    options = NeighborOptions(fanouts=tuple(map(int, fanouts.split(","))), law=law, key="batch")  # type: ignore[arg-type]
    sampler = NeighborSampler(csr, options)
    order = np.random.default_rng(1).permutation(len(csr.indptr) - 1)
    seeds = [order[at * BATCH : (at + 1) * BATCH] for at in range(int(batches))]
    speeds, nodes, edges = [], 0, 0
    with ThreadPoolExecutor(int(threads)) as pool:
        for number in range(int(rounds) + 1):
            started = time.perf_counter()
            found = list(pool.map(lambda b, e=number: count(sampler, seeds[b], e, b), range(len(seeds))))
            seconds = time.perf_counter() - started
            nodes, edges = (sum(part) for part in zip(*found, strict=True))
            speeds.append(edges / seconds)
    print(json.dumps({"edges_per_s": speeds[1:], "nodes": nodes / len(seeds), "edges": edges / len(seeds)}))


def count(sampler: NeighborSampler, seeds: np.ndarray, epoch: int, batch: int) -> tuple[int, int]:
    """(nodes, edges) of a batch, with the edges in PyG's form."""
    found = sampler.sample(seeds, epoch, batch)
    return len(found.node_M), found.edge_index().shape[1]


if __name__ == "__main__":
    main(*sys.argv[1:])
