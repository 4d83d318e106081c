"""Vectors of documents: SIF by its definition, by scikit-learn's singular vectors, as a transformer, by the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import any2vec as a2v
from any2vec.data.options import TextOptions
from any2vec.embeddings import Embeddings
from any2vec.encoders.ngrams import NGramEncoder
from any2vec.errors import FormatError, InputError
from any2vec.estimators.documents import _batches
from cli_runs import done, refused

WORDS = [f"w{n}" for n in range(30)]


def words(dim: int = 6) -> Embeddings:
    rng = np.random.default_rng(2)
    return Embeddings(WORDS, rng.standard_normal((30, dim)) + 1, counts=1000 // (np.arange(30) + 1))


def texts(num: int = 200, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    found = [" ".join(rng.choice([*WORDS, "unknown"], rng.integers(1, 20))) for _ in range(num)]
    return [*found, "", "unknown"]


def weighted(embeddings: Embeddings, documents: list[str], counts: np.ndarray, a: float) -> np.ndarray:
    """Algorithm 1, lines 1 to 3."""
    share = dict(zip(WORDS, counts / counts.sum(), strict=True))
    out = np.zeros((len(documents), embeddings.dim))
    for row, document in enumerate(documents):
        known = [word for word in document.split() if word in share]
        for word in known:
            out[row] += a / (a + share[word]) * embeddings[word] / len(known)
    return out


@pytest.mark.parametrize("components", [0, 1, 2])
def test_sif_is_its_definition(components: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("any2vec.estimators.documents._BATCH_WORDS", 50)
    embeddings, documents = words(), texts()
    expected = weighted(embeddings, documents, embeddings.counts, 0.01)
    encoder = a2v.SIFEncoder(embeddings, a=0.01, components=components)
    found = encoder.fit_transform(documents)
    if components:
        svd = TruncatedSVD(n_components=components, algorithm="arpack", random_state=0).fit(expected)
        expected -= expected @ svd.components_.T @ svd.components_
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert found.dtype == np.float32 and not found[-2:].any()
    np.testing.assert_array_equal(encoder.transform(documents[5:9]), found[5:9])  # later texts: the same component


def test_batches_end_behind_so_many_words_or_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("any2vec.estimators.documents._BATCH_WORDS", 4)
    monkeypatch.setattr("any2vec.estimators.documents._BATCH_DOCUMENTS", 3)
    found = _batches(["a b c", "d e", "f", "", "g", "h i j k l", "m"], TextOptions())
    assert [[len(words) for words in batch] for batch in found] == [[3, 2], [1, 0, 1], [5], [1]]


def test_without_counts_the_texts_are_counted() -> None:
    embeddings, documents = words(), texts()
    count = np.array([sum(document.split().count(word) for document in documents) for word in WORDS])
    plain = Embeddings(WORDS, embeddings.vectors)
    encoder = a2v.SIFEncoder(plain, components=0).fit(documents)
    np.testing.assert_allclose(encoder.transform(documents), weighted(plain, documents, count, 1e-3), atol=1e-5)


@pytest.mark.parametrize("counts", [None, np.arange(30) + 1])
def test_documents_of_an_iterator_are_those_of_a_list(counts: np.ndarray | None) -> None:
    embeddings, documents = Embeddings(WORDS, words().vectors, counts=counts), texts()
    expected = a2v.SIFEncoder(embeddings).fit(documents).transform(documents)
    np.testing.assert_array_equal(a2v.SIFEncoder(embeddings).fit(iter(documents)).transform(documents), expected)
    np.testing.assert_array_equal(a2v.SIFEncoder(embeddings).fit_transform(iter(documents)), expected)


def test_words_that_are_made_count_with_weight_one() -> None:
    rng = np.random.default_rng(3)
    grams = rng.standard_normal((50, 6)).astype(np.float32)
    maker = NGramEncoder(np.arange(50), grams, min_n=3, max_n=4, buckets=50, seed=1, spread=0.1)
    embeddings = Embeddings(WORDS, words().vectors, counts=words().counts, encoder=maker)
    encoder = a2v.SIFEncoder(embeddings, components=0).fit(["w1"])
    (found,) = encoder.transform([["w1", "unseen", ""]])
    weight = 1e-3 / (1e-3 + embeddings.counts[1] / embeddings.counts.sum())
    np.testing.assert_allclose(found, (weight * embeddings["w1"] + embeddings["unseen"]) / 2, atol=1e-6)


def test_a_transformer_of_scikit_learn(tmp_path: Path) -> None:
    encoder = a2v.SIFEncoder(words(), a=0.1)
    with pytest.raises(NotFittedError):
        encoder.transform(["w1"])
    again = clone(encoder, safe=False)
    assert again.get_params()["a"] == 0.1
    documents = texts(60)
    labels = ["w0" in document.split() for document in documents]
    model = make_pipeline(a2v.SIFEncoder(words()), LogisticRegression(C=1000)).fit(documents, labels)
    assert model.score(documents, labels) > 0.7
    assert list(encoder.fit(documents).get_feature_names_out())[-1] == "sifencoder5"
    np.testing.assert_array_equal(
        encoder.transform(pa.table({"text": documents})), encoder.transform([one.split() for one in documents])
    )
    encoder.save(tmp_path / "sif")
    loaded = a2v.SIFEncoder.load(tmp_path / "sif", words())
    np.testing.assert_array_equal(loaded.transform(documents), encoder.transform(documents))
    with pytest.raises(InputError, match="made with"):
        a2v.SIFEncoder.load(tmp_path / "sif", words(dim=5))
    (tmp_path / "other").write_bytes(b"x" * 100)
    with pytest.raises(FormatError):
        a2v.SIFEncoder.load(tmp_path / "other", words())


@pytest.mark.parametrize(
    "parameters, said", [({"a": 0}, "a must"), ({"components": 7}, "components"), ({"embeddings": 3}, "embeddings")]
)
def test_illegal_parameters_speak_up(parameters: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        a2v.SIFEncoder(**({"embeddings": words()} | parameters)).fit(["w1"])
    with pytest.raises(InputError, match="There are no documents"):
        a2v.SIFEncoder(words()).fit([])
    with pytest.raises(InputError, match="list of strings"):
        a2v.SIFEncoder(words()).fit("w1")


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words().save("words")
    documents = texts()
    Path("text.txt").write_text("\n".join(documents) + "\n")
    found = json.loads(done("embed", "words", "text.txt", "--out", "a.npy", "--save", "sif", "--json"))
    assert found["documents"] == len(documents)
    expected = a2v.SIFEncoder(words()).fit_transform(documents)
    np.testing.assert_allclose(np.load("a.npy"), expected, atol=1e-6)
    pq.write_table(pa.table({"id": range(5), "note": documents[:5]}), "t.parquet")
    Path("t.jsonl").write_text("\n".join(json.dumps({"note": one}) for one in documents[:4]) + "\n{}\n")
    done("embed", "words", "t.parquet", "t.jsonl", "--column", "note", "--out", "b", "--encoder", "sif")
    later = Embeddings.load("b")
    assert list(later.keys) == list(range(10)) and not later[9].any()
    np.testing.assert_allclose(later[:5], expected[:5], atol=1e-6)
    asked = ("embed", "words", "text.txt", "--out", "c")
    assert "leave it out" in refused(*asked, "--encoder", "sif", "--save", "d")
    assert "no column" in refused(*asked, "--column", "x")
    assert "exists" in refused(*asked[:-1], "a.npy")
    assert not Path("c").exists()
    Path("text.txt").write_text("unheard of\n\nw1 w2\n")
    assert json.loads(done(*asked, "--json"))["without_known_words"] == 2
    Path("text.txt").write_text("unheard of\n\n")
    assert "No word of these documents has a vector" in refused(*asked[:-1], "d")
    assert not Path("d").exists()


def test_options_of_reading_hold() -> None:
    text = TextOptions(lowercase=True, token_pattern=r"\w+")
    encoder = a2v.SIFEncoder(words(), components=0, text=text).fit(["W1, w2!"])
    np.testing.assert_array_equal(encoder.transform(["W1, w2!"]), encoder.transform(["w1 w2"]))


@pytest.mark.parametrize(
    ("name", "value"), [("components", 1e38), ("components", np.nan), ("weights", 2.0), ("weights", np.nan)]
)
def test_damaged_numbers_of_an_encoder_are_refused(tmp_path: Path, name: str, value: float) -> None:
    embeddings = Embeddings(["a", "b"], [[1.0, 0.5], [2.0, -1.0]], counts=[2, 1])
    made = a2v.SIFEncoder(embeddings).fit(["a b", "b b"])
    made.save(tmp_path / "sound")
    assert np.array_equal(a2v.SIFEncoder.load(tmp_path / "sound", embeddings).transform(["a"]), made.transform(["a"]))
    array = getattr(made, f"{name}_")
    array.flat[0] = value
    made.save(tmp_path / "damaged")
    with pytest.raises(FormatError, match="damaged: components are of length 1, weights between 0 and 1"):
        a2v.SIFEncoder.load(tmp_path / "damaged", embeddings)
