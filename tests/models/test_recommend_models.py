"""Models of implicit feedback: kernels beside plain twins, what is drawn, what is learned, lists and metrics."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

import any2vec
from any2vec.data.interactions.interactions import Interactions, read_interactions
from any2vec.data.io import ahead
from any2vec.errors import DataError, FormatError, InputError, UnknownKeyError
from any2vec.evaluate.recommend import evaluate_recommend
from any2vec.kernels.common.rng import stream_key
from any2vec.kernels.recommend.als import solve_rows
from any2vec.kernels.recommend.bpr import RUN, draw_negative, mark_items, num_runs, train_bpr
from any2vec.kernels.recommend.item_sets import END
from any2vec.kernels.recommend.top_items import best_items
from any2vec.models.recommend.item_sets import ItemSets
from any2vec.models.recommend.recommender import Recommender, mean_items
from naive.models import recommend as naive

# Without the compiler NumPy warns of uint64 arithmetic that is meant to wrap.
pytestmark = pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
MODELS = [
    any2vec.BPR(dim=16),
    any2vec.ALS(dim=8, alpha=5),
    any2vec.Item2Vec(dim=16, subsample=0),
]
each = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
GROUPS = 4


def planted(users: int = 120, items: int = 80, seed: int = 0) -> Interactions:
    """Users of four groups, each with its own quarter of the items."""
    rng, size = np.random.default_rng(seed), items // GROUPS
    return read_interactions([
        (f"u{user}", f"i{size * (user % GROUPS) + item}")
        for user in range(users) for item in rng.choice(size, 10, replace=False)
    ])  # fmt: skip


def rows(seed: int, size: int, dim: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.3, (size, dim)).astype(np.float32)


def lists_of(data: Interactions) -> list[list[int]]:
    return [data.item_E[start:stop].tolist() for start, stop in zip(data.indptr, data.indptr[1:], strict=False)]


@pytest.mark.parametrize(("draws", "share", "dim"), [(1, 0.0, 5), (3, 0.0, 16), (2, 1.0, 20), (4, 0.5, 33)])
def test_bpr_equals_its_twin(draws: int, share: float, dim: int) -> None:
    data, seed = planted(30, 40), draws
    tables = [rows(seed, 30, dim), rows(seed + 1, 40, dim), rows(seed, 40, 1)[:, 0].copy()]
    plain = [table.astype(np.float64) for table in tables]
    size = num_runs(len(data)) * RUN
    keys = stream_key(seed, 4, 1), stream_key(seed, 2, 1)
    shared = (*keys, draws, int(share * 2**32))
    rates = (0.1, -1e-5, 0.02, 0.01)
    marks = mark_items(data.indptr, data.item_E)
    cut = size // RUN // 2 * RUN
    found = [
        train_bpr(data.indptr, data.users_of_pairs(), data.item_E, marks, *part, *shared, *tables, *rates)
        for part in ((0, cut), (cut, size))
    ]
    pairs, loss = naive.train_bpr(lists_of(data), 0, size, *shared, *plain, *rates)
    assert sum(part[0] for part in found) == pairs == len(data)
    assert sum(part[1] for part in found) == pytest.approx(loss, rel=1e-3)
    for table, twin in zip(tables, plain, strict=True):
        np.testing.assert_allclose(table, twin, atol=2e-4)


def test_negatives_are_not_the_users_and_all_others_come() -> None:
    data = planted(30, 40)
    marks = mark_items(data.indptr, data.item_E)
    start, stop = data.indptr[3:5]
    own = set(data.item_E[start:stop].tolist())
    for popular in (0, 1 << 32):
        drawn = {
            int(draw_negative(n, 4000, stream_key(1, 2), popular, data.item_E, marks, start, stop, 40))
            for n in range(4000)
        }
        assert drawn == set(range(40)) - own
    full = read_interactions([("a", item) for item in range(5)])
    marks = mark_items(full.indptr, full.item_E)
    assert draw_negative(0, 1, stream_key(1, 2), 0, full.item_E, marks, 0, 5, 5) == -1


@pytest.mark.parametrize("weighted", [False, True])
def test_als_solves_the_equation(weighted: bool) -> None:
    data = planted(20, 48)
    weights = np.random.default_rng(1).uniform(0.5, 3, len(data)).astype(np.float32)
    other, own, dim, l2 = rows(1, 48, 6), rows(2, 20, 6), 6, 0.5
    gram = other.T @ other + np.float32(l2) * np.eye(dim, dtype=np.float32)
    given = weights if weighted else weights[:0]
    pairs, loss = solve_rows(data.indptr, data.item_E, given, 0, 20, own, other, gram, 3.0, 50)
    total = 0.0
    for user, items in enumerate(lists_of(data)):
        weight = weights[data.indptr[user] : data.indptr[user + 1]] if weighted else np.ones(len(items))
        x, part = naive.solve_row(items, weight.astype(np.float64), other.astype(np.float64), 3.0, l2)
        np.testing.assert_allclose(own[user], x, atol=2e-4)
        total += part
    assert pairs == len(data) and loss == pytest.approx(total, rel=1e-4)


def test_als_rows_without_pairs_are_zero_and_steps_go_on_from_the_row() -> None:
    indptr, items = np.array([0, 0, 2]), np.array([1, 3], np.int32)
    other, own = rows(1, 4, 3), rows(2, 2, 3)
    gram = other.T @ other + np.eye(3, dtype=np.float32)
    x, _ = naive.solve_row([1, 3], np.ones(2), other.astype(np.float64), 2.0, 1.0)
    nothing = np.zeros(0, np.float32)
    for _ in range(4):
        before = np.abs(own[1] - x).max()
        solve_rows(indptr, items, nothing, 0, 2, own, other, gram, 2.0, 1)
        assert np.abs(own[1] - x).max() < before and not own[0].any()


@pytest.mark.parametrize("k", [1, 3, 7, 40])
def test_best_items_equal_their_twin(k: int) -> None:
    rng = np.random.default_rng(k)
    score_BI = rng.integers(0, 9, (6, 40)).astype(np.float32)  # many of them equal
    score_BI[0, :5], score_BI[1] = -np.inf, np.nan
    left_out = [sorted(rng.choice(40, size, replace=False)) for size in (0, 3, 39, 40, 1, 10)]
    indptr = np.concatenate([[0], np.cumsum([len(one) for one in left_out])])
    item_BK, best_BK = np.empty((6, k), np.int32), np.empty((6, k), np.float32)
    flat = np.concatenate([np.array(one, np.int32) for one in left_out])
    best_items(score_BI.copy(), indptr, flat, item_BK, best_BK)
    for b in range(6):
        wanted = [] if b == 1 else naive.best_items(score_BI[b], set(left_out[b]), k)
        assert item_BK[b].tolist() == wanted + [-1] * (k - len(wanted))
        assert best_BK[b, : len(wanted)].tolist() == score_BI[b, wanted].tolist()


def test_item_sets_are_the_users_items_in_another_order_each_epoch() -> None:
    data = planted(12, 40)
    sets = ItemSets(data, seed=3)
    orders = []
    for epoch in range(3):
        tokens, begin, end, offset = sets.piece(epoch, 0, sets.num_positions)
        assert (begin, end, offset) == (0, len(tokens), 0)
        ends = np.flatnonzero(tokens == END)
        found = [part.tolist() for part in np.split(tokens, ends + 1)[:-1]]
        assert [sorted(part[:-1]) for part in found] == lists_of(data)
        orders.append(tokens)
        for start, stop in ((0, 5), (7, 30), (22, 23), (100, sets.num_positions)):
            part, begin, end, offset = sets.piece(epoch, start, stop)
            assert np.array_equal(part[begin:end], tokens[start:stop]) and begin + offset == start
            assert np.array_equal(part, tokens[offset : offset + len(part)])
            assert offset == 0 or tokens[offset - 1] == END
            assert part[-1] == END
    assert not np.array_equal(orders[0], orders[1])


def test_few_items_are_not_dropped_wholesale() -> None:
    """Of 40 items each has 250 times the share of the threshold: by it alone, a sixteenth would be trained on."""
    rng = np.random.default_rng(1)
    pairs = [(u, int(i)) for u in range(80) for i in rng.choice(10, 7, replace=False) + 10 * (u % GROUPS)]
    train, test = read_interactions(pairs).split(0.3)
    recall = evaluate_recommend(any2vec.fit(any2vec.Item2Vec(), train, threads=1).scorer, test, train, k=3).recall
    assert recall > 0.4  # 2 of the 33 that are left, in 3 guesses: 0.09 by chance


@each
def test_it_learns_the_groups(model: Any) -> None:
    data = planted()
    result = any2vec.fit(model, data, threads=1)
    lists = result.scorer.recommend([f"u{user}" for user in range(20)], 5, exclude=data)
    right = [int(item[1:]) // 20 == user % GROUPS for user, found in enumerate(lists) for item, _ in found]
    assert np.mean(right) > 0.9 and all(len(found) == 5 for found in lists)
    assert result.embeddings.nearest("i3", 3) and len(result.embeddings) == 80
    several = any2vec.fit(model, data, threads=2)
    if model.name == "als":  # rows do not read each other
        assert np.array_equal(several.embeddings.vectors, result.embeddings.vectors)


@each
def test_a_result_is_opened_from_its_folder(model: Any, tmp_path: Path) -> None:
    file = tmp_path / "likes.tsv"
    file.write_text("".join(f"{user} {' '.join(map(str, items))}\n" for user, items in enumerate(lists_of(planted()))))
    lists = any2vec.InteractionOptions(lists=True)
    kept = any2vec.fit(model, str(file), epochs=2, out=tmp_path / "out", interactions=lists)
    found = Recommender.load(tmp_path / "out")
    assert found.recommend(3, 4, exclude=str(file)) == kept.scorer.recommend("3", 4, exclude=str(file))
    assert found.options == lists and repr(found) == repr(kept.scorer)
    (tmp_path / "out" / "users.safetensors").write_bytes(b"nothing")
    with pytest.raises(FormatError, match="train again"):
        Recommender.load(tmp_path / "out")
    with pytest.raises(FormatError, match="no model of implicit feedback"):
        Recommender.load(tmp_path)


def test_the_vectors_of_users_open_by_the_names_of_users(tmp_path: Path) -> None:
    """As many users as items: the vocabulary beside them, that of the items, would fit, too."""
    pairs = [(5, "tea"), (5, "cup"), (7, "cup")]
    for user in (str, int):
        kept = any2vec.fit("als", {"user": [user(who) for who, _ in pairs], "item": [what for _, what in pairs]},
                           epochs=1, threads=1, out=tmp_path / user.__name__).scorer  # fmt: skip
        found = any2vec.Embeddings.load(tmp_path / user.__name__ / "users.safetensors")
        assert list(found) == [user(5), user(7)] == list(kept.users)
        assert np.array_equal(found.vectors, kept.user_vectors)


@pytest.mark.parametrize("form", ["csv", "parquet", "frame"])
def test_tables_are_read_by_the_columns_of_training(form: str, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pairs = [(f"u{user}", f"i{item}") for user, items in enumerate(lists_of(planted(20, 40))) for item in items]
    frame = pandas.DataFrame([("s", *pair) for pair in pairs], columns=["store", "buyer", "sku"])
    files = {name: str(tmp_path / f"likes.{name}") for name in ("csv", "parquet")}
    frame.to_csv(files["csv"], index=False)
    frame.to_parquet(files["parquet"])
    source = files.get(form, frame)
    options = any2vec.InteractionOptions(use_columns="buyer,sku")
    kept = any2vec.fit(any2vec.BPR(dim=4), source, epochs=2, threads=1, out=tmp_path / "out", interactions=options)
    others = [frame, pandas.DataFrame(pairs, columns=["user", "item"]), pandas.DataFrame(pairs, columns=["a", "b"])]
    for scorer in (kept.scorer, Recommender.load(tmp_path / "out")):
        wanted = scorer.recommend("u3", 5, exclude=pairs)
        assert wanted != scorer.recommend("u3", 5)
        for given in (*others, *files.values(), [*files.values()]):
            assert scorer.recommend("u3", 5, exclude=given) == wanted, given
            assert evaluate_recommend(scorer, given, k=5) == evaluate_recommend(scorer, pairs, k=5), given


def test_tables_beside_lists_of_training_are_read_by_themselves() -> None:
    found = toy()
    found.options = any2vec.InteractionOptions(lists=True)
    assert found.recommend(10, 1, exclude={"user": [10], "item": ["a"]}) == [("b", 2.0)]


def test_pairs_that_come_again_count_as_their_number_where_weights_count() -> None:
    data = planted(20, 40)
    once = [(data.users[user], data.items[item]) for user, item in zip(data.users_of_pairs(), data.item_E, strict=True)]
    log = once + once[:1] * 49 + once[7:9]
    for model in MODELS:
        again, ones, plain = (
            any2vec.fit(model, pairs, epochs=1, threads=1).embeddings.vectors
            for pairs in (log, [(*pair, 1.0) for pair in log], once)
        )
        assert np.array_equal(again, ones) and np.array_equal(again, plain) == (model.name != "als")


def test_one_item_or_one_user_is_refused() -> None:
    for model in (any2vec.BPR(), any2vec.ALS(), any2vec.Item2Vec()):
        with pytest.raises(DataError, match="There is 1 item in the interactions"):
            any2vec.fit(model, [("u", "a"), ("v", "a")])
    pairs = [("u", item) for item in "abcd"]
    for model in (any2vec.BPR(), any2vec.ALS()):
        with pytest.raises(DataError, match=f"There is 1 user in the interactions; {model.name} learns from"):
            any2vec.fit(model, pairs)
    assert len(any2vec.fit(any2vec.Item2Vec(dim=4), pairs, epochs=1, threads=1).embeddings) == 4


def toy() -> Recommender:
    users, items = np.eye(3, dtype=np.float32), np.array([[3, 0, 1], [2, 1, 1], [1, 2, 1], [0, 3, 1]], np.float32)
    return Recommender(any2vec.BPR(dim=3), [10, 20, 30], ["a", "b", "c", "d"], users, items)


def test_lists_leave_out_what_is_asked() -> None:
    found = toy()
    assert found.recommend(10, 2) == [("a", 3.0), ("b", 2.0)]
    assert found.recommend("10", 2, exclude=["a", "zzz"]) == [("b", 2.0), ("c", 1.0)]
    assert found.recommend([10, 20], 1, exclude=[(10, "a"), (99, "b"), (20, "d")]) == [[("b", 2.0)], [("c", 2.0)]]
    assert found.recommend(30, 9, exclude=list("abcd")) == []
    assert [item for item, _ in found.recommend(30, 9)] == list("abcd")  # equal scores: by row
    with pytest.raises(UnknownKeyError, match="40"):
        found.recommend([40, 50])
    with pytest.raises(UnknownKeyError, match="40"):
        found.recommend(40)
    told = "2 of 4 users are not among the 3 of the training data, and have no items: 40, 50"
    with pytest.warns(UserWarning, match=told) as warned:
        assert found.recommend([40, 10, 50, 30], 1) == [[], found.recommend(10, 1), [], found.recommend(30, 1)]
    assert len(warned) == 1 and warned[0].filename == __file__
    with pytest.raises(InputError, match="k must be"):
        found.recommend(10, 0)


def test_a_table_of_users_is_no_list_of_its_columns() -> None:
    found = toy()
    for kind in (pytest.importorskip("pandas").DataFrame, pytest.importorskip("polars").DataFrame, pa.table):
        table = kind({"user": [20, 10]})
        assert found.recommend(table, 1) == found.recommend(table["user"], 1) == found.recommend([20, 10], 1)
        with pytest.raises(InputError, match=r"keys are one column, got 2 \('user', 'item'\)"):
            found.recommend(kind({"user": [20], "item": ["a"]}))
    with pytest.raises(InputError, match="of a dict give its keys"):
        found.recommend({"user": [20, 10]})
    assert found.recommend([10], 4, exclude=np.empty((0, 2))) == found.recommend([10], 4)


def test_every_form_of_interactions_leaves_out_the_users_items(tmp_path: Path) -> None:
    found, pairs = toy(), [(10, "a"), (10, "b"), (20, "d")]
    file = tmp_path / "likes.csv"
    file.write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in pairs))
    columns = {"user": [user for user, _ in pairs], "item": [item for _, item in pairs]}
    frame, table = pytest.importorskip("pandas").DataFrame(columns), pytest.importorskip("pyarrow").table(columns)
    forms = [str(file), file, [str(file)], [file], (str(file),), columns, frame, table, pairs, read_interactions(pairs)]
    for exclude in [*forms, iter(pairs), np.array(pairs)]:
        assert found.recommend(10, 2, exclude=exclude) == [("c", 1.0), ("d", 0.0)], type(exclude)
    for exclude in forms:
        assert found.recommend([10, 20], 1, exclude=exclude) == [[("c", 1.0)], [("c", 2.0)]], type(exclude)


def test_a_list_of_items_is_left_out_for_all() -> None:
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    found = toy()
    for exclude in (["a", "d"], ("a", "d"), {"a", "d"}, np.array(["a", "d"]), iter("ad")):
        assert found.recommend(10, 9, exclude=exclude) == [("b", 2.0), ("c", 1.0)]
    for exclude in (pandas.Series(["a", "d"]), arrow.array(["a", "d"]), arrow.chunked_array([["a"], ["d"]])):
        assert found.recommend(10, 1, exclude=exclude) == [("b", 2.0)]
    assert found.recommend([10, 20], 1, exclude=["a", "d", "new"]) == [[("b", 2.0)], [("c", 2.0)]]
    assert found.recommend(10, 1, exclude=[]) == found.recommend(10, 1)


@pytest.mark.parametrize("exclude", [["likes.csv"], ["zzz", "yyy"], [7], 5, True])
def test_what_leaves_nothing_out_is_refused(exclude: Any) -> None:
    for users in (10, [10, 20]):
        with pytest.raises(InputError, match=r"exclude takes interactions .* or a list of items"):
            toy().recommend(users, exclude=exclude)


def test_a_matrix_leaves_out_what_the_users_of_its_rows_have() -> None:
    vectors, matrix = np.eye(3, dtype=np.float32), sparse.csr_matrix([[1, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]])
    found = Recommender(any2vec.BPR(dim=3), [0, 2, 3], [0, 1, 2], vectors, vectors[::-1].copy())  # user 1 has nothing
    assert found.recommend([0, 2], 2, exclude=matrix) == [[(2, 1.0)], [(1, 1.0), (0, 0.0)]]
    for rows in (matrix[2], matrix[:2], sparse.csr_array(matrix)[2]):  # implicit takes the rows of who is asked for
        with pytest.raises(InputError, match=r"has no row for user 3 .* whole matrix"):
            found.recommend(2, exclude=rows)
    for users, items, noun in ((["ann", "bob", "eve"], [0, 1, 2], "users"), ([0, 1, 2], list("abc"), "items")):
        named = Recommender(found.model, users, items, vectors, vectors)
        with pytest.raises(InputError, match=f"whose {noun} are 0, 1, 2 .* have names"):
            named.recommend(users[0], exclude=matrix)


def test_threads_give_the_same_lists() -> None:
    found = Recommender(
        any2vec.BPR(dim=8), range(3000), range(50), rows(1, 3000, 8), rows(2, 50, 8), rows(3, 50, 1)[:, 0]
    )
    one, four = (list(found.best(np.arange(3000), 5, threads=threads)) for threads in (1, 4))
    for a, b in zip(one, four, strict=True):
        assert np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])


def test_lists_are_made_no_further_ahead_than_two_blocks_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Recommender(any2vec.BPR(dim=2), range(9000), range(5), rows(1, 9000, 2), rows(2, 5, 2))
    asked: list[int] = []

    class Pool(ThreadPoolExecutor):
        def submit(self, *arguments: Any, **options: Any) -> Any:
            asked.append(arguments[1])
            return super().submit(*arguments, **options)

    monkeypatch.setattr(ahead, "ThreadPoolExecutor", Pool)
    for taken, _ in enumerate(found.best(np.arange(9000), 2, threads=2)):
        assert len(asked) <= 4 + taken
    assert asked == [*range(0, 9000, 512)]


def test_metrics_equal_their_twin() -> None:
    data = planted(60, 40, seed=5)
    train, test = data.split(0.3, seed=1)
    found = Recommender(any2vec.BPR(dim=4), data.users, data.items, rows(1, 60, 4), rows(2, 40, 4))
    lists = {
        user: naive.best_items(scores, set(lists_of(train)[user]), 7)
        for user, scores in enumerate(found.scores(np.arange(60)))
    }
    wanted = naive.metrics(lists, dict(enumerate(map(set, lists_of(test)))), 7)
    result = evaluate_recommend(found, test, train, k=7)
    assert (result.recall, result.ndcg, result.hit_rate) == pytest.approx(wanted) and result.num_users == 60
    assert evaluate_recommend(found, test, train) == evaluate_recommend(found, test, train, k=20)


def test_metrics_of_what_the_model_lacks() -> None:
    found = toy()
    result = evaluate_recommend(found, [(10, "a"), (10, "new"), (99, "a")], k=1)
    assert (result.recall, result.hit_rate, result.num_users) == (0.5, 1.0, 1)
    assert result.ndcg == 1.0 and (result.num_unknown_users, result.num_unknown_items) == (1, 1)
    assert evaluate_recommend(found, [(10, "a")], [(10, "a")], k=4).recall == 0.0
    with pytest.raises(DataError, match="no user"):
        evaluate_recommend(found, [(99, "a")])


def test_mean_items() -> None:
    data = read_interactions(sparse.csr_matrix(np.array([[1, 1, 0], [0, 0, 0], [0, 0, 1]])))
    vectors = np.array([[2, 0], [0, 5], [0, 0]], np.float32)
    np.testing.assert_allclose(mean_items(data, vectors), [[0.5, 0.5], [0, 0], [0, 0]])


def test_the_estimator_has_scikit_learns_manner() -> None:
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError

    train, test = planted(seed=2).split(0.3)
    estimator = clone(any2vec.ItemRecommender("als", k=5, epochs=5, threads=1))
    with pytest.raises(NotFittedError):
        estimator.predict(["u1"])
    assert estimator.fit(train) is estimator and estimator.get_params()["k"] == 5
    assert estimator.predict(["u1", "u2"]).shape == (2, 5) and estimator.score(test) > 0.2
    assert (estimator.predict(pa.table({"user": ["u1", "u2"]})) == estimator.predict(["u1", "u2"])).all()
    assert estimator.set_params(model=any2vec.BPR(dim=4), epochs=1).fit(train).embeddings_.dim == 4
    assert estimator.set_params(model="als", dim=3).fit(train).embeddings_.dim == 3
    with pytest.raises(InputError, match="dim stands in the config"):
        estimator.set_params(model=any2vec.BPR(dim=4)).fit(train)
    with pytest.raises(InputError, match="ItemRecommender has the model's options itself: set dim, not model__dim"):
        estimator.set_params(model__dim=4)
    with pytest.raises(InputError, match="did you mean 'dim'"):
        any2vec.ItemRecommender("als", factors=3)


def test_options_are_searched() -> None:
    from sklearn.model_selection import GridSearchCV, KFold

    data = planted(60)
    folds, pairs = KFold(2, shuffle=True, random_state=0), list(data)
    found = []
    for rows in (data, pairs, np.array(pairs)):
        search = GridSearchCV(any2vec.ItemRecommender("als", k=5, epochs=3, threads=1), {"dim": [1, 8]}, cv=folds)
        found.append(search.fit(rows).cv_results_["mean_test_score"].tolist())
        assert search.best_params_ == {"dim": 8} and search.best_estimator_.embeddings_.dim == 8
    assert found[0] == found[1] == found[2] and np.isfinite(found[0]).all()


def test_interactions_are_a_sequence_of_pairs() -> None:
    given = [(7, "a"), (7, "c"), (9, "b"), (9, "c")]
    data = read_interactions([*given, (8, "b")], known=(["7", "8", "9"], ["a", "b", "c"]))._part(
        np.array([True, True, False, True, True])
    )  # user 8 has none left
    assert [(str(user), item) for user, item in data] == [(str(user), item) for user, item in given]
    weighted = read_interactions([(1, 5, 2.0), (2, 6, 0.5)])
    assert list(weighted) == [(1, 5, 2.0), (2, 6, 0.5)] and weighted[[1]] == weighted[1:] == [(2, 6, 0.5)]
    assert weighted[-1] == (2, 6, 0.5) and weighted[np.array([False, True])] == [(2, 6, 0.5)]
    with pytest.raises(IndexError):
        _ = weighted[2]
