"""Which rows a round of examples reads and changes."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

import numpy as np

from any2vec.models.triples.learner import TripleLearner


class TripleInspector:
    """Looks at batches as the learner will make them, also at those of the next epoch while it trains."""

    def __init__(self, learner: TripleLearner) -> None:
        self._model, self._negatives = learner.model, learner.negatives
        self._queries = copy(learner.queries)
        """with an order of its own"""

    def inspect(self, epoch: int, start: int, stop: int, marks: Mapping[str, np.ndarray]) -> None:
        """Put 1 into marks, uint8 (V,) by table, for each row of the batches from a batch's start on."""
        if start >= stop:
            return
        entity_V, relation_R = marks["entities"], marks["relations"]
        if self._model.relation_weight:
            relation_R[:] = 1
        for name in marks.keys() - {"entities", "relations"}:  # dense parameters
            marks[name][:] = 1
        self._queries.begin(epoch)
        for at in range(start, stop, self._model.batch_size):
            batch = self._queries.batch(at, min(at + self._model.batch_size, stop))
            relation_R[batch.relation_Q] = 1
            for slots in (batch.given_Q, batch.answer_B, self._negatives.of(batch, epoch, at).slot_K):
                entity_V[slots] = 1
