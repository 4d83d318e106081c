"""Trains GraphSAGE as any2vec does: GRAPH.npz FANOUTS HIDDEN BATCHES ROUNDS THREADS; seconds of each epoch, counts."""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import torch

from any2vec.data.attributed.features import FeatureRows
from any2vec.models.networks.config import GraphSAGE
from any2vec.models.networks.learner import GraphLearner, LearnerData
from any2vec.types import Csr, Round, Span, Work

BATCH, COLUMNS, CLASSES = 1024, 128, 16


def main(path: str, fanouts: str, hidden: str, batches: str, rounds: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    stored = np.load(path)
    num, num_layers = len(stored["indptr"]) - 1, fanouts.count(",") + 1
    rng = np.random.default_rng(1)
    seeds = rng.permutation(num)[: BATCH * int(batches)]
    features = FeatureRows(rng.standard_normal((num, COLUMNS), np.float32), np.empty(0, np.float32))
    labels, none = rng.integers(0, CLASSES, num, np.int32), np.empty(0, np.int64)
    model = GraphSAGE(hidden=int(hidden), num_layers=num_layers, fanouts=fanouts, batch_size=BATCH, sample_key="batch")
    csr = Csr(stored["indptr"], stored["indices"], np.empty(0, np.float32))
    data = LearnerData(csr, features, labels, CLASSES, {"train": seeds, "val": none, "test": none})
    learner = GraphLearner(model, data, 1, int(threads))
    learner.compile()
    seconds, before = [], 0
    for epoch in range(int(rounds) + 1):
        started, before = time.perf_counter(), learner.sampled
        learner.run(Work(Span(0, len(seeds), 0), epoch, Round(0), 0.0))
        seconds.append(time.perf_counter() - started)
    learner.close()
    print(json.dumps({"seconds": seconds[1:], "nodes": (learner.sampled - before) / int(batches)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
