"""What `fit` and `stream` take for options, paths and functions, and what they say of anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
from any2vec.errors import DataError, InputError
from any2vec.options.run import RunOptions

LINES = ["tea cup tea", "saw drill saw"] * 5
DATA: dict[str, Any] = {
    "skipgram": LINES, "deepwalk": [("a", "b"), ("b", "c")], "complex": [("a", "r", "b")], "gcn": [("a", "b")],
    "als": [("u", "x"), ("v", "y")], "fm": {"user": ["a", "b"], "label": [0, 1]},
}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "option", "wrong", "said"),
    [
        ("skipgram", "text", "words", r"text takes TextOptions\(...\) or a dict of its options, got 'words'; such as"),
        ("skipgram", "text", any2vec.GraphOptions(), r"text takes TextOptions"),
        ("skipgram", "text", {"lower": True}, r"text: TextOptions has no option 'lower'; did you mean 'lowercase'\?"),
        ("complex", "triples", "h,r,t", r"triples takes TripleOptions"),
        ("als", "interactions", "user,item", r"interactions takes InteractionOptions"),
        ("gcn", "nodes", "x.npy", r"nodes takes NodeOptions\(...\) .* nodes=NodeOptions\(features=...\)"),
        ("gcn", "nodes", {"feature": 1}, r"nodes: NodeOptions has no option 'feature'; did you mean 'features'"),
        ("deepwalk", "graph", "0,1", r"graph takes GraphOptions"),
        ("fm", "schema", 5, r"schema takes ClickSchema\(...\), a dict of its fields, criteo, avazu or the path"),
        ("fm", "schema", {"labels": "label"}, "no schema key 'labels'; did you mean 'label'"),
        ("skipgram", "reading", "text", r"reading takes a dict of options by their kind \(text, graph\), got 'text'"),
        ("skipgram", "reading", {"text": "x"}, r"text takes TextOptions"),
        ("skipgram", "hosts", {"host": 2}, "hosts: HostOptions has no option 'host'; did you mean 'hosts'"),
        ("skipgram", "init", np.ones((2, 100)), r"init takes Embeddings, .* got ndarray; .* Embeddings\(keys, array\)"),
        ("skipgram", "init", [1], "init takes Embeddings, .* got list"),
        ("skipgram", "out", 5, "out takes the path of a folder, got 5"),
        ("skipgram", "cache_dir", b"x", "cache_dir takes the path of a folder, got b'x'"),
        (
            "skipgram",
            "callbacks",
            print,
            "callbacks takes any2vec.Callback, one or a list, got <built-in function print>",
        ),
        ("skipgram", "callbacks", [print], "callbacks must be instances of any2vec.Callback"),
        ("skipgram", "callback", "x", "callback takes a function, got 'x'"),
        ("skipgram", "on_epoch", "x", "on_epoch takes a function, got 'x'"),
        ("skipgram", "stage", "x", "stage takes a function, got 'x'"),
    ],
)
def test_what_is_no_option_is_refused_in_a_sentence(model: str, option: str, wrong: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        any2vec.fit(model, DATA[model], **{option: wrong})


def test_vectors_of_gensim_are_told_how() -> None:
    vectors = pytest.importorskip("gensim.models").KeyedVectors(4)
    with pytest.raises(InputError, match=r"got KeyedVectors; make them by Embeddings.from_gensim"):
        any2vec.fit("skipgram", LINES, init=vectors)


@pytest.mark.parametrize(
    ("option", "wrong", "said"),
    [
        ("options", {"word": 5}, "options: StreamOptions has no option 'word'; did you mean 'words'"),
        ("options", "words", "options takes StreamOptions"),
        ("reading", "lines", "reading takes SourceOptions"),
        ("text", 5, "text takes TextOptions"),
        ("out", 5, "out takes the path of a folder"),
        ("callback", 5, "callback takes a function"),
    ],
)
def test_of_a_stream_too(option: str, wrong: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        any2vec.stream("skipgram", ["a b"], **{option: wrong})


@pytest.mark.parametrize("model", ["skipgram", "deepwalk", "bpr", "fm", "gcn"])
def test_an_empty_name_is_not_the_current_folder(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if model in ("fm", "gcn"):
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.tsv").write_text("a b c\nb c d\nc d a\n" * 9)
    options: dict[str, Any] = {"schema": {"label": "a", "categorical": ["b"]}} if model == "fm" else {}
    with pytest.raises(DataError, match="'' names no file"):
        any2vec.fit(model, "", epochs=1, threads=1, **options)
    with pytest.raises(InputError, match="out takes the path of a folder, got ''"):
        any2vec.fit(model, "edges.tsv", epochs=1, threads=1, out="", **options)
    assert [path.name for path in tmp_path.iterdir()] == ["edges.tsv"]


def test_a_dict_is_the_options() -> None:
    model, run = any2vec.SkipGram(dim=4, min_count=1), {"epochs": 1, "threads": 1}
    lines = [line.upper() for line in LINES]
    plain = any2vec.fit(model, lines, text=any2vec.TextOptions(lowercase=True), **run).embeddings
    for options in ({"text": {"lowercase": True}}, {"reading": {"text": {"lowercase": True}}}):
        found = any2vec.fit(model, lines, hosts={"logical_hosts": None}, **options, **run).embeddings  # type: ignore[arg-type]
        assert "tea" in found and np.array_equal(found.vectors, plain.vectors)
    limited = any2vec.stream(
        any2vec.StreamSkipGram(dim=4), lines, text={"lowercase": True}, options={"min_count": 1, "threads": 1}
    )
    assert limited is not None and "tea" in limited.embeddings


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (
            RunOptions,
            {"seed": np.int64(3), "epochs": np.uint8(2), "resume": np.bool_(True), "validate": np.float64(0.5)},
        ),
        (any2vec.HostOptions, {"hosts": np.int64(2), "host_timeout": np.float32(0.5)}),
        (any2vec.SyncOptions, {"bits": np.int32(16), "overlap": np.bool_(True)}),
        (any2vec.StreamOptions, {"seed": np.int64(3), "linger": np.float32(0.5), "log_ids": np.bool_(True)}),
        (any2vec.SourceOptions, {"retries": np.int64(3), "rate": np.float32(0.5), "follow": np.bool_(True)}),
        (any2vec.TextOptions, {"lowercase": np.bool_(True)}),
        (any2vec.GraphOptions, {"directed": np.bool_(True), "weighted": np.bool_(False)}),
        (any2vec.TripleOptions, {"header": np.bool_(True)}),
        (any2vec.InteractionOptions, {"lists": np.bool_(True)}),
        (any2vec.NodeOptions, {"linear_probe": np.bool_(True)}),
        (any2vec.ClickSchema, {"categorical": ["a"], "hash_rows": np.int64(9), "label_from": np.float32(0.5)}),
        (any2vec.SkipGram, {"dim": np.int64(8), "subsample": np.float32(0.5)}),
        (any2vec.GCN, {"hidden": np.int64(8), "dropout": np.float32(0.5)}),
    ],
)
def test_numbers_of_numpy_become_pythons(kind: Any, given: dict[str, Any]) -> None:
    made = kind(**given)
    for name, value in given.items():
        if isinstance(value, np.generic):
            assert getattr(made, name) == value.item() and type(getattr(made, name)) is type(value.item())


@pytest.mark.parametrize("model", ["skipgram", "deepwalk", "complex", "als"])
def test_a_run_takes_numbers_of_numpy(model: str, tmp_path: Path) -> None:
    run: dict[str, Any] = {"epochs": np.int64(1), "threads": np.int32(1), "seed": np.int64(3), "hosts": np.int64(1)}
    if model in ("complex", "als"):
        del run["hosts"]
    found = any2vec.fit(model, DATA[model] * 3, out=tmp_path / "out", overwrite=np.bool_(True), **run)  # type: ignore[arg-type]
    assert type(found.summary["seed"]) is int and found.summary["seed"] == 3


def test_a_dict_is_a_schema() -> None:
    pytest.importorskip("torch")
    run = {"epochs": 1, "threads": 1}
    schema = {"label": "label", "categorical": ["user"]}
    clicks = {"user": ["ann", "bob"] * 20, "label": [0, 1] * 20}
    one, other = (any2vec.fit("fm", clicks, schema=given, **run) for given in (schema, any2vec.ClickSchema(**schema)))
    assert np.array_equal(one.embeddings.vectors, other.embeddings.vectors)


def test_one_callback_needs_no_list(tmp_path: Path) -> None:
    class Counted(any2vec.Callback):
        ends = 0

        def on_end(self, summary: Any, error: Any) -> None:
            self.ends += summary is not None

    counted = Counted()
    for callbacks in (counted, [counted], iter([counted])):
        any2vec.fit(any2vec.SkipGram(dim=4, min_count=1), LINES, epochs=1, threads=1, callbacks=callbacks)
    assert counted.ends == 3


def test_a_result_of_a_stream_is_a_start() -> None:
    made = any2vec.stream(any2vec.StreamSkipGram(dim=4), LINES, options={"min_count": 1, "threads": 1})
    again = any2vec.fit(any2vec.SkipGram(dim=4, min_count=1), ["new words new"], init=made, epochs=1, threads=1)
    assert "tea" in again.embeddings and "new" in again.embeddings
