"""What one thread does with one batch of examples: queries, scores, loss, gradients, steps of the rows.

It knows no partitions and no files: rows of entities are slots of an array, wherever they come from.

Legend: S slots, C their columns (W values and the optimizer's), R rows of relations, P their values; Q queries,
B examples, K candidates, U rows of entities that the batch touches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from any2vec.errors import InputError
from any2vec.kernels.common.rng import PURPOSE_NEGATIVE, stream_key
from any2vec.kernels.rows.rows import gather_rows
from any2vec.kernels.triples import queries as triple_queries
from any2vec.kernels.triples.losses import hide_answers, logistic_loss, margin_loss, softmax_loss
from any2vec.kernels.triples.queries import (
    LEAST_DISTANCE,
    add_answer_gradients,
    add_penalties,
    add_query_gradients,
    answer_scores,
    draw_slots,
    lose_sums,
    make_queries,
    near_scores,
    over_distances,
)
from any2vec.models.triples.config import TripleModel
from any2vec.models.triples.queries import QueryBatch
from any2vec.tables.row_optimizer import RowOptimizer

Range = tuple[int, int]
KINDS = {name: getattr(triple_queries, name.upper()) for name in ("plain", "real", "complex", "shift", "turn")}


@dataclass(frozen=True)
class Candidates:
    """Among which answers are looked for: slots, ascending, each once."""

    slot_K: np.ndarray
    whole: Range | None = None
    """all slots of this range: their rows need not be gathered"""

    def columns_of(self, slot_B: np.ndarray) -> np.ndarray:
        """Place of each slot among the candidates, int64; -1: it is none."""
        if self.whole is not None:
            return slot_B - self.whole[0]
        place_B = np.minimum(np.searchsorted(self.slot_K, slot_B), len(self.slot_K) - 1)
        return np.where(self.slot_K[place_B] == slot_B, place_B, -1)


@dataclass(frozen=True)
class Shares:
    """What negatives count, by their partitions, as if they came so often."""

    first_H1: np.ndarray
    """int64: candidates of partition h are [first_H1[h], first_H1[h + 1])"""
    weight_QH: np.ndarray
    """float32: to each query of the batch"""

    @classmethod
    def alike(cls, num_candidates: int, num_queries: int) -> Shares:
        """1 each."""
        return cls(np.array([0, num_candidates]), np.ones((num_queries, 1), np.float32))


class Negatives:
    """Draws the candidates of each batch, by (seed, epoch, position of the batch) alone.

    Args:
        resident: ranges of slots [start, stop) from which they are drawn.
        answer_N: answers of the examples, for draws by degree.
        number: negatives of a batch, 0: all.
    """

    def __init__(
        self, model: TripleModel, resident: Sequence[Range], answer_N: np.ndarray, number: int, seed: int
    ) -> None:
        self._model, self._answer_N, self._number, self._seed = model, answer_N, number, seed
        self._start_P = np.array([start for start, _ in resident], np.int64)
        self._size_P = np.array([stop - start for start, stop in resident], np.int64)
        self._all: Candidates | None = None
        if not number:
            slots = np.concatenate([np.arange(start, stop) for start, stop in sorted(resident)])
            self._all = Candidates(slots, resident[0] if len(resident) == 1 else None)

    def of(self, batch: QueryBatch, epoch: int, position: int) -> Candidates:
        if self._all is not None:
            return self._all
        drawn_K = np.empty(self._number, np.int64)
        by_degree = round(self._model.degree_share * self._number)
        key = stream_key(self._seed, PURPOSE_NEGATIVE, epoch)
        draw_slots(key, position, by_degree, self._answer_N, self._start_P, self._size_P, drawn_K)
        return Candidates(np.union1d(drawn_K, batch.answer_B) if self._model.batch_negatives else np.unique(drawn_K))


class TripleWorker:
    """One of the Hogwild threads of a run.

    Args:
        entity_SC: rows of entities, float32, values and Adagrad's state.
        relation_RC: those of relations, likewise.
    """

    def __init__(self, model: TripleModel, entity_SC: np.ndarray, relation_RC: np.ndarray) -> None:
        self.model, self.entities, self.relations = model, entity_SC, relation_RC
        self._kind = KINDS.get(model.query)
        self._of_entities = RowOptimizer(model.dim, "adagrad", model.learning_rate)
        self._of_relations = relation_optimizer(model)
        self._buffers: dict[str, np.ndarray] = {}

    def step(self, batch: QueryBatch, candidates: Candidates, rate: float, shares: Shares | None = None) -> float:
        """Train on a batch with a learning rate; the sum of the losses of its examples. By default all shares are 1.

        Raises:
            InputError: the loss is no number any more; the rows are as they were.
        """
        is_near, gamma = self.model.is_near, self.model.gamma
        query_QW = self._array("query", len(batch.given_Q), self.model.dim)
        make_queries(
            self._kind, self.entities, batch.given_Q, self.relations, batch.relation_Q, batch.is_turned_Q, query_QW
        )
        candidate_KW = self._rows(candidates)
        score_QK = self._array("score", len(query_QW), len(candidate_KW))
        np.matmul(query_QW, candidate_KW.T, out=score_QK)
        if is_near:
            near_scores(score_QK, query_QW, candidate_KW, gamma)
        column_B = candidates.columns_of(batch.answer_B)
        own_B = np.empty(len(batch.answer_B), np.float32)
        answer_scores(
            self.entities, batch.answer_B, column_B, batch.first_Q1, query_QW, score_QK, is_near, gamma, own_B
        )
        gradient_QK, distance_B = score_QK, own_B
        if is_near:  # gradients are over distances, which the loss would lay its own upon
            gradient_QK = self._array("gradient", *score_QK.shape)
            np.copyto(gradient_QK, score_QK)
            distance_B = np.float32(gamma) - own_B
        shares = shares or Shares.alike(len(candidate_KW), len(query_QW))
        loss = loss_gradients(self.model, gradient_QK, batch.first_Q1, column_B, own_B, shares)
        of_query_QW = self._array("of_query", *query_QW.shape)
        accessed = Accessed.of(batch, candidates)
        of_entity_UW = self._array("of_entity", len(accessed.slot_U), self.model.dim)
        if is_near:
            over_distances(score_QK, gradient_QK, gamma)
            own_B /= np.maximum(distance_B, np.float32(LEAST_DISTANCE))
        np.matmul(gradient_QK, candidate_KW, out=of_query_QW)
        if accessed.is_whole:
            np.matmul(gradient_QK.T, query_QW, out=of_entity_UW)
        else:
            of_entity_UW[:] = 0
            of_entity_UW[accessed.row_K] = gradient_QK.T @ query_QW
        if is_near:
            lose_sums(gradient_QK, query_QW, candidate_KW, accessed.row_K, of_query_QW, of_entity_UW)
        add_answer_gradients(
            self.entities, batch.answer_B, accessed.row_B, batch.first_Q1, query_QW, own_B, is_near, of_query_QW,
            of_entity_UW,
        )  # fmt: skip
        self._change(batch, accessed, of_query_QW, of_entity_UW, rate)
        return loss

    def _change(
        self, batch: QueryBatch, accessed: Accessed, of_query_QW: np.ndarray, of_entity_UW: np.ndarray, rate: float
    ) -> None:
        """From the gradients of queries to those of rows, penalties too, and a step of each row."""
        model = self.model
        if model.relation_weight:  # every relation is a candidate
            row_V, place_Q = np.arange(len(self.relations)), batch.relation_Q
        else:
            row_V, place_Q = np.unique(batch.relation_Q, return_inverse=True)
        of_relation_VP = np.zeros((len(row_V), self._of_relations.width), np.float32)
        if model.relation_weight:
            self._guess_relations(batch, accessed, of_entity_UW, of_relation_VP)
        add_query_gradients(
            self._kind, self.entities, batch.given_Q, self.relations, batch.relation_Q, batch.is_turned_Q, of_query_QW,
            accessed.row_Q, of_entity_UW, place_Q, of_relation_VP,
        )  # fmt: skip
        self._step_rows(batch, accessed, of_entity_UW, row_V, place_Q, of_relation_VP, rate)

    def _step_rows(
        self, batch: QueryBatch, accessed: Accessed, of_entity_UW: np.ndarray, row_V: np.ndarray, place_Q: np.ndarray,
        of_relation_VP: np.ndarray, rate: float,
    ) -> None:  # fmt: skip
        """Add penalties to the gradients of rows, and step each row."""
        model = self.model
        if model.n3 or model.l2:
            count_Q, one_B = np.diff(batch.first_Q1), np.ones(len(batch.answer_B), np.int64)
            weights = (model.is_complex, model.n3, model.l2)
            add_penalties(self.entities, batch.given_Q, accessed.row_Q, count_Q, *weights, of_entity_UW)
            add_penalties(self.entities, batch.answer_B, accessed.row_B, one_B, *weights, of_entity_UW)
            if model.relation_width and not model.has_angles:
                add_penalties(self.relations, batch.relation_Q, place_Q, count_Q, *weights, of_relation_VP)
        self._of_entities.step(self.entities, accessed.slot_U, of_entity_UW, rate)
        if model.relation_width:
            self._of_relations.step(self.relations, row_V, of_relation_VP, rate)

    def _guess_relations(
        self, batch: QueryBatch, accessed: Accessed, of_entity_UW: np.ndarray, of_relation_RP: np.ndarray
    ) -> None:
        """Add the gradients of a softmax over relations, given both ends of a triple.

        Products and sums turn into each other: as the query for an answer is entity times relation, that for a relation
        is answer times the entity's conjugate, so the same kernels make it.
        """
        count_Q = np.diff(batch.first_Q1)
        relation_B, is_turned_B = np.repeat(batch.relation_Q, count_Q), np.repeat(batch.is_turned_Q, count_Q)
        given_B, row_B = np.repeat(batch.given_Q, count_Q), np.repeat(accessed.row_Q, count_Q)
        # Of a relation that is read the other way round the two entities change places.
        from_B, to_B = (np.where(is_turned_B, *ends) for ends in ((batch.answer_B, given_B), (given_B, batch.answer_B)))
        of_from_B, of_to_B = (
            np.where(is_turned_B, *rows) for rows in ((accessed.row_B, row_B), (row_B, accessed.row_B))
        )
        ways = (self._kind, self.entities, to_B, self.entities, from_B, np.ones(len(to_B), np.bool_))
        guess_BW = self._array("guess", len(given_B), self.model.dim)
        make_queries(*ways, guess_BW)
        relation_RW = self.relations[:, : self.model.dim]
        score_BR = guess_BW @ relation_RW.T
        own_B, first_B1 = score_BR[np.arange(len(given_B)), relation_B], np.arange(len(given_B) + 1)
        hide_answers(score_BR, first_B1, relation_B)
        alike = Shares.alike(len(relation_RW), len(own_B))
        softmax_loss(score_BR, score_BR.max(axis=1), first_B1, relation_B, own_B, alike.first_H1, alike.weight_QH)
        score_BR *= np.float32(self.model.relation_weight)
        of_relation_RP += score_BR.T @ guess_BW
        add_query_gradients(*ways, score_BR @ relation_RW, of_to_B, of_entity_UW, of_from_B, of_entity_UW)

    def _rows(self, candidates: Candidates) -> np.ndarray:
        """Values of the candidates' rows; where they are all of a range, the rows themselves."""
        width = self.model.dim
        if candidates.whole is not None:
            return self.entities[candidates.whole[0] : candidates.whole[1], :width]
        rows_KC = self._array("candidates", len(candidates.slot_K), self.entities.shape[1])
        gather_rows(self.entities, candidates.slot_K, rows_KC)
        return rows_KC[:, :width]

    def _array(self, name: str, rows: int, columns: int) -> np.ndarray:
        """An array of that shape in memory that is kept from batch to batch: fresh pages cost as much as the work."""
        kept = self._buffers.get(name)
        if kept is None or kept.size < rows * columns:
            kept = self._buffers[name] = np.empty(rows * columns, np.float32)
        return kept[: rows * columns].reshape(rows, columns)


@dataclass(frozen=True)
class Accessed:
    """The rows of entities that a batch changes, each once, and where its queries, candidates and answers stand."""

    slot_U: np.ndarray
    row_Q: np.ndarray
    row_K: np.ndarray
    row_B: np.ndarray
    is_whole: bool
    """the candidates are all there is: row u is candidate u"""

    @classmethod
    def of(cls, batch: QueryBatch, candidates: Candidates) -> Accessed:
        if candidates.whole is not None and _lie_in(batch.given_Q, candidates.whole):
            first = candidates.whole[0]
            row_K = np.arange(len(candidates.slot_K))
            return cls(candidates.slot_K, batch.given_Q - first, row_K, batch.answer_B - first, True)
        slots = np.concatenate([batch.given_Q, candidates.slot_K, batch.answer_B])
        slot_U, row_N = np.unique(slots, return_inverse=True)
        ends = np.cumsum([len(batch.given_Q), len(candidates.slot_K)])
        row_Q, row_K, row_B = np.split(row_N, ends)
        return cls(slot_U, row_Q, row_K, row_B, False)


def _lie_in(slot_N: np.ndarray, whole: Range) -> bool:
    return int(slot_N.min()) >= whole[0] and int(slot_N.max()) < whole[1]


def relation_optimizer(model: TripleModel) -> RowOptimizer:
    """Steps of relations, in a table of their own; a model without them has one number that never changes."""
    return RowOptimizer(max(1, model.relation_width), "adagrad", model.learning_rate)


def loss_gradients(
    model: TripleModel, score_QK: np.ndarray, first_Q1: np.ndarray, column_B: np.ndarray, own_B: np.ndarray,
    shares: Shares,
) -> float:  # fmt: skip
    """The sum of the losses of a batch; scores, in place, become gradients.

    Raises:
        InputError: it is no number any more.
    """
    weights = (shares.first_H1, shares.weight_QH)
    hide_answers(score_QK, first_Q1, column_B)
    if model.loss == "margin":
        loss = margin_loss(score_QK, first_Q1, column_B, own_B, *weights, model.margin)
    else:
        top_Q = score_QK.max(axis=1)
        if model.loss == "logistic":
            loss = logistic_loss(score_QK, top_Q, first_Q1, column_B, own_B, *weights, model.temperature)
        else:
            loss = softmax_loss(score_QK, top_Q, first_Q1, column_B, own_B, *weights)
    if not math.isfinite(loss):
        raise InputError(f"The loss of a batch is {loss}: the training has diverged; lower learning_rate.")
    return float(loss)
