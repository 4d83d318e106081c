"""GraphSAGE and GCN as any2vec trains them, on a planted graph with random features; one JSON line of seconds.

WHAT GRAPH.npz LAYERS HIDDEN ROUNDS THREADS [FANOUTS BATCHES]: epochs (GraphSAGE over sampled batches), full (GCN over
the whole graph), full-once (the same without dropout, so that features are summed once), inference (GraphSAGE, all
nodes).
"""

from __future__ import annotations

import json
import sys
from itertools import count
from typing import Any

import numpy as np
from rounds import seconds_of

from any2vec import machine

machine.keep_freed_memory()  # as a run does, before torch is imported
machine.ask_for_huge_pages()

import torch  # noqa: E402

from any2vec.data.attributed.features import FeatureRows  # noqa: E402
from any2vec.models.networks.batches import LearnerData  # noqa: E402
from any2vec.models.networks.config.base import GraphNetwork  # noqa: E402
from any2vec.models.networks.config.layers import GCN, GraphSAGE  # noqa: E402
from any2vec.models.networks.learner import GraphLearner  # noqa: E402
from any2vec.types import Csr, ProgressLine, Round, Span, Work  # noqa: E402

BATCH, COLUMNS, CLASSES = 1024, 128, 16


def main(what: str, path: str, layers: str, hidden: str, rounds: str, threads: str, *batches: str) -> None:
    torch.set_num_threads(int(threads))
    stored = np.load(path)
    num, rng = len(stored["indptr"]) - 1, np.random.default_rng(1)
    order = rng.permutation(num)
    seeds = order[: BATCH * int(batches[1])] if batches else np.arange(num)  # as masks give them, and peers take all
    features = FeatureRows(rng.standard_normal((num, COLUMNS), np.float32), np.empty(0, np.float32))
    labels, none = rng.integers(0, CLASSES, num, np.int32), np.empty(0, np.int64)
    csr = Csr(stored["indptr"], stored["indices"], np.empty(0, np.float32))
    data = LearnerData(csr, features, labels, CLASSES, {"train": seeds, "val": none, "test": none})
    shape: dict[str, Any] = {"hidden": int(hidden), "num_layers": int(layers)}
    model: GraphNetwork = GraphSAGE(**shape)
    if what == "epochs":
        model = GraphSAGE(**shape, fanouts=batches[0], batch_size=BATCH, sample_key="batch")
    elif what in ("full", "full-once"):
        model = GCN(**shape, sampling="full-graph", dropout=0.5 if what == "full" else 0.0)
    learner = GraphLearner(model, data, 1, int(threads))
    learner.compile()

    epochs, span = count(), Span(0, len(seeds), ProgressLine(0, len(seeds), 0.0, 0.0))

    def work() -> None:
        if what == "inference":
            learner.inference.scores(learner.network, np.arange(num))
            return
        learner.batches.reader.sampled = 0
        learner.run(Work(span, next(epochs), Round(0), 0.0))

    seconds = seconds_of(work, int(rounds))
    learner.close()
    nodes = learner.batches.reader.sampled / int(batches[1]) if batches else num
    print(json.dumps({"seconds": seconds, "nodes": nodes}))


if __name__ == "__main__":
    main(*sys.argv[1:])
