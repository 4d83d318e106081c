"""The program of a model of triples: its tables, its learner, its schedule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from any2vec.cluster.transport import Transport
from any2vec.embeddings import Embeddings
from any2vec.kernels.common.rng import PURPOSE_INIT, stream_key
from any2vec.kernels.rows.row_start import start_rows
from any2vec.models.triples.config import TripleModel
from any2vec.models.triples.learner import TripleLearner
from any2vec.models.triples.queries import Queries, ways_of
from any2vec.models.triples.score_worker import dense_shapes, dense_values, fresh_dense
from any2vec.models.triples.scorer import TripleScorer
from any2vec.models.triples.worker import relation_optimizer
from any2vec.plan.order.epochs import EpochSchedule
from any2vec.plan.order.shares import chunk_bounds
from any2vec.sync.base.states import apart, together
from any2vec.sync.drivers.rounds import Agreement, Rounds
from any2vec.sync.options.names import Fixed, Shadow
from any2vec.sync.options.rounds import RoundAgreement
from any2vec.sync.table_replicas import TableReplicas
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tasks.triples.inspector import TripleInspector
from any2vec.tasks.triples.prepare import PreparedTriples, remarks_on
from any2vec.train.in_memory.hosts import metrics_of_rounds
from any2vec.train.in_memory.program import InMemoryProgram, states_by_rank
from any2vec.train.loop import LocalDriver
from any2vec.train.progress import Recorder
from any2vec.train.result import Result
from any2vec.train.spec import Request
from any2vec.types import State

_RELATIONS = 1
"""number of the stream from which relations start; that of entities is 0"""
_TRIED = 8
"""entities of the made-up batch that compiles the kernels"""


class TripleProgram(InMemoryProgram):
    """One host, with all rows in memory."""

    learner: TripleLearner

    def __init__(self, request: Request, prepared: PreparedTriples, transport: Transport) -> None:
        super().__init__(request, transport)
        self.triples, self.metadata = prepared.triples, prepared.metadata
        model: TripleModel = request.spec.model
        num_entities, num_relations = len(self.triples.entities), len(self.triples.relations)
        self.tables = fresh_tables(model, num_entities, num_relations, request.spec.run.seed)
        if self.checkpoint is not None:
            for name, table in self.tables.items():
                table[:] = self.checkpoint.array(name, table.shape)
        self.driver: LocalDriver | Rounds | TableReplicas = LocalDriver()
        if request.agreement is not None and isinstance(request.agreement.agreement, Shadow | Fixed):
            how = request.agreement.agreement
            self.driver = TableReplicas(how, transport, self.tables, self._widths(), self._occurrences())
            self.tables = self.driver.tables
            if self.checkpoint is not None:
                self.driver.load_state_dict(states_by_rank(self.checkpoint.state))
        queries = Queries(model, self.triples.rows(), num_relations, request.spec.run.seed)
        self.learner = TripleLearner(
            model, self.tables["entities"], self.tables["relations"], queries, [(0, num_entities)], request.threads,
            request.spec.run.seed, self.tables,
        )  # fmt: skip
        self.schedule = self._schedule(queries.num_queries)
        if isinstance(self.driver, TableReplicas):
            self.learner.on_batch = self.driver.moved
        elif request.agreement is not None:
            self.driver = Rounds(self._agreement(request.agreement))

    def _widths(self) -> dict[str, int]:
        """Columns of values, before those of states."""
        return {name: table.shape[1] - 1 for name, table in self.tables.items()}

    def _agreement(self, options: RoundAgreement) -> Agreement:
        """That of the hosts on rows and on their optimizer states."""
        from any2vec.sync.make import make_agreement  # brings every exchange, which a run on one host has no use for

        found = make_agreement(
            options, self.transport, apart(self.tables, self._widths()), TripleInspector(self.learner),
            self._occurrences(), self.schedule.rounds_ahead(), self.request.threads,
        )  # fmt: skip
        if self.checkpoint is not None:
            found.load_state_dict(states_by_rank(self.checkpoint.state))
        return found

    def _occurrences(self) -> dict[str, np.ndarray]:
        """Examples of an epoch in which rows occur, as what is given or asked for; negatives do not count."""
        given = self.triples
        ways, _ = ways_of(self.request.spec.model, len(given.relations))
        count_R = np.zeros(len(self.tables["relations"]), np.int64)
        np.add.at(count_R, ways, np.tile(np.bincount(given.relation, minlength=len(given.relations)), 2))
        dense = {name: np.full(len(self.tables[name]), 2 * len(given.head)) for name in self.tables}
        return dense | {"entities": 2 * given.degrees(), "relations": count_R}

    def _schedule(self, num_queries: int) -> EpochSchedule:
        """This host's part of the batches; where a run goes on, what is left of them."""
        hosts, options = self.transport.hosts, self.request.agreement
        rounds = 1 if options is None else options.rounds(hosts)
        parts, is_stepwise = (1, False) if options is None else options.parts
        return self._resumed(self._batches(num_queries, rounds, parts, is_stepwise), hosts)

    def _batches(self, num_queries: int, rounds: int = 1, parts: int = 1, is_stepwise: bool = False) -> EpochSchedule:
        """This host's part of the batches of a whole run; hosts part where a batch ends."""
        batch = self.request.spec.model.batch_size

        def boundary(at: int) -> int:
            return min(-(-at // batch) * batch, num_queries)

        return EpochSchedule(
            bounds=chunk_bounds(num_queries, self.transport.hosts, boundary), rank=self.transport.rank,
            epochs=self.request.spec.run.epochs, unit=batch,
            piece=batch * (self.request.threads if is_stepwise else 1), rounds=rounds, parts=parts,
            is_stepwise=is_stepwise, boundary=boundary,
        )  # fmt: skip

    def compile(self) -> None:
        """A batch of a few made-up triples goes through every kernel of the run."""
        model = self.request.spec.model
        try_kernels(replace(model, num_negatives=2) if model.negatives_of(len(self.triples.entities)) else model)
        if isinstance(self.driver, TableReplicas):
            self.driver.start()
        elif self.request.agreement is not None:
            from any2vec.sync.rules.block import compile_copies, compile_merges

            compile_merges(model.dim, self.request.agreement.bits)
            compile_copies(np.zeros((1, model.dim + 1), np.float32)[:, : model.dim], self.request.agreement.bits)

    def agreed(self) -> dict[str, np.ndarray] | None:
        if isinstance(self.driver, LocalDriver):
            return self.tables
        if isinstance(self.driver, TableReplicas):
            return self.driver.gather_result()
        found = self.driver.agreement.gather_result()
        return None if found is None else together(found)

    def end(self) -> None:
        if isinstance(self.driver, TableReplicas):
            self.driver.finish()

    @property
    def memory(self) -> State:
        if isinstance(self.driver, TableReplicas):
            return self.driver.state_dict()
        return {} if isinstance(self.driver, LocalDriver) else self.driver.agreement.state_dict()

    def result(self, agreed: dict[str, np.ndarray]) -> Result:
        model, triples = self.request.spec.model, self.triples
        entity_VW = np.ascontiguousarray(agreed["entities"][:, : model.dim])
        relation_RP = np.ascontiguousarray(agreed["relations"][:, : relation_optimizer(model).width])
        counts = triples.degrees()
        embeddings = Embeddings(triples.entities, entity_VW, None, counts, meta={"model": model.as_dict()})
        scorer = TripleScorer(
            model, triples.entities, triples.relations, entity_VW, relation_RP, triples.rows(),
            dense_values(agreed, dense_shapes(model)), self.request.spec.reading.get("triples"),
        )  # fmt: skip
        return Result(embeddings, scorer=scorer, parts=scorer.parts())

    def gather_metrics(self, recorder: Recorder) -> dict[str, Any]:
        num_entities = len(self.triples.entities)
        own = {
            "relations": len(self.triples.relations),
            "num_negatives": self.request.spec.model.negatives_of(num_entities) or num_entities,
            "warnings": remarks_on(self.metadata),
        }
        if isinstance(self.driver, LocalDriver):
            return own | dict(self.request.spec.storage.metrics_of_whole())
        return own | metrics_of_rounds(self.request, self.transport, self.driver, recorder.seconds_here)

    def close(self, error: BaseException | None = None) -> None:
        if isinstance(self.driver, TableReplicas) or (error is None and isinstance(self.driver, Rounds)):
            self.driver.close(error)


def try_kernels(model: TripleModel) -> None:
    """Compile what a batch needs, by one of a few made-up triples."""
    triple_M3 = np.array([[row, 0, (row + 1) % _TRIED] for row in range(_TRIED)])
    tables = fresh_tables(model, _TRIED, 1, 1)
    queries = Queries(model, triple_M3, 1, 1)
    queries.begin(0)
    learner = TripleLearner(model, tables["entities"], tables["relations"], queries, [(0, _TRIED)], 1, 1, tables)
    batch = queries.batch(0, queries.num_queries)
    learner.workers[0].step(batch, learner.negatives.of(batch, 0, 0), model.learning_rate)


def start_entities(model: TripleModel, entity_M: np.ndarray, table_MC: np.ndarray, seed: int) -> None:
    """Rows of these entities (int64) as they start, wherever they stand."""
    start_rows(table_MC, entity_M, model.dim, stream_key(seed, PURPOSE_INIT, 0), model.start_spread)


def fresh_relations(model: TripleModel, num_relations: int, seed: int) -> np.ndarray:
    """The table of relations as it starts; angles all around."""
    optimizer, size = relation_optimizer(model), model.num_relation_rows(num_relations)
    table_RC = np.empty((size, optimizer.num_columns), np.float32)
    spread = np.pi if model.has_angles else model.start_spread
    start_rows(table_RC, np.arange(size), optimizer.width, stream_key(seed, PURPOSE_INIT, _RELATIONS), spread)
    return table_RC


def fresh_tables(model: TripleModel, num_entities: int, num_relations: int, seed: int) -> dict[str, np.ndarray]:
    """Tables as they start, values uniform within the model's spread, state 0; angles of relations all around."""
    entity_VC = np.empty((num_entities, RowOptimizer(model.dim).num_columns), np.float32)
    start_entities(model, np.arange(num_entities), entity_VC, seed)
    return {"entities": entity_VC, "relations": fresh_relations(model, num_relations, seed)} | fresh_dense(model, seed)
