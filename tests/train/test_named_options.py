"""Options that a call has not got are named in one sentence."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path

import pytest

import any2vec
from any2vec.errors import InputError
from any2vec.options.named import ELSEWHERE


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epoch": 3}, r"fit has no option 'epoch'; did you mean 'epochs'\?"),
        ({"thread": 3}, "did you mean 'threads'"),
        ({"lowercase": True}, r"it belongs to options: text=TextOptions\(lowercase=...\)\."),
        ({"use_columns": "a,b"}, r"triples=TripleOptions\(.*\) or interactions=InteractionOptions\(use_columns=...\)"),
        ({"workers": 3}, "fit has no option 'workers'; did you mean 'threads'"),  # gensim's
        ({"vector_size": 3}, r"'vector_size'; it is one of the model: DeepWalk\(dim=...\)"),
        ({"walk_length": 3}, r"'walk_length'; it is one of the model: DeepWalk\(walk_length=...\)"),
        ({"features": 3}, r"'features'; it belongs to options: nodes=NodeOptions\(features=...\)\."),
        ({"feature": 3}, r"'feature'; did you mean nodes=NodeOptions\(features=...\)\?"),
        ({"walk_lenght": 3}, r"'walk_lenght'; did you mean DeepWalk\(walk_length=...\)\?"),
        ({"logical_hosts": 3}, r"hosts=HostOptions\(logical_hosts=...\)"),
        ({"categorical": "a"}, r"schema=ClickSchema\(categorical=...\)"),
        ({"xyzzy": 3}, "'xyzzy'; known are epochs, threads, "),
    ],
)
def test_the_nearest_option_is_named(options: dict[str, int], said: str) -> None:
    for model in ("deepwalk", any2vec.DeepWalk()):
        with pytest.raises(InputError, match=said):
            any2vec.fit(model, [("a", "b")], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["WordEmbedder", "KGEmbedder", "GraphNetworkClassifier", "ItemRecommender"])
def test_of_estimators_too(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} has no parameter 'epoch'; did you mean 'epochs'"):
        getattr(any2vec, name)(epoch=3)
    assert getattr(any2vec, name)(epochs=3).get_params()["epochs"] == 3
    with pytest.raises(InputError, match="SIFEncoder has no parameter 'embedding'; did you mean 'embeddings'"):
        any2vec.SIFEncoder(embedding=None)  # type: ignore[call-arg]


def test_of_a_stream_too() -> None:
    with pytest.raises(InputError, match="stream has no option 'callbacks'; did you mean 'callback'"):
        any2vec.stream("skipgram", ["a b"], callbacks=[])  # type: ignore[call-arg]
    with pytest.raises(InputError, match=r"StreamSkipGram\(dim=...\)"):
        any2vec.stream("skipgram", ["a b"], dim=3)  # type: ignore[call-arg]
    with pytest.raises(InputError, match=r"options=StreamOptions\(seed=...\)"):
        any2vec.stream("skipgram", ["a b"], seed=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("splits", r"write_graph has no option 'splits'; did you mean 'split'\?"),
        ("feature", "did you mean 'features'"),
        ("directed", r"it belongs to options: graph=GraphOptions\(directed=...\)\."),
    ],
)
def test_of_a_written_graph_too(option: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        any2vec.write_graph([("a", "b")], tmp_path / "graph", **{option: None})
    assert not list(tmp_path.iterdir())


def test_a_model_that_is_wrong_too_leaves_the_option_named() -> None:
    with pytest.raises(InputError, match="did you mean 'epochs'"):
        any2vec.fit("skipgrm", "a.txt", epoch=1)  # type: ignore[call-arg]


def test_what_is_missing_stays_a_type_error_and_the_signature_stays() -> None:
    with pytest.raises(TypeError, match="data"):
        any2vec.fit("skipgram")  # type: ignore[call-arg]
    assert list(inspect.signature(any2vec.fit).parameters)[:3] == ["model", "data", "epochs"]


def test_names_elsewhere_stand_for_what_there_is() -> None:
    """None of them is an option of ours, and each stands for one."""
    ours = {*inspect.signature(any2vec.fit).parameters}
    kinds = (any2vec.SkipGram, any2vec.GraphSAGE, any2vec.APPNP, any2vec.BPR)
    ours |= {item.name for kind in kinds for item in dataclasses.fields(kind)}
    assert not ours & ELSEWHERE.keys() and {name for names in ELSEWHERE.values() for name in names} <= ours


@pytest.mark.parametrize(
    ("model", "option", "end"),
    [
        ("als", "alpha", r"ALS\(alpha=\.\.\.\)"),  # its own field comes before what others mean by it
        ("appnp", "alpha", r"APPNP\(teleport=\.\.\.\)"),
        ("als", "regularization", r"ALS\(l2=\.\.\.\)"),
        ("complex", "num_negs_per_pos", r"ComplEx\(num_negatives=\.\.\.\)"),
        ("skipgram", "max_final_vocab", r"SkipGram\(max_vocab=\.\.\.\)"),
        ("skipgram", "alpha", r"SkipGram\(learning_rate=\.\.\.\)"),
        (any2vec.SkipGram, "dim", r"SkipGram\(dim=\.\.\.\)"),
    ],
)
def test_a_models_own_names_come_first(model: object, option: str, end: str) -> None:
    with pytest.raises(any2vec.InputError, match=end):
        any2vec.fit(model, [["a", "b"]], **{option: 1})  # type: ignore[arg-type]


def test_estimators_know_names_elsewhere() -> None:
    with pytest.raises(any2vec.InputError, match="did you mean 'dim'"):
        any2vec.WordEmbedder(vector_size=100)
