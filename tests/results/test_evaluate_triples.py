"""Filtered ranks beside a plain count, on planted scores with ties; and figures that can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.errors import DataError, InputError
from any2vec.evaluate import triples
from any2vec.evaluate.triples import Known, RankMetrics, evaluate_triples, filtered_ranks

NUM, RELATIONS = 9, 3


def table(seed: int) -> np.ndarray:
    """Scores of every (entity, relation, entity); few values, so that many are alike."""
    return np.random.default_rng(seed).integers(0, 4, (NUM, RELATIONS, NUM)).astype(np.float32)


def plain_rank(score: np.ndarray, answer: int, true: set[int]) -> float:
    """The rank of one answer among those that are not known to be true."""
    rivals = [score[entity] for entity in range(NUM) if entity != answer and entity not in true]
    return 1 + sum(rival > score[answer] for rival in rivals) + 0.5 * sum(rival == score[answer] for rival in rivals)


def check(found: RankMetrics, ranks: list[float]) -> None:
    rank = np.array(ranks)
    assert found.count == len(rank)
    assert [found.mrr, found.mean_rank] == pytest.approx([np.mean(1 / rank), rank.mean()])
    hits = [found.hits_at_1, found.hits_at_3, found.hits_at_10]
    assert hits == pytest.approx([np.mean(rank <= most) for most in (1, 3, 10)])


triple_lists = st.lists(
    st.tuples(st.integers(0, NUM - 1), st.integers(0, RELATIONS - 1), st.integers(0, NUM - 1)), min_size=1, max_size=40
)


@settings(deadline=None)
@given(triple_lists, triple_lists, st.integers(0, 50), st.integers(1, 5))
def test_ranks_are_those_of_a_plain_count(
    test: list[tuple[int, int, int]], train: list[tuple[int, int, int]], seed: int, block: int
) -> None:
    score = table(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triples, "_BLOCK_NUMBERS", block * NUM)
        found = evaluate_triples(
            lambda tails, relations: score[:, relations, tails].T,
            lambda heads, relations: score[heads, relations],
            np.array(test), [np.array(train), np.array(test)], NUM, RELATIONS,
        )  # fmt: skip
    true = set(train) | set(test)
    heads = [plain_rank(score[:, r, t], h, {a for a, b, c in true if (b, c) == (r, t)}) for h, r, t in test]
    tails = [plain_rank(score[h, r], t, {c for a, b, c in true if (a, b) == (h, r)}) for h, r, t in test]
    both = np.array(heads + tails)
    check(found.sides["head"], heads)
    check(found.sides["tail"], tails)
    frequent = sorted({r for _, r, _ in test}, key=lambda r: (-sum(b == r for _, b, _ in test), r))
    assert [one.relation for one in found.relations] == frequent
    for one in found.relations:
        own = [place for place, (_, r, _) in enumerate(test) if r == one.relation]
        head, tail = [heads[place] for place in own], [tails[place] for place in own]
        check(one.head, head), check(one.tail, tail), check(one.both, head + tail)
    assert found.mrr == pytest.approx(np.mean(1 / both)) and found.mean_rank == pytest.approx(both.mean())
    hits = [found.hits_at_1, found.hits_at_3, found.hits_at_10]
    assert hits == pytest.approx([np.mean(both <= most) for most in (1, 3, 10)])
    assert found.num_triples == len(test) and found.num_unknown == 0


def test_known_answers_are_each_reported_once() -> None:
    known = Known(np.array([5, 5, 5, 2]), np.array([1, 1, 1, 0]), np.array([7, 3, 7, 5]), 2)
    place, answer = known.pairs(np.array([2, 5, 4]), np.array([0, 1, 1]))
    assert list(zip(place.tolist(), answer.tolist(), strict=True)) == [(0, 5), (1, 3), (1, 7)]


def test_a_model_that_scores_all_alike_ranks_in_the_middle() -> None:
    """101 entities, one question: 100 rivals, all tied."""
    known = Known(np.array([0]), np.array([0]), np.array([1]), 1)
    zeros = filtered_ranks(lambda *_: np.zeros((1, 101), np.float32), *(np.array([n]) for n in (0, 0, 1)), known, 101)
    assert zeros.tolist() == [51.0]


def test_what_the_model_does_not_know_ranks_in_the_middle() -> None:
    score = table(1)
    test = np.array([[0, 1, 2], [-1, 0, 3], [4, -1, 5]])
    found = evaluate_triples(
        lambda tails, relations: score[:, relations, tails].T, lambda heads, relations: score[heads, relations],
        test, [test], NUM, RELATIONS,
    )  # fmt: skip
    own = [plain_rank(score[:, 1, 2], 0, set()), plain_rank(score[0, 1], 2, set())]
    assert [one.relation for one in found.relations] == [None, 0, 1] and found.relations[0].both.mean_rank == 5
    assert found.num_unknown == 2 and found.mean_rank == pytest.approx((sum(own) + 4 * 5) / 6)


def test_a_diverged_model_is_reported() -> None:
    test = np.array([[0, 0, 1]])
    with pytest.raises(DataError, match="no number"):
        evaluate_triples(*[lambda *_: np.full((1, NUM), np.nan, np.float32)] * 2, test, [test], NUM, RELATIONS)


def test_triples_by_row_are_arrays() -> None:
    rows = np.array([[0, 0, 1]])
    scores = [lambda *_: table(0)[0][:1]] * 2
    for test, known, said in (
        ({"head": ["a"]}, [rows], "test_M3 .*got dict"), (rows, [[(0, 0, 1)]], "all_M3 .*got list"),
        (rows, rows, "all_M3 .*got int64 "), (rows[:, :2], [rows], "test_M3 .*got int64 .1, 2"),
        (rows / 2, [rows], "test_M3 .*got float64"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=rf"{said}.*; evaluate_triple_file takes files and tables"):
            evaluate_triples(*scores, test, known, NUM, RELATIONS)  # type: ignore[arg-type]
    assert evaluate_triples(*scores, rows, [], NUM, RELATIONS).num_triples == 1


def test_nothing_to_test_is_reported() -> None:
    with pytest.raises(InputError, match="no triples to test"):
        evaluate_triples(*[lambda *_: table(0)[0]] * 2, np.empty((0, 3), np.int64), [], NUM, RELATIONS)
