"""Trains with features on disk and checks each row that is served: FOLDER ROWS EPOCHS; counts by residency, one line.

A row is right where it has the checksum (CRC-32) of the file's row; those are taken beforehand, through the page cache.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from zlib import crc32

import numpy as np
import torch

from any2vec import AttributedGraph, GraphSAGE
from any2vec.data.attributed.row_file import RowFile
from any2vec.models.networks.batches import Batch, Drawn, LearnerData, SampledBatches
from any2vec.models.networks.features import CachedFeatures
from any2vec.models.networks.hot_rows import SCORES, Asked, highest
from any2vec.models.networks.learner import GraphLearner
from any2vec.models.networks.stages import BatchStages
from any2vec.types import ProgressLine, Round, Span, Work

POLICIES = ("degree", "presampled", "lru", "fifo", "belady")
AHEAD = 20
"""batches that Belady knows"""


class Checked(SampledBatches):
    """Counts rows that were served, and those that are another's."""

    served = wrong = 0
    known_N = np.empty(0, np.uint32)

    def make(self, drawn: Drawn, x_MD: torch.Tensor | None) -> Batch:
        assert x_MD is not None and drawn.node_M is not None
        self.served += len(x_MD)
        self.wrong += int((checksums(x_MD.numpy()) != self.known_N[drawn.node_M]).sum())
        return super().make(drawn, x_MD)


def main(folder: str, rows: str, epochs: str) -> None:
    graph = AttributedGraph.open(Path(folder))
    assert graph.features is not None and graph.labels is not None
    model = GraphSAGE(hidden=128, fanouts="10,5", batch_size=256)
    parts = {part: graph.rows(part) for part in ("train", "val", "test")}
    data = LearnerData(graph.csr, graph.features, graph.labels, len(graph.classes), parts)
    known_N = checksums(graph.features.row_ND)
    found = {policy: checked(model, data, graph.open_features(), int(rows), policy, int(epochs), known_N)
             for policy in POLICIES}  # fmt: skip
    print(json.dumps({"policies": found}))


def checked(
    model: GraphSAGE, data: LearnerData, file: RowFile, rows: int, policy: str, epochs: int, known_N: np.ndarray
) -> dict[str, int]:
    """Rows served, wrong and missed in so many epochs of two threads."""
    learner, kept = GraphLearner(model, data, 1, 2), None
    batches = Checked(model, data, learner.objective, 1)
    if policy in SCORES:
        sampled = partial(map, partial(batches.nodes_of, 0), range(learner.num_batches))
        kept = highest(SCORES[policy](Asked(data.csr, data.rows["train"], sampled)), rows)
    features = CachedFeatures(file, np.empty(0, np.float32), rows, "static" if policy in SCORES else policy, kept)
    batches.known_N = known_N
    learner.batches, learner.stages = batches, BatchStages(batches, 2)
    learner.use_features(features)
    learner.stages.plan(epochs * learner.num_batches, AHEAD)
    learner.compile()
    num = len(data.rows["train"])
    for epoch in range(epochs):
        learner.run(Work(Span(0, num, ProgressLine(0, num, 0.0, 0.0)), epoch, Round(0), 0.0))
    learner.close()
    return {"served": batches.served, "wrong": batches.wrong, "missed": features.reads.missed}


def checksums(row_KD: np.ndarray) -> np.ndarray:
    """uint32 (K,)"""
    return np.fromiter((crc32(np.ascontiguousarray(row_D)) for row_D in row_KD), np.uint32, len(row_KD))


if __name__ == "__main__":
    main(*sys.argv[1:])
