"""Queries of models of triples: an entity's row and a relation's become the vector that the answer should be like.

A query of kind REAL multiplies number by number (DistMult), COMPLEX complex numbers (ComplEx), SHIFT adds (TransE),
TURN turns complex numbers by angles (RotatE), PLAIN leaves the entity's row as it is (dot product). The real parts of a
row stand in its first half, the imaginary ones in its second.

Legend: S rows of the table of entities, C its columns; R rows of that of relations, P its numbers of parameters
(columns behind those are its optimizer's); W numbers of a query; Q queries; U rows that a batch touches.
is_turned_Q: the relation is read the other way round, from its tails to its heads.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import fast_jit, jit
from any2vec.kernels.common.rng import draw, unit

PLAIN, REAL, COMPLEX, SHIFT, TURN = range(5)
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
LEAST_DISTANCE = 1e-6
"""what lies nearer counts as so far away: a distance of 0 has no gradient"""


@fast_jit
def make_queries(
    kind: int, table_SC: np.ndarray, slot_Q: np.ndarray, relation_RC: np.ndarray, relation_Q: np.ndarray,
    is_turned_Q: np.ndarray, query_QW: np.ndarray,
) -> None:  # fmt: skip
    """query[q] = that of the entity at slot_Q[q] and relation_Q[q]; both int64."""
    width = query_QW.shape[1]
    half = width // 2
    for q in range(slot_Q.size):
        entity, relation, query = table_SC[slot_Q[q]], relation_RC[relation_Q[q]], query_QW[q]
        sign = -_ONE if is_turned_Q[q] else _ONE
        if kind == PLAIN:
            for w in range(width):
                query[w] = entity[w]
        elif kind == REAL:
            for w in range(width):
                query[w] = entity[w] * relation[w]
        elif kind == SHIFT:
            for w in range(width):
                query[w] = entity[w] + sign * relation[w]
        elif kind == COMPLEX:
            _multiply(entity, relation, sign, query)
        else:
            for w in range(half):
                real, imaginary = np.cos(relation[w]), sign * np.sin(relation[w])
                query[w] = entity[w] * real - entity[half + w] * imaginary
                query[half + w] = entity[w] * imaginary + entity[half + w] * real


@fast_jit
def add_query_gradients(
    kind: int, table_SC: np.ndarray, slot_Q: np.ndarray, relation_RC: np.ndarray, relation_Q: np.ndarray,
    is_turned_Q: np.ndarray, gradient_QW: np.ndarray, row_Q: np.ndarray, entity_UW: np.ndarray, place_Q: np.ndarray,
    relation_UP: np.ndarray,
) -> None:  # fmt: skip
    """From gradients of queries to those of their rows: entity[row_Q[q]] and relation[place_Q[q]] grow; int64."""
    width = gradient_QW.shape[1]
    half = width // 2
    for q in range(slot_Q.size):
        entity, relation, of_query = table_SC[slot_Q[q]], relation_RC[relation_Q[q]], gradient_QW[q]
        to_entity, to_relation = entity_UW[row_Q[q]], relation_UP[place_Q[q]]
        sign = -_ONE if is_turned_Q[q] else _ONE
        if kind == PLAIN:
            for w in range(width):
                to_entity[w] += of_query[w]
        elif kind == REAL:
            for w in range(width):
                to_entity[w] += of_query[w] * relation[w]
                to_relation[w] += of_query[w] * entity[w]
        elif kind == SHIFT:
            for w in range(width):
                to_entity[w] += of_query[w]
                to_relation[w] += sign * of_query[w]
        elif kind == COMPLEX:
            _add_product_gradients(entity, relation, sign, of_query, to_entity, to_relation)
        else:
            for w in range(half):
                up, down = of_query[w], of_query[half + w]
                first, second = entity[w], entity[half + w]
                real, imaginary = np.cos(relation[w]), sign * np.sin(relation[w])
                # The query turned by a quarter is what it changes by.
                to_relation[w] += sign * (
                    down * (first * real - second * imaginary) - up * (first * imaginary + second * real)
                )
                to_entity[w] += up * real + down * imaginary
                to_entity[half + w] += down * real - up * imaginary


# A loop for each half that is written: of more, LLVM makes no vectors, for it cannot tell that they lie apart.
@fast_jit
def _multiply(one_W: np.ndarray, other_W: np.ndarray, sign: np.float32, product_W: np.ndarray) -> None:
    """product = one times other, complex numbers; sign -1: times the other's conjugate."""
    half = product_W.size // 2
    for w in range(half):
        product_W[w] = one_W[w] * other_W[w] - one_W[half + w] * (sign * other_W[half + w])
    for w in range(half):
        product_W[half + w] = one_W[w] * (sign * other_W[half + w]) + one_W[half + w] * other_W[w]


@fast_jit
def _add_product_gradients(
    one_W: np.ndarray, other_W: np.ndarray, sign: np.float32, of_product_W: np.ndarray, to_one_W: np.ndarray,
    to_other_W: np.ndarray,
) -> None:  # fmt: skip
    """From the gradient of `_multiply`'s product to those of its two factors, which grow; they may be one array."""
    half = of_product_W.size // 2
    for w in range(half):
        to_other_W[w] += of_product_W[w] * one_W[w] + of_product_W[half + w] * one_W[half + w]
    for w in range(half):
        to_other_W[half + w] += sign * (of_product_W[half + w] * one_W[w] - of_product_W[w] * one_W[half + w])
    for w in range(half):
        to_one_W[w] += of_product_W[w] * other_W[w] + of_product_W[half + w] * (sign * other_W[half + w])
    for w in range(half):
        to_one_W[half + w] += of_product_W[half + w] * other_W[w] - of_product_W[w] * (sign * other_W[half + w])


@fast_jit
def add_penalties(
    table_SC: np.ndarray, slot_B: np.ndarray, row_B: np.ndarray, count_B: np.ndarray, is_complex: bool, n3: float,
    l2: float, gradient_UW: np.ndarray,
) -> None:  # fmt: skip
    """gradient[row_B[b]] += count_B[b] times the gradient of n3 |row|_3^3 + l2 |row|_2^2 of the row at slot_B[b].

    Of complex rows the moduli count (Lacroix, Usunier, Obozinski 2018, equation 4). count_B int64.
    """
    width = gradient_UW.shape[1]
    half = width // 2
    cube, square = np.float32(3.0 * n3), np.float32(2.0 * l2)
    for b in range(slot_B.size):
        row, to_row, count = table_SC[slot_B[b]], gradient_UW[row_B[b]], np.float32(count_B[b])
        if is_complex:
            for w in range(half):
                size = np.sqrt(row[w] * row[w] + row[half + w] * row[half + w])
                factor = count * (cube * size + square)
                to_row[w] += factor * row[w]
                to_row[half + w] += factor * row[half + w]
        else:
            for w in range(width):
                to_row[w] += count * (cube * np.abs(row[w]) + square) * row[w]


@fast_jit
def near_scores(score_QK: np.ndarray, query_QW: np.ndarray, candidate_KW: np.ndarray, gamma: float) -> None:
    """From dot products to gamma - distance, in place."""
    best, least, two = np.float32(gamma), np.float32(LEAST_DISTANCE * LEAST_DISTANCE), np.float32(2.0)
    square_K = np.empty(candidate_KW.shape[0], np.float32)
    for k in range(candidate_KW.shape[0]):
        square_K[k] = _square(candidate_KW[k])
    for q in range(score_QK.shape[0]):
        own = _square(query_QW[q])
        for k in range(score_QK.shape[1]):
            score_QK[q, k] = best - np.sqrt(max(own + square_K[k] - two * score_QK[q, k], least))


@fast_jit
def over_distances(score_QK: np.ndarray, gradient_QK: np.ndarray, gamma: float) -> None:
    """gradient /= distance, where score = gamma - distance: what a difference of two vectors is multiplied by."""
    best, least = np.float32(gamma), np.float32(LEAST_DISTANCE)
    for q in range(score_QK.shape[0]):
        for k in range(score_QK.shape[1]):
            gradient_QK[q, k] /= max(best - score_QK[q, k], least)


@fast_jit
def lose_sums(
    gradient_QK: np.ndarray, query_QW: np.ndarray, candidate_KW: np.ndarray, row_K: np.ndarray, of_query_QW: np.ndarray,
    of_entity_UW: np.ndarray,
) -> None:  # fmt: skip
    """Gradients of distances are of differences: the vectors' products stand there already, what is lost is themselves.

    row_K int64: where a candidate stands in of_entity_UW.
    """
    width = query_QW.shape[1]
    sum_K = np.zeros(gradient_QK.shape[1], np.float32)
    for q in range(gradient_QK.shape[0]):
        total = _ZERO
        for k in range(gradient_QK.shape[1]):
            total += gradient_QK[q, k]
            sum_K[k] += gradient_QK[q, k]
        for w in range(width):
            of_query_QW[q, w] -= total * query_QW[q, w]
    for k in range(sum_K.size):
        for w in range(width):
            of_entity_UW[row_K[k], w] -= sum_K[k] * candidate_KW[k, w]


@fast_jit
def _square(row_W: np.ndarray) -> np.float32:
    total = _ZERO
    for w in range(row_W.size):
        total += row_W[w] * row_W[w]
    return total


@fast_jit
def answer_scores(
    table_SC: np.ndarray, slot_B: np.ndarray, column_B: np.ndarray, first_Q1: np.ndarray, query_QW: np.ndarray,
    score_QK: np.ndarray, is_near: bool, gamma: float, own_B: np.ndarray,
) -> None:  # fmt: skip
    """own_B = the score of each answer: from its column, or made here where it is no candidate (column -1)."""
    width = query_QW.shape[1]
    for q in range(query_QW.shape[0]):
        query = query_QW[q]
        for b in range(first_Q1[q], first_Q1[q + 1]):
            if column_B[b] >= 0:
                own_B[b] = score_QK[q, column_B[b]]
                continue
            answer, total = table_SC[slot_B[b]], _ZERO
            if is_near:
                for w in range(width):
                    total += (query[w] - answer[w]) * (query[w] - answer[w])
                own_B[b] = np.float32(gamma) - np.sqrt(max(total, np.float32(LEAST_DISTANCE * LEAST_DISTANCE)))
            else:
                for w in range(width):
                    total += query[w] * answer[w]
                own_B[b] = total


@fast_jit
def add_answer_gradients(
    table_SC: np.ndarray, slot_B: np.ndarray, row_B: np.ndarray, first_Q1: np.ndarray, query_QW: np.ndarray,
    own_B: np.ndarray, is_near: bool, query_gradient_QW: np.ndarray, entity_UW: np.ndarray,
) -> None:  # fmt: skip
    """The gradients of answers that are no candidates, own_B (0: it is one), go to their rows and to the queries.

    For is_near own_B is divided by the distance, as `over_distances` divides the others.
    """
    width = query_QW.shape[1]
    for q in range(query_QW.shape[0]):
        query, of_query = query_QW[q], query_gradient_QW[q]
        for b in range(first_Q1[q], first_Q1[q + 1]):
            factor = own_B[b]
            if factor == _ZERO:
                continue
            answer, to_answer = table_SC[slot_B[b]], entity_UW[row_B[b]]
            if is_near:
                for w in range(width):
                    change = factor * (query[w] - answer[w])
                    to_answer[w] += change
                    of_query[w] -= change
            else:
                for w in range(width):
                    to_answer[w] += factor * query[w]
                    of_query[w] += factor * answer[w]


@jit
def draw_slots(
    key: np.uint64, position: int, by_degree: int, answer_N: np.ndarray, start_P: np.ndarray, size_P: np.ndarray,
    drawn_K: np.ndarray,
) -> None:  # fmt: skip
    """The negatives of the batch at `position`: the first `by_degree` are answers of any examples, the others uniform.

    start_P, size_P int64: ranges of slots, P of them. Draw k is the key's at position * K + k.
    """
    total = size_P.sum()
    for k in range(drawn_K.size):
        share = unit(draw(key, np.uint64(position * drawn_K.size + k)))
        if k < by_degree:
            drawn_K[k] = answer_N[np.int64(share * answer_N.size)]
            continue
        at, part = np.int64(share * total), 0
        while at >= size_P[part]:
            at -= size_P[part]
            part += 1
        drawn_K[k] = start_P[part] + at
