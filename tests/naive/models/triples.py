"""Plain twins of the kernels of triples, in float64: one question after the other, complex numbers as such."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from naive.common.pair import log_loss
from naive.common.rng import draw


def query(kind: str, entity: np.ndarray, relation: np.ndarray, is_turned: bool) -> np.ndarray:
    """What the answer should be like, float64 (W,)."""
    if kind == "plain":
        return entity
    if kind == "real":
        return entity * relation
    if kind == "shift":
        return entity + (-relation if is_turned else relation)
    half = len(entity) // 2
    left = entity[:half] + 1j * entity[half:]
    right = np.exp(1j * relation) if kind == "turn" else relation[:half] + 1j * relation[half:]
    product = left * (right.conj() if is_turned else right)
    return np.concatenate([product.real, product.imag])


def score(asked: np.ndarray, answer: np.ndarray, is_near: bool, gamma: float) -> float:
    return gamma - math.dist(asked, answer) if is_near else float(asked @ answer)


def batch_scores(
    model: Any, entities: np.ndarray, relations: np.ndarray, batch: Any, slots: Sequence[int]
) -> list[tuple[float, list[float]]]:
    """(score of the answer, scores of its negatives) of each question of a batch."""
    found = []
    for q in range(len(batch.given_Q)):
        asked = query(
            model.query, entities[batch.given_Q[q]], relations[batch.relation_Q[q]], bool(batch.is_turned_Q[q])
        )
        answers = batch.answer_B[batch.first_Q1[q] : batch.first_Q1[q + 1]].tolist()
        others = [score(asked, entities[slot], model.is_near, model.gamma) for slot in slots if slot not in answers]
        found += [(score(asked, entities[slot], model.is_near, model.gamma), others) for slot in answers]
    return found


def batch_counts(batch: Any, slots: Sequence[int], shares: Any) -> list[list[float]]:
    """What the negatives of each question of a batch count, as `batch_scores` has them; shares None: 1."""
    found = []
    for q in range(len(batch.given_Q)):
        first, stop = batch.first_Q1[q : q + 2].tolist()
        answers = batch.answer_B[first:stop].tolist()
        for _ in range(first, stop):
            counts = []
            for k, slot in enumerate(slots):
                if slot not in answers:
                    part = 0 if shares is None else sum(k >= begin for begin in shares.first_H1[1:])
                    counts.append(1.0 if shares is None else float(shares.weight_QH[q, part]))
            found.append(counts)
    return found


def weights(model: Any, others: Sequence[float], counts: Sequence[float]) -> list[float]:
    """Of negatives in the logistic loss; counts: how often each is to be taken for."""
    if not others:
        return []
    parts = [
        count * math.exp(model.temperature * (other - max(others))) for other, count in zip(others, counts, strict=True)
    ]
    return [part / sum(parts) for part in parts]


def query_loss(
    model: Any, own: float, others: Sequence[float], counts: Sequence[float], of_others: Sequence[float]
) -> float:
    """Loss of one question; counts: as `weights` has them; of_others: what that says, where the loss has any."""
    if model.loss == "softmax":
        top = max([own, *others])
        rest = sum(count * math.exp(each - top) for each, count in zip(others, counts, strict=True))
        return top - own + math.log(math.exp(own - top) + rest)
    if model.loss == "margin":
        short = [max(0.0, model.margin - own + other) for other in others]
        return sum(count * each for count, each in zip(counts, short, strict=True)) / (sum(counts) or 1)
    return log_loss(own) + sum(weight * log_loss(-other) for weight, other in zip(of_others, others, strict=True))


def shares(
    states: Sequence[Any],
    triples: Sequence[tuple[int, int]],
    part_of: Sequence[int],
    given: int,
    asks_heads: bool,
    has_relations: bool,
) -> dict[int, float]:
    """What a negative of each partition counts to a question: questions of an epoch about the partition of `given`,
    over those of them that are trained while the negative's partition is there.

    states: of the epoch, (partitions there, buckets trained); triples: (row of the head, row of the tail).
    """
    met: dict[int, int] = {}
    asked = 0
    for held, buckets in states:
        for head, tail in triples:
            if (part_of[head], part_of[tail]) not in buckets:
                continue
            for is_of_heads, about in ((False, head), (True, tail)):
                if (is_of_heads == asks_heads or not has_relations) and part_of[about] == part_of[given]:
                    asked += 1
                    for part in held:
                        met[part] = met.get(part, 0) + 1
    return {part: asked / count for part, count in met.items()}


def penalty(model: Any, row: np.ndarray, is_complex: bool) -> float:
    half = len(row) // 2
    sizes = np.hypot(row[:half], row[half:]) if is_complex else np.abs(row)
    return float(model.n3 * (sizes**3).sum() + model.l2 * (sizes**2).sum())


def penalties(model: Any, entities: np.ndarray, relations: np.ndarray, batch: Any) -> float:
    """Of the rows of each question of a batch; angles have none."""
    total = 0.0
    for q in range(len(batch.given_Q)):
        for answer in batch.answer_B[batch.first_Q1[q] : batch.first_Q1[q + 1]]:
            total += penalty(model, entities[batch.given_Q[q]], model.is_complex)
            total += penalty(model, entities[answer], model.is_complex)
            if model.query in ("real", "complex", "shift"):
                total += penalty(model, relations[batch.relation_Q[q]], model.is_complex)
    return total


def relation_losses(model: Any, entities: np.ndarray, relations: np.ndarray, batch: Any) -> float:
    """Softmax loss of guessing each question's relation from its two entities, times its weight."""
    total = 0.0
    for q in range(len(batch.given_Q)):
        for answer in batch.answer_B[batch.first_Q1[q] : batch.first_Q1[q + 1]]:
            ends = (batch.given_Q[q], answer)
            start, end = ends[::-1] if batch.is_turned_Q[q] else ends
            scores = [float(query(model.query, entities[start], row, False) @ entities[end]) for row in relations]
            total += math.log(sum(math.exp(one) for one in scores)) - scores[batch.relation_Q[q]]
    return model.relation_weight * total


def draw_slots(
    key: int, position: int, by_degree: int, answers: Sequence[int], ranges: Sequence[tuple[int, int]], count: int
) -> list[int]:
    slots = [slot for start, stop in ranges for slot in range(start, stop)]
    found = []
    for k in range(count):
        share = (int(draw(key, position * count + k)) >> 11) / 2**53
        found.append(int(answers[int(share * len(answers))]) if k < by_degree else slots[int(share * len(slots))])
    return found
