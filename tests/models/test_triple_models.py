"""Models of triples: losses and gradients beside plain twins, questions, negatives, and what is learned."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import pytest

from any2vec.errors import InputError
from any2vec.kernels.common.rng import PURPOSE_INIT, stream_key
from any2vec.kernels.rows.row_start import start_rows
from any2vec.kernels.triples.losses import exp_below, hide_answers, softmax_loss
from any2vec.kernels.triples.queries import draw_slots
from any2vec.models.triples.config import ComplEx, DistMult, DotProduct, RotatE, TransE, TripleModel
from any2vec.models.triples.learner import TripleLearner
from any2vec.models.triples.queries import Queries, _grouped, _grouped_by_columns, ways_of
from any2vec.models.triples.worker import Candidates, Negatives, Shares, TripleWorker, relation_optimizer
from any2vec.models.words.rates import linear_rate
from any2vec.plan.order.epochs import EpochSchedule
from naive.models import triples as naive

MODELS: list[type[TripleModel]] = [ComplEx, DistMult, TransE, RotatE, DotProduct]
ENTITIES, RELATIONS, DIM = 12, 3, 6
RATE = 0.25
each = pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.name)
# Without the compiler NumPy warns of uint64 arithmetic that is meant to wrap, and of NaN that is looked for.
pytestmark = pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")


def random_triples(seed: int, size: int = 25) -> np.ndarray:
    rng = np.random.default_rng(seed)
    high = (ENTITIES, RELATIONS, ENTITIES)
    return np.stack([rng.integers(0, top, size) for top in high], axis=1)


def random_tables(model: TripleModel, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of entities and relations, each with a column of state."""
    rng = np.random.default_rng(seed)
    shapes = (ENTITIES, DIM), (model.num_relation_rows(RELATIONS), max(1, model.relation_width))
    return tuple(  # type: ignore[return-value]
        np.append(rng.normal(0, 0.7, shape), np.zeros((shape[0], 1)), axis=1).astype(np.float32) for shape in shapes
    )


class Recorder:
    """In the place of an optimizer: keeps the gradients and changes nothing."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.gradient = np.zeros(shape)
        self.width = shape[1]

    def step(self, table: np.ndarray, slot_U: np.ndarray, gradient_UW: np.ndarray, rate: float) -> None:
        assert rate == RATE and len(set(slot_U.tolist())) == len(slot_U)
        self.gradient[slot_U] += gradient_UW


def some_candidates(negatives: str, answers: np.ndarray) -> Candidates:
    """All entities; or a few, among which are answers."""
    if negatives == "all":
        return Candidates(np.arange(ENTITIES), (0, ENTITIES))
    if negatives == "gathered":
        return Candidates(np.arange(ENTITIES))
    return Candidates(np.unique([1, 4, 5, int(answers[0])]))


@each
@pytest.mark.parametrize("loss", ["softmax", "logistic", "margin"])
@pytest.mark.parametrize("negatives", ["all", "gathered", "few"])
@pytest.mark.parametrize("reciprocal", [True, False])
def test_steps_are_the_gradient_of_the_plain_loss(
    kind: type[TripleModel], loss: Any, negatives: str, reciprocal: bool
) -> None:
    model = kind(dim=DIM, loss=loss, reciprocal=reciprocal, n3=0.05, l2=0.03, margin=0.8, gamma=2.0, temperature=0.7)
    check_gradients(model, negatives)


@pytest.mark.parametrize("kind", [ComplEx, TransE], ids=lambda kind: kind.name)
@pytest.mark.parametrize("loss", ["softmax", "logistic", "margin"])
@pytest.mark.parametrize("negatives", ["all", "few"])
def test_negatives_count_by_partition(kind: type[TripleModel], loss: Any, negatives: str) -> None:
    """Some more than others, to each question as it is; none of a partition that counts 0."""
    check_gradients(kind(dim=DIM, loss=loss, n3=0.05, margin=0.8, gamma=2.0, temperature=0.7), negatives, True)


def test_shares_of_1_change_no_bit() -> None:
    """One partition of them is what a batch has by default; several only add in another order."""
    queries, kept = Queries(ComplEx(dim=DIM), random_triples(4), RELATIONS, 1), []
    queries.begin(0)
    batch = queries.batch(7, 31)
    for shares in (None, Shares(np.array([0, ENTITIES]), np.ones((len(batch.given_Q), 1), np.float32))):
        tables = random_tables(ComplEx(dim=DIM), 3)
        TripleWorker(ComplEx(dim=DIM), *tables).step(batch, some_candidates("all", batch.answer_B), RATE, shares)
        kept.append(tables)
    assert all(np.array_equal(one, other) for one, other in zip(*kept, strict=True))


def some_shares(candidates: Candidates, queries: int) -> Shares:
    """Three partitions: slots 0..3, 4..6 and the rest."""
    first_H1 = np.searchsorted(candidates.slot_K, [0, 4, 7, ENTITIES])
    weight_QH = np.random.default_rng(8).choice([0.0, 0.25, 1.0, 7.0], (queries, 3)).astype(np.float32)
    weight_QH[:, 0] += 0.5
    return Shares(first_H1, weight_QH)


def check_gradients(model: TripleModel, negatives: str, is_weighed: bool = False) -> None:
    """The loss equals the twin's; the gradients those of its central differences, penalties among them."""
    tables = random_tables(model, 3)
    queries = Queries(model, random_triples(4), RELATIONS, 1)
    queries.begin(0)
    batch = queries.batch(7, 31)
    candidates = some_candidates(negatives, batch.answer_B)
    worker = TripleWorker(model, *tables)
    shapes = [(len(table), table.shape[1] - 1) for table in tables]
    recorders = [Recorder(shape) for shape in shapes]
    worker._of_entities, worker._of_relations = recorders  # type: ignore[assignment]
    shares = some_shares(candidates, len(batch.given_Q)) if is_weighed else None
    found = worker.step(batch, candidates, RATE, shares)
    wide = [table[:, :-1].astype(np.float64) for table in tables]
    at_start = naive.batch_scores(model, *wide, batch, candidates.slot_K.tolist())
    counts = naive.batch_counts(batch, candidates.slot_K.tolist(), shares)
    of_others = [naive.weights(model, others, each) for (_, others), each in zip(at_start, counts, strict=True)]

    def plain(with_penalties: bool) -> float:
        scores = naive.batch_scores(model, *wide, batch, candidates.slot_K.tolist())
        losses = [naive.query_loss(model, *pair, *more) for pair, *more in zip(scores, counts, of_others, strict=True)]
        if not with_penalties:
            return sum(losses)
        guessing = naive.relation_losses(model, *wide, batch) if model.relation_weight else 0.0
        return sum(losses) + guessing + naive.penalties(model, *wide, batch)

    assert found == pytest.approx(plain(False), rel=2e-4)
    for table, recorder in zip(wide, recorders, strict=True):
        gradient = np.zeros_like(table)
        for place in np.ndindex(table.shape):
            kept, sides = table[place], []
            for shift in (1e-6, -1e-6):
                table[place] = kept + shift
                sides.append(plain(True))
            table[place] = kept
            gradient[place] = (sides[0] - sides[1]) / 2e-6
        assert model.relation_width == 0 or np.abs(gradient).max() > 0.01
        np.testing.assert_allclose(recorder.gradient, gradient, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("kind", [ComplEx, DistMult], ids=lambda kind: kind.name)
@pytest.mark.parametrize("negatives", ["all", "few"])
@pytest.mark.parametrize("reciprocal", [True, False])
def test_guessing_relations_is_a_gradient_too(kind: type[TripleModel], negatives: str, reciprocal: bool) -> None:
    check_gradients(kind(dim=DIM, relation_weight=0.6, reciprocal=reciprocal), negatives)


def test_the_exponential_is_near_enough() -> None:
    x_N = -np.linspace(0, 87, 5_000, dtype=np.float32)
    found_N = np.array([exp_below(x) for x in x_N], np.float64)
    np.testing.assert_allclose(found_N, np.exp(x_N.astype(np.float64)), rtol=5e-6)
    assert exp_below(np.float32(0)) == 1 and 0 <= exp_below(np.float32(-1e30)) < 1e-37


def test_answers_that_lie_far_apart_have_finite_gradients() -> None:
    """One query, answers with scores of 300, 5 and -300 and a negative of 0: each question is against that alone."""
    score_QK, own_B = np.array([[300, 5, -300, 0]], np.float32), np.array([300, 5, -300], np.float32)
    first_Q1, column_B = np.array([0, 3]), np.array([0, 1, 2])
    hide_answers(score_QK, first_Q1, column_B)
    alike = np.array([0, 4]), np.ones((1, 1), np.float32)
    loss = softmax_loss(score_QK, score_QK.max(axis=1), first_Q1, column_B, own_B, *alike)
    assert loss == pytest.approx(300 + math.log1p(math.exp(-5)), rel=1e-6) and not own_B.any()
    expected = [0, -1 / (1 + math.exp(5)), -1, 1 + 1 / (1 + math.exp(5))]
    np.testing.assert_allclose(score_QK[0], expected, atol=1e-6)


# ---- questions


@each
@pytest.mark.parametrize("size", [7, 1000])
def test_each_epoch_asks_each_query_once(kind: type[TripleModel], size: int) -> None:
    """Both of every triple, doubles too, those of one query together, in an order of the epoch's own."""
    triple_M3, model = random_triples(5, 40), kind(dim=DIM)
    queries = Queries(model, triple_M3, RELATIONS, 1)
    relation_of_way, is_turned_way = ways_of(model, RELATIONS)
    expected = []
    for head, relation, tail in triple_M3.tolist():
        for given, way, answer in ((head, relation, tail), (tail, relation + RELATIONS, head)):
            expected.append((given, int(relation_of_way[way]), bool(is_turned_way[way]), answer))
    orders = []
    for epoch in (0, 1, 0):
        queries.begin(epoch)
        asked, runs = [], 0
        for start in range(0, queries.num_queries, size):
            batch = queries.batch(start, min(start + size, queries.num_queries))
            runs += len(batch.given_Q)
            for q in range(len(batch.given_Q)):
                about = (int(batch.given_Q[q]), int(batch.relation_Q[q]), bool(batch.is_turned_Q[q]))
                asked += [(*about, int(one)) for one in batch.answer_B[batch.first_Q1[q] : batch.first_Q1[q + 1]]]
        assert sorted(asked) == sorted(expected)
        assert runs <= len({one[:3] for one in expected}) + queries.num_queries // size
        orders.append(asked)
    assert orders[0] == orders[2] != orders[1]


def test_relations_are_read_both_ways() -> None:
    reported = {
        model.name + str(model.reciprocal): [array.tolist() for array in ways_of(model, 2)]
        for model in (ComplEx(), ComplEx(reciprocal=False), DotProduct())
    }
    assert reported == {
        "complexTrue": [[0, 1, 2, 3], [False] * 4],
        "complexFalse": [[0, 1, 0, 1], [False, False, True, True]],
        "dotTrue": [[0, 0, 0, 0], [False] * 4],
    }


# ---- negatives


def test_negatives_are_those_of_the_plain_twin() -> None:
    answers, ranges, key = np.array([3, 3, 8]), [(0, 2), (5, 9)], stream_key(1, 2, 3)
    drawn_K = np.empty(40, np.int64)
    start_P, size_P = np.array([0, 5]), np.array([2, 4])
    draw_slots(key, 17, 15, answers, start_P, size_P, drawn_K)
    assert drawn_K.tolist() == naive.draw_slots(int(key), 17, 15, answers.tolist(), ranges, 40)
    assert set(drawn_K[:15].tolist()) == {3, 8} and set(drawn_K[15:].tolist()) == {0, 1, 5, 6, 7, 8}


def test_negatives_belong_to_the_batch() -> None:
    """To its place in the epoch, and to the seed; each once; from the ranges that are resident."""
    model = DistMult(dim=DIM, num_negatives=6)
    queries = Queries(model, random_triples(4), RELATIONS, 1)
    queries.begin(0)
    batch = queries.batch(0, 10)

    def slots(seed: int, epoch: int, at: int, **more: Any) -> list[int]:
        changed = DistMult(dim=DIM, num_negatives=6, **more)
        drawn = Negatives(changed, [(8, 12), (0, 3)], queries.answer_N, 6, seed).of(batch, epoch, at)
        assert drawn.slot_K.tolist() == sorted(set(drawn.slot_K.tolist()))
        return drawn.slot_K.tolist()

    assert slots(1, 0, 5) == slots(1, 0, 5) and set(slots(1, 0, 5)) <= {0, 1, 2, 8, 9, 10, 11}
    assert len({str(slots(*way)) for way in ((1, 0, 5), (1, 0, 6), (1, 1, 5), (2, 0, 5))}) > 1
    assert set(slots(1, 0, 5, batch_negatives=True)) == {*slots(1, 0, 5), *batch.answer_B.tolist()}
    assert set(slots(1, 0, 5, degree_share=1.0)) <= set(queries.answer_N.tolist())
    everything = Negatives(model, [(8, 12), (0, 3)], queries.answer_N, 0, 1).of(batch, 0, 0)
    assert everything.slot_K.tolist() == [0, 1, 2, 8, 9, 10, 11] and everything.whole is None
    assert everything.columns_of(np.array([9, 4, 0])).tolist() == [4, -1, 0]


# ---- what is learned


def start(model: TripleModel, entities: int, relations: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    entity_SC = np.empty((entities, model.dim + 1), np.float32)
    relation_RC = np.empty((model.num_relation_rows(relations), relation_optimizer(model).num_columns), np.float32)
    for number, table in enumerate((entity_SC, relation_RC)):
        start_rows(table, np.arange(len(table)), table.shape[1] - 1, stream_key(seed, PURPOSE_INIT, number), 0.1)
    return entity_SC, relation_RC


def learn(
    model: TripleModel, triple_M3: np.ndarray, entities: int, epochs: int = 8, threads: int = 1, seed: int = 1
) -> tuple[np.ndarray, list[float]]:
    """(rows of entities, mean loss of each epoch)."""
    relations = int(triple_M3[:, 1].max()) + 1
    entity_SC, relation_RC = start(model, entities, relations, seed)
    queries = Queries(model, triple_M3, relations, seed)
    learner = TripleLearner(model, entity_SC, relation_RC, queries, [(0, entities)], threads, seed)
    schedule = EpochSchedule(
        bounds=(0, queries.num_queries), epochs=epochs, unit=model.batch_size, piece=model.batch_size
    )
    losses, items = [0.0] * epochs, 0
    for work in schedule:
        stats = learner.run(work)
        losses[work.epoch] += stats.loss_sum / queries.num_queries
        items += stats.items
    learner.close()
    assert items == epochs * len(triple_M3)
    return entity_SC, losses


def ring(entities: int = 60) -> np.ndarray:
    """Relation 0 leads one step on, relation 1 two steps back: every model but dot can say so, and which way."""
    at = np.arange(entities)
    steps = [(at, np.zeros_like(at), (at + 1) % entities), (at, np.ones_like(at), (at - 2) % entities)]
    return np.concatenate([np.stack(step, axis=1) for step in steps])


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="too slow with the JIT switched off")
@each
@pytest.mark.parametrize("loss", ["softmax", "logistic", "margin"])
@pytest.mark.parametrize("num_negatives", [0, 16])
def test_every_loss_falls(kind: type[TripleModel], loss: Any, num_negatives: int) -> None:
    model = kind(dim=16, loss=loss, num_negatives=num_negatives, batch_size=40, gamma=3.0)
    entity_SC, losses = learn(model, ring(), 60, epochs=15)
    assert losses[-1] < 0.9 * losses[0] and np.isfinite(entity_SC).all()
    assert (entity_SC[:, -1] > 0).all(), "the state of Adagrad stands behind the values"


def test_the_rate_falls_in_a_line_over_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """120 triples ask 240 questions: 6 batches an epoch, 18 in all."""
    received: list[float] = []
    monkeypatch.setattr(TripleWorker, "step", lambda self, batch, candidates, rate: received.append(rate) or 0.0)
    learn(ComplEx(dim=4, batch_size=40, learning_rate=0.7, min_learning_rate=0.1), ring(), 60, epochs=3)
    assert received == pytest.approx([0.7 - 0.6 * batch / 18 for batch in range(18)])
    assert linear_rate(ComplEx(learning_rate=0.1, min_learning_rate=0.5), 1.0) == 0.1


def test_the_same_seed_gives_the_same_bits() -> None:
    model = ComplEx(dim=8, num_negatives=16, batch_size=40)
    runs = [learn(model, ring(), 60, epochs=2, seed=seed)[0] for seed in (1, 1, 2)]
    assert (runs[0] == runs[1]).all() and (runs[0] != runs[2]).any()


def test_threads_learn_alike() -> None:
    """Hogwild: other bits, every question once, the same quality."""
    model = ComplEx(dim=16, batch_size=20)
    one, several = (learn(model, ring(), 60, epochs=12, threads=threads)[1][-1] for threads in (1, 3))
    assert several < 1.5 * one + 0.2 and several < 1.0


def test_a_diverged_training_says_so() -> None:
    model = ComplEx(dim=4)
    entity_SC, relation_RC = start(model, 60, 2)
    entity_SC[:, 0] = math.nan
    queries = Queries(model, ring(), 2, 1)
    queries.begin(0)
    batch = queries.batch(0, 10)
    with pytest.raises(InputError, match="The loss of a batch is nan: the training has diverged; lower learning_rate"):
        TripleWorker(model, entity_SC, relation_RC).step(batch, Candidates(np.arange(60), (0, 60)), RATE)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dim": 0}, "dim must be a whole number from 1"),
        ({"dim": 7}, "dim of complex must be even"),
        ({"loss": "hinge"}, "loss must be one of softmax, logistic, margin, got 'hinge'"),
        ({"num_negatives": -1}, "num_negatives must be a whole number from 0"),
        ({"degree_share": 1.5}, r"degree_share must be a number in \[0, 1\]"),
        ({"n3": -1}, "n3 must be a number"),
        ({"learning_rate": 0}, "learning_rate must be a number in \\(0, 10\\]"),
        ({"min_learning_rate": -1}, "min_learning_rate must be a number in \\[0, 10\\]"),
        ({"margin": 0}, "margin must be a number"),
        ({"relation_weight": -1}, "relation_weight must be a number"),
    ],
)
def test_options_are_checked(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        ComplEx(**options)


def test_only_products_guess_relations() -> None:
    with pytest.raises(InputError, match="relation_weight is for complex and distmult, not rotate; leave it out"):
        RotatE(relation_weight=0.5)


def test_how_many_negatives_where_nobody_says() -> None:
    assert [ComplEx().negatives_of(size) for size in (14_541, 65_536, 65_537)] == [0, 0, 2000]
    assert ComplEx(num_negatives=5).negatives_of(10) == 5


@pytest.mark.parametrize("num_relations", [0, 1, 7])
def test_queries_packed_into_numbers_are_those_sorted_by_columns(num_relations: int) -> None:
    """Where a key has no room in 64 bits, the columns themselves are sorted: the same then, too."""
    rng = np.random.default_rng(num_relations)
    for size, slots in ((1, 1), (300, 20), (300, 1 << 30), (300, 1 << 60)):
        triple_M3 = rng.integers(0, [slots, max(1, num_relations), slots], (size, 3))
        triple_M3[size // 2 :] = triple_M3[: size - size // 2]
        found, expected = _grouped(triple_M3, num_relations), _grouped_by_columns(triple_M3, num_relations)
        assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
        assert np.diff(found[0]).sum() == 2 * size and len(found[1]) == len(found[2]) == len(found[0]) - 1
