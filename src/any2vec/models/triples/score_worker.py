"""What one thread does with one batch of examples of a model that has a score of its own.

Legend as in worker.py; D candidates that are drawn, K those and all answers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from any2vec.kernels.common.rng import PURPOSE_INIT, stream_key
from any2vec.models.triples.config import TripleModel
from any2vec.models.triples.queries import QueryBatch
from any2vec.models.triples.score import Dense
from any2vec.models.triples.worker import (
    Accessed,
    Candidates,
    Shares,
    TripleWorker,
    loss_gradients,
)
from any2vec.tables.row_optimizer import RowOptimizer

_PREFIX = "dense."
"""of the names of tables of dense parameters"""
_STREAM = 2
"""number of the stream from which they start; those of entities and relations are 0 and 1"""


class ScoreWorker(TripleWorker):
    """One of the Hogwild threads of a run.

    Args:
        entity_SC, relation_RC: as of `TripleWorker`.
        dense: tables of the dense parameters, by their names with prefix.
    """

    def __init__(
        self, model: TripleModel, entity_SC: np.ndarray, relation_RC: np.ndarray, dense: Mapping[str, np.ndarray]
    ) -> None:
        super().__init__(model, entity_SC, relation_RC)
        self.dense, self._score, self._shapes = dense, model.make_score(), dense_shapes(model)

    def step(self, batch: QueryBatch, candidates: Candidates, rate: float, shares: Shares | None = None) -> float:
        """As of `TripleWorker`."""
        model = self.model
        given_QD = self.entities[batch.given_Q, : model.dim]
        relation_QP = self.relations[batch.relation_Q, : model.relation_width]
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
        accessed = Accessed.of(batch, Candidates(slot_K))
        of_entity_UD = np.zeros((len(accessed.slot_U), model.dim), np.float32)
        of_entity_UD[accessed.row_K] = found.candidate_KD
        np.add.at(of_entity_UD, accessed.row_Q, found.entity_QD)
        row_V, place_Q = np.unique(batch.relation_Q, return_inverse=True)
        of_relation_VP = np.zeros((len(row_V), self._of_relations.width), np.float32)
        np.add.at(of_relation_VP[:, : model.relation_width], place_Q, found.relation_QP)
        self._step_rows(batch, accessed, of_entity_UD, row_V, place_Q, of_relation_VP, rate)
        for name, gradient in found.dense.items():
            step_dense(self.dense[_PREFIX + name], gradient, rate)
        return loss


def make_worker(
    model: TripleModel, entity_SC: np.ndarray, relation_RC: np.ndarray, dense: Mapping[str, np.ndarray]
) -> TripleWorker:
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
