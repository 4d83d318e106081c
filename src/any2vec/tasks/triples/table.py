"""The program of a run of a model of triples whose table of entities is larger than memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.checks import MAX_SEED
from any2vec.cluster.transport import Transport
from any2vec.data.partitions.buckets import Blocks, TripleBuckets, blocks_of
from any2vec.data.partitions.row_partitions import RowPartitions
from any2vec.data.triples.triples import Triples
from any2vec.data.vocab.user_keys import key_meta
from any2vec.embeddings import Embeddings
from any2vec.formats.table import Table
from any2vec.models.triples.score_worker import dense_shapes, dense_values, fresh_dense
from any2vec.models.triples.scorer import TripleScorer, parts_of
from any2vec.models.triples.worker import relation_optimizer
from any2vec.plan.order.buffer import BufferPlan
from any2vec.plan.order.shared_walk import Rounds, SharedWalk
from any2vec.sync.options.row_cache import CachedRows
from any2vec.tables.disk.partition_exchange import AllPartitions
from any2vec.tables.disk.partition_store import PartitionStore
from any2vec.tasks.triples.batches import WindowLearner
from any2vec.tasks.triples.budget import WINDOW, size_of_triples
from any2vec.tasks.triples.prepare import PreparedTriples, remarks_on
from any2vec.tasks.triples.program import TripleProgram, fresh_relations, start_entities, try_kernels
from any2vec.train.frame import Program
from any2vec.train.out_of_core.program import TableProgram
from any2vec.train.out_of_core.shared_table import SharedTable
from any2vec.train.out_of_core.stored_vectors import StoredTable, StoredVectors
from any2vec.train.out_of_core.table_budget import agreed_plan, known_plan, plan_table
from any2vec.train.result import Result, StoredResult
from any2vec.train.spec import Request


def triple_program(request: Request, prepared: PreparedTriples, transport: Transport) -> Program:
    """The program of a run: with all rows in memory where there is room for them, else with some of them.

    Raises:
        InputError: the budget is too small, or the run in the folder had other settings.
    """
    if isinstance(request.agreement, CachedRows):
        from any2vec.tasks.triples.cached import CachedTriples  # brings servers and caches

        return CachedTriples(request, prepared, transport)
    if request.agreement is not None:
        return TripleProgram(request, prepared, transport)
    size = size_of_triples(request.spec.model, prepared.metadata)
    if transport.hosts > 1:
        shared = agreed_plan(request, transport, size)
        return SharedTable(TripleTableProgram(request, prepared, shared, transport))
    plan = known_plan(request, size) or plan_table(request, size)
    if plan is None:
        return TripleProgram(request, prepared, transport)
    return TripleTableProgram(request, prepared, plan, transport)


class TripleTableProgram(TableProgram):
    """Rows of entities in partitions; those of relations stand beside them."""

    learner: WindowLearner
    window, is_shuffled = WINDOW, False

    def __init__(self, request: Request, prepared: PreparedTriples, plan: BufferPlan, transport: Transport) -> None:
        self.triples = prepared.triples
        num_entities, num_relations = len(self.triples.entities), len(self.triples.relations)
        super().__init__(request, transport, plan, num_entities, prepared.metadata)
        self.relation_RC = fresh_relations(request.spec.model, num_relations, request.spec.run.seed)
        self.dense_tables = fresh_dense(request.spec.model, request.spec.run.seed)
        seed = host_seed(request.spec.run.seed, transport.rank)
        self.rank, self.rounds = transport.rank, None
        if transport.hosts > 1:
            self.walk = SharedWalk(
                hosts=transport.hosts, rank=transport.rank, partitions=plan.partitions, capacity=plan.capacity,
                epochs=request.spec.run.epochs, seed=request.spec.run.seed,
            )  # fmt: skip
            self.rounds = self.walk.rounds
        self.learner = WindowLearner(
            request.spec.model, self.relation_RC, self.parts, self.walk, num_relations, seed, self.dense_tables
        )

    def compile(self) -> None:
        try_kernels(replace(self.request.spec.model, num_negatives=2))

    def buckets(self, folder: Path, is_new: bool) -> TripleBuckets:
        given = self.triples
        blocks = blocks_of(given.head, given.relation, given.tail)
        if self.rounds is not None:
            self.learner.count_PP = count_buckets(blocks, self.parts)
            blocks = own_blocks(blocks, self.parts, self.rounds, self.rank)
        if is_new:
            found = TripleBuckets.create(folder, self.parts, len(given.relations), blocks, overwrite=True)
        else:
            found = TripleBuckets.open(folder)
        if self.rounds is None:
            self.learner.count_PP = found.count_PP
        return found

    def start(self, entity_M: np.ndarray, row_MC: np.ndarray) -> None:
        start_entities(self.request.spec.model, entity_M, row_MC, self.request.spec.run.seed)

    @property
    def batch_size(self) -> int:
        return int(self.request.spec.model.batch_size)

    def dense(self) -> dict[str, np.ndarray]:
        return {"relations": self.relation_RC} | self.dense_tables

    def model_metrics(self) -> dict[str, Any]:
        resident = self.parts.num_entities * self.plan.capacity // self.plan.partitions
        return {
            "relations": len(self.triples.relations),
            "num_negatives": self.learner.num_negatives or resident,
            "warnings": remarks_on(self.metadata),
        }

    def result(self, store: PartitionStore | AllPartitions) -> StoredTable:
        model, given = self.request.spec.model, self.triples
        relation_RP = np.ascontiguousarray(self.relation_RC[:, : relation_optimizer(model).width])
        dense = dense_values(self.dense_tables, dense_shapes(model))
        vectors = StoredVectors(store, self.parts, model.dim, self.spare_bytes)
        column_3M = given.head, given.relation, given.tail
        return StoredTable(
            Table(
                given.entities,
                vectors,
                None,
                _occurrences(given),
                {"model": model.as_dict()} | key_meta(given.entities),
            ),
            parts_of(model, given.relations, relation_RP, column_3M, dense, self.request.spec.reading.get("triples")),
        )

    def load(self, stored: StoredResult) -> Result:
        embeddings = Embeddings.load(self.out)
        return Result(embeddings, scorer=TripleScorer.load(self.out, embeddings))


def _occurrences(given: Triples) -> np.ndarray:
    """How many triples have an entity, int64 (V,), counted block by block."""
    count_V = np.zeros(len(given.entities), np.int64)
    for triple_M3 in blocks_of(given.head, None, given.tail)():
        np.add.at(count_V, triple_M3[:, 0], 1)
        np.add.at(count_V, triple_M3[:, 2], 1)
    return count_V


def host_seed(seed: int, rank: int) -> int:
    """Of what a host draws for itself; rank 0 draws what a single host does."""
    return (seed + 1_000_003 * rank) % (MAX_SEED + 1)


def count_buckets(blocks: Blocks, parts: RowPartitions) -> np.ndarray:
    """Triples of each bucket, int64 (P, P), of all hosts."""
    count_PP = np.zeros((parts.partitions, parts.partitions), np.int64)
    for triple_M3 in blocks():
        head_M, tail_M = (parts.part_of(parts.rows(triple_M3[:, column])) for column in (0, 2))
        count_PP += np.bincount(head_M * parts.partitions + tail_M, minlength=count_PP.size).reshape(count_PP.shape)
    return count_PP


def own_blocks(blocks: Blocks, parts: RowPartitions, rounds: Rounds, rank: int) -> Blocks:
    """Of pieces of triples, integers (M, 3), those that a host trains."""
    size = parts.partitions
    is_own_PP = np.array([[rounds.host_of((i, j)) == rank for j in range(size)] for i in range(size)])

    def pieces() -> Iterator[np.ndarray]:
        for triple_M3 in blocks():
            head_M, tail_M = (parts.part_of(parts.rows(triple_M3[:, column])) for column in (0, 2))
            yield triple_M3[is_own_PP[head_M, tail_M]]

    return pieces
