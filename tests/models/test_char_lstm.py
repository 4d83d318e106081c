"""The character model: each word read once says and learns the same as each occurrence read alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the character model needs PyTorch")
import torch

import any2vec
from any2vec.data.options import TextOptions
from any2vec.data.stream.vocabulary import StreamVocabulary
from any2vec.data.vocab.vocabulary import Keys
from any2vec.encoders.char_lstm import SHAPES, CharLstmEncoder
from any2vec.encoders.encoder import read_encoder
from any2vec.encoders.spelling import END, MOST_BYTES, READINGS, backwards, prefixes, spell, tries
from any2vec.errors import FormatError, InputError
from any2vec.models.stream.char_generator import CharGenerator
from any2vec.models.stream.char_lstm import StreamedCharLstm, step_loss
from any2vec.models.stream.char_step import BatchWords, make_step
from any2vec.models.stream.config import StreamCharLstm
from any2vec.models.stream.token_batch import TokenBatch
from any2vec.tasks.stream.options import StreamOptions
from any2vec.tasks.stream.stream import stream
from cli_runs import done, refused
from naive.skipgram.char_lstm import Reader, loss_of_pairs

WORDS = ["tree", "trees", "treeless", "a", "naïve", "東京", "東", "tea", "x" * 100, "teas", "less"]


def weights_of(net: CharGenerator) -> dict[str, torch.Tensor]:
    return dict(net.named_parameters())


def tries_of(words: list[str], reading: str) -> list[Any]:
    return tries(*spell(Keys.of(words)), reading)


def test_words_are_their_bytes_and_an_end() -> None:
    symbols, sizes = spell(Keys.of(["ab", "東", "y" * (MOST_BYTES + 9)]))
    assert symbols[0, :4].tolist() == [97, 98, END, -1]
    assert symbols[1, :4].tolist() == [*"東".encode(), END]
    assert symbols[2].tolist() == [ord("y")] * MOST_BYTES + [END]
    assert sizes.tolist() == [3, 4, MOST_BYTES + 1]
    reverse = backwards(symbols, sizes)
    assert reverse[0, :4].tolist() == [98, 97, END, -1]
    assert reverse[1, :4].tolist() == [*"東".encode()[::-1], END]
    assert reverse[2].tolist() == symbols[2].tolist()


@pytest.mark.parametrize("seed", range(3))
def test_every_distinct_prefix_is_there_once(seed: int) -> None:
    """Followed back from its end, each word spells itself; and no prefix stands there twice."""
    random = np.random.default_rng(seed)
    words = sorted({"".join(random.choice(list("abc"), random.integers(1, 7))) for _ in range(60)})
    random.shuffle(words)
    levels = prefixes(*spell(Keys.of(words)))
    for length, level in enumerate(levels, start=1):
        prefixes_here = {(*word.encode(), END)[:length] for word in words if len(word) + 1 >= length}
        assert len(level.symbol_N) == len(prefixes_here)
        for node, word in zip(level.whole_W, level.word_W, strict=True):
            spelled, at = [], int(node)
            for depth in range(length - 1, -1, -1):
                spelled.append(int(levels[depth].symbol_N[at]))
                at = int(levels[depth - 1].inner_P[levels[depth].parent_N[at]]) if depth else 0
            assert bytes(spelled[:0:-1]).decode() == words[word] and spelled[0] == END
    assert sorted(int(word) for level in levels for word in level.word_W) == list(range(len(words)))


@pytest.mark.parametrize("reading", READINGS)
def test_words_that_begin_alike_for_as_far_as_they_are_read_have_one_vector(reading: str) -> None:
    words = ["ab", "=" * (MOST_BYTES + 6), "b", "=" * (MOST_BYTES + 15), "=" * MOST_BYTES, "=" * (MOST_BYTES - 1)]
    for level in prefixes(*spell(Keys.of(words))):
        assert len(level.symbol_N) == len({*zip(level.symbol_N.tolist(), level.parent_N.tolist(), strict=True)})
    net = CharGenerator(7, 12, 5, reading, seed=3)
    with torch.no_grad():
        vectors = net(tries_of(words, reading), len(words)).numpy()
    np.testing.assert_allclose(vectors, net.encoder().make(words), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(vectors[[1, 3]], vectors[[4, 4]])
    assert len(np.unique(vectors, axis=0)) == 4


def test_a_stream_with_rules_of_a_text_is_trained() -> None:
    """Two words of more bytes than are read, in one batch."""
    lines = ["tea is in the pot", "=" * 70, "=" * 79, "the cup is for tea"] * 50
    result = stream(
        StreamCharLstm(dim=8, hidden=8, byte_dim=4, batch_pairs=64, device="cpu", subsample=0), [lines],
        options=StreamOptions(min_count=2, threads=1), storage="50MB",
    )  # fmt: skip
    assert result is not None and result.summary["words"] == 600
    np.testing.assert_array_equal(result.embeddings["=" * 70], result.embeddings["=" * 79])


@pytest.mark.parametrize("reading", READINGS)
def test_vectors_equal_those_of_torchs_own_lstm_and_of_the_encoder(reading: str) -> None:
    net = CharGenerator(7, 12, 5, reading, seed=3)
    with torch.no_grad():
        ours = net(tries_of(WORDS, reading), len(WORDS)).numpy()
        theirs = torch.stack([Reader(weights_of(net), reading).read(word) for word in WORDS]).numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(net.encoder().make(WORDS), theirs, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(net.encoder().make(WORDS[3:4])[0], theirs[3], rtol=1e-4, atol=1e-6)


def words_of_batch(negatives: np.ndarray) -> BatchWords:
    row_R = np.arange(len(WORDS), dtype=np.int64)
    return BatchWords(row_R, *spell(Keys.of(WORDS)), np.array([0, 1]), negatives[None])


@pytest.mark.parametrize(("seed", "reading"), [(0, "forward"), (1, "backward"), (2, "both")])
def test_loss_and_gradients_equal_those_of_every_occurrence_read_alone(seed: int, reading: str) -> None:
    random = np.random.default_rng(seed)
    pair_M2 = random.integers(0, len(WORDS), (25, 2)).astype(np.int32)
    negative_S, share = random.integers(0, len(WORDS), 8), 0.625
    center, context = (CharGenerator(6, 9, 4, reading, seed=number) for number in (1, 2))
    step = make_step(pair_M2, negative_S, share)
    words = words_of_batch(negative_S)
    loss = step_loss(
        center(words.tries(step.row_X, reading), len(step.row_X)),
        context(words.tries(step.row_Y, reading), len(step.row_Y)),
        step,
    )
    loss.backward()
    readers = Reader(weights_of(center), reading), Reader(weights_of(context), reading)
    pairs = [(WORDS[other], WORDS[own]) for other, own in pair_M2]
    plain = loss_of_pairs(*readers, pairs, [WORDS[row] for row in negative_S], share)
    plain.backward()
    assert float(loss.detach()) == pytest.approx(float(plain.detach()), rel=1e-5)
    for net, reader in zip((center, context), readers, strict=True):
        for name, gradient in reader.gradients().items():
            ours, theirs = getattr(net, name).grad.numpy(), gradient.numpy()
            assert np.abs(theirs).max() > 1e-6
            np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-5)


def test_gradients_of_the_cell_equal_differences() -> None:
    from any2vec.models.stream.char_generator import _Cell

    draws = torch.Generator().manual_seed(4)
    gates, before = (
        torch.randn(shape, generator=draws, dtype=torch.float64, requires_grad=True) for shape in ((3, 8), (3, 2))
    )
    assert torch.autograd.gradcheck(_Cell.apply, (gates, before))


def vocabulary_of(lines: list[str]) -> tuple[StreamVocabulary, np.ndarray]:
    """A vocabulary that has read these lines, and the tokens of the last reading."""
    vocabulary = StreamVocabulary(max_types=256, max_rows=100, min_count=1, half_life=None, text=TextOptions())
    text = "".join(line + "\n" for line in lines).encode()
    stop_N = np.cumsum([len(line.encode()) + 1 for line in lines]).astype(np.int64)
    for _ in range(2):
        tokens = vocabulary.encode(np.frombuffer(text, np.uint8), stop_N)
    tokens.flags.writeable = False
    return vocabulary, tokens


LINES = ["the small tree and the tea", "teas of trees", "a treeless less small tea tree"] * 6


def learner(**options: Any) -> StreamedCharLstm:
    given: dict[str, Any] = {"dim": 6, "hidden": 8, "byte_dim": 4, "batch_pairs": 60, "shared_negatives": 8}
    given |= {"subsample": 0, "device": "cpu"} | options
    return StreamedCharLstm(StreamCharLstm(**given), max_rows=100, threads=1, seed=5)


def batch_of(trained: StreamedCharLstm, number: int = 0) -> TokenBatch:
    vocabulary, tokens = vocabulary_of(LINES)
    keep = np.full(100, 2**32, np.uint64)
    prepared = trained.prepare(tokens, vocabulary)
    return TokenBatch(
        number,
        tokens,
        number * 5000,
        np.zeros(0, np.int64),
        *vocabulary.noise(),
        keep,
        1.0,
        len(tokens),
        0,
        (),
        prepared,
    )


def test_a_batch_is_cut_into_steps_and_the_loss_falls() -> None:
    trained = learner(learning_rate=0.02)
    batch = batch_of(trained)
    assert len(batch.prepared.negatives) > 3
    losses = []
    for number in range(12):
        stats = trained.run(replace(batch, number=number, offset=5000 * number).work)
        losses.append(stats.loss_sum / stats.loss_examples)
    assert stats.items == np.count_nonzero(batch.tokens >= 0)
    assert losses[-1] < 0.8 * losses[0]
    trained.close()


def test_it_goes_on_from_its_state_with_the_same_bits() -> None:
    whole, half = learner(), learner()
    batch = batch_of(whole)
    for trained in (whole, half):
        trained.run(batch.work)
    again = learner()
    again.load_state_dict({name: array.copy() for name, array in half.state_dict().items()})
    for trained in (whole, again):
        trained.run(replace(batch, number=1, offset=5000).work)
    for name, array in whole.state_dict().items():
        np.testing.assert_array_equal(array, again.state_dict()[name], err_msg=name)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_learns_the_same_but_for_rounding() -> None:
    found = {}
    for device in ("cpu", "cuda"):
        trained = learner(device=device)
        trained.run(batch_of(trained).work)
        found[device] = trained.state_dict()
    for name, array in found["cpu"].items():
        np.testing.assert_allclose(found["cuda"][name], array, rtol=1e-3, atol=1e-4, err_msg=name)


def test_words_without_a_row_are_nothing_to_train() -> None:
    trained = learner()
    vocabulary, _ = vocabulary_of(LINES)
    tokens = np.array([100, 100, -1], np.int32)
    tokens.flags.writeable = False
    assert trained.prepare(tokens, vocabulary) is None
    assert trained.run(TokenBatch(0, tokens, 0).work).loss_examples == 0


def test_negatives_whose_word_has_gone_are_replaced() -> None:
    trained = learner()
    vocabulary, tokens = vocabulary_of(LINES)
    gone = int(np.setdiff1d(np.arange(100), vocabulary.rows())[0])

    class Stale:
        def __getattr__(self, name: str) -> Any:
            return getattr(vocabulary, name)

        def noise(self) -> tuple[np.ndarray, np.ndarray]:
            return np.zeros(100, np.uint32), np.full(100, gone, np.int32)

    assert gone not in trained.prepare(tokens, Stale()).row_R  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def streamed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("char-lstm")
    (folder / "text.txt").write_text("\n".join(LINES * 4) + "\n")
    done(
        "stream", "char-lstm", str(folder / "text.txt"), "--out", str(folder / "out"), "--dim", "8",
        "--reading", "both", "--hidden", "16", "--byte-dim", "8", "--batch-pairs", "500", "--subsample", "0",
        "--threads", "1", "--quiet",
    )  # fmt: skip
    return folder


def test_the_command_leaves_what_makes_any_word(streamed: Path) -> None:
    embeddings = any2vec.Embeddings.load(streamed / "out")
    assert isinstance(embeddings.encoder, CharLstmEncoder) and len(embeddings) > 5
    words = list(embeddings.keys)
    np.testing.assert_allclose(embeddings.encoder.make(words), embeddings.vectors, rtol=1e-4, atol=1e-5)
    reported = json.loads(done("nearest", str(streamed / "out"), "unheard", "tree", "--json"))
    assert [one["seen"] for one in reported["queries"]] == [False, True]
    assert all(len(one["neighbors"]) >= 5 for one in reported["queries"])
    embeddings.save(streamed / "copy")
    np.testing.assert_array_equal(any2vec.Embeddings.load(streamed / "copy")["unheard"], embeddings["unheard"])


def test_weights_that_do_not_fit_are_a_format_error(streamed: Path, tmp_path: Path) -> None:
    embeddings = any2vec.Embeddings.load(streamed / "out")
    assert embeddings.encoder is not None
    arrays = dict(embeddings.encoder.arrays())
    for name, wrong in (
        ("bias", arrays["bias"][:-4]),
        ("symbols", arrays["symbols"][:50]),
        ("output", arrays["output"][:3]),
    ):
        broken = any2vec.Embeddings(
            list(embeddings.keys), embeddings.vectors, encoder=CharLstmEncoder("both", arrays | {name: wrong})
        )
        broken.save(tmp_path / name)
        with pytest.raises(FormatError, match="damaged"):
            any2vec.Embeddings.load(tmp_path / name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reading": "sideways"}, "reading must be"),
        ({"hidden": 0}, "hidden must be"),
        ({"batch_pairs": 0}, "batch_pairs must be"),
        ({"device": "tpu"}, "device must be"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        StreamCharLstm(**options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a b\n")
    reported = refused(
        "stream", "char-lstm", str(tmp_path / "text.txt"), "--device", "cuda", "--out", str(tmp_path / "out")
    )
    assert "finds no GPU" in reported and not (tmp_path / "out").exists()


def test_arrays_without_axes_are_damage() -> None:
    arrays = {name: np.zeros((), np.float32) for name in SHAPES}
    with pytest.raises(FormatError, match="damaged: IndexError"):
        read_encoder({"kind": "char-lstm", "reading": "forward"}, arrays, 3)


def test_options_of_one_model_are_refused_by_another(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a b\n")
    for model, flag, owner in (("skipgram", "--hidden", "char-lstm"), ("skipgram", "--min-n", "ngram")):
        reported = refused("stream", model, str(tmp_path / "text.txt"), flag, "5", "--out", str(tmp_path / "out"))
        assert f"{model} has no {flag}: it is for {owner}; leave it out" in reported
