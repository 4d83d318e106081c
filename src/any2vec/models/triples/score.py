"""A score of triples of a model's own, beside the five of kernels/triples/queries.py.

What a `Score` is given are values alone, contiguous and float32, and its gradients are of the sum of the batch's
losses. Parameters beside the rows (`TripleModel.start_dense`) stand among the tables of the run, as "dense.NAME": one
row for each index of their first dimension, with row-wise Adagrad's state behind it. So they are stepped with the
model's learning rate, kept in checkpoints, agreed on by hosts and, without their state, saved with the scorer.

Legend: Q queries, each about the missing end of triples with one entity and one relation; K candidates; D numbers of an
entity's row, P of a relation's. Queries about heads have rows of relations of their own (reciprocal).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

Dense = Mapping[str, np.ndarray]
"""parameters beside the rows, or their gradients, by name"""
NO_DENSE: Dense = MappingProxyType({})


class Gradients(NamedTuple):
    """What `backward` returns, each of the shape of what `forward` was given."""

    entity_QD: np.ndarray
    relation_QP: np.ndarray
    candidate_KD: np.ndarray
    dense: Dense


class Score(ABC):
    """A score of any form, with its gradients (abstract). Each thread has one, and calls its methods in turn."""

    @abstractmethod
    def forward(
        self, entity_QD: np.ndarray, relation_QP: np.ndarray, candidate_KD: np.ndarray, dense: Dense
    ) -> np.ndarray:
        """Scores (Q, K): how likely each candidate answers each query; higher is better."""

    @abstractmethod
    def backward(self, gradient_QK: np.ndarray) -> Gradients:
        """From gradients of the last scores to those of what they were made of."""


class QueryScore(Score):
    """Dot products of candidates with a query that entity and relation make (abstract)."""

    @abstractmethod
    def queries(self, entity_QD: np.ndarray, relation_QP: np.ndarray, dense: Dense) -> np.ndarray:
        """Queries (Q, D)."""

    @abstractmethod
    def query_gradients(self, gradient_QD: np.ndarray) -> tuple[np.ndarray, np.ndarray, Dense]:
        """From gradients of the last queries to those of entity, relation and dense."""

    def forward(
        self, entity_QD: np.ndarray, relation_QP: np.ndarray, candidate_KD: np.ndarray, dense: Dense
    ) -> np.ndarray:
        self._query_QD, self._candidate_KD = self.queries(entity_QD, relation_QP, dense), candidate_KD
        return self._query_QD @ candidate_KD.T

    def backward(self, gradient_QK: np.ndarray) -> Gradients:
        entity_QD, relation_QP, dense = self.query_gradients(gradient_QK @ self._candidate_KD)
        return Gradients(entity_QD, relation_QP, gradient_QK.T @ self._query_QD, dense)
