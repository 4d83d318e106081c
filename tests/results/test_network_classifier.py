"""The estimator of graph networks: parameters, clone, classes that are missing, other graphs, what is refused."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError

pytest.importorskip("torch")

import any2vec
from any2vec import GraphNetworkClassifier, InputError

NODES, COLUMNS = 180, 6
NAMES = np.array(["ash", "birch", "cedar"], object)
SMALL: dict[str, Any] = {"hidden": 16, "sampling": "full-graph", "epochs": 60, "threads": 1, "learning_rate": 0.03}


def planted(seed: int) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray, np.ndarray]:
    """(edges inside three blocks, features that say half, blocks)"""
    rng = np.random.default_rng(seed)
    block = rng.integers(0, 3, NODES)
    src, dst = rng.integers(0, NODES, (2, 8000))
    kept = (block[src] == block[dst]) & (src != dst)
    features = 0.7 * np.eye(3, COLUMNS)[block] + rng.normal(size=(NODES, COLUMNS))
    return (src[kept], dst[kept]), features.astype(np.float32), block


EDGES, X, BLOCK = planted(0)


def hidden_but(rows: slice) -> np.ndarray:
    """Names of the classes of some nodes, None for the others."""
    found = np.full(NODES, None, object)
    found[rows] = NAMES[BLOCK[rows]]
    return found


@pytest.fixture(scope="module")
def fitted() -> GraphNetworkClassifier:
    return GraphNetworkClassifier(**SMALL).fit(EDGES, hidden_but(slice(0, 60)), features=X)


def test_parameters_are_the_fields_of_the_models() -> None:
    names = {item.name for item in fields(any2vec.GraphSAGE)} | {item.name for item in fields(any2vec.GAT)}
    one = GraphNetworkClassifier(model="gat", heads=2, hidden=16)
    assert names | {"model", "epochs", "threads", "seed", "patience", "directed"} <= set(one.get_params())
    other = clone(one)
    assert other is not one and other.get_params() == one.get_params() and is_classifier(other)
    assert other.set_params(hidden=4).hidden == 4 and one.hidden == 16
    with pytest.raises(InputError, match="hiden"):
        GraphNetworkClassifier(hiden=3)


def test_an_index_of_pandas_counts_for_nothing(fitted: GraphNetworkClassifier) -> None:
    pandas = pytest.importorskip("pandas")
    order = np.random.default_rng(1).permutation(NODES)
    y, x = pandas.Series(hidden_but(slice(0, 60)), index=order), pandas.DataFrame(X, index=order)
    one = GraphNetworkClassifier(**SMALL).fit(EDGES, y, features=x)
    assert one.predict(EDGES, features=x).tolist() == fitted.predict(EDGES, features=X).tolist()
    truth = pandas.Series(NAMES[BLOCK], index=order)
    assert one.score(EDGES, truth, features=x) == fitted.score(EDGES, NAMES[BLOCK], features=X)


def test_nodes_without_a_class_are_predicted(fitted: GraphNetworkClassifier) -> None:
    assert fitted.classes_.tolist() == NAMES.tolist() and fitted.summary_["data"]["num_train"] == 60
    predicted, shares = fitted.predict(EDGES, features=X), fitted.predict_proba(EDGES, features=X)
    assert (predicted == NAMES[BLOCK])[60:].mean() > 0.9 > 0.75 > (X[60:, :3].argmax(axis=1) == BLOCK[60:]).mean()
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert np.array_equal(fitted.classes_[shares.argmax(axis=1)], predicted)
    held_out = hidden_but(slice(60, None))
    right = (predicted == held_out)[60:].mean()
    assert fitted.score(EDGES, held_out, features=X) == pytest.approx(right)
    half_known = np.where(held_out == "ash", "oak", held_out)  # a class that the training had not
    wanted = ((predicted == held_out) & (held_out != "ash"))[60:].mean()
    assert fitted.score(EDGES, half_known, features=X) == pytest.approx(wanted)


def test_another_graph_is_scored(fitted: GraphNetworkClassifier) -> None:
    edges, x, block = planted(1)
    assert fitted.score(edges, NAMES[block], features=x) > 0.9
    reordered = NAMES[::-1][block]  # other classes first
    assert fitted.score(edges, reordered, features=x) < 0.5


def test_it_is_what_fit_gives(tmp_path: Path) -> None:
    y = np.where(np.arange(NODES) < 60, BLOCK, -1)
    graph = any2vec.write_graph(EDGES, tmp_path / "graph", features=X, labels=y)
    wanted = any2vec.fit(any2vec.GCN(hidden=8, sampling="full-graph"), graph, epochs=5, threads=1)
    model: dict[str, Any] = {"model": "gcn", "hidden": 8, "sampling": "full-graph", "epochs": 5, "threads": 1}
    own = GraphNetworkClassifier(**model).fit(graph)
    given = GraphNetworkClassifier(**model).fit(EDGES, y, features=X)
    config = any2vec.GCN(hidden=8, sampling="full-graph")
    by_config = GraphNetworkClassifier(model=config, epochs=5, threads=1).fit(tmp_path / "graph")
    for one in (own, given, by_config):
        assert np.array_equal(one.embeddings_.vectors, wanted.embeddings.vectors)
        assert one.classes_.tolist() == [0, 1, 2]
    assert own.score(graph) == pytest.approx((own.predict(graph) == y)[:60].mean())


def test_classes_and_splits_beside_a_graph(tmp_path: Path) -> None:
    """Masks and rows; the graph's own classes, all of one block's name, are not looked at."""
    graph = any2vec.write_graph(EDGES, tmp_path / "graph", features=X, labels=np.zeros(NODES, int))
    at = np.arange(NODES)
    split = {"train": at < 60, "val": (at >= 60) & (at < 90), "test": np.arange(90, NODES)}
    found = GraphNetworkClassifier(**SMALL, patience=20).fit(graph, BLOCK, split={**split, "test": at >= 90})
    assert found.summary_["test_accuracy"] > 0.9 and found.summary_["best_epoch"] <= 60
    rows = {part: np.flatnonzero(mask) if mask.dtype == bool else mask for part, mask in split.items()}
    again = GraphNetworkClassifier(**SMALL, patience=20).fit(graph, BLOCK, split=rows)
    assert np.array_equal(again.embeddings_.vectors, found.embeddings_.vectors)
    assert found.score(graph, np.where(at >= 90, BLOCK, -1)) == pytest.approx(found.summary_["test_accuracy"])
    assert graph.classes == ["0"]


def test_given_classes_come_without_the_split_of_the_graph(tmp_path: Path) -> None:
    """Some of whose training nodes would have none."""
    at = np.arange(NODES)
    split = {"train": at < 60, "val": (at >= 60) & (at < 90), "test": at >= 90}
    graph = any2vec.write_graph(EDGES, tmp_path / "graph", features=X, labels=BLOCK, split=split)
    found = GraphNetworkClassifier(**SMALL | {"epochs": 2}).fit(graph, np.where(at % 4, -1, BLOCK))
    assert found.summary_["data"]["num_train"] == NODES // 4 and found.summary_["data"]["num_val"] == 0
    own = GraphNetworkClassifier(**SMALL | {"epochs": 2}).fit(graph)
    assert own.summary_["data"]["num_train"] == 60 and own.summary_["data"]["num_val"] == 30


def test_several_classes_a_node() -> None:
    y = np.stack([BLOCK == 0, BLOCK != 1, BLOCK != 0], axis=1).astype(int)
    found = GraphNetworkClassifier(**SMALL).fit(EDGES, y, features=X)
    predicted = found.predict(EDGES, features=X)
    assert predicted.shape == (NODES, 3) and found.predict_proba(EDGES, features=X).shape == (NODES, 3)
    hits = int((predicted * y).sum())
    f1 = found.score(EDGES, y, features=X)
    assert f1 == pytest.approx(2 * hits / (predicted.sum() + y.sum())) and f1 > 0.9


def test_nodes_that_have_no_class_and_classes_that_training_had_not(tmp_path: Path) -> None:
    """Of several classes a node: the first do not count, but of a split; the others are missed."""
    y = np.stack([BLOCK == 0, BLOCK != 1, BLOCK != 0], axis=1).astype(int)
    found = GraphNetworkClassifier(**SMALL | {"epochs": 8}).fit(EDGES, y, features=X)
    predicted = found.predict(EDGES, features=X)
    some = {node: [str(one) for one in np.flatnonzero(y[node])] for node in range(5, 20)}
    counts = int((predicted * y)[5:20].sum()), int(predicted[5:20].sum() + y[5:20].sum())
    assert found.score(EDGES, some, features=X) == pytest.approx(2 * counts[0] / counts[1])
    more = {node: [*names, "oak"] if node < 8 else names for node, names in some.items()}
    assert found.score(EDGES, more, features=X) == pytest.approx(2 * counts[0] / (counts[1] + 3))
    few = y * (np.arange(NODES) < 20)[:, None]
    split = {"train": np.arange(10), "test": np.arange(10, 40)}
    graph = any2vec.write_graph(EDGES, tmp_path / "graph", features=X, labels=few, split=split)
    counts = int((predicted * few).sum()), int(predicted[:40].sum() + few.sum())
    assert found.score(graph) == pytest.approx(2 * counts[0] / counts[1])
    with pytest.raises(any2vec.DataError, match="No node has a class"):
        found.score(EDGES, np.zeros_like(y), features=X)


def test_a_split_means_the_same_nodes_of_edges_and_of_a_folder(tmp_path: Path) -> None:
    """Their ids, which are no rows here; names and masks; what is neither is refused."""
    edges, short = (3 * EDGES[0] + 7, 3 * EDGES[1] + 7), SMALL | {"epochs": 2}
    ids = 3 * np.arange(NODES) + 7
    rows = any2vec.Embeddings(ids.tolist(), X)
    graph = any2vec.write_graph(edges, tmp_path / "graph", features=rows)
    split = {"train": ids[:60], "val": ids[60:90]}
    wanted = GraphNetworkClassifier(**short).fit(edges, BLOCK, features=rows, split=split)
    at = np.arange(NODES)
    named = {part: [str(one) for one in ids] for part, ids in split.items()}
    for given in (split, named, {"train": at < 60, "val": (at >= 60) & (at < 90), "test": []}):
        found = GraphNetworkClassifier(**short).fit(graph, BLOCK, split=given)
        assert np.array_equal(found.embeddings_.vectors, wanted.embeddings_.vectors)
    for bad, words in (([0.5, 7.0], "whole numbers, as names, or as a mask"), (["7", "ash"], "'ash' is not there")):
        for source, more in ((graph, {}), (edges, {"features": rows})):
            with pytest.raises(any2vec.DataError, match=words):
                GraphNetworkClassifier(**short).fit(source, BLOCK, split={"train": bad}, **more)


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        GraphNetworkClassifier().predict(EDGES, features=X)
    with pytest.raises(InputError, match=r"learns classes; for links call any2vec\.fit"):
        GraphNetworkClassifier(objective="links").fit(EDGES, features=X)
    with pytest.raises(InputError, match="no labels"):
        GraphNetworkClassifier(**SMALL).fit(EDGES, features=X)
    graph = any2vec.write_graph(EDGES, tmp_path / "graph", features=X)
    with pytest.raises(InputError, match="read already; leave out features"):
        GraphNetworkClassifier(**SMALL).fit(graph, BLOCK, features=X)
    found = GraphNetworkClassifier(**SMALL | {"epochs": 1}).fit(graph, BLOCK)
    with pytest.raises(InputError, match="no classes to compare with; give y"):
        found.score(graph)
    with pytest.raises(any2vec.DataError, match="No node has a class"):
        found.score(graph, np.full(NODES, -1))


def test_before_fit_nothing_is_answered() -> None:
    for ask in (GraphNetworkClassifier().predict_proba, GraphNetworkClassifier().decision_function):
        with pytest.raises(NotFittedError):
            ask(EDGES, features=X)


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        (("01", "1", "2"), ["01", "1", "2"]), (("--5", "1", "2"), ["--5", "1", "2"]), (("-5", "1", "20"), [-5, 1, 20]),
        (("\u0663", "4", "5"), ["4", "5", "\u0663"]), (("9" * 30, "1", "2"), ["1", "2", "9" * 30]),
    ],
)  # fmt: skip
def test_classes_of_a_file_are_numbers_where_all_are_written_as_such(
    names: tuple[str, ...], classes: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "y.tsv").write_text("".join(f"{node}\t{names[one]}\n" for node, one in enumerate(BLOCK)), "utf-8")
    found = GraphNetworkClassifier(**SMALL | {"epochs": 1}).fit(EDGES, tmp_path / "y.tsv", features=X)
    assert sorted(found.classes_.tolist()) == classes


@pytest.mark.parametrize("form", ["strings", "objects", "list", "dict", "floats"])
def test_classes_are_of_the_type_that_they_were_given_in(form: str) -> None:
    texts = np.array(["-5", "1", "20"])[BLOCK]
    y: Any = {
        "strings": texts, "objects": texts.astype(object), "list": texts.tolist(),
        "dict": dict(enumerate(texts.tolist())), "floats": np.array([0.5, 1.0, 20.0], object)[BLOCK],
    }[form]  # fmt: skip
    found = GraphNetworkClassifier(**SMALL).fit(EDGES, y, features=X)
    truth = texts if form == "dict" else np.asarray(y)
    assert found.classes_.dtype == truth.dtype or form in ("objects", "floats")
    assert (found.predict(EDGES, features=X) == truth).mean() > 0.85
    assert found.score(EDGES, y, features=X) > 0.85


def test_none_of_the_classes_of_the_training_is_never_right() -> None:
    """Several classes a node, of which the fourth and fifth were none of the training's; one node has none."""
    y = np.zeros((NODES, 5), int)
    y[:40, 3], y[40:, 0] = 1, 1
    y[NODES - 1] = 0
    numbers = GraphNetworkClassifier(**SMALL).fit(EDGES, BLOCK, features=X)
    right = (numbers.predict(EDGES, features=X) == 0)[40:-1].sum()
    assert right > 0 and numbers.score(EDGES, y, features=X) == pytest.approx(right / (NODES - 1))


def pyg_data(**more: Any) -> Any:
    torch, data = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
    tensors = {name: torch.from_numpy(value) for name, value in more.items()}
    return data.Data(x=torch.from_numpy(X), edge_index=torch.from_numpy(np.stack(EDGES)), **tensors)


def test_given_classes_come_without_the_masks_of_pyg_data() -> None:
    at = np.arange(NODES)
    data = pyg_data(y=BLOCK, train_mask=at < 5, val_mask=(at >= 5) & (at < 60))
    found = GraphNetworkClassifier(**SMALL | {"epochs": 2}).fit(data, BLOCK)
    assert found.summary_["data"]["num_train"] == NODES and found.summary_["data"]["num_val"] == 0
    own = GraphNetworkClassifier(**SMALL | {"epochs": 2}).fit(data)
    assert own.summary_["data"]["num_train"] == 5 and own.summary_["data"]["num_val"] == 55
    given = GraphNetworkClassifier(**SMALL | {"epochs": 2}).fit(data, BLOCK, split={"train": at < 9, "val": at >= 90})
    assert given.summary_["data"]["num_train"] == 9 and given.summary_["data"]["num_val"] == NODES - 90
    assert found.score(data) == found.score(data, BLOCK) and int(data.train_mask.sum()) == 5


def test_answers_need_neither_classes_nor_masks() -> None:
    at = np.arange(NODES)
    odd = (
        {"y": np.random.default_rng(0).normal(size=NODES)}, {"train_mask": np.ones((NODES, 10), bool)},
        {"train_mask": at < 9, "val_mask": at < 5},
    )  # fmt: skip
    directed = GraphNetworkClassifier(**SMALL | {"epochs": 2}).fit(pyg_data(y=BLOCK))
    for more in odd:
        data = pyg_data(**more)
        assert np.array_equal(directed.predict(data), directed.predict(pyg_data()))
        assert directed.predict_proba(data).shape == (NODES, 3)
        assert directed.score(data, BLOCK) == directed.score(pyg_data(y=BLOCK))


def test_features_of_edges_are_taken_by_networks_that_heed_them() -> None:
    data = pyg_data(y=BLOCK, edge_attr=np.random.default_rng(0).normal(size=(len(EDGES[0]), 2)).astype(np.float32))
    plain, small = pyg_data(y=BLOCK), SMALL | {"epochs": 2, "model": "gcn"}
    found = GraphNetworkClassifier(**small).fit(data)
    assert np.array_equal(found.decision_function(data), found.decision_function(plain))
    heeding = GraphNetworkClassifier(**small | {"model": "gat", "heads": 2}).fit(data)
    assert heeding.classifier_.num_edge_features == 2 and heeding.predict(data).shape == (NODES,)
    with pytest.raises(InputError, match="takes 2 features an edge, got 0"):
        heeding.predict(plain)
