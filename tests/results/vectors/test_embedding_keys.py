"""Embeddings asked as a dict and as a sequence are; keys of the source's type, through every file and library."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest

import any2vec
from any2vec.embeddings import Embeddings
from any2vec.errors import FormatError, InputError, UnknownKeyError


def words() -> Embeddings:
    rows = np.array([[1, 0], [0.9, 0.1], [0.8, 0.2], [-1, 0.1]], np.float32)
    return Embeddings(["rain", "snow", "hail", "chair"], rows)


def numbers() -> Embeddings:
    return Embeddings([7, 5, -3], np.array([[1, 0], [0.9, 0.1], [-1, 0]], np.float32), counts=np.array([3, 2, 1]))


@pytest.mark.parametrize("key", ["rain", 5, np.str_("rain"), np.int64(5)])
def test_rows_are_of_many_keys(key: Any) -> None:
    with pytest.raises(InputError, match=r"rows takes many keys, .* of one key row\("):
        words().rows(key)
    assert words().rows(["snow", "sleet"]).tolist() == [1, -1]


def test_keys_that_come_twice_are_refused_at_once() -> None:
    for keys in (["a", "b", "a"], [1, 2, 1], np.array(["a", "b", "a"]), ("a", "b", "a")):
        with pytest.raises(InputError, match=r"key '(a|1)' stands there twice; keys must be distinct"):
            Embeddings(keys, np.ones((3, 2)))


def test_a_dict_of_vectors() -> None:
    found = words()
    assert list(found) == ["rain", "snow", "hail", "chair"] and len(found) == 4
    assert "snow" in found and "sleet" not in found and 5 not in found and None not in found
    assert found["snow"].tolist() == found.vectors[1].tolist()
    assert found[["chair", "rain"]].tolist() == found.vectors[[3, 0]].tolist()
    assert found[np.array(["chair", "rain"])].tolist() == found.vectors[[3, 0]].tolist()
    assert found[1:3].tolist() == found.vectors[1:3].tolist() and found[-1:].tolist() == found.vectors[-1:].tolist()
    assert np.array_equal(np.asarray(found), found.vectors)
    with pytest.raises(InputError, match="counts rows"):
        _ = found["rain":"hail"]  # type: ignore[misc]


@pytest.mark.parametrize("key", [1.0, None, True, np.array(1.5), np.bool_(True), len])
def test_what_can_be_no_key_is_refused(key: Any) -> None:
    for found in (words(), numbers()):
        with pytest.raises(InputError, match="a key is a string or an integer, got "):
            _ = found[key]


@pytest.mark.parametrize("key", [5, "5", np.int32(5), np.uint8(5), np.array(5)])
def test_an_integer_and_its_text_find_the_same_row(key: Any) -> None:
    found = numbers()
    assert key in found and found.row(key) == 1 and found[key].tolist() == found.vectors[1].tolist()
    assert found.nearest(key, 1)[0][0] == 7 and found[[key, -3]].shape == (2, 2)


def test_integer_keys_come_out_as_integers() -> None:
    found = numbers()
    assert list(found) == [7, 5, -3] and found.keys[0] == 7 and found.keys[1:] == [5, -3]
    assert [type(key) for key, _ in found.nearest(5)] == [int, int]
    assert found[np.array([-3, 7])].tolist() == found.vectors[[2, 0]].tolist()
    assert found.rows(np.array([5, 6])).tolist() == [1, -1] and True not in found and 5.0 not in found
    with pytest.raises(InputError, match="a string or an integer"):
        found.row(5.0)  # type: ignore[arg-type]
    assert found.to_numpy()[0] == [7, 5, -3]


@pytest.mark.parametrize("kind", ["range", "index", "series", "tensor"])
def test_integers_of_any_sequence_are_keys(kind: str) -> None:
    keys: Any = range(5, 8)
    if kind in ("index", "series"):
        pandas = pytest.importorskip("pandas")
        keys = pandas.Index(keys) if kind == "index" else pandas.Series(keys)
    elif kind == "tensor":
        keys = pytest.importorskip("torch").arange(5, 8)
    found = Embeddings(keys, np.eye(3, dtype=np.float32))
    assert list(found) == [5, 6, 7] and found.row(6) == found.row("6") == 1 and type(found.keys[0]) is int


@pytest.mark.parametrize("kind", ["arrow", "chunks", "categories", "polars", "pandas", "dict", "deque", "generator"])
def test_keys_of_any_ordered_collection(tmp_path: Path, kind: str) -> None:
    names = ["rain", "snow", "hail"]

    def given(names: list[str]) -> Any:
        if kind in ("arrow", "chunks", "categories"):
            arrow = pytest.importorskip("pyarrow")
            column = arrow.chunked_array([names[:1], names[1:]]) if kind == "chunks" else arrow.array(names)
            return column.dictionary_encode() if kind == "categories" else column
        if kind in ("polars", "pandas"):
            return pytest.importorskip(kind).Series(names)
        made = {"dict": dict.fromkeys(names, 0).keys(), "deque": deque(names), "generator": (one for one in names)}
        return made[kind]

    found = Embeddings(given(names), np.eye(3, dtype=np.float32))
    assert list(found) == names and found.keys[1:] == names[1:] and found.row("hail") == 2
    if kind != "generator":
        assert found.rows(given([*names, "sleet"])).tolist() == [0, 1, 2, -1]
    found.save(tmp_path / "run")
    assert list(Embeddings.load(tmp_path / "run")) == names
    if kind != "dict":
        with pytest.raises(InputError, match="'rain' stands there twice"):
            Embeddings(given(["rain", "snow", "rain"]), np.eye(3))


@pytest.mark.parametrize("keys", ["tea", b"tea", bytearray(b"tea"), np.array("tea"), 5, None, {"t", "e", "a"}])
def test_what_is_no_ordered_collection_of_keys_is_refused(keys: Any) -> None:
    with pytest.raises(InputError, match="keys are"):
        Embeddings(keys, np.eye(3))


@pytest.mark.parametrize("keys", [b"tea", np.array("tea"), None, 1.5])
def test_what_is_no_collection_is_not_taken_apart(keys: Any) -> None:
    found = Embeddings(["t", "e", "a", "116", "101", "97"], np.eye(6))
    for ask in (found.rows, found.doesnt_match, found.most_similar, lambda keys: found.most_similar("t", keys)):
        with pytest.raises(InputError, match="keys are a list, an array or a column"):
            ask(keys)


@pytest.mark.parametrize("name", ["run", "run.safetensors", "run.parquet", "run.arrow", "run.npz"])
def test_integer_keys_stay_integers_in_files(tmp_path: Path, name: str) -> None:
    numbers().save(tmp_path / name)
    again = Embeddings.load(tmp_path / name)
    assert list(again) == [7, 5, -3] and again.meta == {} and 5 in again and "5" in again
    words().save(tmp_path / f"words-{name}")
    assert list(Embeddings.load(tmp_path / f"words-{name}")) == ["rain", "snow", "hail", "chair"]


def test_names_where_the_metadata_say_integers_are_refused(tmp_path: Path) -> None:
    numbers().save(tmp_path / "run")
    vocabulary = tmp_path / "run" / "vocabulary.tsv"
    vocabulary.write_text(vocabulary.read_text().replace("7", "seven"))
    damaged = Embeddings.load(tmp_path / "run")
    for ask in (list, lambda found: found.keys[0], lambda found: found.keys[:2]):
        with pytest.raises(FormatError, match="'seven' is no integer"):
            ask(damaged)


def test_integer_keys_stay_integers_in_gensim() -> None:
    pytest.importorskip("gensim")
    there = numbers().to_gensim()
    assert there.index_to_key == [7, 5, -3] and there[5].tolist() == numbers()[5].tolist()
    assert list(Embeddings.from_gensim(there)) == [7, 5, -3]


def test_integers_of_the_source_are_keys_of_the_result(tmp_path: Path) -> None:
    karate = nx.karate_club_graph()
    (tmp_path / "edges.txt").write_text("".join(f"{a} {b}\n" for a, b in karate.edges))
    model, cache = any2vec.DeepWalk(dim=4), tmp_path / "cache"
    for graph in (
        karate,
        tmp_path / "edges.txt",
        tmp_path / "edges.txt",
        list(karate.edges),
        nx.to_scipy_sparse_array(karate),
    ):
        found = any2vec.fit(model, graph, threads=1, cache_dir=cache).embeddings  # the file once more from the cache
        assert list(found) == list(range(34)) and found[list(karate.nodes)].shape == (34, 4)
    named = any2vec.fit(model, nx.relabel_nodes(karate, str), threads=1).embeddings
    assert sorted(named) == sorted(map(str, karate.nodes))
    ids = any2vec.fit(any2vec.SkipGram(dim=4, min_count=1), [[3, 5, 3], [5, 8]], threads=1, cache_dir=cache).embeddings
    assert sorted(ids) == [3, 5, 8]
    more = any2vec.fit(any2vec.SkipGram(dim=4, min_count=1), [[3, 9]], threads=1, init=ids, cache_dir=cache).embeddings
    assert sorted(more) == [3, 5, 8, 9]


def test_a_stored_run_keeps_the_type(tmp_path: Path) -> None:
    any2vec.fit(any2vec.DeepWalk(dim=4), nx.karate_club_graph(), threads=1, out=tmp_path / "run")
    assert list(Embeddings.load(tmp_path / "run")) == list(range(34))
    assert json.loads((tmp_path / "run" / "meta.json").read_text())["integer_keys"] is True


def test_nearest_of_one_of_many_and_of_vectors() -> None:
    found = words()
    one = found.nearest("rain", 2)
    assert [key for key, _ in one] == ["snow", "hail"]
    for many in (["rain", "chair"], ("rain", "chair"), np.array(["rain", "chair"])):
        assert found.nearest(many, 2) == [one, found.nearest("chair", 2)]
    assert [key for key, _ in found.nearest(found["rain"], 2)] == ["rain", "snow"]
    assert found.nearest([1.0, 0.0], 1)[0][0] == "rain"
    assert [[key for key, _ in line] for line in found.nearest(found.vectors[[0, 3]], 1)] == [["rain"], ["chair"]]
    assert [line[0][0] for line in numbers().nearest(np.array([5, 7]), 1)] == [7, 5]
    with pytest.raises(InputError, match="a key, keys, or a vector of 2 numbers"):
        found.nearest(None)


def test_unknown_keys_are_key_errors_that_name_them() -> None:
    found = words()
    with pytest.raises(KeyError) as one:
        _ = found["sleet"]
    assert str(one.value).startswith("key 'sleet' is not among the 4 keys")
    with pytest.raises(UnknownKeyError, match=r"2 of 3 keys are not among the 4: 'sleet', 'fog'; rows\(keys\) has -1"):
        _ = found[["sleet", "rain", "fog"]]


def test_missing_keys_lose_only_themselves() -> None:
    found, many = words(), ["sleet", "rain", "fog"]
    with pytest.warns(
        UserWarning, match="2 of 3 keys are not among the 4, and have no neighbors: 'sleet', 'fog'"
    ) as told:
        assert found.nearest(many, 2) == [[], found.nearest("rain", 2), []]
    assert len(told) == 1 and told[0].filename == __file__
    with pytest.warns(UserWarning, match=r"7 of 8 keys .*'0', '1', '2', '3', '4', \.\.\.\."):
        assert [len(one) for one in found.nearest([*"0123456", "rain"], 1)] == [0] * 7 + [1]
    with pytest.warns(UserWarning, match="have similarity NaN: 'sleet', 'fog'"):
        table = found.similarity("snow", many)
    assert np.isnan(table).tolist() == [[True, False, True]] and table[0, 1] == found.similarity("snow", ["rain"])
    with pytest.warns(UserWarning, match="are left out: 'sleet', 'fog'"):
        assert found.most_similar(many, ["chair"]) == found.most_similar(["rain"], ["chair"])
    for call in (found.nearest, found.most_similar, found.doesnt_match, lambda keys: found.similarity(keys, many)):
        with pytest.raises(UnknownKeyError, match="2 of 2 keys are not among the 4: 'sleet', 'fog'"):
            call(["sleet", "fog"])
    with pytest.raises(UnknownKeyError, match="key 'sleet' is not among"):
        found.similarity("sleet", ["rain"])


def tables(columns: dict[str, list[Any]]) -> list[Any]:
    return [
        pytest.importorskip("pandas").DataFrame(columns),
        pytest.importorskip("polars").DataFrame(columns),
        pa.table(columns),
    ]


def test_a_table_of_one_column_is_its_keys_and_not_its_name() -> None:
    found = Embeddings(["k", "a", "b"], np.eye(3, dtype=np.float32))
    for table in tables({"k": ["a", "a", "b"]}):
        for keys in (table, table["k"]):
            assert found.rows(keys).tolist() == [1, 1, 2] and np.array_equal(found[keys], found[["a", "a", "b"]])
            assert found.nearest(keys, 1) == found.nearest(["a", "a", "b"], 1)
            assert np.array_equal(found.similarity(keys, keys), found.similarity(list("aab"), list("aab")))
            assert found.doesnt_match(keys) == "b" and found.most_similar(keys) == found.most_similar(list("aab"))
    for table in [*tables({"k": ["a"], "a": ["b"]}), np.array([["k", "a"]])]:
        for call in (found.rows, found.__getitem__, found.doesnt_match, found.most_similar):
            with pytest.raises(InputError, match=r"keys are one column, got 2 \("):
                call(table)
        with pytest.raises(InputError, match="a query is a key, keys, or a vector of 3"):
            found.nearest(table)
    for table in tables({"key": [7, -3]}):
        assert numbers().rows(table).tolist() == [0, 2] and [one[0][0] for one in numbers().nearest(table, 1)] == [5, 5]
    assert found.rows(found).tolist() == [0, 1, 2] and found.rows(np.array([["b"], ["a"]])).tolist() == [2, 1]
    with pytest.raises(InputError, match="of a dict give its keys"):
        found.rows({"k": ["a"]})


def test_a_mapping_a_set_and_a_mask() -> None:
    found = words()
    assert list(dict(found)) == list(found) and np.array_equal({**found}["hail"], found["hail"])
    assert dict(found.nearest({"rain": 0}.keys(), 2)[0]) == dict(found.nearest({"rain"}, 2)[0])
    for mask in ([True, False, False, True], np.array([True, False, False, True])):
        assert np.array_equal(found[mask], found.vectors[[0, 3]])
    with pytest.raises(InputError, match="a mask has True or False for each of the 4 rows, got 2"):
        _ = found[np.array([True, False])]


def test_similarity_is_the_cosine() -> None:
    found = words()
    assert found.similarity("rain", "rain") == pytest.approx(1) and found.similarity("rain", "chair") < -0.9
    assert isinstance(found.similarity("rain", "snow"), float)
    table = found.similarity(["rain", "chair"], ["snow", "hail", "rain"])
    assert table.shape == (2, 3) and table[1, 2] == pytest.approx(found.similarity("chair", "rain"))


def test_doesnt_match_agrees_with_gensim() -> None:
    pytest.importorskip("gensim")
    found = words()
    assert found.doesnt_match(list(found)) == found.to_gensim().doesnt_match(list(found)) == "chair"
    with pytest.warns(UserWarning, match="left out: 'sleet'"):
        assert found.doesnt_match(["rain", "sleet", "snow", "chair"]) == "chair"
    with pytest.raises(UnknownKeyError, match="'sleet' is not among the 4 keys"):
        found.doesnt_match(["sleet"])


@pytest.mark.parametrize("sides", [(["rain", "snow"], ["chair"]), (["hail"], []), ([], ["rain"])])
def test_most_similar_agrees_with_gensim(sides: tuple[list[str], list[str]]) -> None:
    pytest.importorskip("gensim")
    mine, theirs = words().most_similar(*sides, k=3), words().to_gensim().most_similar(*sides, topn=3)
    assert [key for key, _ in mine] == [key for key, _ in theirs]
    assert [score for _, score in mine] == pytest.approx([score for _, score in theirs], abs=1e-6)
    assert words().most_similar("hail") == words().most_similar(["hail"])


def test_rows_go_to_other_libraries() -> None:
    table = numbers().to_arrow()
    assert table.column("key").to_pylist() == [7, 5, -3] and table.column("count").to_pylist() == [3, 2, 1]
    assert np.array_equal(np.array(table.column("vector").to_pylist(), np.float32), numbers().vectors)
    assert words().to_arrow().column("key").to_pylist() == list(words())
    torch = pytest.importorskip("torch")
    assert torch.equal(numbers().to_torch(), torch.tensor(numbers().vectors))
    pandas = pytest.importorskip("pandas")
    frame = numbers().to_pandas()
    assert isinstance(frame, pandas.DataFrame) and frame.loc[-3].tolist() == [-1, 0] and frame.index.name == "key"


def test_a_result_is_shown_in_a_line() -> None:
    shown = repr(any2vec.fit(any2vec.DeepWalk(dim=4), [(1, 2), (2, 3)], threads=1))
    assert shown.startswith("FitResult(deepwalk, Embeddings(3 rows, dim 4") and len(shown) < 120


def test_nodes_that_are_tuples_are_asked_for_by_their_text() -> None:
    found = any2vec.fit(any2vec.DeepWalk(dim=2), nx.grid_2d_graph(3, 3), epochs=1, threads=1).embeddings
    with pytest.raises(UnknownKeyError, match=r"2 of 2 keys are not among the 9: 0, 0;.* ask for '\(0, 0\)'\.$"):
        found.nearest((0, 0), 1)
    assert len(found.nearest("(0, 0)", 1)) == 1
    with pytest.raises(UnknownKeyError, match=r"rows\(keys\) has -1 for such\.$"):
        found.nearest((0, 9), 1)
