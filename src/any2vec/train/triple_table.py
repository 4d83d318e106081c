"""The host of a run of a model of triples whose table of entities is larger than memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.cluster.transport import Transport
from any2vec.data.triple_buckets import TripleBuckets, blocks_of
from any2vec.embeddings import Embeddings
from any2vec.models.triple_scorer import TripleScorer
from any2vec.models.triple_worker import relation_optimiser
from any2vec.plan.buffer import BufferPlan
from any2vec.tables.partition_store import PartitionStore
from any2vec.train.host import FitRequest, Host, Made
from any2vec.train.out_of_core import OutOfCoreOptions
from any2vec.train.progress import Recorder
from any2vec.train.stored_triples import StoredTriples
from any2vec.train.table_host import TableHost
from any2vec.train.triple_batches import WindowLearner
from any2vec.train.triple_budget import WINDOW, known_triples, plan_triples
from any2vec.train.triple_host import TripleHost, fresh_relations, start_entities, try_kernels
from any2vec.train.triple_prepare import PreparedTriples


def triple_host(request: FitRequest, prepared: PreparedTriples, transport: Transport) -> Host | TripleTableHost:
    """The host of a run: with all rows in memory where there is room for them, else with some of them.

    Raises:
        InputError: the budget is too small, or the run in the folder had other settings.
    """
    plan = known_triples(request, prepared) or plan_triples(request, prepared)
    if plan is None:
        return TripleHost(request, prepared, transport)
    return TripleTableHost(request, prepared, plan)


class TripleTableHost(TableHost):
    """Rows of entities in partitions; those of relations stand beside them."""

    learner: WindowLearner

    def __init__(self, request: FitRequest, prepared: PreparedTriples, plan: BufferPlan) -> None:
        self.triples = prepared.triples
        num_entities, num_relations = len(self.triples.entities), len(self.triples.relations)
        super().__init__(request, plan, num_entities, prepared.facts)
        self.relation_RC = fresh_relations(request.model, num_relations, request.seed)
        self.learner = WindowLearner(
            request.model,
            self.relation_RC,
            num_entities,
            num_relations,
            len(self.triples),
            request.epochs,
            request.seed,
        )

    def compile(self) -> None:
        try_kernels(replace(self.request.model, num_negatives=2))

    def buckets(self, folder: Path, is_new: bool) -> TripleBuckets:
        if not is_new:
            return TripleBuckets.open(folder)
        given = self.triples
        blocks = blocks_of(given.head, given.relation, given.tail)
        return TripleBuckets.create(folder, self.parts, len(given.relations), blocks, overwrite=True)

    def start(self, entity_M: np.ndarray, row_MC: np.ndarray) -> None:
        start_entities(self.request.model, entity_M, row_MC, self.request.seed)

    def options(self) -> OutOfCoreOptions:
        request = self.request
        return OutOfCoreOptions(
            batch_size=request.model.batch_size, window=WINDOW, is_shuffled=False, seed=request.seed,
            threads=request.threads, staleness_bound=request.table.bound_of(request.threads),
            commit_seconds=request.checkpoint_seconds,
        )  # fmt: skip

    def dense(self) -> dict[str, np.ndarray]:
        return {"relations": self.relation_RC}

    def recall(self, dense: Mapping[str, np.ndarray]) -> None:
        self.relation_RC[:] = dense["relations"]

    def facts(self) -> dict[str, Any]:
        resident = self.parts.num_entities * self.plan.capacity // self.plan.partitions
        return {
            "relations": len(self.triples.relations),
            "num_negatives": self.learner.num_negatives or resident,
        }

    def result(self, store: PartitionStore) -> StoredTriples:
        width = relation_optimiser(self.request.model).width
        relation_RP = np.ascontiguousarray(self.relation_RC[:, :width])
        return StoredTriples(self.request.model, self.triples, store, self.parts, relation_RP, self.spare_bytes)

    def made(self, summary: dict[str, Any], recorder: Recorder) -> Made:
        embeddings = Embeddings.load(self.out)
        return Made(embeddings, summary, recorder.records, TripleScorer.load(self.out, embeddings))
