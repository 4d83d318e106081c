"""The scikit-learn style estimators: parameters, clone, pipelines, transform."""

from __future__ import annotations

import warnings
from dataclasses import fields
from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import any2vec
from any2vec.errors import InputError
from any2vec.estimators import ClickClassifier, KGEmbedder, NodeEmbedder, WordEmbedder
from any2vec.evaluate.triples import evaluate_triple_file
from any2vec.testing.planted_triples import PlantedTriples

SENTENCES = [["red", "green", "blue"] * 4, ["cat", "dog", "cow"] * 4] * 60
SMALL = {"dim": 8, "epochs": 3, "threads": 1, "min_count": 1, "subsample": 0.0}
CLIQUES = [(f"{side}{a}", f"{side}{b}") for side in "lr" for a, b in combinations(range(6), 2)] + [("l0", "r0")]


def test_parameters_are_the_fields_of_the_models() -> None:
    names = {item.name for item in fields(any2vec.SkipGram)} | {item.name for item in fields(any2vec.TextOptions)}
    assert set(WordEmbedder().get_params()) == names | {"model", "epochs", "threads", "seed"}
    assert {"p", "q", "walk_length", "directed"} <= set(NodeEmbedder().get_params())
    assert WordEmbedder().dim == any2vec.SkipGram().dim and NodeEmbedder().dim == any2vec.Node2Vec().dim


def test_clone_and_set_params() -> None:
    first = WordEmbedder(model="cbow", **SMALL)
    second = clone(first)
    assert second is not first and second.get_params() == first.get_params()
    assert second.set_params(dim=5, lowercase=True).dim == 5 and first.dim == 8
    with pytest.raises(ValueError):
        first.set_params(dmi=3)
    with pytest.raises(InputError, match="has no parameter 'dmi'; did you mean 'dim'"):
        WordEmbedder(dmi=3)
    assert "dim=8" in repr(first)


def test_illegal_parameters_speak_up_in_fit() -> None:
    with pytest.raises(InputError, match="dim must"):
        WordEmbedder(dim=0).fit(SENTENCES)
    with pytest.raises(InputError, match="model must be one of skipgram, cbow"):
        WordEmbedder(model="deepwalk").fit(SENTENCES)


def test_words() -> None:
    embedder = WordEmbedder(**SMALL)
    with pytest.raises(NotFittedError):
        embedder.transform([["red"]])
    vectors = embedder.fit(SENTENCES).transform([["red"], ["red", "dog"], "red dog", "nothing known", []])
    assert vectors.shape == (5, 8) and vectors.dtype == np.float32
    red, dog = embedder.embeddings_["red"], embedder.embeddings_["dog"]
    assert np.allclose(vectors[0], red) and np.allclose(vectors[1], (red + dog) / 2)
    assert np.array_equal(vectors[1], vectors[2]) and not vectors[3:].any()
    assert list(embedder.get_feature_names_out())[-1] == "wordembedder7"
    assert embedder.transform([]).shape == (0, 8)


def test_words_in_a_pipeline() -> None:
    documents = ["red blue", "cat cow", "green red", "dog cat"] * 5
    labels = ["colour", "animal", "colour", "animal"] * 5
    embedder = WordEmbedder(**(SMALL | {"epochs": 10, "learning_rate": 0.05}))
    embedder.fit(SENTENCES)
    classifier = LogisticRegression(C=1000).fit(embedder.transform(documents), labels)
    assert list(classifier.predict(embedder.transform(["blue", "cow"]))) == ["colour", "animal"]
    model = make_pipeline(WordEmbedder(**SMALL), LogisticRegression()).fit(documents, labels)
    assert model.predict(["green"]).shape == (1,)


def test_lowercase_holds_for_documents_too() -> None:
    embedder = WordEmbedder(**SMALL, lowercase=True).fit([" ".join(sentence) for sentence in SENTENCES])
    assert np.array_equal(embedder.transform(["RED Dog"]), embedder.transform(["red dog"]))


def test_nodes() -> None:
    source, target = (np.array(side) for side in zip(*CLIQUES, strict=True))
    embedder = NodeEmbedder(dim=16, epochs=3, threads=1, walk_length=20, window=3, q=0.5, model="node2vec")
    embedder.fit((source, target))
    vectors = embedder.transform(["l1", "r1", "nobody"])
    assert vectors.shape == (3, 16) and not vectors[2].any()
    near = {key[0] for key, _ in embedder.embeddings_.nearest("l1", k=4)}
    assert near == {"l"}
    assert clone(embedder).get_params()["q"] == 0.5
    assert embedder.summary_["rows"] == 12


@pytest.mark.parametrize("wrap", [lambda columns: columns, pa.table], ids=["dict", "Arrow"])
def test_documents_and_ids_of_tables(wrap) -> None:
    documents = [" ".join(sentence) for sentence in SENTENCES]
    table = wrap({"n": np.arange(len(documents)), "text": documents})
    embedder, plain = WordEmbedder(**SMALL, column="text").fit(table), WordEmbedder(**SMALL).fit(documents)
    assert np.array_equal(embedder.transform(table), plain.transform(documents))
    assert embedder.transform(wrap({"text": ["red", None, "dog"]})).shape == (3, 8)
    source, target = zip(*CLIQUES, strict=True)
    nodes = NodeEmbedder(dim=8, epochs=1, threads=1).fit(wrap({"src": source, "dst": target}))
    expected = nodes.transform(["l0", "?", "r1"])
    assert expected.shape == (3, 8) and not expected[1].any() and expected[0].any()
    for ids in (wrap({"id": ["l0", "?", "r1"]}), np.array([["l0"], ["?"], ["r1"]]), np.array(["l0", "?", "r1"])):
        assert np.array_equal(nodes.transform(ids), expected)
    with pytest.raises(InputError, match="keys are one column, got 2"):
        nodes.transform(wrap({"src": source, "dst": target}))


def test_ids_of_other_types() -> None:
    """Tuples and floats had zeros for vectors."""
    pandas = pytest.importorskip("pandas")
    grid = NodeEmbedder(graph=nx.grid_2d_graph(2, 2), dim=4, epochs=1, threads=1).fit(None)
    assert np.array_equal(grid.transform([(0, 1), (9, 9)])[0], grid.embeddings_["(0, 1)"])
    assert not grid.transform([(9, 9)]).any()
    numbers = NodeEmbedder(graph=[(1, 2), (2, 3)], dim=4, epochs=1, threads=1).fit(None)
    expected = numbers.embeddings_[[1, 3]]
    for ids in ([1.0, 3.0], np.array([[1.0], [3.0]]), {"id": [1.0, 3.0]}, pandas.Series([1.0, 3.0]), iter([1, 3])):
        assert np.array_equal(numbers.transform(ids), expected)
    for wrong in (1.5, float("nan"), None, True):
        with pytest.raises(InputError, match="an id is a string, a whole number or a tuple, got"):
            numbers.transform([1, wrong])


def test_iterators_are_read_once() -> None:
    found = WordEmbedder(**SMALL).fit_transform(iter(SENTENCES))
    assert np.array_equal(found, WordEmbedder(**SMALL).fit(SENTENCES).transform(SENTENCES))


def test_nodes_in_a_pipeline() -> None:
    ids = [f"{side}{number}" for side in "lr" for number in range(6)]
    embedder = NodeEmbedder(graph=CLIQUES, model="deepwalk", dim=8, epochs=5, threads=1, window=2)
    model = make_pipeline(embedder, LogisticRegression(C=1000)).fit(ids[:5] + ids[6:11], [0] * 5 + [1] * 5)
    assert model.predict(["l5", "r5"]).tolist() == [0, 1]
    assert clone(embedder).graph == CLIQUES


# ---- triples


def test_triples() -> None:
    planted = PlantedTriples(entities=100, relations=2, group=10)
    triples = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in planted.triples(0, 1200).tolist()]
    pandas = pytest.importorskip("pandas")
    embedder = KGEmbedder(model="distmult", dim=8, epochs=8, threads=1)
    with pytest.raises(NotFittedError):
        embedder.predict([("e1", "r0")])
    assert embedder.fit(triples[:1000]).transform(["e1", "none"]).shape == (2, 8)
    assert not embedder.transform(["none"]).any()
    tails, heads = embedder.predict([("e1", "r0"), ("e2", "r1")]), embedder.predict([("r0", "e1")], side="head")
    assert tails.tolist() == [embedder.scorer_.tails("e1", "r0", 1)[0][0], embedder.scorer_.tails("e2", "r1", 1)[0][0]]
    assert heads.tolist() == [embedder.scorer_.heads("r0", "e1", 1)[0][0]]
    assert embedder.score(triples[1000:]) == evaluate_triple_file(embedder.scorer_, triples[1000:]).mrr > 0.1
    asked = {"side": ["e1", "e2"], "kind": ["r0", "r1"]}
    turned = {"relation": ["r0", "r1"], "head": ["e1", "e2"], "tail": ["?", "?"]}
    for table in (pandas.DataFrame(asked), asked, pandas.DataFrame(turned)):
        assert embedder.predict(table).tolist() == tails.tolist()
    for wrong in (["e1"], ["e1", "r0"], [("e1", "r0", "e2")], [("e1", None)], {"x": ["e1"]}, [5]):
        with pytest.raises(InputError, match=r"a query for a tail is two names|queries for a tail have two"):
            embedder.predict(wrong)
    columns = {name: [triple[n] for triple in triples] for n, name in ((0, "x"), (2, "y"), (1, "kind"))}
    train, test = ({name: part[cut] for name, part in columns.items()} for cut in (slice(1000), slice(1000, None)))
    named = KGEmbedder(model="distmult", dim=8, epochs=8, threads=1, use_columns="x,kind,y").fit(train)
    assert named.score(test) == embedder.score(triples[1000:])  # by the columns of training
    with pytest.raises(InputError, match="side must be one of tail, head"):
        embedder.predict([("r0", "e1")], side="left")


def test_a_config_is_taken_as_it_stands() -> None:
    config = any2vec.SkipGram(dim=8, min_count=1)
    found = clone(WordEmbedder(model=config, epochs=1, threads=1)).fit(SENTENCES)
    assert found.embeddings_.dim == 8
    with pytest.raises(InputError, match="dim stands in the config"):
        WordEmbedder(model=config, dim=9).fit(SENTENCES)
    with pytest.raises(InputError, match="the name of a model, or one of SkipGram, CBOW"):
        WordEmbedder(model=any2vec.DeepWalk()).fit(SENTENCES)


@pytest.mark.parametrize("model", ["deepwalk", any2vec.DeepWalk(dim=8)])
def test_a_field_that_the_model_has_not_got_is_refused(model: Any) -> None:
    with pytest.raises(InputError, match="p is a field of node2vec, not of deepwalk; leave it out"):
        NodeEmbedder(model, p=0.25, q=4.0).fit(CLIQUES)
    assert NodeEmbedder(model, p=1.0, epochs=1, threads=1).fit(CLIQUES).embeddings_.meta["model"]["model"] == "deepwalk"
    with pytest.raises(InputError, match="learning_rate is a field of bpr and item2vec, not of als"):
        any2vec.ItemRecommender("als", learning_rate=0.1).fit([("u", "i"), ("u", "j")])


# ---- clicks


@pytest.fixture(scope="module")
def visits() -> tuple[dict[str, list[object]], np.ndarray]:
    """(columns, classes): users who come back on their own account, and pay the less the more it costs"""
    draws = np.random.default_rng(3)
    user, price = draws.integers(0, 20, 1500), draws.normal(size=1500)
    share = 1 / (1 + np.exp(-np.where(user % 2, 2.0, -2.0) + price))
    columns: dict[str, list[object]] = {"user": [f"u{one}" for one in user.tolist()], "price": price.tolist()}
    return columns, np.where(draws.random(1500) < share, "yes", "no")


def test_clicks_of_a_table(visits: tuple[dict[str, list[object]], np.ndarray]) -> None:
    pytest.importorskip("torch", reason="models of clicks need torch (the extra any2vec[torch])")
    columns, classes = visits
    found = ClickClassifier(model="logistic", epochs=5, threads=1).fit(columns, classes)
    assert found.classes_.tolist() == ["no", "yes"] and found.schema_.dense == ("price",)
    shares = found.predict_proba(pa.table(columns))
    assert shares.shape == (1500, 2) and np.allclose(shares.sum(axis=1), 1)
    assert found.score(columns, classes) > 0.75
    assert np.array_equal(found.predict(columns), found.classes_[shares.argmax(axis=1)])
    assert np.array_equal(found.decision_function(columns) > 0, shares[:, 1] > 0.5)
    schema = any2vec.ClickSchema(categorical=["user"], ids="vocabulary")
    users = ClickClassifier(model="fm", schema=schema, dim=4, epochs=5, threads=1).fit(columns, classes)
    assert users.predict_proba({"user": ["u1", "u2", "new"]})[:, 1].argmax() == 0
    with pytest.raises(InputError, match="no rows in the table"):
        ClickClassifier().fit(pa.table(columns)[:0], classes[:0])
    with pytest.raises(InputError, match="binary"):
        ClickClassifier().fit(columns, np.arange(1500) % 3)


def test_clicks_of_a_shuffled_frame_and_of_a_schema_for_stars() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"user": ["a", "b"] * 40, "stars": [5, 1] * 40}).sample(frac=1, random_state=1)
    found = ClickClassifier(model="logistic", epochs=20, threads=1).fit(frame[["user"]], frame["stars"] >= 4)
    assert found.schema_.categorical == ("user",)
    assert (found.predict(pandas.DataFrame({"user": ["a", "b"]})) == [True, False]).all()
    schema = any2vec.ClickSchema(label="stars", label_from=4, categorical=["user"])
    found = ClickClassifier(model="logistic", schema=schema, epochs=20, threads=1).fit(frame, frame["stars"] >= 4)
    assert (found.predict(frame) == (frame["stars"] >= 4)).all()


def test_clicks_of_numbers_alone_take_whole_numbers() -> None:
    """Which columns are numbers is settled by `fit`: tables that follow may have them as integers, some or all."""
    pytest.importorskip("torch", reason="models of clicks need torch (the extra any2vec[torch])")
    rng = np.random.default_rng(4)
    columns = {"price": rng.random(600) * 10, "size": rng.random(600)}
    found = ClickClassifier(model="logistic", epochs=1, threads=1).fit(columns, columns["price"] > 5)
    wanted = found.predict_proba({"price": np.arange(5.0), "size": np.arange(5.0)})
    for price, size in ((np.arange(5), np.arange(5.0)), (np.arange(5), np.arange(5))):
        assert np.array_equal(found.predict_proba({"price": price, "size": size}), wanted)


def test_clicks_to_predict_may_have_the_label(visits: tuple[dict[str, list[object]], np.ndarray]) -> None:
    pytest.importorskip("torch", reason="models of clicks need torch (the extra any2vec[torch])")
    columns, classes = visits
    schema = any2vec.ClickSchema(label="bought", dense=["price"], categorical=["user"], ids="vocabulary")
    whole = columns | {"bought": classes.tolist()}
    found = ClickClassifier(model="logistic", schema=schema, epochs=1, threads=1).fit(whole, classes)
    assert np.array_equal(found.predict_proba(whole), found.predict_proba(columns))


def test_the_protocol_of_scikit_learn() -> None:
    pytest.importorskip("torch", reason="models of clicks need torch (the extra any2vec[torch])")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Where pandas is installed this check gives integers as a frame, too, whose integers are categories.
        known = {"check_classifier_data_not_an_array": "integers of a table are categories, those of an array numbers"}
        found = check_estimator(
            ClickClassifier(model="logistic", epochs=20, threads=1, batch_size=8), on_fail=None, on_skip=None,
            expected_failed_checks=known,
        )  # fmt: skip
    failed = {one["check_name"]: one["exception"] for one in found if one["status"] == "failed"}
    assert not failed and len(found) > 40
