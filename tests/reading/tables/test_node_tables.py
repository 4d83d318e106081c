"""Features, classes and splits of nodes in tables: a column or an index says which node a row is of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import any2vec
from any2vec import AttributedGraph, DataError, InputError, write_graph

EDGES = [(0, 1), (1, 2), (2, 3)]
ORDER = [2, 0, 3, 1]
FEATURES = np.arange(8, dtype=np.float32).reshape(4, 2)
CLASSES = {0: "x", 1: "y", 2: "x", 3: "z"}
SPLIT = {0: "train", 1: "val", 2: "test", 3: "train"}
SPLIT_IN_PARTS = {"train": [0, 3], "val": [1], "test": [2]}
COLUMNS = {"node": ORDER, "a": FEATURES[ORDER, 0].tolist(), "b": FEATURES[ORDER, 1].tolist()}


def by_node(graph: AttributedGraph) -> dict[Any, Any]:
    """(features, class, part) of each node."""
    assert graph.features is not None and graph.labels is not None
    rows = graph.features.take(np.arange(len(graph))).tolist()
    parts = graph.splits[0].tolist() if len(graph.splits) else [-1] * len(graph)
    return dict(
        zip(graph.keys, zip(rows, (graph.classes[one] for one in graph.labels), parts, strict=True), strict=True)
    )


def made(kind: str, columns: dict[str, Any], folder: Path) -> Any:
    """The columns as a table of that kind."""
    if kind == "dict":
        return columns
    if kind == "rows":
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if kind in ("arrow", ".parquet", ".arrow", ".csv"):
        table, path = pa.table(columns), folder / f"features{kind}"
        if kind == "arrow":
            return table
        if kind == ".arrow":
            with pa.ipc.new_file(str(path), table.schema) as file:
                file.write_table(table)
        else:
            (pq.write_table if kind == ".parquet" else pyarrow.csv.write_csv)(table, path)
        return path
    if kind == "datasets":
        return pytest.importorskip("datasets").Dataset.from_dict(columns)
    library = pytest.importorskip(kind.removesuffix(" index"))
    frame = library.DataFrame(columns)
    return frame.set_index(next(iter(columns))) if kind.endswith("index") else frame


KINDS = ["dict", "rows", "arrow", "datasets", "polars", "pandas", "pandas index"]


@pytest.mark.parametrize("kind", [*KINDS, ".parquet", ".arrow", ".csv"])
def test_rows_of_features_are_of_the_nodes_that_a_column_names(kind: str, tmp_path: Path) -> None:
    graph = write_graph(EDGES, tmp_path / "g", features=made(kind, COLUMNS, tmp_path), labels=CLASSES, split=None)
    assert {node: row for node, (row, _, _) in by_node(graph).items()} == dict(
        zip("0123", FEATURES.tolist(), strict=True)
    )
    assert [row for _, row, _ in by_node(graph).values()] == [CLASSES[node] for node in ORDER]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", ["0123", "dcba"])
def test_classes_and_parts_by_node(kind: str, names: str, tmp_path: Path) -> None:
    nodes: list[Any] = [int(one) if one.isdigit() else one for one in names]
    edges = [(nodes[src], nodes[dst]) for src, dst in EDGES]
    given = {
        name: made(kind, {"node": [nodes[one] for one in ORDER], word: [value[one] for one in ORDER]}, tmp_path)
        for name, word, value in (("labels", "label", CLASSES), ("split", "part", SPLIT))
    }
    features = made(kind, {"id": nodes, "x": FEATURES.tolist()}, tmp_path) if kind != "pandas index" else FEATURES
    if kind == "pandas index":
        features = made("pandas index", {"id": nodes, "a": FEATURES[:, 0], "b": FEATURES[:, 1]}, tmp_path)
    found = by_node(write_graph(edges, tmp_path / "g", features=features, **given))
    assert found == {
        str(nodes[one]): (FEATURES[one].tolist(), CLASSES[one], ["train", "val", "test"].index(SPLIT[one]))
        for one in range(4)
    }


def test_a_series_goes_by_its_index_as_a_dict_does(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    numbers = pandas.Series([5.0, None, 7.0], index=[3, 1, 0])  # of which pandas makes floats
    parts = pandas.Series([0, 1, -1], index=[3, 0, 2])
    first = write_graph(EDGES, tmp_path / "index", features=FEATURES, labels=numbers, split=parts)
    twin = {"labels": {3: 5, 0: 7}, "split": {"train": [3], "val": [0]}}
    second = write_graph(EDGES, tmp_path / "dict", features=FEATURES, **twin)
    assert first.classes == second.classes == ["5", "7"] and (first.splits == second.splits).all()
    assert first.labels is not None and first.labels.tolist() == [1, -1, -1, 0]
    mask = pandas.Series([True, False, True], index=[3, 2, 0])
    masked = write_graph(EDGES, tmp_path / "mask", features=FEATURES, split={"val": mask})
    assert masked.splits.tolist() == [[1, -1, -1, 1]]


def test_words_of_a_split_by_place_and_by_node(tmp_path: Path) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    words = ["train", "val", "test", None]
    frame = pandas.DataFrame({"split": words})
    plain = ["train", "val", "test", ""]
    given_splits = [
        words, plain, np.array(plain), np.array(plain, object), frame["split"], frame, frame.iloc[ORDER],
        polars.Series(words),
        pandas.Series(plain, dtype="category"), pa.array(words), pandas.DataFrame({"part": [0, 1, 2, -1]}),
        dict(enumerate(words)), {str(node): word for node, word in enumerate(words[:3])},
    ]  # fmt: skip
    for place, split in enumerate(given_splits):
        graph = write_graph(EDGES, tmp_path / str(place), features=FEATURES, labels=CLASSES, split=split)
        assert graph.splits.tolist() == [[0, 1, 2, -1]], place
    for wrong in ([*plain[:3], "dev"], {0: "train", 1: "dev"}):
        with pytest.raises(DataError, match=r"a part 'dev'; parts are train, val, test\.$"):
            write_graph(EDGES, tmp_path / "bad", features=FEATURES, labels=CLASSES, split=wrong)
    with pytest.raises(DataError, match="for each of 4 nodes"):
        write_graph(EDGES, tmp_path / "bad", features=FEATURES, labels=CLASSES, split=plain[:3])


def test_rows_without_nodes_go_by_their_place(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    labels = list(CLASSES.values())
    frame = pandas.DataFrame(FEATURES, columns=["a", "b"])
    for number, features in enumerate((frame, frame.assign(node=range(4)), {"x": FEATURES}, frame.astype("Int64"))):
        graph = write_graph(EDGES, tmp_path / str(number), features=features, labels=pandas.Series(labels))
        found = [(row, name) for row, name, _ in by_node(graph).values()]
        assert found == list(zip(FEATURES.tolist(), labels, strict=True)) and list(graph.keys) == ["0", "1", "2", "3"]


def test_pairs_of_a_node_and_several_classes(tmp_path: Path) -> None:
    labels = {"node": [3, 0, 3], "label": ["x", "y", "y"]}
    graph = write_graph(EDGES, tmp_path / "g", features=FEATURES, labels=labels)
    assert graph.labels is not None and graph.labels.tolist() == [[0, 1], [0, 0], [0, 0], [1, 1]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"features": COLUMNS, "labels": ["x", "y", "x", "y"]}, "The labels go by place and the rows of features by"),
        ({"features": COLUMNS, "split": {"val": np.ones(4, bool)}}, "Parts of the split go by place and the rows of"),
        ({"features": COLUMNS | {"t": list("pqrs")}}, "features has texts in column 't'; features are numbers"),
        ({"features": COLUMNS | {"node": [0, 1, 1, 2]}}, "features has a node twice in column 'node'"),
        ({"features": COLUMNS | {"node": [0, 1, None, 2]}}, "whole numbers, none missing"),
        ({"features": COLUMNS | {"id": ORDER}}, "columns node and id, which may both name the nodes"),
        ({"features": {"node": ORDER}}, "features has no column of features"),
        ({"features": {"node": ORDER[:3], "a": [1, 2, 3]}}, "node '1' is not there; the 3 nodes are those of features"),
        ({"features": {"x": [[1, 2], [3], [4], [5]]}}, "lists of different lengths in column 'x'"),
        ({"features": {0: [1.0], 1: [2.0]}}, "features in a dict are columns by name"),
        ({"features": COLUMNS | {"a": [1, 2, 3, None]}}, "features holds NaN"),
        ({"labels": [{"node": 0, "a": 1, "b": 2}]}, "labels has the columns a, b beside the nodes; name one of them"),
        ({"labels": {"node": [0, 9], "label": [1, 2]}}, "The labels: node '9' is not there"),
        ({"split": {"node": [0, 1], "split": ["train", "trian"]}}, "a part 'trian'"),
        ({"split": {"node": [0, 0], "split": ["train", "val"]}}, "has a node twice"),
    ],
)  # fmt: skip
def test_bad_tables_are_one_sentence(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as found:
        write_graph(EDGES, tmp_path / "g", **({"features": FEATURES} | options))
    assert said in str(found.value) and "\n" not in str(found.value)
    assert not (tmp_path / "g").exists()


def test_a_csv_of_numbers_alone_is_asked_for_names(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("0,1.5\n1,2.5\n")
    with pytest.raises(DataError, match="begins with a line of numbers; name its columns"):
        write_graph([(0, 1)], tmp_path / "g", features=tmp_path / "f.csv")


def test_an_index_comes_along_into_a_file(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(FEATURES[ORDER], index=ORDER, columns=["a", "b"])
    frame.to_parquet(tmp_path / "f.parquet")
    frame.assign(node=ORDER).sort_values("a").to_parquet(tmp_path / "g.parquet")
    for name in ("f", "g"):
        graph = write_graph(EDGES, tmp_path / name, features=tmp_path / f"{name}.parquet", labels=CLASSES)
        found = by_node(graph)
        assert [found[node][0] for node in "0123"] == FEATURES.tolist(), name
    twice = pandas.DataFrame(FEATURES, index=[0, 1, 1, 2])
    with pytest.raises(DataError, match=r"a node twice in its index; .*reset_index\(drop=True\)"):
        write_graph(EDGES, tmp_path / "bad", features=twice)


@pytest.mark.parametrize(
    "columns",
    [
        ",node,{}", "{},node", "node,age,{}", "node,{},age", ",node,age,{}", "index,NODE,{}", ",{}", ",age,{}", "id,{}",
        ",node,{},age", "paper,age,{}",
    ],
)  # fmt: skip
def test_the_first_line_of_a_file_says_where_nodes_and_what_they_have_stand(columns: str, tmp_path: Path) -> None:
    for word, of_node in (("label", CLASSES), ("split", SPLIT)):
        names = columns.format(word).split(",")
        own = {name: iter(ORDER) for name in ("node", "NODE", "id", "paper")} | {word: map(of_node.get, ORDER)}
        index = iter(ORDER) if "node" not in names else iter(range(4))
        values = [own.get(name, index if name in ("", "index") else iter([40, 41, 42, 43])) for name in names]
        lines = [",".join(map(str, row)) for row in zip(*values, strict=True)]
        (tmp_path / f"{word}.csv").write_text("\n".join([",".join(names), *lines]) + "\n")
    split = SPLIT_IN_PARTS if "paper" in columns else tmp_path / "split.csv"  # whose lines say what they are
    graph = write_graph(EDGES, tmp_path / "g", features=FEATURES, labels=tmp_path / "label.csv", split=split)
    assert graph.classes == ["x", "y", "z"]
    assert graph.labels is not None and graph.labels.tolist() == [0, 1, 0, 2]
    assert graph.splits.tolist() == [[0, 1, 2, 0]]


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ("node,a,b\n0,x,y\n1,x,x\n", ["x", "y"]),
        (",node,a,b\n0,0,x,y\n1,1,x,x\n", ["x", "y"]),
        ("node,label,label\n0,x,y\n1,x,x\n", ["x", "y"]),
        ("node label\n0 x y\n1 x\n", ["x", "y"]),
        ("0 x y\n1 x\n", ["x", "y"]),
        ("0,x,y\n1,x\n", ["x", "y"]),
    ],
)
def test_several_classes_of_a_node_in_a_file(text: str, classes: list[str], tmp_path: Path) -> None:
    (tmp_path / "labels").write_text(text)
    graph = write_graph(EDGES, tmp_path / "g", features=FEATURES, labels=tmp_path / "labels")
    assert graph.classes == classes
    assert graph.labels is not None and graph.labels.tolist() == [[1, 1], [1, 0], [0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        (
            "labels",
            "node,age,class,group\n0,1,x,y\n",
            "has the columns age, class, group beside the nodes; name one of",
        ),
        ("labels", "id,node,label\n0,1,x\n", "has columns id and node, which may both name the nodes"),
        ("labels", "node,label,age\n0,x,1\n1,Sport, Games,3\n", "line 3: expected `node label`"),
        ("split", "node,split,age\n0,train\n", "line 2: expected `node train|val|test`"),
        ("split", "id train\n0 train\n", "node 'id' is not there"),
    ],
)
def test_first_lines_that_say_too_much(option: str, text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(text)
    with pytest.raises(DataError) as found:
        write_graph(EDGES, tmp_path / "g", features=FEATURES, **{option: tmp_path / "f"})
    assert said in str(found.value) and "\n" not in str(found.value)


@pytest.mark.parametrize("order", [[0, 1, 2, 3], ORDER])
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_a_column_without_a_name_in_front_is_an_index(order: list[int], suffix: str, tmp_path: Path) -> None:
    mark = "," if suffix == "csv" else "\t"
    path, beside = tmp_path / f"f.{suffix}", tmp_path / f"g.{suffix}"
    rows = [(node, *FEATURES[node]) for node in order]
    path.write_text("".join(f"{mark.join(map(str, row))}\n" for row in [("", "a", "b"), *rows]))
    numbered = [(at, *row) for at, row in enumerate(rows)]
    beside.write_text("".join(f"{mark.join(map(str, row))}\n" for row in [("", "node", "a", "b"), *numbered]))
    for features in (path, beside):
        graph = write_graph(EDGES, tmp_path / features.stem, features=features, labels=CLASSES)
        found = by_node(graph)
        assert [found[node][:2] for node in "0123"] == list(zip(FEATURES.tolist(), CLASSES.values(), strict=True))


@pytest.mark.parametrize("model", ["skipgram", "deepwalk", "transe", "bpr", "deepfm", "ga-mlp"])
def test_a_lazy_frame_is_refused_everywhere_alike(model: str) -> None:
    lazy = pytest.importorskip("polars").LazyFrame({"src": [0, 1], "dst": [1, 2]})
    options: dict[str, Any] = {"schema": "criteo"} if model == "deepfm" else {}
    nodes = any2vec.NodeOptions(features=lazy, labels=[0, 1, 1])
    data, more = (EDGES, {"nodes": nodes}) if model == "ga-mlp" else (lazy, options)
    with pytest.raises(InputError, match=r"A LazyFrame has no rows before it is collected; give its \.collect\(\)\."):
        any2vec.fit(model, data, **more)
