"""Rows of features that are not in memory, by policy, order of batches and share of the rows: counts, no clock.

Arguments: graph.npz or a file of edges, share of nodes that train, batch, epochs, JSON lists of shares of rows, orders
and policies. Fan-outs 10,10; 8 classes at random. `window` is Belady that knows as many batches ahead as a run does by
default, `belady` knows all. The fill of rows that stand in memory for good is counted as missed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import numpy as np

from any2vec.data.graph.reader import read_graph
from any2vec.models.networks.config.layers import GraphSAGE
from any2vec.models.networks.hot_rows import SCORES, Asked, highest
from any2vec.plan.lookahead.oracle import NextUseOracle
from any2vec.plan.order.clusters import ClusterOrder
from any2vec.plan.order.proximity import ProximityOrder
from any2vec.plan.order.shuffle import random_order
from any2vec.plan.sharding.clusters import find_clusters
from any2vec.sampling.neighbors import NeighborOptions, NeighborSampler
from any2vec.tables.residency.residency import Residency
from any2vec.tasks.graphs.planning import batches_ahead
from any2vec.types import Csr

SEED, CLASSES = 1, 8


def main() -> None:
    path, train_share, batch, epochs, *lists = sys.argv[1:]
    shares, orders, policies = map(json.loads, lists)
    csr = opened(path)
    rng, num = np.random.default_rng(SEED), len(csr.indptr) - 1
    train = np.sort(rng.choice(num, int(float(train_share) * num), replace=False))
    labels = rng.integers(0, CLASSES, len(train))
    found = []
    for order in orders:
        near = order_of(order, csr, train, labels, int(batch))
        batches = list(read(csr, train, near, int(batch), int(epochs)))
        per_epoch = len(batches) // int(epochs)
        about = {"order": order, "rows": sum(map(len, batches)) / len(batches), "nodes": num, "batches": len(batches)}
        about["sequences"] = near.num_sequences if isinstance(near, ProximityOrder) else 0
        about["about"] = near.sentence() if near else order
        asked = Asked(csr, train, lambda made=batches[:per_epoch]: made)  # type: ignore[misc]
        for share in shares:
            missed = {policy: misses(batches, policy, int(share * num), asked) for policy in policies}
            found.append(about | {"share": share, "missed": {name: one / len(batches) for name, one in missed.items()}})
    print(json.dumps({"found": found}))


def order_of(
    name: str, csr: Csr, train: np.ndarray, labels: np.ndarray, batch: int
) -> ProximityOrder | ClusterOrder | None:
    """As a run makes it; None: random."""
    if name == "proximity":
        return ProximityOrder(csr, train, labels, batch, SEED)
    if name == "cluster":
        model = GraphSAGE(batch_size=batch, batch_order="cluster")
        found = find_clusters(csr, model.parts_of(len(train)), model.partitioner, SEED)
        return ClusterOrder(found.part_N[train], found.num, SEED, found.sentence())
    return None


def opened(path: str) -> Csr:
    """In-neighbors, of an .npz file or of undirected edges."""
    if not path.endswith(".npz"):
        return read_graph(path).csr
    with np.load(path) as stored:
        return Csr(stored["indptr"], stored["indices"], np.empty(0, np.float32))


def read(
    csr: Csr, train: np.ndarray, near: ProximityOrder | ClusterOrder | None, size: int, epochs: int
) -> Iterator[np.ndarray]:
    """The rows that each batch reads, int64, ascending."""
    sampler = NeighborSampler(csr, NeighborOptions(fanouts=(10, 10), seed=SEED))
    for epoch in range(epochs):
        seeds = train[near.order(epoch) if near else random_order(len(train), SEED, epoch)]
        for number, first in enumerate(range(0, len(seeds), size)):
            yield np.sort(sampler.sample(seeds[first : first + size], epoch, number).node_M.astype(np.int64))


def misses(batches: list[np.ndarray], policy: str, rows: int, asked: Asked) -> int:
    """Rows that were not there when a batch came, and those of the fill."""
    if policy in SCORES:
        kept = highest(SCORES[policy](asked), rows)
        return sum(len(one) - len(np.intersect1d(one, kept, assume_unique=True)) for one in batches) + rows
    found, is_planned = 0, policy in ("window", "belady")
    residency = Residency(rows, "belady" if is_planned else policy)
    mean = sum(map(len, batches)) / len(batches)
    look = batches_ahead(rows, mean) if policy == "window" else len(batches)
    oracle = NextUseOracle(batches.__getitem__, 0, len(batches), look)
    for one in batches:
        placed = residency.place(one, oracle.next_uses(one, residency.expect) if is_planned else None)
        is_held = placed.slot_U >= 0
        found += int((~is_held | placed.is_new_U).sum())
        residency.release(placed.slot_U[is_held])
    return found


if __name__ == "__main__":
    main()
