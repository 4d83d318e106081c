"""A stream over hosts: the same bits as from one process, options that make no sense, a rank that is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
from any2vec.encoders.ngrams import start_grams
from any2vec.errors import InputError
from any2vec.models.stream.config import StreamCharLstm, StreamNGram, StreamSkipGram
from any2vec.models.words.config import NGram
from any2vec.sync.options.streams import StreamAgreement
from any2vec.tasks.stream.hosts.wire import stats_of, stats_parts
from any2vec.tasks.stream.models import check_model
from any2vec.tasks.stream.options import StreamOptions
from any2vec.tasks.stream.stream import stream
from any2vec.types import Stats
from spreads import agreed

MODEL = StreamSkipGram(dim=8, window=3, subsample=0.0, learning_rate=0.075, rate_words=1_000_000)
OPTIONS: dict[str, Any] = {
    "threads": 1, "linger": 0, "batch_bytes": 2000, "min_count": 2, "checkpoint_seconds": 1e-9, "snapshot_seconds": 1e6,
}  # fmt: skip


def text_file(path: Path, lines: int, seed: int) -> Path:
    """Lines of words, of which new ones come all the time."""
    rng = np.random.default_rng(seed)
    words = rng.zipf(1.4, (lines, 9)) % 5000
    path.write_text("".join(" ".join(f"w{word}" for word in row) + "\n" for row in words))
    return path


def test_one_trainer_in_step_is_a_single_process_to_the_last_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[Stats] = []

    def noted(part: Any) -> Stats:
        reports.append(stats_of(part))
        return reports[-1]

    monkeypatch.setattr("any2vec.tasks.stream.hosts.work_queue.stats_of", noted)
    file = text_file(tmp_path / "text.txt", 900, 1)
    alone = stream(MODEL, str(file), options=StreamOptions(**OPTIONS), storage="20MB")
    hosts = any2vec.HostOptions(logical_hosts=1, servers=2)
    spread = stream(
        MODEL, str(file), options=StreamOptions(**OPTIONS), hosts=hosts, sync="sync", storage="20MB",
        out=tmp_path / "out",
    )  # fmt: skip
    assert alone is not None and spread is not None
    assert list(spread.embeddings.keys) == list(alone.embeddings.keys)
    assert np.array_equal(spread.embeddings.vectors, alone.embeddings.vectors)
    assert spread.summary["checkpoints"] > 1, "or no rest was tested"
    most = len(reports) * 2.0**-21 / sum(one.loss_examples for one in reports)  # half a step of 2**-20 nats a report
    assert spread.summary["loss"] == pytest.approx(alone.summary["loss"], rel=0, abs=most)
    assert spread.summary["words"] == alone.summary["words"] and spread.summary["servers"] == 2
    assert set(spread.summary["staleness"]) == {"0"}


def test_losses_add_up_alike_whoever_reports_first() -> None:
    """They are added as they come, some at a time."""
    rng = np.random.default_rng(0)
    given = [Stats(1, float(loss), 1) for loss in rng.exponential(3000, 200)]
    found = [stats_of(stats_parts(one)[0]) for one in given]
    total = sum(found, start=Stats(0, 0.0, 0))
    assert total.loss_sum == pytest.approx(sum(one.loss_sum for one in given), abs=200 * 2.0**-21)
    for _ in range(20):
        order, cut = rng.permutation(200), int(rng.integers(1, 199))
        parts = (sum((found[at] for at in some), start=Stats(0, 0.0, 0)) for some in (order[:cut], order[cut:]))
        assert sum(parts, start=Stats(0, 0.0, 0)) == total
    assert np.isnan(stats_of(stats_parts(Stats(1, float("nan"), 1))[0]).loss_sum)


@pytest.mark.parametrize("sync", ["async", "bounded", "dense", "sync"])
def test_several_trainers_learn_what_one_learns(tmp_path: Path, sync: Any) -> None:
    files = [str(text_file(tmp_path / f"{number}.txt", 500, number)) for number in range(2)]
    alone = stream(MODEL, files, options=StreamOptions(**OPTIONS), storage="20MB")
    hosts = any2vec.HostOptions(logical_hosts=2)
    spread = stream(MODEL, files, options=StreamOptions(**OPTIONS), hosts=hosts, sync=sync, storage="20MB")
    assert alone is not None and spread is not None
    assert spread.summary["words"] == alone.summary["words"] and spread.summary["sync"] == sync
    assert sorted(spread.embeddings.keys) == sorted(alone.embeddings.keys)
    # At equal pairs: two batches at the same rows are less than one after the other, but no worse than that.
    assert spread.summary["loss"] < alone.summary["loss"] + 0.25
    batches = sum(spread.summary["batches_of_hosts"].values())
    assert batches >= spread.summary["steps"] and sum(spread.summary["staleness"].values()) == batches


NGRAM = StreamNGram(dim=8, window=3, subsample=0.0, buckets=500, rate_words=1_000_000)


@pytest.mark.parametrize("servers", [0, 2])
def test_one_trainer_of_ngrams_in_step_is_a_single_process_to_the_last_bit(tmp_path: Path, servers: int) -> None:
    """Rows of words are born on their servers, those of n-grams lie there from the start, and both come back."""
    file = text_file(tmp_path / "text.txt", 500, 1)
    alone = stream(NGRAM, str(file), options=StreamOptions(**OPTIONS), storage="20MB")
    hosts = any2vec.HostOptions(logical_hosts=1, servers=servers)
    out = tmp_path / "out"
    run = {"hosts": hosts, "sync": "sync", "storage": "20MB", "out": out}
    stream(NGRAM, str(file), options=StreamOptions(**OPTIONS, steps=3), **run)
    spread = stream(NGRAM, str(file), options=StreamOptions(**OPTIONS, resume=True), **run)
    assert alone is not None and spread is not None and spread.summary["checkpoints"] > 1
    for found, expected in zip(parts_of(spread.embeddings), parts_of(alone.embeddings), strict=True):
        np.testing.assert_array_equal(found, expected)
    there = any2vec.Embeddings.load(out)
    np.testing.assert_array_equal(there["w4999unseen"], alone.embeddings["w4999unseen"])


def parts_of(embeddings: Any) -> list[Any]:
    encoder = embeddings.encoder
    return [list(embeddings.keys), embeddings.vectors, embeddings.output, encoder.bucket_G, encoder.gram_GD]


@pytest.mark.parametrize("sync", ["async", "bounded", "adasum"])
def test_several_trainers_of_ngrams_learn_what_one_learns(tmp_path: Path, sync: Any) -> None:
    """All words here share n-grams, which both trainers move at once: a rule that knows that loses nothing."""
    files = [str(text_file(tmp_path / f"{number}.txt", 500, number)) for number in range(2)]
    alone = stream(NGRAM, files, options=StreamOptions(**OPTIONS), storage="20MB")
    hosts = any2vec.HostOptions(logical_hosts=2, servers=1)
    spread = stream(NGRAM, files, options=StreamOptions(**OPTIONS), hosts=hosts, sync=sync, storage="20MB")
    assert alone is not None and spread is not None
    assert spread.summary["words"] == alone.summary["words"] and np.isfinite(spread.embeddings.vectors).all()
    assert sync != "adasum" or spread.summary["loss"] < alone.summary["loss"] + 0.25
    met = [found.embeddings.encoder.bucket_G for found in (alone, spread)]  # type: ignore[union-attr]
    np.testing.assert_array_equal(*met)
    start = start_grams(met[0], 8, 1, NGram.start_spread / 8)
    assert (spread.embeddings.encoder.gram_GD != start).any(axis=1).mean() > 0.99  # type: ignore[union-attr]


@pytest.mark.parametrize(("sync", "servers"), [("sync", 0), ("sync", 1), ("async", 0), ("async", 2), ("bounded", 0)])
def test_trainers_of_a_dense_model_agree_by_sums_or_servers(tmp_path: Path, sync: str, servers: int) -> None:
    pytest.importorskip("torch")
    model = StreamCharLstm(
        dim=8, hidden=8, byte_dim=4, batch_pairs=256, shared_negatives=16, subsample=0.0, device="cpu"
    )
    options = OPTIONS | {"batch_bytes": 300}
    files = [str(text_file(tmp_path / f"{number}.txt", 150, number)) for number in range(2)]
    alone = stream(model, files, options=StreamOptions(**options), storage="20MB")
    run = {
        "hosts": any2vec.HostOptions(logical_hosts=2, servers=servers), "sync": sync, "storage": "20MB",
        "out": tmp_path / "out",
    }  # fmt: skip
    stream(model, files, options=StreamOptions(**options, steps=4), **run)
    spread = stream(model, files, options=StreamOptions(**options, resume=True), **run)
    assert alone is not None and spread is not None
    assert spread.summary["words"] == alone.summary["words"] and spread.summary["checkpoints"] > 1
    assert spread.summary["loss"] == pytest.approx(alone.summary["loss"], abs=0.4)
    stale = spread.summary["staleness"]
    assert set(stale) == {"0"} if sync == "sync" else sum(stale.values()) > 10


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"logical_hosts": 2, "servers": 1, "sync": "dense"}, "leave servers out"),
        ({"logical_hosts": 2, "staleness_bound": 3}, "is for sync bounded"),
        ({"logical_hosts": 2, "sync": "bounded:1"}, "in --staleness-bound N, got sync 'bounded:1'"),
        ({"logical_hosts": 2, "sync": "sometimes"}, "sync must be"),
        ({"logical_hosts": 2, "credits": 0}, "credits"),
    ],
)
def test_options_that_would_do_nothing_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        agreed(StreamAgreement, **options)


def test_what_cannot_be_spread_is_refused() -> None:
    with pytest.raises(InputError, match="ngram has rows beside them"):
        check_model(StreamNGram(dim=8), StreamAgreement(trainers=2, sync="dense"))
    for sync in ("dense", "adasum"):
        with pytest.raises(InputError, match="must be sync, bounded or async"):
            check_model(StreamCharLstm(dim=8), StreamAgreement(trainers=2, sync=sync))
    with pytest.raises(InputError, match="several hosts"):
        stream(MODEL, ["none"], hosts=any2vec.HostOptions(servers=2))
    with pytest.raises(InputError, match="this one alone"):
        stream(MODEL, [["a line"]], hosts=1)


def test_a_killed_server_costs_no_line_and_no_line_twice(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    files = [text_file(tmp_path / f"{number}.txt", 700, number) for number in range(2)]
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "any2vec", "stream", "skipgram", *map(str, files), "--dim", "8", "--out",
        str(out), "--quiet", "--threads", "1", "--linger", "0.1", "--batch-bytes", "1000", "--min-count", "2",
        "--memory", "20MB", "--checkpoint-seconds", "0.05", "--log-ids", "--dedup", "none", "--rate", "250",
        "--hosts", "1", "--servers", "1", "--restarts", "1",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as job:
        until = time.monotonic() + 240
        while not (out / "checkpoint.safetensors").exists():
            assert job.poll() is None and time.monotonic() < until, "no checkpoint came"
            time.sleep(0.02)
        os.kill(rank_of(job.pid, 2), signal.SIGKILL)
        _, said = job.communicate(timeout=240)
    assert job.returncode == 0 and "Rank 2 was killed by SIGKILL" in said
    assert json.loads((out / "stream.json").read_text())["summary"]["restarts"] == 1
    expected = []
    for number, file in enumerate(files):
        stops = np.cumsum([len(line) for line in file.read_bytes().splitlines(keepends=True)])
        expected += [f"{number} {stop}" for stop in [0, *stops[:-1].tolist()]]
    assert sorted((out / "trained.ids").read_text().splitlines()) == sorted(expected)


def rank_of(parent: int, rank: int) -> int:
    """The process of a rank among a job's children."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat, environment = (entry / "stat").read_text(), (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) == parent and f"RANK={rank}".encode() in environment:
                return int(entry.name)
    raise AssertionError(f"no process of rank {rank}")
