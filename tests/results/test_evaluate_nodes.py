"""Node classification against scikit-learn, hand-made F1 and planted clusters."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.embeddings import Embeddings
from any2vec.errors import Any2VecError, DataError, InputError
from any2vec.evaluate import evaluate_nodes
from any2vec.evaluate.graph.logistic import fit_logistic
from any2vec.evaluate.graph.nodes import f1_scores, labels_of, predict, read_labels


def reference(train: np.ndarray, truth: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Probabilities of scikit-learn's one-vs-rest logistic regression, run until it has converged."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels that no training node has
        model = OneVsRestClassifier(LogisticRegression(C=1, tol=1e-8, max_iter=5000)).fit(train, truth)
        return model.predict_proba(test)


def multilabel(rows: int, dim: int, labels: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows with labels drawn from a noisy linear rule, some labels rare; every row has one at least."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, dim)).astype(np.float32) + 0.3
    margins = x @ rng.standard_normal((dim, labels)) + 2 * rng.standard_normal((rows, labels))
    truth = margins > np.linspace(1, 12, labels)
    truth[np.arange(rows), margins.argmax(axis=1)] = True
    return x, truth


@pytest.mark.parametrize(("rows", "dim", "labels", "scale"), [(400, 10, 8, 1.0), (60, 40, 5, 3.0), (300, 6, 4, 0.01)])
def test_agrees_with_scikit_learn(rows: int, dim: int, labels: int, scale: float) -> None:
    x, truth = multilabel(rows, dim, labels)
    x *= scale
    half = rows // 2
    weights, intercepts = fit_logistic(x[:half], truth[:half])
    margins = x[half:].astype(float) @ weights + intercepts
    expected = reference(x[:half].astype(float), truth[:half], x[half:].astype(float))
    np.testing.assert_allclose(0.5 * (1 + np.tanh(margins / 2)), expected, atol=1e-3)
    counts = truth[half:].sum(axis=1)
    ours, theirs = (f1_scores(truth[half:], predict(side, counts)) for side in (margins, expected))
    assert ours == pytest.approx(theirs, abs=1e-3)


def test_labels_that_none_or_all_have() -> None:
    x, truth = multilabel(50, 4, 3)
    truth[:, 0], truth[:, 1] = False, True
    weights, intercepts = fit_logistic(x, truth)
    assert intercepts[0] == -np.inf and intercepts[1] == np.inf and np.isfinite(intercepts[2])
    assert not weights[:, :2].any()
    assert fit_logistic(x, truth[:, :2])[1].tolist() == [-np.inf, np.inf]


def test_separable_rows_and_constant_columns_stay_finite() -> None:
    x = np.array([[-100.0, 1], [-50, 1], [50, 1], [100, 1]])
    weights, intercepts = fit_logistic(x, np.array([[0], [0], [1], [1]]))
    assert np.isfinite(weights).all() and np.isfinite(intercepts).all()
    assert ((x @ weights + intercepts)[:, 0] > 0).tolist() == [False, False, True, True]


def test_f1_by_hand() -> None:
    truth = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0]], dtype=bool)
    guess = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0]], dtype=bool)
    # label 0: 1 hit, 1 false, 1 missed: 1/2; label 1: 1 hit, 1 missed: 2/3; label 2: 0 / 0 is 0
    micro, macro = f1_scores(truth, guess)
    assert micro == pytest.approx(2 * 2 / (4 + 3))
    assert macro == pytest.approx((1 / 2 + 2 / 3 + 0) / 3)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_f1_agrees_with_scikit_learn(seed: int) -> None:
    from sklearn.metrics import f1_score

    rng = np.random.default_rng(seed)
    truth, guess = rng.random((2, 12, 4)) < 0.3
    expected = [f1_score(truth, guess, average=average, zero_division=0) for average in ("micro", "macro")]
    assert f1_scores(truth, guess) == pytest.approx(tuple(expected))


def test_known_counts_take_the_highest_so_many() -> None:
    margins = np.array([[0.1, 0.9, 0.5], [-3.0, -1.0, -2.0], [1.0, 1.0, 1.0]])
    assert predict(margins, np.array([2, 1, 2])).tolist() == [
        [False, True, True],
        [False, True, False],
        [True, True, False],
    ]
    assert predict(margins, None).tolist() == [[True, True, True], [False, False, False], [True, True, True]]


# ---- the whole evaluation


def planted(tmp_path: Path, nodes: int = 120, groups: int = 3) -> tuple[Embeddings, Path]:
    """Groups far apart: any share of training nodes that shows each group makes every label right."""
    rng = np.random.default_rng(1)
    group = np.arange(nodes) % groups
    vectors = 8 * np.eye(groups, 6)[group] + 0.1 * rng.standard_normal((nodes, 6))
    path = tmp_path / "labels.txt"
    path.write_text("".join(f"{node} {group[node]}\n" for node in range(nodes)))
    return Embeddings([str(node) for node in range(nodes)], vectors), path


@pytest.mark.parametrize("known_counts", [True, False])
def test_planted_groups_are_all_right(tmp_path: Path, known_counts: bool) -> None:
    embeddings, path = planted(tmp_path)
    result = evaluate_nodes(embeddings, path, fractions=(0.3, 0.9), shuffles=4, known_counts=known_counts)
    assert [score.fraction for score in result.scores] == [0.3, 0.9]
    assert all(score.micro_f1 == score.macro_f1 == 1.0 and score.micro_f1_std == 0 for score in result.scores)
    assert (result.num_nodes, result.num_missing, result.num_labels) == (120, 0, 3)
    assert ("true number" in result.protocol) == known_counts
    assert json.loads(json.dumps(result.as_dict()))["scores"][0]["micro_f1_runs"] == [1.0] * 4


def test_labels_in_memory_are_those_of_a_file(tmp_path: Path) -> None:
    embeddings, path = planted(tmp_path)
    group, options = np.arange(120) % 3, {"fractions": (0.3,), "shuffles": 2}
    expected = evaluate_nodes(embeddings, path, **options)  # type: ignore[arg-type]
    columns = {"node": list(range(120)), "group": group.tolist()}
    of_node = dict(zip(*columns.values(), strict=True))
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    pairs = list(of_node.items())
    given_labels = [
        of_node, pandas.Series(of_node), group, group.tolist(), polars.Series(group), pa.array(group), pairs,
        iter(pairs), np.array(pairs), pandas.DataFrame(columns), polars.DataFrame(columns), pa.table(columns),
    ]  # fmt: skip
    for labels in given_labels:
        assert evaluate_nodes(embeddings, labels, **options) == expected, type(labels)  # type: ignore[arg-type]


def test_columns_and_indices_of_labels_go_by_their_names(tmp_path: Path) -> None:
    embeddings, path = planted(tmp_path)
    options: dict[str, Any] = {"fractions": (0.3,), "shuffles": 2}
    expected = evaluate_nodes(embeddings, path, **options).scores
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pandas.DataFrame({"node": range(120), "age": 7, "label": np.arange(120) % 3})
    pair, series = frame[["node", "label"]], frame.set_index("node")["label"]
    given_labels = [
        pair[["label", "node"]], frame, pair.reset_index(), frame.set_index("node"),
        frame.rename(columns={"label": "y"}),
        series.to_frame("label"), series.rename_axis(None).to_frame("what"), series.to_frame(),
        pair.set_axis(["vertex", "topic"], axis=1), pair[::-1].sort_index().set_axis(["v", "t"], axis=1),
        pandas.DataFrame({"topic": np.arange(120) % 3}), polars.from_pandas(frame), pa.table(frame).to_reader(),
        {"node": [*range(120)], "label": (np.arange(120) % 3).tolist()}, frame.to_dict("records"),
        pair.set_axis(range(5, 125)).set_axis(["v", "label"], axis=1),
    ]  # fmt: skip
    for place, labels in enumerate(given_labels):
        assert evaluate_nodes(embeddings, labels, **options).scores == expected, place
    with pytest.raises(DataError, match=r"the table has columns v, age, t: call two of them node and label\.$"):
        evaluate_nodes(embeddings, frame.set_axis(["v", "age", "t"], axis=1), **options)


def test_labels_in_memory_that_are_several_or_none() -> None:
    known = Embeddings(["a", "b", "c"], np.eye(3))
    nodes, names, truth = labels_of({"a": ["x", "y"], "b": {"y"}, "c": None}, known)
    assert (nodes, names, truth.tolist()) == (["a", "b"], ["x", "y"], [[True, True], [False, True]])
    assert labels_of([2.0, -1, None], known)[:2] == (["a"], ["2"])
    assert labels_of([((0, 1), "x"), (7.0, "y"), ("c", "")], known)[0] == ["(0, 1)", "7"]
    for wrong in (5, None, [], {}, ["x", "y"], [("a", None)], pa.table({"node": ["a"]}), np.eye(3)[:, :1]):
        with pytest.raises(DataError, match=r"^Labels are a file, a dict of node -> label, a table or pairs"):
            labels_of(wrong, known)
    with pytest.raises(DataError, match="A labeled node is a string, a whole number or a tuple, got None"):
        labels_of({None: "x"}, known)


@pytest.mark.parametrize("shuffles", [0, 10_001, 10**24])
def test_shuffles_have_a_limit(tmp_path: Path, shuffles: int) -> None:
    embeddings, path = planted(tmp_path)
    with pytest.raises(InputError, match=r"shuffles must be .*10,?000"):
        evaluate_nodes(embeddings, path, shuffles=shuffles)


def test_shuffled_labels_are_no_better_than_chance(tmp_path: Path) -> None:
    embeddings, path = planted(tmp_path)
    labels = np.random.default_rng(0).permutation(np.arange(120) % 3)
    path.write_text("".join(f"{node} {label}\n" for node, label in enumerate(labels)))
    (score,) = evaluate_nodes(embeddings, path, fractions=(0.5,), shuffles=10).scores
    assert 0.15 < score.micro_f1 < 0.5


def test_same_seed_same_scores(tmp_path: Path) -> None:
    embeddings, path = planted(tmp_path)
    noisy = Embeddings(embeddings.keys, embeddings.vectors + 6 * np.random.default_rng(3).standard_normal((120, 6)))
    one, again, other = (evaluate_nodes(noisy, path, fractions=(0.2,), shuffles=3, seed=seed) for seed in (1, 1, 2))
    assert one == again and one.scores != other.scores
    assert one.scores[0].micro_f1 == pytest.approx(np.mean(one.scores[0].micro_f1_runs))
    assert one.scores[0].micro_f1_std == pytest.approx(np.std(one.scores[0].micro_f1_runs, ddof=1))


def test_the_whole_agrees_with_scikit_learn(tmp_path: Path) -> None:
    x, truth = multilabel(300, 12, 6, seed=4)
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n" + "".join(f"n{node},{label}\n" for node, label in np.argwhere(truth)))
    embeddings = Embeddings([f"n{node}" for node in range(300)], x)
    (score,) = evaluate_nodes(embeddings, path, fractions=(0.5,), shuffles=2, seed=9).scores
    expected = []
    for shuffle in range(2):
        order = np.random.default_rng((9, shuffle)).permutation(300)
        train, test = order[:150], order[150:]
        chance = reference(x[train].astype(float), truth[train], x[test].astype(float))
        expected.append(f1_scores(truth[test], predict(chance, truth[test].sum(axis=1))))
    np.testing.assert_allclose(list(zip(score.micro_f1_runs, score.macro_f1_runs, strict=True)), expected, atol=1e-3)


def test_nodes_without_a_row_count_as_wrong_or_are_left_out(tmp_path: Path) -> None:
    embeddings, path = planted(tmp_path)
    part = Embeddings(list(embeddings.keys)[:90], embeddings.vectors[:90])
    wrong = evaluate_nodes(part, path, fractions=(0.5,), shuffles=5)
    excluded = evaluate_nodes(part, path, fractions=(0.5,), shuffles=5, missing="excluded")
    assert wrong.num_missing == excluded.num_missing == 30
    assert wrong.scores[0].micro_f1 < 0.95 and excluded.scores[0].micro_f1 == 1.0
    assert "wrong" in wrong.protocol and "excluded" in excluded.protocol


@pytest.mark.parametrize(
    ("text", "nodes", "names"),
    [
        ("0 3\n1 2\n0 10\n", ["0", "1"], ["2", "3", "10"]),
        ("a\tx\ty\nb\tx\n", ["a", "b"], ["x", "y"]),
        ("id,label\n5,tv show\n6,film\n", ["5", "6"], ["film", "tv show"]),
        ("# made by hand\nnode label\na 1\r\na 1\n", ["a"], ["1"]),
        ("label 1\nb 2\n", ["label", "b"], ["1", "2"]),
        ('0,"Sport, Games"\n1,"a ""b"""\n', ["0", "1"], ["Sport, Games", 'a "b"']),
        ('"0","x"\n', ["0"], ["x"]),
        ('5" disk\tx\n"open\ty\n', ['5" disk', '"open'], ["x", "y"]),
    ],
)
def test_shapes_of_label_files(tmp_path: Path, text: str, nodes: list[str], names: list[str]) -> None:
    path = tmp_path / "l.txt"
    path.write_bytes(text.encode())
    found = read_labels(path)
    assert (found[0], found[1]) == (nodes, names)


def test_a_list_of_edges_is_no_file_of_labels(tmp_path: Path) -> None:
    nodes = Embeddings([str(node) for node in range(30)], np.ones((30, 2), np.float32))
    ring = [(node, (node + 1) % 30) for node in range(30)]
    (tmp_path / "labels.txt").write_text("".join(f"{a} {a % 9}\n" for a, _ in ring))  # nine of them, named as nodes are
    assert len(read_labels(tmp_path / "labels.txt", nodes)[1]) == 9
    for text in ("{} {}\n", "{}\t{}\t0.5\n"):
        (tmp_path / "edges.txt").write_text("src dst\n" + "".join(text.format(*edge) for edge in ring))
        with pytest.raises(DataError, match="seems to be a list of edges: 30 of the 30 names"):
            evaluate_nodes(nodes, tmp_path / "edges.txt")
        with pytest.raises(DataError, match=r"edges\.txt seems to be a list of edges"):
            evaluate_nodes(Embeddings(range(30), nodes.vectors), tmp_path / "edges.txt")
    each = Embeddings([f"n{node}" for node in range(30)], nodes.vectors)
    (tmp_path / "labels.txt").write_text("".join(f"n{a} {a}\n" for a, _ in ring))  # a class each, none of them a node
    assert len(read_labels(tmp_path / "labels.txt", each)[1]) == 30


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("vertexId,topic\nb,1\nc,2\n", "b"), ("# of a paper\nwho what why\nb 1\nc 2\n", "b"),
        ("who,1\nb,1\nc,2\n", "who"), ("who,x\nwhom,1\nb,2\n", "who"), ("7,x\nb,1\nc,2\n", "7"), ("b,x\nc,1\n", "b"),
    ],
)  # fmt: skip
def test_a_header_of_any_words_is_told_by_the_keys(text: str, first: str, tmp_path: Path) -> None:
    """It was a node with a class of its own."""
    (tmp_path / "l.txt").write_text(text)
    assert read_labels(tmp_path / "l.txt", Embeddings(["b", "c"], np.eye(2)))[0][0] == first


@pytest.mark.parametrize("header", ["club,node", "club,NODE_ID", "club,age,node", ",club,node"])
def test_a_usual_name_of_nodes_says_which_column_they_are(header: str, tmp_path: Path) -> None:
    """With the label in front they were refused as a list of edges."""
    known = Embeddings([f"n{node}" for node in range(30)], np.eye(30, 2))
    rows = [{"club": "x" if at % 3 else "y", "age": "x", "": str(at)} for at in range(30)]
    lines = [",".join(row.get(one, f"n{at}") for one in header.split(",")) for at, row in enumerate(rows)]
    (tmp_path / "l.csv").write_text("\n".join([header, *lines]) + "\n")
    for found in (read_labels(tmp_path / "l.csv", known), read_labels(tmp_path / "l.csv")):
        assert found[0] == list(known) and found[1] == ["x", "y"]
        assert found[2][:, 1].tolist() == [not at % 3 for at in range(30)]


def test_a_label_named_as_nodes_are_is_no_header(tmp_path: Path) -> None:
    (tmp_path / "l.txt").write_text("a key\nb door\n")
    assert read_labels(tmp_path / "l.txt", Embeddings(["a", "b"], np.eye(2)))[:2] == (["a", "b"], ["door", "key"])
    (tmp_path / "l.txt").write_text("5 key\n6 door\n")
    assert read_labels(tmp_path / "l.txt")[:2] == (["5", "6"], ["door", "key"])


def test_a_node_named_id_is_no_header(tmp_path: Path) -> None:
    (tmp_path / "l.txt").write_text("id 1\nb 2\n")
    assert read_labels(tmp_path / "l.txt", Embeddings(["id", "b"], np.eye(2)))[0] == ["id", "b"]


@pytest.mark.parametrize(
    "options",
    [
        {"fractions": (0.0,)},
        {"fractions": ()},
        {"fractions": (0.001,)},
        {"shuffles": 0},
        {"shuffles": 10**24},
        {"missing": "x"},
    ],
)
def test_illegal_options(tmp_path: Path, options: dict) -> None:
    embeddings, path = planted(tmp_path)
    with pytest.raises(InputError):
        evaluate_nodes(embeddings, path, **options)


def test_broken_labels(tmp_path: Path) -> None:
    embeddings, path = planted(tmp_path)
    for text in ("", "a\n", "# nothing\n", "a 1\nb\n"):
        path.write_text(text)
        with pytest.raises(DataError):
            evaluate_nodes(embeddings, path)
    path.write_text("x 1\ny 2\n")
    with pytest.raises(InputError, match="none of the 2"):
        evaluate_nodes(embeddings, path)


@given(st.binary(max_size=150))
def test_any_bytes_give_labels_or_one_sentence(tmp_path_factory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "f.txt"
    path.write_bytes(data)
    try:
        read_labels(path)
    except Any2VecError as error:
        assert str(error)
