"""fastText's binary: what it wrote is read, what we write it reads, words of the training and others."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec as a2v
from any2vec.data.vocab.vocabulary import Keys
from any2vec.embeddings import Embeddings
from any2vec.encoders.ngrams import NGramEncoder, used_buckets
from any2vec.errors import FormatError
from any2vec.formats.fasttext import LONGEST_GRAM, _buckets
from any2vec.kernels.skipgram.subwords import Subwords, compose_all
from cli_runs import done

WORDS = ["</s>", "the", "naïve", "нора", "a", "unbelievable", "naïvely"]
OTHERS = ["naïver", "xyzzy", "believable", "но"]
BUCKETS, DIM, SHORTEST, LONGEST = 97, 5, 2, 4


def grams(word: str) -> list[str]:
    """By the definition: runs of characters of <word>, but its marks alone."""
    marked = f"<{word}>"
    sizes = range(SHORTEST, LONGEST + 1)
    return [marked[at : at + size] for at in range(len(marked)) for size in sizes if at + size <= len(marked)]


def bucket(gram: str) -> int:
    code = 2166136261
    for byte in gram.encode():
        code = ((code ^ (byte | 0xFFFFFF00 if byte >= 128 else byte)) * 16777619) & 0xFFFFFFFF
    return code % BUCKETS


def model_bytes(loss: int = 2, model: int = 2, labels: int = 0, quantized: bytes = b"\0") -> tuple[bytes, Any, Any]:
    """A file as fastText writes it, its rows of words and of buckets."""
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((len(WORDS) + BUCKETS, DIM)).astype("<f4")
    head = struct.pack("<2i12id", 793712314, 12, DIM, 5, 5, 1, 5, 1, loss, model, BUCKETS, SHORTEST, LONGEST, 100, 1e-4)
    head += struct.pack("<3iqq", len(WORDS), len(WORDS) - labels, labels, 1000, -1)
    for rank, word in enumerate(WORDS):
        head += word.encode() + b"\0" + struct.pack("<qb", 100 - rank, 0)
    output = np.arange(len(WORDS) * DIM, dtype="<f4").reshape(-1, DIM)
    matrices = [quantized + struct.pack("<2q", *matrix.shape) + matrix.tobytes() for matrix in (rows, output)]
    return head + b"".join(matrices), rows[: len(WORDS)], rows[len(WORDS) :]


def test_a_file_of_fasttext_is_read(tmp_path: Path) -> None:
    data, own, gram_rows = model_bytes()
    (tmp_path / "cc.bin").write_bytes(data)
    found = Embeddings.load(tmp_path / "cc.bin")
    assert list(found.keys) == WORDS and found.counts.tolist() == [100 - rank for rank in range(len(WORDS))]
    for word, row in zip(WORDS, own, strict=True):
        rows = [row, *([] if word == "</s>" else [gram_rows[bucket(gram)] for gram in grams(word)])]
        np.testing.assert_allclose(found[word], np.mean(rows, axis=0), atol=1e-6)
    for word in OTHERS:
        np.testing.assert_allclose(
            found[word], np.mean([gram_rows[bucket(one)] for one in grams(word)], axis=0), atol=1e-6
        )
    np.testing.assert_array_equal(found.output, np.arange(len(WORDS) * DIM).reshape(-1, DIM))
    found.save(tmp_path / "folder")
    np.testing.assert_array_equal(Embeddings.load(tmp_path / "folder")["naïver"], found["naïver"])
    done("export", str(tmp_path / "cc.bin"), "--out", str(tmp_path / "again.bin"), "--format", "fasttext")
    again = Embeddings.load(tmp_path / "again.bin")
    for word in [*WORDS, *OTHERS]:
        np.testing.assert_allclose(again[word], found[word], atol=1e-5)


def test_all_ngrams_of_a_long_word_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    word = "нора-x" * 70  # 1,258 n-grams: more than training takes of a word
    monkeypatch.setattr("test_fasttext.WORDS", [*WORDS[:3], word])
    data, own, gram_rows = model_bytes()
    (tmp_path / "v.bin").write_bytes(data)
    found = Embeddings.load(tmp_path / "v.bin")
    expected = np.mean([own[3], *(gram_rows[bucket(gram)] for gram in grams(word))], axis=0, dtype=np.float64)
    np.testing.assert_allclose(found.vectors[3], expected, atol=1e-6)
    found.save(tmp_path / "again.bin", format="fasttext")
    np.testing.assert_allclose(Embeddings.load(tmp_path / "again.bin").vectors, found.vectors, atol=1e-5)


def test_ngrams_of_a_long_word_are_not_held_together() -> None:
    options = {"min_n": 1, "max_n": LONGEST_GRAM, "buckets": BUCKETS}
    sizes = [len(found) for found in _buckets(b"x" * 2000, options)]
    assert len(sizes) == 2002 and max(sizes) == LONGEST_GRAM
    assert sum(sizes) == sum(2002 - size + 1 for size in range(1, LONGEST_GRAM + 1)) - 2  # but the marks alone


@pytest.mark.parametrize("sizes", [(1, 2**31 - 1), (2, LONGEST_GRAM + 1), (4, 3)])
def test_ngrams_of_illegal_sizes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: Any) -> None:
    monkeypatch.setattr("test_fasttext.SHORTEST", sizes[0])
    monkeypatch.setattr("test_fasttext.LONGEST", sizes[1])
    (tmp_path / "v.bin").write_bytes(model_bytes()[0])
    with pytest.raises(FormatError, match="characters are not legal; the longest are 100"):
        Embeddings.load(tmp_path / "v.bin")


@pytest.mark.parametrize("sizes", [(0, 0), (3, 0)])
def test_a_model_without_ngrams_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: Any) -> None:
    monkeypatch.setattr("test_fasttext.SHORTEST", sizes[0])
    monkeypatch.setattr("test_fasttext.LONGEST", sizes[1])
    data, own, _ = model_bytes()
    (tmp_path / "v.bin").write_bytes(data)
    found = Embeddings.load(tmp_path / "v.bin")
    assert found.encoder is None
    np.testing.assert_array_equal(found.vectors, own)


def test_a_model_by_hierarchical_softmax_has_no_output_rows(tmp_path: Path) -> None:
    (tmp_path / "v.bin").write_bytes(model_bytes(loss=1)[0])
    assert Embeddings.load(tmp_path / "v.bin").output is None


@pytest.mark.parametrize(
    "change, said", [({"quantized": b"\1"}, "quantized"), ({"model": 3}, "classifier"), ({"labels": 1}, "classifier")]
)
def test_what_is_not_read_says_so(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    (tmp_path / "v.bin").write_bytes(model_bytes(**change)[0])
    with pytest.raises(FormatError, match=said):
        Embeddings.load(tmp_path / "v.bin")
    (tmp_path / "v.bin").write_bytes(model_bytes()[0][:4] + b"\x0d" + model_bytes()[0][5:])
    with pytest.raises(FormatError, match="version 12"):
        Embeddings.load(tmp_path / "v.bin")


def trained() -> Embeddings:
    """As a run of n-grams leaves it: rows for the buckets alone that its words have."""
    rng = np.random.default_rng(7)
    keys = Keys.of(WORDS[1:])
    buckets = 2000
    bucket_G = used_buckets(keys, SHORTEST, LONGEST, buckets)
    gram_GD = rng.standard_normal((len(bucket_G), DIM)).astype(np.float32)
    row_H = np.full(buckets, -1, np.int32)
    row_H[bucket_G] = np.arange(len(bucket_G))
    begin, end = keys.offsets[:-1].copy(), keys.offsets[1:].copy()
    subwords = Subwords(np.array(keys.arena), begin, end, row_H, gram_GD, SHORTEST, LONGEST)
    vectors = np.empty((len(keys), DIM), np.float32)
    own = rng.standard_normal(vectors.shape).astype(np.float32)
    compose_all(subwords, own, np.arange(len(keys), dtype=np.int32), vectors)
    encoder = NGramEncoder(bucket_G, gram_GD, min_n=SHORTEST, max_n=LONGEST, buckets=buckets, seed=1, spread=0.1)
    counts = np.arange(len(keys), 0, -1)
    return Embeddings(WORDS[1:], vectors, vectors * 2, counts, encoder=encoder)


def assert_alike(vector: np.ndarray, other: np.ndarray) -> None:
    """The same direction: fastText's mean counts buckets that training has not met, ours does not."""
    assert vector @ other / np.linalg.norm(vector) / np.linalg.norm(other) == pytest.approx(1, abs=1e-5)


def test_gensim_reads_what_we_write_and_we_what_it_writes(tmp_path: Path) -> None:
    fasttext = pytest.importorskip("gensim.models.fasttext", reason="compares with gensim")
    ours = trained()
    ours.save(tmp_path / "ours.fasttext.bin")
    theirs = fasttext.load_facebook_model(tmp_path / "ours.fasttext.bin")
    for word in WORDS[1:]:
        np.testing.assert_allclose(theirs.wv[word], ours[word], atol=1e-5)
    assert_alike(theirs.wv["naïver"], ours["naïver"])
    text = [["the", "naïve", "нора"], ["the", "unbelievable", "a"]] * 30
    peer = fasttext.FastText(text, vector_size=8, min_count=1, min_n=3, max_n=5, bucket=500, epochs=2)
    fasttext.save_facebook_model(peer, str(tmp_path / "theirs.bin"))
    found = Embeddings.load(tmp_path / "theirs.bin")
    for word in ["the", "naïve", "нора", "naïver", "thereby"]:
        np.testing.assert_allclose(found[word], peer.wv[word], atol=1e-5)


def test_fasttext_reads_what_we_write(tmp_path: Path) -> None:
    fasttext = pytest.importorskip("fasttext", reason="compares with fastText")
    ours = trained()
    ours.save(tmp_path / "ours.bin", format="fasttext")
    theirs = fasttext.load_model(str(tmp_path / "ours.bin"))
    for word in WORDS[1:]:
        np.testing.assert_allclose(theirs.get_word_vector(word), ours[word], atol=1e-5)
    assert_alike(theirs.get_word_vector("naïver"), ours["naïver"])


def test_vectors_without_grams_are_written_as_they_are(tmp_path: Path) -> None:
    Embeddings(["b", "a"], [[1.0, 2.0], [3.0, 4.0]]).save(tmp_path / "v.fasttext.bin")
    found = Embeddings.load(tmp_path / "v.fasttext.bin")
    assert found.encoder is None and found["a"].tolist() == [3, 4]


def test_a_run_of_ngrams_goes_out_and_comes_back(tmp_path: Path) -> None:
    text = ["the naïve fox jumped over an unbelievable dog"] * 50
    model = a2v.NGram(dim=8, min_count=1, buckets=300)
    made = a2v.fit(model, text, epochs=1, threads=1).embeddings
    made.save(tmp_path / "v.bin", format="fasttext")
    found = Embeddings.load(tmp_path / "v.bin")
    np.testing.assert_allclose(found.vectors, made.vectors, atol=1e-5)
    np.testing.assert_allclose(found.output, made.output)
    assert_alike(found["naïvely"], made["naïvely"])
