"""What one thread does with one batch of questions of a model that has a score of its own.

Legend as in worker.py; D candidates that are drawn, K those and all answers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from any2vec.kernels.common.rng import PURPOSE_INIT, stream_key
from any2vec.kernels.triples.queries import add_penalties
from any2vec.models.triples.config import TripleModel
from any2vec.models.triples.queries import QueryBatch
from any2vec.models.triples.score import Dense
from any2vec.models.triples.worker import (
    Candidates,
    Shares,
    TripleWorker,
    loss_gradients,
    relation_optimizer,
)
from any2vec.tables.row_optimizer import RowOptimizer

_PREFIX = "dense."
"""of the names of tables of dense parameters"""
_STREAM = 2
"""number of the stream from which they start; those of entities and relations are 0 and 1"""


class ScoreWorker:
    """One of the Hogwild threads of a run.

    Args:
        entity_SC, relation_RC: as of `TripleWorker`.
        dense: tables of the dense parameters, by their names with prefix.
    """

    def __init__(
        self, model: TripleModel, entity_SC: np.ndarray, relation_RC: np.ndarray, dense: Mapping[str, np.ndarray]
    ) -> None:
        self.model, self.entities, self.relations, self.dense = model, entity_SC, relation_RC, dense
        self._score, self._shapes = model.make_score(), dense_shapes(model)

    def step(self, batch: QueryBatch, candidates: Candidates, rate: float, shares: Shares | None = None) -> float:
        """As of `TripleWorker`."""
        model = self.model
        given_QD, relation_QP = self.entities[batch.given_Q, : model.dim], self._relations(batch.relation_Q)
        slot_K = np.union1d(candidates.slot_K, batch.answer_B)
        drawn_D, column_B = (np.searchsorted(slot_K, slots) for slots in (candidates.slot_K, batch.answer_B))
        dense = dense_values(self.dense, self._shapes)
        score_QK = self._score.forward(given_QD, relation_QP, self.entities[slot_K, : model.dim], dense)
        query_B = np.repeat(np.arange(len(batch.given_Q)), np.diff(batch.first_Q1))
        own_B = np.ascontiguousarray(score_QK[query_B, column_B], np.float32)
        gradient_QD = np.ascontiguousarray(score_QK[:, drawn_D], np.float32)
        shares = shares or Shares.alike(len(drawn_D), len(given_QD))
        loss = loss_gradients(model, gradient_QD, batch.first_Q1, candidates.columns_of(batch.answer_B), own_B, shares)
        gradient_QK = np.zeros(score_QK.shape, np.float32)
        gradient_QK[:, drawn_D] = gradient_QD
        np.add.at(gradient_QK, (query_B, column_B), own_B)  # 0 of those that are drawn
        found = self._score.backward(gradient_QK)
        self._change(batch, slot_K, found.entity_QD, found.relation_QP, found.candidate_KD, rate)
        for name, gradient in found.dense.items():
            step_dense(self.dense[_PREFIX + name], gradient, rate)
        return loss

    def _relations(self, relation_Q: np.ndarray) -> np.ndarray:
        return self.relations[relation_Q, : self.model.relation_width]

    def _change(
        self, batch: QueryBatch, slot_K: np.ndarray, given_QD: np.ndarray, relation_QP: np.ndarray,
        candidate_KD: np.ndarray, rate: float,
    ) -> None:  # fmt: skip
        """Sum the gradients of each row, add penalties, and step it."""
        model = self.model
        slot_U, row_N = np.unique(np.concatenate([batch.given_Q, slot_K]), return_inverse=True)
        row_Q, row_K = np.split(row_N, [len(batch.given_Q)])
        of_entity_UD = np.zeros((len(slot_U), model.dim), np.float32)
        of_entity_UD[row_K] = candidate_KD
        np.add.at(of_entity_UD, row_Q, given_QD)
        row_V, place_Q = np.unique(batch.relation_Q, return_inverse=True)
        of_relation_VP = np.zeros((len(row_V), max(1, model.relation_width)), np.float32)
        np.add.at(of_relation_VP[:, : model.relation_width], place_Q, relation_QP)
        if model.n3 or model.l2:
            count_Q, one_B = np.diff(batch.first_Q1), np.ones(len(batch.answer_B), np.int64)
            row_B = row_K[np.searchsorted(slot_K, batch.answer_B)]
            weights = (model.is_complex, model.n3, model.l2)
            add_penalties(self.entities, batch.given_Q, row_Q, count_Q, *weights, of_entity_UD)
            add_penalties(self.entities, batch.answer_B, row_B, one_B, *weights, of_entity_UD)
            if model.relation_width:
                add_penalties(self.relations, batch.relation_Q, place_Q, count_Q, *weights, of_relation_VP)
        RowOptimizer(model.dim).step(self.entities, slot_U, of_entity_UD, rate)
        if model.relation_width:
            relation_optimizer(model).step(self.relations, row_V, of_relation_VP, rate)


def make_worker(
    model: TripleModel, entity_SC: np.ndarray, relation_RC: np.ndarray, dense: Mapping[str, np.ndarray]
) -> TripleWorker | ScoreWorker:
    """The worker of a model's batches."""
    if model.query:
        return TripleWorker(model, entity_SC, relation_RC)
    return ScoreWorker(model, entity_SC, relation_RC, dense)


# ---- dense parameters as tables


def fresh_dense(model: TripleModel, seed: int) -> dict[str, np.ndarray]:
    """Tables of the dense parameters as they start, by their names with prefix."""
    tables = {}
    for name, array in _start(model, seed).items():
        table = np.zeros((len(array), array.size // len(array) + 1), np.float32)
        table[:, :-1] = array.reshape(len(array), -1)
        tables[_PREFIX + name] = table
    return tables


def dense_shapes(model: TripleModel) -> dict[str, tuple[int, ...]]:
    """Of the dense parameters by name."""
    return {name: array.shape for name, array in _start(model, 0).items()}


def dense_values(tables: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]) -> Dense:
    """The dense parameters without their state, contiguous, from tables some of which are theirs."""
    return {name: np.ascontiguousarray(tables[_PREFIX + name][:, :-1]).reshape(shape) for name, shape in shapes.items()}


def step_dense(table_RC: np.ndarray, gradient: np.ndarray, rate: float) -> None:
    """Row-wise Adagrad of a dense parameter."""
    gradient_RW = np.ascontiguousarray(gradient, np.float32).reshape(len(table_RC), -1)
    RowOptimizer(gradient_RW.shape[1]).step(table_RC, np.arange(len(table_RC)), gradient_RW, rate)


def _start(model: TripleModel, seed: int) -> dict[str, np.ndarray]:
    return model.start_dense(np.random.Generator(np.random.PCG64(int(stream_key(seed, PURPOSE_INIT, _STREAM)))))
