"""Models of triples whose rows lie on all hosts, in blocks, and are trained through versioned caches.

Each host trains its part of the examples of an epoch; of each batch it gathers the rows of entities and relations,
trains them with the kernels of a single host, as a small table of their own, and adds what it has changed.

Legend: V rows of a table, U rows of a batch, C columns, N ids; Q queries of a batch.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from any2vec.cluster.counters import summed
from any2vec.cluster.transport import Transport
from any2vec.models.triples.config import TripleModel
from any2vec.models.triples.learner import TripleLearner
from any2vec.models.triples.queries import Queries, QueryBatch
from any2vec.models.triples.worker import Candidates, Shares, TripleWorker, relation_optimizer
from any2vec.plan.lookahead.oracle import NextUseOracle
from any2vec.plan.order.epochs import EpochSchedule
from any2vec.plan.sharding.sharding import Blocks, Striped
from any2vec.sync.options.row_cache import CachedRows
from any2vec.tables.cache.cached_table import CachedTable, gather_tables
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.row_table import ChangedTable
from any2vec.tasks.triples.prepare import PreparedTriples, remarks_on
from any2vec.tasks.triples.program import TripleProgram, fresh_relations, start_entities, try_kernels
from any2vec.train.in_memory.hosts import gather_numbers
from any2vec.train.in_memory.program import InMemoryProgram
from any2vec.train.loop import LocalDriver
from any2vec.train.progress import Recorder
from any2vec.train.spec import Request
from any2vec.types import State, Work


@dataclass(frozen=True)
class BatchPlaces:
    """The rows of a batch by place, ascending, and the batch as it stands among them."""

    entity_U: np.ndarray
    relation_U: np.ndarray
    batch: QueryBatch
    candidates: Candidates

    @classmethod
    def of(
        cls, batch: QueryBatch, candidates: Candidates, entities: Blocks, relations: Blocks, has_all: bool
    ) -> BatchPlaces:
        """has_all: the loss asks for all relations."""
        if candidates.whole is not None:
            entity_U, among = np.arange(entities.num_rows), candidates
            given_Q, answer_B = entities.place(batch.given_Q), entities.place(batch.answer_B)
        else:
            slots = [batch.given_Q, batch.answer_B, candidates.slot_K]
            entity_U, row_N = np.unique(entities.place(np.concatenate(slots)), return_inverse=True)
            given_Q, answer_B, row_K = np.split(row_N, np.cumsum([len(one) for one in slots])[:-1])
            among = Candidates(np.sort(row_K))
        relation_Q = relations.place(batch.relation_Q)
        relation_U = np.arange(relations.num_rows)
        if not has_all:
            relation_U, relation_Q = np.unique(relation_Q, return_inverse=True)
        local = replace(batch, given_Q=given_Q, answer_B=answer_B, relation_Q=relation_Q)
        return cls(entity_U, relation_U, local, among)


class CachedTripleWorker(TripleWorker):
    """Trains a batch in a table of its rows alone, which it gathers, and whose changes it adds."""

    def __init__(self, model: TripleModel, entities: CachedTable, relations: CachedTable, number: int) -> None:
        super().__init__(model, np.empty((0, 0), np.float32), np.empty((0, 0), np.float32))
        self._shardings = entities.sharding, relations.sharding
        self._tables: tuple[ChangedTable, ChangedTable] = entities.accesses[number], relations.accesses[number]

    def step(self, batch: QueryBatch, candidates: Candidates, rate: float, shares: Shares | None = None) -> float:
        places = BatchPlaces.of(batch, candidates, *self._shardings, has_all=bool(self.model.relation_weight))
        wanted = places.entity_U, places.relation_U
        leases = [table.gather(place_U, 0) for table, place_U in zip(self._tables, wanted, strict=True)]
        self.entities, self.relations = (lease.row_UC.copy() for lease in leases)
        loss = super().step(places.batch, places.candidates, rate, shares)
        for table, lease, row_UC in zip(self._tables, leases, (self.entities, self.relations), strict=True):
            table.add(lease, row_UC - lease.row_UC, 0)
        return loss


class RoundBarrier(LocalDriver):
    """The driver: all hosts stand still where a round ends; in between each goes its own way, and rows as they come."""

    def is_settled(self, work: Work[Any]) -> bool:
        return work.ends_round


class CachedTriples(TripleProgram):
    """One host of several: its blocks of both tables, its caches, its part of the examples."""

    def __init__(self, request: Request, prepared: PreparedTriples, transport: Transport) -> None:
        InMemoryProgram.__init__(self, request, transport)
        self.triples, self.metadata = prepared.triples, prepared.metadata
        model, seed, given = request.spec.model, request.spec.run.seed, self.triples
        num_relations = len(given.relations)
        relation_RC = fresh_relations(model, num_relations, seed)
        queries = Queries(model, given.rows(), num_relations, seed)
        self.learner = TripleLearner(
            model, relation_RC[:0], relation_RC[:0], queries, [(0, len(given.entities))], request.threads, seed
        )
        self.schedule = self._schedule_of(queries.num_queries)

        def fresh_entities(id_N: np.ndarray) -> np.ndarray:
            row_NC = np.empty((len(id_N), RowOptimizer(model.dim).num_columns), np.float32)
            start_entities(model, id_N, row_NC, seed)
            return row_NC

        rate = model.learning_rate
        self.entities = self._table(
            "entities", given.degrees(), RowOptimizer(model.dim, "adagrad", rate), fresh_entities
        )
        # All relations stay: there are few, and most batches use most of them.
        self.relations = self._table(
            "relations", np.ones(len(relation_RC)), relation_optimizer(model), lambda id_N: relation_RC[id_N], "lru"
        )
        workers = range(request.threads)
        self.learner.workers = [CachedTripleWorker(model, self.entities, self.relations, number) for number in workers]
        self.driver = RoundBarrier()

    def compile(self) -> None:
        model = self.request.spec.model
        try_kernels(replace(model, num_negatives=2) if model.negatives_of(len(self.triples.entities)) else model)
        self.entities.start()
        self.relations.start()

    def end(self) -> None:
        for table in (self.entities, self.relations):
            for access in table.accesses:
                access.close()
        self._has_ended = True

    def agreed(self) -> dict[str, np.ndarray] | None:
        tables = {"entities": self.entities, "relations": self.relations}
        return gather_tables(self.transport, tables, has_flushed=self._has_ended)

    @property
    def memory(self) -> State:
        return {}

    def gather_metrics(self, recorder: Recorder) -> dict[str, Any]:
        own = {"rows_of_hosts": self.entities.metrics(), "relation_rows_of_hosts": self.relations.metrics()}
        by_host = gather_numbers(self.transport, own)
        if not by_host:
            return {}
        num_entities = len(self.triples.entities)
        return {
            "relations": len(self.triples.relations),
            "num_negatives": self.request.spec.model.negatives_of(num_entities) or num_entities,
            "warnings": remarks_on(self.metadata),
            "hosts": self.transport.hosts, "cache": self._options.cache,
            "rounds_per_epoch": self._options.rounds_per_epoch,
            **{name: summed([host[name] for host in by_host]) for name in by_host[0]},
        }  # fmt: skip

    def close(self, error: BaseException | None = None) -> None:
        self.entities.close(error)
        self.relations.close(error)

    _has_ended = False

    @property
    def _options(self) -> CachedRows:
        found: CachedRows = self.request.agreement
        return found

    def _schedule_of(self, num_queries: int) -> EpochSchedule:
        schedule = self._batches(num_queries)
        # No more rounds than the host with most batches has: all hosts have the same number, or they would not meet.
        most = replace(schedule, in_lockstep=True).steps_per_epoch
        schedule = replace(schedule, rounds=min(self._options.rounds_per_epoch, most))
        return self._resumed(schedule, self.transport.hosts)

    def _table(
        self, name: str, uses_V: np.ndarray, optimizer: RowOptimizer, fresh: Any, policy: str = ""
    ) -> CachedTable:
        """uses_V: how often rows are used, about; policy: that of a cache of all rows."""
        options, transport, cache = self._options, self.transport, self._options.row_cache
        sharding = Striped(len(uses_V), transport.hosts)
        shape = len(uses_V), optimizer.num_columns
        stored = None if self.checkpoint is None else self.checkpoint.array(name, shape)
        own = sharding.ids(transport.rank)
        return CachedTable(
            transport, name, sharding, fresh(own) if stored is None else stored[own], optimizer,
            bound=cache.number, policy=policy or cache.policy, freshness=cache.freshness,
            capacity=len(uses_V) if policy else max(1, round(options.cache_rows * len(uses_V))),
            trainers=transport.hosts, workers=self.request.threads,
            fresh=(lambda place_N: fresh(sharding.rows(place_N))) if stored is None else None,
            busiest=lambda number: np.sort(sharding.place(np.argsort(-uses_V, kind="stable")[:number])),
            oracle=lambda: self._oracle(sharding),
        )  # fmt: skip

    def _oracle(self, sharding: Striped) -> NextUseOracle:
        """Of the entities of this host's batches."""
        schedule, learner, queries = copy(self.schedule), self.learner, copy(self.learner.queries)

        def batch_ids(step: int) -> np.ndarray:
            span, epoch = schedule.span_at(step), step // schedule.steps_per_epoch
            if span.start >= span.stop:
                return np.empty(0, np.int64)
            queries.begin(epoch)
            batch = queries.batch(span.start, span.stop)
            candidates = learner.negatives.of(batch, epoch, span.start)
            return BatchPlaces.of(batch, candidates, sharding, Striped(1, 1), has_all=True).entity_U

        return NextUseOracle(batch_ids, self.schedule.step, self.schedule.num_steps)
