"""Batches of triples with some partitions in memory: which answers and negatives they have, beside plain loops."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import pytest

from any2vec.data.entity_parts import EntityParts
from any2vec.models.complex import ComplEx
from any2vec.models.dot import DotProduct
from any2vec.models.triple_config import TripleModel
from any2vec.plan.buffer import block_rows
from any2vec.plan.buffer_walk import BufferWalk, Place, Turn
from any2vec.sampling.triple_windows import Window
from any2vec.train.triple_batches import Asked, WindowLearner, open_classes

ENTITIES, RELATIONS, TRIPLES = 60, 3, 900
PARTS = EntityParts(ENTITIES, 6)
BLOCK = block_rows(10, 4 * 5)


def learner_of(model: TripleModel) -> WindowLearner:
    return WindowLearner(model, np.zeros((6, 5), np.float32), PARTS, RELATIONS, 2, 1)


def rows(seed: int = 1) -> np.ndarray:
    """Triples of rows of the table; few entities have most of them, so that queries have many answers."""
    rng = np.random.default_rng(seed)
    ends = (rng.integers(0, rng.integers(1, ENTITIES + 1, TRIPLES)) for _ in range(2))
    return np.stack([next(ends), rng.integers(0, RELATIONS, TRIPLES), next(ends)], axis=1)


def windows(order: str, row_M3: np.ndarray, epochs: int = 2) -> Iterator[Window]:
    """One for each state, as from disk."""
    part_M2, before = PARTS.part_of(row_M3[:, [0, 2]].ravel()).reshape(-1, 2), Counter[int]()
    for turn in BufferWalk(order=order, partitions=6, capacity=3, epochs=epochs):
        is_now_M = np.array([tuple(pair) in turn.buckets for pair in part_M2.tolist()])
        slot_M3 = row_M3[is_now_M].astype(np.int32)
        for column, part_M in ((0, part_M2[is_now_M, 0]), (2, part_M2[is_now_M, 1])):
            block_M = np.array([turn.block_of[part] for part in part_M.tolist()], np.int64)
            slot_M3[:, column] += (block_M * BLOCK - PARTS.bounds[part_M]).astype(np.int32)
        yield Window(turn, turn.after, before[turn.epoch], len(row_M3), slot_M3, True)
        before[turn.epoch] += len(slot_M3)


def row_of(turn: Turn, slot: int) -> int:
    part = next(part for part, block in turn.held if block == slot // BLOCK)
    return int(PARTS.bounds[part]) + slot % BLOCK


def asked_of(asked: Asked, turn: Turn) -> Iterator[tuple[tuple[int, int], set[int]]]:
    """((row of the given entity, way), rows of the answers) of each query; way: see `ways_of`."""
    batch = asked.batch()
    for q in range(len(batch.given_Q)):
        answers = batch.answer_B[batch.first_Q1[q] : batch.first_Q1[q + 1]].tolist()
        yield (row_of(turn, int(batch.given_Q[q])), int(batch.relation_Q[q])), {row_of(turn, one) for one in answers}


@pytest.mark.parametrize("order", ["beta", "comet", "hilbert", "random"])
@pytest.mark.parametrize("num_negatives", [0, 20])
def test_no_true_answer_is_a_negative(order: str, num_negatives: int) -> None:
    """A batch has its answers in its partitions, and whatever else answers its queries there."""
    row_M3, learner = rows(), learner_of(ComplEx(dim=4, batch_size=TRIPLES, num_negatives=num_negatives))
    true: dict[tuple[int, int], set[int]] = defaultdict(set)
    for head, relation, tail in row_M3.tolist():
        true[head, relation].add(tail)
        true[tail, relation + RELATIONS].add(head)
    for window in windows(order, row_M3):
        for _, asked in learner.arrange(window):
            here = {row_of(window.turn, slot) for start, stop in asked.open_slots for slot in range(start, stop)}
            for query, answers in asked_of(asked, window.turn):
                assert answers == true[query] & here


@pytest.mark.parametrize("order", ["beta", "comet", "hilbert"])
@pytest.mark.parametrize("model", [ComplEx(dim=4, batch_size=40), DotProduct(dim=4, batch_size=40, num_negatives=9)])
def test_negatives_stand_where_answers_are_looked_for(order: str, model: TripleModel) -> None:
    """For tails of i where bucket (i, j) is trained, for heads where (j, i) is; without relations where either is."""
    learner = learner_of(model)
    for window in windows(order, rows()):
        buckets = set(window.turn.buckets)
        for _, asked in learner.arrange(window):
            for (given, way), _ in asked_of(asked, window.turn):
                at = int(PARTS.part_of(np.array([given]))[0])
                ways = (True, False) if not model.has_relations else (way < RELATIONS,)
                wanted = {
                    part for part, _ in window.turn.held for asks_tails in ways
                    if ((at, part) if asks_tails else (part, at)) in buckets
                }  # fmt: skip
                found = [part for part, block in window.turn.held for start, stop in asked.open_slots
                         if (start, stop) == (block * BLOCK, block * BLOCK + 10)]  # fmt: skip
                assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("model", [ComplEx(dim=4, batch_size=40), DotProduct(dim=4, batch_size=40, degree_share=0.5)])
def test_an_epoch_asks_each_question_once(model: TripleModel) -> None:
    """At positions of its own; those drawn by degree are answers of the batch's own class."""
    row_M3, learner = rows(), learner_of(model)
    asked_in: list[Counter[tuple[int, int]]] = [Counter(), Counter()]
    positions: list[list[int]] = [[], []]
    starts: list[int] = []
    for window in windows("comet", row_M3):
        for position, asked in learner.arrange(window):
            batch, epoch = asked.batch(), window.turn.epoch
            given = np.repeat(batch.given_Q, np.diff(batch.first_Q1)).tolist()
            pairs = zip(given, batch.answer_B.tolist(), strict=True)
            asked_in[epoch].update((row_of(window.turn, one), row_of(window.turn, other)) for one, other in pairs)
            positions[epoch] += range(position, position + len(given))
            starts.append(asked.start)
            assert set(asked.answer_N.tolist()) >= (set(batch.answer_B.tolist()) if model.degree_share else set())
            assert all(
                any(start <= slot < stop for start, stop in asked.open_slots) for slot in asked.answer_N.tolist()
            )
    expected = Counter((head, tail) for head, _, tail in row_M3.tolist())
    expected.update((tail, head) for head, _, tail in row_M3.tolist())
    assert asked_in == [expected, expected]
    assert positions == [list(range(2 * TRIPLES))] * 2
    steps = np.diff(starts)
    assert (steps < 0).sum() > 0.3 * len(steps), "batches come in random order"


def test_batches_are_as_large_as_the_share_in_memory() -> None:
    """Half of the entities: half of the questions, where all are negatives; whole queries where they fit."""
    for model, size in ((ComplEx(dim=4, batch_size=40), 20), (ComplEx(dim=4, batch_size=40, num_negatives=9), 40)):
        learner, found = learner_of(model), []
        for window in windows("beta", rows()):
            found += [asked.stop - asked.start for _, asked in learner.arrange(window)]
        assert max(found) <= 40 and np.percentile(found, 90) <= 1.5 * size and sum(found) == 4 * TRIPLES
        assert np.median(found) > 0.5 * size


def test_classes_of_questions() -> None:
    """Partitions 2, 5, 7 in blocks 1, 0, 3, buckets (2, 5), (5, 2), (7, 7): in the order of the partitions."""
    held = (Place(2, 1), Place(5, 0), Place(7, 3))
    turn = Turn(0, 0, held, (), (), ((2, 5), (5, 2), (7, 7), (2, 2)), (), True)
    parts, class_2P = open_classes(turn, True)
    assert [[parts[one] for one in row] for row in class_2P.tolist()] == [[(0, 1), (0,), (2,)]] * 2
    turn = Turn(0, 0, held, (), (), ((2, 5), (7, 5)), (), True)
    parts, class_2P = open_classes(turn, True)
    assert [[parts[one] for one in row] for row in class_2P.tolist()] == [[(1,), (), (1,)], [(), (0, 2), ()]]
    parts, class_2P = open_classes(turn, False)
    assert [[parts[one] for one in row] for row in class_2P.tolist()] == [[(1,), (0, 2), (1,)]] * 2
