"""The noun: look-up, neighbors and analogies on planted rows whose answers are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any2vec import neighbors
from any2vec.data.vocab.user_keys import UserKeys
from any2vec.embeddings import Embeddings
from any2vec.errors import Any2VecError, FormatError, InputError
from any2vec.formats import table


def clusters(rng: np.random.Generator, groups: int = 40, members: int = 5, dim: int = 32) -> Embeddings:
    """Each key `g_m` lies next to its group's center; groups are far apart: its 4 nearest are its own group."""
    centers = rng.standard_normal((groups, dim)).astype(np.float32)
    rows = np.repeat(centers, members, axis=0) + 0.05 * rng.standard_normal((groups * members, dim)).astype(np.float32)
    lengths = rng.uniform(0.1, 10.0, (len(rows), 1)).astype(np.float32)  # cosine must not see them
    keys = [f"{group}_{member}" for group in range(groups) for member in range(members)]
    return Embeddings(keys, rows * lengths)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_looks_up_rows_and_keys() -> None:
    embeddings = Embeddings(["a", "b", "c"], np.arange(6, dtype=np.float64).reshape(3, 2), counts=np.array([1, 3, 2]))
    assert (len(embeddings), embeddings.dim, embeddings.vectors.dtype) == (3, 2, np.float32)
    assert "b" in embeddings and "z" not in embeddings
    assert embeddings.row("c") == 2
    assert embeddings["b"].tolist() == [2.0, 3.0]
    assert embeddings[["c", "a"]].tolist() == [[4.0, 5.0], [0.0, 1.0]]
    assert embeddings.rows(["c", "?", "a"]).tolist() == [2, -1, 0]
    assert embeddings.frequent_rows(2).tolist() == [1, 2]
    assert embeddings.to_numpy()[0] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"keys": ["a"], "vectors": np.zeros((2, 3))},
        {"keys": ["a", "b"], "vectors": np.zeros(2)},
        {"keys": [], "vectors": np.zeros((0, 3))},
        {"keys": ["a"], "vectors": np.zeros((1, 3)), "output": np.zeros((1, 2))},
        {"keys": ["a"], "vectors": np.zeros((1, 3)), "counts": np.zeros(2)},
        {"keys": [1, "a"], "vectors": np.zeros((2, 3))},
        {"keys": [1.5], "vectors": np.zeros((1, 3))},
        {"keys": [1 << 63], "vectors": np.zeros((1, 3))},
        {"keys": ["a"], "vectors": [["x"]]},
        {"keys": ["a", "b"], "vectors": [[1, 2], [3]]},
        {"keys": ["a"], "vectors": np.array([[1j]])},
        {"keys": ["a"], "vectors": np.ones((1, 1)), "output": np.array([[1j]])},
    ],
)
def test_sizes_that_do_not_fit_are_refused(arguments: dict) -> None:
    with pytest.raises(InputError):
        Embeddings(**arguments)


@pytest.mark.parametrize("count", [-1, 10**18, 10**30, 2**64 - 1, 1.5, np.nan, np.inf, "x", [1], None, 1j])
def test_counts_that_are_none_are_refused(count: Any) -> None:
    with pytest.raises(InputError, match=r"counts must be .*from 0 to below 10\^18"):
        Embeddings(["a", "b"], np.eye(2), counts=[count, 1])


def test_whole_counts_of_any_type_are_kept() -> None:
    for counts in ([0, 10**18 - 1], np.array([0, 3], np.uint64), np.array([0.0, 2.0]), [True, False], (0, 1)):
        found = Embeddings(["a", "b"], np.eye(2), counts=counts).counts
        assert found.dtype == np.int64 and found.tolist() == list(counts)


@pytest.mark.parametrize(
    "ask",
    [
        lambda e: e.nearest(["a", ["b"]]),
        lambda e: e.nearest([[1, 2], [3]]),
        lambda e: e.nearest(b"ab"),
        lambda e: e.nearest("a", k=True),
        lambda e: e.most_similar("a", k=True),
        lambda e: Embeddings.load(None),
        lambda e: Embeddings.load("a\0b"),
        lambda e: e.save(5),
        lambda e: e.save("a\0b.txt"),
        lambda e: e.save_into(None),
    ],
)
def test_what_is_no_query_and_no_path_is_an_input_error(ask: Any) -> None:
    with pytest.raises(InputError, match=r"a query is|keys are|k must be|a path is|no path holds"):
        ask(Embeddings(["a", "b", "97"], np.eye(3)))


def test_metadata_without_a_form_in_json_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="meta must be what JSON has a form for"):
        Embeddings(["a"], np.ones((1, 1)), meta={"x": object()}).save(tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_a_key_of_a_file_that_comes_twice_is_refused_at_the_first_look_up() -> None:
    with pytest.raises(FormatError, match="twice"):
        Embeddings(UserKeys(["a", "a"]), np.ones((2, 2))).row("a")


def test_unknown_key_names_the_nearest_spellings() -> None:
    embeddings = Embeddings(["Paris", "london", "berlin"], np.eye(3))
    with pytest.raises(InputError, match=r"'paris'.*Paris"):
        embeddings.nearest("paris")
    with pytest.raises(InputError, match="london"):
        embeddings.row("londn")


def test_unknown_key_of_clicks() -> None:
    """A value without its column, one that is hashed, and one of a column whose values are kept beside a hashed one."""
    keys = ["user=<missing>", "user=<rare>", "user#0", "user#1", "product=<missing>", "product=teapot", "tags=teapot"]
    embeddings = Embeddings(keys, np.eye(len(keys), dtype=np.float32))
    with pytest.raises(
        InputError, match=r"'teapot' is not among the 7 keys; nearest.*: product=teapot, tags=teapot\.$"
    ):
        embeddings.nearest("teapot")
    with pytest.raises(
        InputError, match=r'7 keys: the values of user are hashed, and its rows are user#0.*"vocabulary"'
    ):
        embeddings.nearest("user=ann")
    seen = Embeddings([key for key in keys if key != "user#0"], np.eye(len(keys) - 1, dtype=np.float32))
    with pytest.raises(InputError, match=r"6 keys: the values of user are hashed"):
        seen.nearest("user=ann")
    with pytest.raises(InputError, match=r"'product=tepot' is not among the 7 keys; nearest spellings: product=teapot"):
        embeddings.nearest("product=tepot")


def test_nearest_finds_the_planted_group(rng: np.random.Generator) -> None:
    embeddings = clusters(rng)
    for key, found in zip(embeddings.keys, embeddings.nearest(embeddings.keys, k=4), strict=True):
        group = key.split("_")[0]
        assert {name.split("_")[0] for name, _ in found} == {group}
        assert key not in dict(found)
        assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


def test_nearest_agrees_with_the_plain_twin_for_any_block(rng: np.random.Generator, monkeypatch) -> None:
    embeddings = Embeddings([str(i) for i in range(300)], rng.standard_normal((300, 8)))
    unit = embeddings.vectors / np.linalg.norm(embeddings.vectors, axis=1, keepdims=True)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -2)
    expected = np.argsort(-cosine, axis=1)[:, :7]
    whole = embeddings.nearest(embeddings.keys, 7)
    monkeypatch.setattr(neighbors, "QUERY_BLOCK", 13)
    monkeypatch.setattr(
        neighbors, "row_blocks", lambda matrix, block_bytes=0: (slice(i, min(i + 11, 300)) for i in range(0, 300, 11))
    )
    parts = embeddings.nearest(embeddings.keys, 7)
    for row in range(300):
        assert [int(key) for key, _ in whole[row]] == expected[row].tolist()
        assert [key for key, _ in parts[row]] == [key for key, _ in whole[row]]


def test_nearest_of_a_vector_keeps_all_keys_and_asks_for_its_length(rng: np.random.Generator) -> None:
    embeddings = clusters(rng)
    (first, score), *_ = embeddings.nearest(embeddings["3_1"], k=1)
    assert first == "3_1" and score == pytest.approx(1.0, abs=1e-5)
    assert len(embeddings.nearest(embeddings["3_1"], k=10_000)) == len(embeddings)
    assert len(embeddings.nearest("3_1", k=10_000)) == len(embeddings) - 1
    for bad in (np.ones(5), np.full(32, np.nan)):
        with pytest.raises(InputError):
            embeddings.nearest(bad)
    with pytest.raises(InputError):
        embeddings.nearest("3_1", k=0)
    assert embeddings.nearest([], 3) == []


def test_a_zero_row_is_nobodys_neighbor() -> None:
    embeddings = Embeddings(["zero", "x", "y"], np.array([[0, 0], [1, 0], [1, 0.1]]))
    assert embeddings.nearest("x", 2)[0][0] == "y"
    assert embeddings.nearest("x", 2)[1] == ("zero", 0.0)


def test_nan_rows_are_found_when_norms_are_computed() -> None:
    with pytest.raises(FormatError, match="NaN"):
        Embeddings(["a", "b"], np.array([[1.0, np.nan], [1.0, 2.0]])).nearest("b")


def test_approximate_recall_is_at_least_95_percent(rng: np.random.Generator) -> None:
    embeddings = Embeddings([str(i) for i in range(3000)], rng.standard_normal((3000, 24)))
    queries = [str(i) for i in range(0, 3000, 30)]
    exact = embeddings.nearest(queries, 10)
    approximate = embeddings.nearest(queries, 10, approximate=True)
    met = sum(len(dict(a).keys() & dict(b).keys()) for a, b in zip(exact, approximate, strict=True))
    assert met / (10 * len(queries)) >= 0.95
    assert all(query not in dict(found) for query, found in zip(queries, approximate, strict=True))
    assert all(len(found) == 10 for found in approximate)
    assert approximate[0][0][1] == pytest.approx(exact[0][0][1], abs=1e-4)


def parallelograms(rng: np.random.Generator) -> Embeddings:
    """king - man + woman = queen, for 12 pairs that share one offset."""
    offset = rng.standard_normal(50)
    base = rng.standard_normal((12, 50))
    keys = [f"he{i}" for i in range(12)] + [f"she{i}" for i in range(12)]
    return Embeddings(keys, np.concatenate([base, base + offset]))


def test_one_vector_is_asked_for_by_either_method(rng: np.random.Generator) -> None:
    pytest.importorskip("usearch")
    found = Embeddings([str(row) for row in range(300)], rng.normal(size=(300, 8)).astype(np.float32))
    query = found.vectors[7] + 0.01
    (near, *_), (other, *_) = found.nearest(query, 3), found.nearest(query, 3, approximate=True)
    assert near[0] == other[0] == "7" and other[1] == pytest.approx(near[1], abs=1e-3)


def test_columns_of_arrow_are_keys_and_one_word_is_no_list() -> None:
    arrow, found = pytest.importorskip("pyarrow"), Embeddings(["tea", "milk", "t"], np.eye(3, dtype=np.float32))
    column = arrow.table({"word": ["milk", "tea"]})["word"]
    assert np.array_equal(found[column], found[["milk", "tea"]])
    with pytest.raises(InputError, match="takes several keys"):
        found.doesnt_match("tea")


def test_far_from_a_key_is_far_by_either_method(rng: np.random.Generator) -> None:
    embeddings = clusters(rng)
    found = [[key for key, _ in embeddings.most_similar([], "3_1", 8, method)] for method in ("add", "mul")]
    assert found[0] == found[1] and not any(key.startswith("3_") for key in found[1])
    (_, score), *_ = embeddings.most_similar([], "3_1", 1, "mul")
    cosine = embeddings.similarity("3_1", found[0][0])
    assert score == pytest.approx(1 / ((1 + cosine) / 2 + 0.001), rel=1e-4)


@pytest.mark.parametrize("block_bytes", [64, 4 << 20])
def test_of_equal_rows_the_first_are_nearest(monkeypatch: pytest.MonkeyPatch, block_bytes: int) -> None:
    monkeypatch.setattr(neighbors, "row_blocks", lambda matrix, **_: table.row_blocks(matrix, block_bytes))
    kinds = np.random.default_rng(4).integers(0, 4, 300)
    embeddings = Embeddings(list(range(300)), np.eye(4)[kinds])
    for row, found in enumerate(embeddings.nearest(list(range(300)), k=90)):
        order = np.lexsort((np.arange(300), kinds != kinds[row]))
        assert [key for key, _ in found] == [one for one in order.tolist() if one != row][:90]


@pytest.mark.parametrize("method", ["add", "mul"])
def test_analogy_closes_the_parallelogram(rng: np.random.Generator, method: str) -> None:
    embeddings = parallelograms(rng)
    for i in range(1, 12):
        found = embeddings.most_similar([f"he{i}", "she0"], ["he0"], k=3, method=method)  # type: ignore[arg-type]
        assert found[0][0] == f"she{i}"
        assert not {"he0", "she0", f"he{i}"} & dict(found).keys()


def test_analogy_scores_follow_their_formulas(rng: np.random.Generator) -> None:
    embeddings = parallelograms(rng)
    unit = {key: row / np.linalg.norm(row) for key, row in zip(embeddings.keys, embeddings.vectors, strict=True)}
    target = unit["she0"] - unit["he0"] + unit["he1"]
    key, score = embeddings.most_similar(["she0", "he1"], ["he0"], k=1)[0]
    assert score == pytest.approx(float(unit[key] @ target / np.linalg.norm(target)), abs=1e-5)
    key, score = embeddings.most_similar(["she0", "he1"], ["he0"], k=1, method="mul")[0]
    shifted = {name: (1 + float(unit[key] @ unit[name])) / 2 for name in ("she0", "he1", "he0")}
    assert score == pytest.approx(shifted["she0"] * shifted["he1"] / (shifted["he0"] + 0.001), rel=1e-4)


@pytest.mark.parametrize(
    "call",
    [
        lambda e: e.most_similar([], []),
        lambda e: e.most_similar("ab", ["?"]),
        lambda e: e.most_similar(["a"], ["b"], method="sum"),
        lambda e: e.most_similar(["a"], ["b"], k=-1),
    ],
)
def test_illegal_analogies_are_input_errors(call) -> None:
    with pytest.raises(InputError):
        call(Embeddings(["a", "b"], np.eye(2)))


def test_input_errors_are_value_errors_too() -> None:
    assert issubclass(InputError, ValueError) and issubclass(InputError, Any2VecError)


@pytest.mark.parametrize("order", ["drawn", "worst first", "best first"])
def test_blocks_keep_the_best_of_all(order: str) -> None:
    """Rows of several blocks of 4 MB; of those behind the first, only what is better than the kept is chosen among."""
    rng = np.random.default_rng(1)
    cosine_N = rng.uniform(-1, 1, 300_000).astype(np.float32)
    cosine_N = {"drawn": cosine_N, "worst first": np.sort(cosine_N), "best first": np.sort(cosine_N)[::-1]}[order]
    matrix = np.column_stack([cosine_N, np.sqrt(1 - cosine_N**2), np.zeros_like(cosine_N), np.zeros_like(cosine_N)])
    queries = np.array([[1, 0, 0, 0], [-1, 0, 0, 0]], np.float32)
    best = np.argsort(-cosine_N, kind="stable")
    banned = [best[:2].tolist(), []]
    scores, rows = neighbors.top_rows(matrix, np.ones(len(matrix), np.float32), [(queries, 1)], 5, banned)
    assert cosine_N[rows[0]] == pytest.approx(cosine_N[best[2:7]], abs=1e-6) and not {*best[:2]} & {*rows[0]}
    assert scores[1] == pytest.approx(-cosine_N[best[::-1][:5]], abs=1e-6)
    assert (scores == np.array([[1], [-1]]) * cosine_N[rows]).all()
