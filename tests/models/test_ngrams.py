"""Words made of n-grams: which n-grams, which buckets, the training against its twin, and vectors of words unseen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import any2vec
from any2vec.data.options import TextOptions
from any2vec.data.stream.vocabulary import StreamVocabulary
from any2vec.data.vocab.vocabulary import Keys
from any2vec.encoders import ngrams
from any2vec.encoders.ngrams import NGramEncoder, bounds, start_grams, used_buckets
from any2vec.errors import DataError, FormatError, InputError
from any2vec.evaluate.words.similarity import pairs_of, similarity_of
from any2vec.formats.fasttext import LONGEST_GRAM
from any2vec.kernels.skipgram.skipgram import CHUNK, train_skipgram_block
from any2vec.kernels.skipgram.subwords import MOST_GRAMS, Subwords, list_buckets
from any2vec.models.stream.config import StreamNGram
from any2vec.models.stream.ngram import StreamedNGram
from any2vec.models.stream.token_batch import TokenBatch
from any2vec.tasks.stream.models import budget
from cli_runs import done, refused, run
from kernel_cases import Problem, negative, random_problem
from naive.skipgram import subwords as naive
from naive.skipgram.skipgram import train_skipgram_block as naive_block

WORDS = ["a", "of", "tree", "trees", "naïve", "東京", "antidisestablishment", "über", "x" * 30, "tre", "reed", "deer"]


def buckets_of(word: str, shortest: int, longest: int, buckets: int) -> list[int]:
    keys = Keys.of([word])
    found = np.empty(MOST_GRAMS, np.int32)
    size = list_buckets(np.array(keys.arena), 0, len(keys.arena), shortest, longest, buckets, found)
    return [int(bucket) for bucket in found[:size]]


def test_the_hash_is_fnv_1a() -> None:
    """Published values of the 32 bits: of "a" and of "foobar"."""
    assert buckets_of("a", 1, 1, 2**31 - 1) == [0xE40C292C % (2**31 - 1)]
    assert buckets_of("foobar", 6, 6, 2**31 - 1)[1] == 0xBF9CF968 % (2**31 - 1)


@settings(max_examples=60, deadline=None)
@given(
    word=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20),
    shortest=st.integers(1, 4),
    more=st.integers(0, 4),
)
def test_buckets_equal_the_twins(word: str, shortest: int, more: int) -> None:
    wanted = [naive.bucket(gram, 5003) for gram in naive.grams(word, shortest, shortest + more)]
    assert buckets_of(word, shortest, shortest + more, 5003) == wanted


@pytest.mark.parametrize("word", WORDS)
def test_buckets_are_those_of_gensim(word: str) -> None:
    fasttext = pytest.importorskip("gensim.models.fasttext")
    assert buckets_of(word, 3, 6, 2_000_000) == list(fasttext.ft_ngram_hashes(word, 3, 6, 2_000_000))


def test_a_word_of_any_length_has_so_many_ngrams_at_most() -> None:
    assert len(buckets_of("long" * 5000, 3, 6, 1000)) == MOST_GRAMS


def gram_problem(num_tokens: int, seed: int, **options: Any) -> tuple[Problem, Subwords, list[list[int]]]:
    """A random stream over WORDS, some of whose buckets have no row."""
    problem = random_problem(seed, num_tokens=num_tokens, num_rows=len(WORDS), dim=5, **options)
    keys, buckets = Keys.of(WORDS), 97
    row_H = np.full(buckets, -1, np.int32)
    used = used_buckets(keys, 3, 5, buckets)[::2]
    row_H[used] = np.arange(len(used))
    gram_GD = np.random.default_rng(seed).normal(0, 0.5, (len(used), 5)).astype(np.float32)
    subwords = Subwords(np.array(keys.arena), *bounds(keys), row_H, gram_GD, 3, 5)
    return problem, subwords, naive.rows_of(WORDS, row_H, 3, 5)


@pytest.mark.parametrize("num_tokens", [300, 2 * CHUNK + 700])
def test_training_equals_its_twin(num_tokens: int) -> None:
    """Over several chunks, behind each of which the n-grams move."""
    problem, subwords, rows = gram_problem(num_tokens, seed=num_tokens, lr_from=0.01, lr_to=0.001, loss_every=3)
    problem.keep[::3] = 1 << 31
    slow, slow_grams = problem.as_float64(), subwords.gram_GD.astype(np.float64)
    first = problem.copy()
    result = negative(train_skipgram_block, 16, 12, None, subwords)(problem)
    rate = (slow.lr_to - slow.lr_from) / (slow.stop - slow.start)

    def chunk(start: int, stop: int, composed: np.ndarray) -> Any:
        at = [slow.lr_from + rate * (place - slow.start) for place in (start, stop)]
        part = Problem(**(vars(slow) | {
            "start": start, "stop": stop, "input_rows": composed, "lr_from": at[0], "lr_to": at[1],
        }))  # fmt: skip
        return negative(naive_block, 16, 12)(part)

    wanted = naive.train_chunks(slow, rows, slow_grams, CHUNK, chunk)
    assert result == pytest.approx(wanted, rel=1e-4)
    assert np.abs(problem.input_rows - first.input_rows).max() > 0.01
    np.testing.assert_allclose(problem.input_rows, slow.input_rows, rtol=1e-3, atol=2e-3)
    np.testing.assert_allclose(problem.output_rows, slow.output_rows, rtol=1e-3, atol=2e-3)
    np.testing.assert_allclose(subwords.gram_GD, slow_grams, rtol=1e-3, atol=4e-3)


def test_a_block_has_as_many_distinct_words_as_a_long_walk() -> None:
    """17,000 rows, each once, without n-grams: they train as the words alone do."""
    words = 17_000
    alone = random_problem(1, num_tokens=words, num_rows=words, dim=4, window=2)
    alone.tokens[:] = np.random.default_rng(2).permutation(words)
    made = alone.copy()
    keys = Keys.of([str(word) for word in range(words)])
    nothing = Subwords(
        np.array(keys.arena), *bounds(keys), np.full(7, -1, np.int32), np.zeros((0, 4), np.float32), 3, 5
    )
    plain = negative(train_skipgram_block, words, 12)(alone)
    assert negative(train_skipgram_block, words, 12, None, nothing)(made) == pytest.approx(plain, rel=1e-6)
    np.testing.assert_allclose(made.input_rows, alone.input_rows, atol=1e-5)


def test_rows_stay_finite_at_any_rate() -> None:
    problem, subwords, _ = gram_problem(400, seed=3, lr_from=1e4, lr_to=1e4)
    for _ in range(3):
        negative(train_skipgram_block, 16, 12, None, subwords)(problem)
    for table in (problem.input_rows, problem.output_rows, subwords.gram_GD):
        assert np.isfinite(table).all()


def encoder(dim: int = 4, buckets: int = 1009) -> NGramEncoder:
    used = used_buckets(Keys.of(WORDS), 3, 6, buckets)
    rows = np.random.default_rng(1).normal(size=(len(used), dim)).astype(np.float32)
    return NGramEncoder(used, rows, min_n=3, max_n=6, buckets=buckets, seed=7, spread=0.5)


def test_an_unseen_word_is_the_mean_of_the_known_ngrams() -> None:
    made = encoder()
    row_of = {int(bucket): row for row, bucket in enumerate(made.bucket_G)}
    for word in ("treeless", "Treedeer", "overused"):
        found = [row_of.get(naive.bucket(gram, 1009)) for gram in naive.grams(word, 3, 6)]
        known = [row for row in found if row is not None]
        assert known
        np.testing.assert_allclose(made.make([word])[0], made.gram_GD[known].mean(axis=0), rtol=1e-5, atol=1e-6)


def test_a_word_without_a_known_ngram_has_the_mean_of_where_they_would_have_started() -> None:
    made = NGramEncoder(
        np.zeros(0, np.int64), np.zeros((0, 6), np.float32), min_n=3, max_n=4, buckets=50, seed=7, spread=0.5
    )
    own = np.array([naive.bucket(gram, 50) for gram in naive.grams("qz", 3, 4)])
    np.testing.assert_allclose(made.make(["qz"])[0], start_grams(own, 6, 7, 0.5).mean(axis=0), rtol=1e-5)


def test_more_buckets_than_a_table_holds_are_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [*WORDS, "treeless", "qzqz", "Treedeer", "ab"]
    expected = encoder().make(words)
    monkeypatch.setattr(ngrams, "_TABLE", 1008)
    searched = encoder()
    np.testing.assert_allclose(searched.make(words), expected, rtol=1e-6)
    assert searched._row_H is None
    searched.min_n = 5
    with pytest.raises(InputError, match=r"'ab' .* no n-gram of 5 to 6 characters"):
        searched.make(["treeless", "ab"])


def test_words_of_which_nothing_can_be_made_are_refused() -> None:
    with pytest.raises(InputError, match="empty word"):
        encoder().make(["tree", ""])
    long = NGramEncoder(
        np.zeros(0, np.int64), np.zeros((0, 6), np.float32), min_n=5, max_n=6, buckets=50, seed=7, spread=0.5
    )
    with pytest.raises(InputError, match=r"'ab' .* no n-gram of 5 to 6 characters"):
        long.make(["enough", "ab"])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words of two worlds that never meet, each with endings of its own; few enough for a second of training."""
    random = np.random.default_rng(5)
    stems = [["bal", "dem", "fir", "gos"], ["kul", "mav", "nop", "ruz"]]
    endings = [["ador", "imex"], ["ubent", "yosal"]]
    lines = []
    for _ in range(3000):
        world = random.integers(2)
        words = [random.choice(stems[world]) + random.choice(endings[world]) for _ in range(8)]
        lines.append(" ".join(word for word in words if word not in ("balador", "kulubent")))
    folder = tmp_path_factory.mktemp("ngram")
    (folder / "text.txt").write_text("\n".join(lines))
    model = any2vec.NGram(dim=16, buckets=20_000, subsample=0)
    any2vec.fit(model, folder / "text.txt", out=folder / "out", epochs=3, threads=1, cache_dir=folder / "cache")
    return folder


def test_a_word_too_short_for_an_ngram_loses_only_itself(trained: Path) -> None:
    embeddings = any2vec.Embeddings.load(trained / "out")
    with pytest.warns(UserWarning, match="2 of 4 keys are not among the .*, and have no neighbors: '', 7"):
        found = embeddings.nearest(["", "baladorish", 7, "baladorish"], 2)
    assert [len(one) for one in found] == [0, 2, 0, 2]
    assert [key for key, _ in found[1]] == [key for key, _ in embeddings.nearest("baladorish", 2)]
    with pytest.raises(InputError, match="empty word"):
        embeddings.nearest(["", ""])
    said = run("nearest", str(trained / "out"), "", "baladorish", "-k", "2")
    assert said.exit_code == 2 and "nearest to baladorish" in said.stdout and "empty word" in said.stderr


def test_a_word_never_seen_is_near_its_kin(trained: Path) -> None:
    embeddings = any2vec.Embeddings.load(trained / "out")
    assert "balador" not in embeddings and "kulubent" not in embeddings
    for unseen, kin in (("balador", "balimex"), ("kulubent", "kulyosal")):
        near = [key for key, _ in embeddings.nearest(unseen, 3)]
        assert kin in near
        np.testing.assert_array_equal(embeddings[[unseen, kin]], np.stack([embeddings[unseen], embeddings[kin]]))
    assert len(embeddings.most_similar(["balador", "demador"], ["firador"], k=2)) == 2


def test_vectors_are_means_of_own_rows_and_ngrams(trained: Path) -> None:
    """What training keeps is enough to tell the own row of each word: the mean of the rest is the encoder's."""
    embeddings = any2vec.Embeddings.load(trained / "out")
    assert isinstance(embeddings.encoder, NGramEncoder)
    words = list(embeddings.keys)
    rest = embeddings.encoder.make(words)
    cosines = (
        (rest * embeddings.vectors).sum(1) / np.linalg.norm(rest, axis=1) / np.linalg.norm(embeddings.vectors, axis=1)
    )
    assert cosines.min() > 0.9


def test_the_encoder_survives_saving_and_only_the_folder_keeps_it(trained: Path, tmp_path: Path) -> None:
    embeddings = any2vec.Embeddings.load(trained / "out")
    embeddings.save(tmp_path / "copy")
    again = any2vec.Embeddings.load(tmp_path / "copy")
    np.testing.assert_array_equal(again["baladorish"], embeddings["baladorish"])
    for name in ("a.vec", "a.safetensors", "a.parquet"):
        embeddings.save(tmp_path / name)
        bare = any2vec.Embeddings.load(tmp_path / name)
        assert bare.encoder is None and "maker" not in bare.meta
        with pytest.raises(InputError, match="not among"):
            _ = bare["baladorish"]


@pytest.mark.parametrize("harm", ["gone", "cut", "kind", "options", "dim"])
def test_a_damaged_encoder_is_a_format_error(trained: Path, tmp_path: Path, harm: str) -> None:
    any2vec.Embeddings.load(trained / "out").save(tmp_path / "copy")
    file, meta = tmp_path / "copy" / "ngrams.safetensors", tmp_path / "copy" / "meta.json"
    about = json.loads(meta.read_text())
    if harm == "gone":
        file.unlink()
    elif harm == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    elif harm == "kind":
        about["maker"]["kind"] = "oracle"
    elif harm == "options":
        about["maker"]["buckets"] = 3
    else:
        model = encoder(dim=3)
        any2vec.Embeddings(["a"], np.ones((1, 3)), encoder=model).save(tmp_path / "other")
        file.write_bytes((tmp_path / "other" / "ngrams.safetensors").read_bytes())
        about["maker"]["buckets"] = 1009
    meta.write_text(json.dumps(about))
    with pytest.raises(FormatError):
        any2vec.Embeddings.load(tmp_path / "copy")


@pytest.mark.parametrize(
    "options",
    [
        {"max_n": 2**70}, {"max_n": LONGEST_GRAM + 1}, {"min_n": 2**70, "max_n": 2**71}, {"min_n": -1}, {"buckets": 0},
        {"buckets": 2**70}, {"buckets": True}, {"seed": 2**70}, {"spread": "nan"}, {"spread": 10**400},
        {"spread": 1e300}, {"spread": float("nan")}, {"spread": -1}, {"spread": [1]},
    ],
)  # fmt: skip
def test_options_of_an_encoder_have_limits(tmp_path: Path, options: dict[str, Any]) -> None:
    empty = NGramEncoder(
        np.zeros(0, np.int64), np.zeros((0, 2), np.float32), min_n=3, max_n=4, buckets=50, seed=7, spread=0.5
    )
    any2vec.Embeddings(["a"], np.ones((1, 2)), encoder=empty).save(tmp_path / "run")
    meta = tmp_path / "run" / "meta.json"
    about = json.loads(meta.read_text())
    about["maker"] |= options
    meta.write_text(json.dumps(about))
    with pytest.raises(FormatError, match="subword encoder of this folder is damaged: ValueError"):
        any2vec.Embeddings.load(tmp_path / "run")


def test_an_encoder_of_no_numbers_makes_no_vectors() -> None:
    damaged = encoder()
    damaged.gram_GD[:] = np.nan
    found = any2vec.Embeddings(["a"], np.ones((1, 4)), encoder=damaged)
    with pytest.raises(FormatError, match="its arrays are damaged"):
        found.nearest("treeless")


def test_similarity_counts_made_words_as_covered(trained: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.txt"
    pairs.write_text("balador\tbalimex\t9\nkulubent\tbalimex\t1\nkulyosal\tkulmex\t7\ndemador\tdemimex\t8\n")
    command = ("evaluate", str(trained / "out"), "--task", "similarity", "--data", str(pairs), "--json")
    found = json.loads(done(*command))
    assert (found["pairs"], found["covered"], found["made"]) == (4, 4, 3)
    seen = json.loads(done(*command, "--seen-only"))
    assert (seen["covered"], seen["made"]) == (1, 0)


def test_similarity_leaves_out_words_too_short_for_an_ngram(trained: Path, tmp_path: Path) -> None:
    model = any2vec.NGram(dim=8, buckets=500, min_n=5, max_n=6)
    pairs = [("balador", "balimex", 9), ("ab", "balimex", 1), ("kulyosal", "ab", 1), ("demador", "kulyosal", 2)]
    run = any2vec.fit(model, trained / "text.txt", epochs=1, threads=1, cache_dir=trained / "cache", validate=pairs)
    (found,) = similarity_of(run.embeddings, pairs_of(pairs)).sets
    (alone,) = similarity_of(run.embeddings, pairs_of([pairs[0], pairs[3]])).sets
    assert (found.pairs, found.covered, found.made) == (4, 2, 1) and found.spearman == alone.spearman
    assert run.summary["validation"][0]["spearman"] == found.spearman
    for others in ([], [("ab", "cd", 1), ("ab", "balimex", 2)]):
        with pytest.raises(DataError, match=r"there are none|fewer than two have vectors"):
            any2vec.fit(model, [["balador", "ab"]] * 9, epochs=1, threads=1, validate=others)


def test_resumed_training_has_the_same_bits(trained: Path, tmp_path: Path) -> None:
    """A run that is stopped behind its first epoch and goes on; one thread."""
    model = any2vec.NGram(dim=8, buckets=500, subsample=1e-2)
    common: dict[str, Any] = {"epochs": 3, "threads": 1, "cache_dir": trained / "cache"}
    whole = any2vec.fit(model, trained / "text.txt", **common)

    class EnoughError(Exception):
        pass

    def stop(epoch: int, _: Any) -> None:
        if epoch == 2:
            raise EnoughError

    with pytest.raises(EnoughError):
        any2vec.fit(model, trained / "text.txt", out=tmp_path / "run", on_epoch=stop, checkpoint_seconds=1e-6, **common)
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()
    resumed = any2vec.fit(model, trained / "text.txt", out=tmp_path / "run", resume=True, **common)
    np.testing.assert_array_equal(resumed.embeddings.vectors, whole.embeddings.vectors)
    np.testing.assert_array_equal(resumed.embeddings["unseen"], whole.embeddings["unseen"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_n": 0}, "min_n must be a whole number from 1"),
        ({"min_n": 5, "max_n": 4}, "max_n must be a whole number from 5"),
        ({"buckets": 0}, "buckets must be"),
        ({"objective": "hierarchical"}, "leave out objective and kernel"),
        ({"kernel": "classic"}, "leave out objective and kernel"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        any2vec.NGram(**options)


@pytest.mark.parametrize("argument", [{"hosts": 2}, {"storage": "1GB"}, {"init": "vectors"}])
def test_arguments_that_do_not_go_with_it_are_refused(argument: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="leave"):
        any2vec.fit(any2vec.NGram(), ["a b"], **argument)


# ---- over a stream


def stream_batch(trained: StreamedNGram, number: int = 0) -> tuple[TokenBatch, StreamVocabulary]:
    """Tokens of some lines behind a first reading of them, in which their words came to have rows."""
    vocabulary = StreamVocabulary(max_types=256, max_rows=64, min_count=1, half_life=None, text=TextOptions())
    text = b"the small tree and the tea\nteas of small trees\n" * 40
    for _ in range(2):
        tokens = vocabulary.encode(
            np.frombuffer(text, np.uint8), np.flatnonzero(np.frombuffer(text, np.uint8) == 10) + 1
        )
    tokens.flags.writeable = False
    keep = np.full(64, 2**32, np.uint64)
    born = vocabulary.born() if number == 0 else np.zeros(0, np.int64)
    prepared = trained.prepare(tokens, vocabulary)
    batch = TokenBatch(
        number, tokens, number * 5000, born, *vocabulary.noise(), keep, 1.0, len(tokens), 0, (), prepared
    )
    return batch, vocabulary


def streamed() -> StreamedNGram:
    return StreamedNGram(StreamNGram(dim=6, buckets=300), max_rows=64, threads=1, seed=3)


def test_a_streams_vectors_are_means_and_its_encoder_knows_the_ngrams_met() -> None:
    trained = streamed()
    batch, vocabulary = stream_batch(trained)
    assert trained.run(batch.work).loss_examples > 0
    embeddings = trained.embeddings(vocabulary)
    assert isinstance(embeddings.encoder, NGramEncoder)
    words = ["the", "small", "tree", "and", "tea", "teas", "of", "trees"]
    assert sorted(embeddings.keys) == sorted(words)
    met = {naive.bucket(gram, 300) for word in words for gram in naive.grams(word, 3, 6)}
    assert set(embeddings.encoder.bucket_G.tolist()) == met
    state = trained.state_dict()
    row = vocabulary.row_of("trees")
    own = [state["grams"][naive.bucket(gram, 300)] for gram in naive.grams("trees", 3, 6)]
    np.testing.assert_allclose(embeddings["trees"], np.mean([state["input"][row], *own], axis=0), rtol=1e-4, atol=1e-6)
    assert np.isfinite(embeddings["treetop"]).all()


def test_a_stream_goes_on_from_its_state_with_the_same_bits() -> None:
    whole, half = streamed(), streamed()
    for trained in (whole, half):
        trained.run(stream_batch(trained)[0].work)
    again = streamed()
    again.load_state_dict({name: array.copy() for name, array in half.state_dict().items()})
    for trained in (whole, again):
        trained.run(stream_batch(trained, 1)[0].work)
    for name, array in whole.state_dict().items():
        np.testing.assert_array_equal(array, again.state_dict()[name], err_msg=name)


def test_the_command_streams_words_made_of_ngrams(trained: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(((trained / "text.txt").read_text() + "\n") * 8)
    reported = json.loads(done(
        "stream", "ngram", str(text), "--out", str(tmp_path / "out"), "--dim", "16",
        "--buckets", "5000", "--subsample", "0", "--batch-bytes", "16384", "--dedup", "none", "--threads", "1",
        "--quiet", "--json",
    ))  # fmt: skip
    assert reported["vocabulary"] == 14
    near = json.loads(done("nearest", str(tmp_path / "out"), "balador", "-k", "3", "--json"))
    assert not near["seen"] and "balimex" in [one["key"] for one in near["neighbors"]]


def test_the_budget_holds_the_buckets(tmp_path: Path) -> None:
    plenty = budget(StreamNGram(), 2 << 30).max_rows
    assert plenty > budget(StreamNGram(buckets=1_000_000), 2 << 30).max_rows
    (tmp_path / "text.txt").write_text("a b\n")
    reported = refused(
        "stream", "ngram", str(tmp_path / "text.txt"), "--memory", "100MB", "--out", str(tmp_path / "out")
    )
    enough = int(reported.split("give it ")[1].split("MB")[0])
    assert budget(StreamNGram(), enough * 1_000_000).max_rows >= 1000
