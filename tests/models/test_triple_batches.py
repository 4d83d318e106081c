"""Batches of triples with some partitions in memory: what is asked and what negatives count, beside plain loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from any2vec.data.partitions.row_partitions import RowPartitions
from any2vec.models.triples.config import ComplEx, DotProduct, TripleModel
from any2vec.plan.order.bucket_orders import ORDERS
from any2vec.plan.order.buffer import block_rows
from any2vec.plan.order.buffer_walk import BufferWalk, Turn
from any2vec.plan.order.shared_walk import SharedWalk
from any2vec.plan.order.shares import noise_weights
from any2vec.sampling.triple_windows import Window
from any2vec.tasks.triples.batches import Asked, WindowLearner, ways_asked
from any2vec.train.out_of_core.run import Batch
from any2vec.train.out_of_core.run import Place as BatchPlace
from naive.models import triples as naive

ENTITIES, RELATIONS, TRIPLES = 60, 3, 900
PARTS = RowPartitions(ENTITIES, 6)
BLOCK = block_rows(10, 4 * 5)
PART_OF = PARTS.part_of(np.arange(ENTITIES)).tolist()


def walk_of(order: str, capacity: int = 3) -> BufferWalk:
    return BufferWalk(order=order, partitions=6, capacity=capacity, epochs=2)


def learner_of(model: TripleModel, order: str, row_M3: np.ndarray, capacity: int = 3) -> WindowLearner:
    relation_RC = np.random.default_rng(5).normal(0, 0.5, (6, model.dim + 1)).astype(np.float32)
    learner = WindowLearner(model, relation_RC, PARTS, walk_of(order, capacity), RELATIONS, 1)
    learner.count_PP = count_of(row_M3)
    return learner


def count_of(row_M3: np.ndarray) -> np.ndarray:
    """Triples of each bucket."""
    count_PP = np.zeros((6, 6), np.int64)
    for head, _, tail in row_M3.tolist():
        count_PP[PART_OF[head], PART_OF[tail]] += 1
    return count_PP


def rows(seed: int = 1) -> np.ndarray:
    """Triples of rows of the table; few entities have most of them, so that queries have many answers."""
    rng = np.random.default_rng(seed)
    ends = (rng.integers(0, rng.integers(1, ENTITIES + 1, TRIPLES)) for _ in range(2))
    return np.stack([next(ends), rng.integers(0, RELATIONS, TRIPLES), next(ends)], axis=1)


def windows(order: str, row_M3: np.ndarray, capacity: int = 3) -> Iterator[Window]:
    """One for each state, as from disk."""
    part_M2, before = PARTS.part_of(row_M3[:, [0, 2]].ravel()).reshape(-1, 2), Counter[int]()
    for turn in walk_of(order, capacity):
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


def counted(
    learner: WindowLearner, asked: Asked, turn: Turn, epoch: int, position: int
) -> Iterator[tuple[int, bool, dict[int, float]]]:
    """(row of the given entity, whether it asks for heads, row of a negative -> what it counts) of each question."""
    batch = asked.batch()
    candidates = asked.negatives.of(batch, epoch, position)
    shares = asked.resident.shares(batch, candidates, RELATIONS)
    for q in range(len(batch.given_Q)):
        for _ in range(batch.first_Q1[q], batch.first_Q1[q + 1]):
            found = {}
            for k, slot in enumerate(candidates.slot_K.tolist()):
                part = 0 if shares is None else sum(k >= begin for begin in shares.first_H1[1:])
                found[row_of(turn, slot)] = 1.0 if shares is None else float(shares.weight_QH[q, part])
            yield row_of(turn, int(batch.given_Q[q])), bool(batch.relation_Q[q] >= RELATIONS), found


# ---- what negatives count


@pytest.mark.parametrize("order", ["beta", "comet", "hilbert"])
@pytest.mark.parametrize("model", [ComplEx(dim=4, batch_size=200), DotProduct(dim=4, batch_size=200)])
def test_negatives_count_what_the_plain_twin_says(order: str, model: TripleModel) -> None:
    """All rows that are there are negatives, each by its partition and the given entity's."""
    row_M3 = rows()
    learner, pairs = learner_of(model, order, row_M3), [(head, tail) for head, _, tail in row_M3.tolist()]
    turns = list(walk_of(order))
    for window in windows(order, row_M3):
        turn = window.turn
        states = [([part for part, _ in one.held], one.buckets) for one in turns if one.epoch == turn.epoch]
        expected = {
            (part, way): naive.shares(states, pairs, PART_OF, 10 * part, way, model.has_relations)
            for part, way in product([part for part, _ in turn.held], (False, True))
        }
        here = {row for part, _ in turn.held for row in range(10 * part, 10 * part + 10)}
        for position, asked in learner.arrange(window):
            for given, asks_heads, found in counted(learner, asked, turn, turn.epoch, position):
                assert set(found) == here
                for row, count in found.items():
                    assert count == pytest.approx(expected[PART_OF[given], asks_heads][PART_OF[row]], rel=1e-6)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("model", [ComplEx(dim=4, batch_size=100), DotProduct(dim=4, batch_size=100)])
def test_every_row_is_a_negative_as_often_as_in_memory(order: str, model: TripleModel) -> None:
    """Over an epoch: each row once of each question, for tails and for heads of each partition of given entities."""
    row_M3 = rows()
    learner = learner_of(model, order, row_M3)
    found_2PN, asked_2P = np.zeros((2, 6, ENTITIES)), np.zeros((2, 6))
    for window in windows(order, row_M3):
        for position, asked in learner.arrange(window):
            if window.turn.epoch == 1:
                for given, asks_heads, counts in counted(learner, asked, window.turn, 1, position):
                    way, part = int(asks_heads), PART_OF[given]
                    found_2PN[way, part, list(counts)] += list(counts.values())
                    asked_2P[way, part] += 1
    if not model.has_relations:
        assert not asked_2P[1].any()
    np.testing.assert_allclose(found_2PN, np.broadcast_to(asked_2P[..., None], found_2PN.shape), rtol=1e-5)


@pytest.mark.parametrize("order", ["beta", "comet"])
def test_what_is_drawn_counts_so_that_it_comes_as_often_too(order: str) -> None:
    """Expected over the draws: questions times negatives over entities, for all partitions of negatives."""
    row_M3 = rows()
    learner = learner_of(ComplEx(dim=4, num_negatives=9), order, row_M3)
    found_2PP, asked_2P = np.zeros((2, 6, 6)), np.zeros((2, 6))
    for window in windows(order, row_M3):
        turn = window.turn
        for _, asked in learner.arrange(window):
            batch, weight_2HH = asked.batch(), asked.resident.weight_2HH
            assert weight_2HH is not None
            by_block = [part for part, _ in sorted(turn.held, key=lambda place: place.block)]
            chance = 9 / (10 * len(by_block))  # of a row that is there, at each of the draws
            for q, queries in enumerate(np.diff(batch.first_Q1).tolist()):
                way, given = int(batch.relation_Q[q] >= RELATIONS), PART_OF[row_of(turn, int(batch.given_Q[q]))]
                asked_2P[way, given] += queries
                found_2PP[way, given, by_block] += queries * chance * weight_2HH[way, by_block.index(given)]
    np.testing.assert_allclose(found_2PP, np.broadcast_to(9 / 60 * asked_2P[..., None], found_2PP.shape), rtol=1e-5)


@pytest.mark.parametrize("model", [ComplEx(dim=4), ComplEx(dim=4, num_negatives=9)])
def test_all_count_1_where_all_rows_are_there(model: TripleModel) -> None:
    row_M3 = rows()
    learner = learner_of(model, "beta", row_M3, 6)
    for window in windows("beta", row_M3, 6):
        assert all(asked.resident.weight_2HH is None for _, asked in learner.arrange(window))
    for asked_P, joint_PP in learner_ways(learner):
        assert (noise_weights(range(6), asked_P, joint_PP) == 1).all()


def learner_ways(learner: WindowLearner) -> list[tuple[np.ndarray, np.ndarray]]:
    assert learner.count_PP is not None
    return ways_asked(learner.walk.states_of(1), learner.count_PP, True)


@pytest.mark.parametrize(("hosts", "capacity"), [(2, 2), (2, 4), (3, 2)])
def test_rows_are_negatives_as_often_where_hosts_share_the_table(hosts: int, capacity: int) -> None:
    """Over the states of all hosts: every one of them trains, for each bucket, with the same weights."""
    count_PP = np.random.default_rng(1).integers(1, 50, (12, 12))
    walks = [SharedWalk(hosts=hosts, rank=rank, partitions=12, capacity=capacity, epochs=3) for rank in range(hosts)]
    for epoch in range(3):
        states = [walk.states_of(epoch) for walk in walks]
        assert all(one == states[0] for one in states)
        assert sorted(bucket for state in states[0] for bucket in state.buckets) == list(product(range(12), repeat=2))
        ways = ways_asked(states[0], count_PP, True)
        found_2PP = np.zeros((2, 12, 12))
        for turn in (turn for walk in walks for turn in walk if turn.epoch == epoch):
            held = [part for part, _ in turn.held]
            weights = [noise_weights(held, *way) for way in ways]
            for i, j in turn.buckets:
                for way, given in ((0, i), (1, j)):
                    found_2PP[way, given, held] += count_PP[i, j] * weights[way][held.index(given)]
        for way, axis in ((0, 1), (1, 0)):
            np.testing.assert_allclose(found_2PP[way], np.repeat(count_PP.sum(axis=axis)[:, None], 12, 1), rtol=1e-5)


@pytest.mark.parametrize("loss", ["softmax", "logistic", "margin"])
@pytest.mark.parametrize("num_negatives", [0, 9])
def test_a_batch_has_the_loss_of_its_plain_twin(loss: str, num_negatives: int) -> None:
    """Whatever the buffer holds: each answer against the rows there, which count what plain loops say."""
    model = ComplEx(dim=4, batch_size=200, loss=loss, num_negatives=num_negatives)  # type: ignore[arg-type]
    row_M3 = rows()
    learner, pairs = learner_of(model, "comet", row_M3), [(head, tail) for head, _, tail in row_M3.tolist()]
    turns = [one for one in walk_of("comet") if one.epoch == 0]
    states = [([part for part, _ in one.held], one.buckets) for one in turns]
    table_SC = np.random.default_rng(3).normal(0, 0.7, (BLOCK * learner.walk.blocks, 5)).astype(np.float32)
    for window in list(windows("comet", row_M3))[: len(turns)]:
        turn = window.turn
        there = len(turn.held) / 6 if num_negatives else 1.0
        for position, asked in learner.arrange(window)[:2]:
            batch = asked.batch()
            slots = asked.negatives.of(batch, 0, position).slot_K.tolist()
            wide = (table_SC[:, :4].astype(np.float64), learner.relation_RC[:, :4].astype(np.float64))
            expected, scores = 0.0, iter(naive.batch_scores(model, *wide, batch, slots))
            for q in range(len(batch.given_Q)):
                first, stop = batch.first_Q1[q : q + 2].tolist()
                others = [slot for slot in slots if slot not in batch.answer_B[first:stop].tolist()]
                way, given = bool(batch.relation_Q[q] >= RELATIONS), row_of(turn, int(batch.given_Q[q]))
                count = naive.shares(states, pairs, PART_OF, given, way, True)
                counts = [there * count[PART_OF[row_of(turn, slot)]] for slot in others]
                for _ in range(first, stop):
                    own, negatives = next(scores)
                    of_others = naive.weights(model, negatives, counts)
                    expected += naive.query_loss(model, own, negatives, counts, of_others)
            stats = learner.step(Batch(table_SC, window.slot_M3, [], BatchPlace(0, position), asked))
            assert stats.loss_sum == pytest.approx(expected, rel=1e-4)


# ---- what is asked


@pytest.mark.parametrize("model", [ComplEx(dim=4, batch_size=40), DotProduct(dim=4, batch_size=40, degree_share=0.5)])
def test_an_epoch_asks_each_query_once(model: TripleModel) -> None:
    """At positions of its own; both of a triple in the window that has it."""
    row_M3 = rows()
    learner = learner_of(model, "comet", row_M3)
    asked_in: list[Counter[tuple[int, int]]] = [Counter(), Counter()]
    positions: list[list[int]] = [[], []]
    for window in windows("comet", row_M3):
        for position, asked in learner.arrange(window):
            batch, epoch = asked.batch(), window.turn.epoch
            given = np.repeat(batch.given_Q, np.diff(batch.first_Q1)).tolist()
            pairs = zip(given, batch.answer_B.tolist(), strict=True)
            asked_in[epoch].update((row_of(window.turn, one), row_of(window.turn, other)) for one, other in pairs)
            positions[epoch] += range(position, position + len(given))
    expected = Counter((head, tail) for head, _, tail in row_M3.tolist())
    expected.update((tail, head) for head, _, tail in row_M3.tolist())
    assert asked_in == [expected, expected]
    assert positions == [list(range(2 * TRIPLES))] * 2


def test_draws_by_degree_are_of_the_answers_of_the_window() -> None:
    row_M3, model = rows(), ComplEx(dim=4, num_negatives=30, degree_share=1.0)
    learner = learner_of(model, "beta", row_M3)
    for window in windows("beta", row_M3):
        answers = {row_of(window.turn, slot) for slot in window.slot_M3[:, [0, 2]].ravel().tolist()}
        for position, asked in learner.arrange(window):
            drawn = asked.negatives.of(asked.batch(), window.turn.epoch, position).slot_K.tolist()
            assert {row_of(window.turn, slot) for slot in drawn} <= answers


def test_batches_are_as_large_as_the_share_in_memory() -> None:
    """Half of the entities: half of the questions, where all are negatives; whole queries where they fit."""
    row_M3 = rows()
    for model, size in ((ComplEx(dim=4, batch_size=40), 20), (ComplEx(dim=4, batch_size=40, num_negatives=9), 40)):
        learner, found = learner_of(model, "beta", row_M3), []
        for window in windows("beta", row_M3):
            found += [asked.stop - asked.start for _, asked in learner.arrange(window)]
        assert max(found) <= 40 and np.percentile(found, 90) <= 1.5 * size and sum(found) == 4 * TRIPLES
        assert np.median(found) > 0.5 * size
