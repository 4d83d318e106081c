"""What a stream trains once more: sentences by their losses, each counted as much less as it is drawn more often."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
from any2vec.data.stream.vocabulary import StreamVocabulary
from any2vec.errors import InputError
from any2vec.kernels.common.alias import build_alias
from any2vec.kernels.common.rng import PURPOSE_NEGATIVE, PURPOSE_REPLAY, PURPOSE_TOKEN, stream_key
from any2vec.models.stream.config import StreamCharLstm, StreamSkipGram
from any2vec.models.stream.skipgram import StreamedSkipGram
from any2vec.models.stream.token_batch import Sentences, TokenBatch
from any2vec.sampling.replay import ReplayBuffer
from any2vec.sources.base.inflow import Inflow
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.opening import open_sources
from any2vec.tasks.stream.batches import Limits, TokenBatches
from any2vec.tasks.stream.hosts.work_queue import QueueLearner
from any2vec.tasks.stream.options import StreamOptions
from any2vec.tasks.stream.replay import Replay
from any2vec.tasks.stream.stream import StreamResult, stream
from cli_runs import refused
from naive.common import replay as naive
from naive.skipgram.skipgram import train_skipgram_block as naive_block

OPTIONS: dict[str, Any] = {"threads": 1, "linger": 0, "batch_bytes": 2000, "min_count": 2, "checkpoint_seconds": 1e-9}
BY_LOSS: dict[str, Any] = {"replay": 1.0, "replay_words": 3000, "replay_alpha": 0.6, "replay_beta": 0.4}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    words = np.random.default_rng(1).zipf(1.4, (2500, 6)) % 300
    path.write_text("".join(" ".join(f"w{word}" for word in row) + "\n" for row in words))
    return path


def train(text: Path, out: Path | None = None, hosts: Any = None, sync: Any = None, **options: Any) -> StreamResult:
    found = stream(
        StreamSkipGram(dim=8), str(text), out=out, options=StreamOptions(**OPTIONS | options), storage="20MB",
        hosts=hosts, sync=sync,
    )  # fmt: skip
    assert found is not None
    return found


def test_sentences_are_trained_one_by_one_at_their_own_rates() -> None:
    config, draw = StreamSkipGram(dim=6, window=3, learning_rate=0.05), np.random.default_rng(1)
    learner = StreamedSkipGram(config, max_rows=300, threads=1, seed=5)
    tokens = draw.integers(0, 300, 60).astype(np.int32)
    tokens[[1, 20, 21, 40, 59]] = -1  # one of a word, one of none
    tokens.flags.writeable = False
    noise, keep_V = build_alias(draw.random(300) + 0.1), np.full(300, 2**32 * 3 // 4, np.uint64)
    sentences = Sentences(np.array([1.0, 0.3, 0.5, 1.0, 0.01]), np.full(5, np.nan))
    batch = TokenBatch(0, tokens, 7, np.arange(300), *noise, keep_V, 0.75, 55, 0, sentences=sentences)
    learner.start(batch.born)
    learner.output_VD[:] = draw.normal(size=(300, 6)) / 3
    keys = stream_key(5, PURPOSE_TOKEN), stream_key(5, PURPOSE_NEGATIVE)
    expected = learner.input_VD.astype(np.float64), learner.output_VD.astype(np.float64)
    marks = {name: np.zeros(300, np.uint8) for name in learner.tables}
    learner.trace(batch, marks)
    fresh = {name: table.copy() for name, table in learner.tables.items()}
    learner.start = lambda born: None  # type: ignore[method-assign]  (they are there)
    found = learner.run(batch.work)
    losses, spans = [], [(0, 1), (2, 20), (21, 21), (22, 40), (41, 59)]
    for (start, stop), weight in zip(spans, sentences.weight_N, strict=True):
        rate = learner.learning_rate(0) * weight
        _, loss, examples = naive_block(
            tokens, start, stop, 21, keep_V, *keys, *noise, *expected, 3, 5, rate, 0.0, 1, 21, 12
        )
        losses.append(loss / examples if examples else -1.0)
    np.testing.assert_allclose(sentences.loss_N, losses, rtol=1e-4)
    assert losses[0] == losses[2] == -1 and min(losses[1], losses[3], losses[4]) > 0.1 and found.loss_examples > 20
    np.testing.assert_allclose(learner.input_VD, expected[0], atol=1e-5)
    np.testing.assert_allclose(learner.output_VD, expected[1], atol=1e-5)
    for name, table in learner.tables.items():
        assert not ((table != fresh[name]).any(axis=1) & (marks[name] == 0)).any(), "hosts would not pull such a row"


def test_losses_decide_what_is_drawn_two_batches_later() -> None:
    vocabulary, rng = StreamVocabulary(max_types=100, max_rows=50, min_count=1), np.random.default_rng(2)
    replay = Replay(ReplayBuffer(max_tokens=200, alpha=0.7, beta=0.5, seed=3), 2.0)
    twin = naive.ReplayBuffer(200, 0.7, 0.5, int(stream_key(3, PURPOSE_REPLAY)))
    owed: list[tuple[list[int], list[float]]] = []
    for batch in range(12):
        text = b"".join(b" ".join(b"w%d" % word for word in rng.integers(0, 40, 6)) + b"\n" for _ in range(4))
        text_B = np.frombuffer(text, np.uint8)
        tokens = vocabulary.encode(text_B, np.flatnonzero(text_B == 10) + 1)
        if batch >= 2:
            twin.learn(*owed[batch - 2])
        expected, numbers, weights = twin.draw(8, vocabulary.birth_V.tolist())
        twin.put(tokens.tolist(), vocabulary.births)
        if batch == 5:  # it stops, and goes on
            state = replay.state_dict()
            replay = Replay(ReplayBuffer(max_tokens=200, alpha=0.7, beta=0.5, seed=3), 2.0)
            replay.load_state_dict(state)
        drawn, sentences = replay.exchange(tokens, vocabulary, batch)
        assert drawn.tolist() == expected and sentences is not None
        np.testing.assert_allclose(sentences.weight_N, weights)
        losses = rng.exponential(size=len(numbers)) ** 3
        sentences.loss_N[:] = np.where(losses < 0.01, -1, losses)  # a few had no pair, and keep their priority
        known = np.flatnonzero(losses >= 0.01)
        owed.append(([numbers[n] for n in known], losses[known].tolist()))
    assert len({*twin.priority.values()}) > 5, "or nothing was learned"


@pytest.mark.parametrize("replay", [0.0, 1.0])
def test_words_that_have_lost_their_rows_are_trained_as_none(replay: float) -> None:
    """Whether within the batch that they stand in, or before they are replayed."""
    vocabulary, trained = StreamVocabulary(max_types=40, max_rows=8, min_count=1, rest=1000), []
    numbers = np.random.default_rng(4).zipf(1.3, (400, 6)) % 60

    def prepare(tokens: np.ndarray, vocabulary: StreamVocabulary) -> None:
        row_R = np.unique(tokens[(tokens >= 0) & (tokens < 8)])
        trained.append(bool(np.isin(row_R, vocabulary.rows()).all()))

    lines = [" ".join(f"w{number}" for number in row) for row in numbers]
    buffer = ReplayBuffer(max_tokens=500)
    with Inflow(open_sources([lines], SourceOptions())) as inflow:
        batches = TokenBatches(
            inflow, None, vocabulary, subsample=0.0, batch_bytes=300, linger=0, limits=Limits(), keeps_ids=False,
            prepare=prepare, replay=Replay(buffer, replay) if replay else None,
        )  # fmt: skip
        replayed = [work.payload.is_replayed for work in batches if not work.payload.is_idle]
    assert len(trained) == len(replayed) > 20 and any(replayed) == bool(replay)
    assert all(trained)


def test_a_run_by_losses_goes_on_to_the_same_bits(text: Path, tmp_path: Path) -> None:
    alike = train(text, replay=1.0, replay_words=3000)
    whole = train(text, tmp_path / "whole", **BY_LOSS)
    train(text, tmp_path / "parts", **BY_LOSS, steps=5)
    parts = train(text, tmp_path / "parts", **BY_LOSS, resume=True)
    np.testing.assert_array_equal(parts.embeddings.vectors, whole.embeddings.vectors)
    assert whole.summary["words"] == alike.summary["words"] and whole.summary["checkpoints"] > 1
    assert not np.array_equal(whole.embeddings.vectors, alike.embeddings.vectors)
    with pytest.raises(InputError, match="replay_alpha"):
        train(text, tmp_path / "parts", **BY_LOSS | {"replay_alpha": 0.5}, resume=True)


@pytest.mark.parametrize(("hosts", "servers", "sync"), [(1, 1, "sync"), (2, 0, "async"), (2, 0, "sync")])
def test_hosts_report_the_losses_of_what_they_train_again(
    text: Path, hosts: int, servers: int, sync: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, learned, learn = train(text, **BY_LOSS), [], ReplayBuffer.learn

    def watched(self: ReplayBuffer, number_N: np.ndarray, loss_N: np.ndarray) -> None:
        learned.append(loss_N.copy())
        learn(self, number_N, loss_N)

    monkeypatch.setattr(ReplayBuffer, "learn", watched)
    found = train(text, hosts=any2vec.HostOptions(logical_hosts=hosts, servers=servers), sync=sync, **BY_LOSS)
    assert found.summary["words"] == plain.summary["words"]
    assert sum(found.summary["batches_of_hosts"].values()) >= 2 * found.summary["steps"] - 1
    assert found.summary["loss"] < plain.summary["loss"] + 0.25
    assert len(learned) >= found.summary["steps"] // 2 and 0.5 < np.concatenate(learned).mean() < 5


@pytest.mark.parametrize("trainers", [2, 3, 4])
def test_hosts_in_step_that_replay_rest_on_the_way(
    text: Path, trainers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch has nothing to replay, and yet rounds end behind a replay."""
    rests, settled = [], QueueLearner.is_settled

    def watched(self: QueueLearner, work: Any) -> bool:
        rests.append(work.payload.is_settled and settled(self, work))
        return rests[-1]

    monkeypatch.setattr(QueueLearner, "is_settled", watched)
    monkeypatch.setattr("any2vec.train.monitor.Interval.is_due_behind", lambda self, items: True)
    hosts = any2vec.HostOptions(logical_hosts=trainers)
    found = train(text, tmp_path / "run", hosts, "sync", replay=1.0)
    assert sum(rests) >= found.summary["steps"] // trainers - 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"replay_words": 3000}, "replay_words is of replay, and nothing is replayed"),
        ({"replay_alpha": 0.5}, "replay_alpha is of replay, and nothing is replayed"),
        ({"replay": 1.0, "replay_beta": 0.5}, "all are drawn alike"),
        ({"replay": 1.0, "replay_alpha": 1.5}, "replay_alpha must be"),
    ],
)
def test_options_of_replay_that_would_do_nothing_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        StreamOptions(**options)


def test_a_model_without_losses_of_lines_is_refused(text: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with pytest.raises(InputError, match="char-lstm measures no loss of single lines"):
        stream(StreamCharLstm(dim=8), str(text), options=StreamOptions(replay=1.0, replay_alpha=0.5))
    said = refused(
        "stream", "char-lstm", str(text), "--out", str(tmp_path / "out"), "--replay", "1", "--replay-alpha", "0.5"
    )
    assert "replayed alike" in said and not (tmp_path / "out").exists()
