"""Pairs that are counted while a stream is trained: those of the text, over resumes and hosts, and the PIP loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
from any2vec.data.io.direct import Spill
from any2vec.embeddings import Embeddings
from any2vec.errors import InputError
from any2vec.evaluate.words.pip import evaluate_pip
from any2vec.evaluate.words.target_options import TargetOptions
from any2vec.models.stream.config import StreamSkipGram
from any2vec.tasks.stream.options import StreamOptions
from any2vec.tasks.stream.stream import StreamResult, stream
from cli_runs import done

MODEL = StreamSkipGram(dim=8, window=3, num_negatives=2, subsample=0.0)
OPTIONS: dict[str, Any] = {
    "threads": 1, "linger": 0, "batch_bytes": 4000, "min_count": 1, "checkpoint_seconds": 0.01, "pair_memory": "1MB"
}  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words of four topics, so that pairs come more often than chance asks for."""
    path, rng = tmp_path_factory.mktemp("text") / "text.txt", np.random.default_rng(1)
    lines = (" ".join(f"w{topic * 20 + word}" for word in rng.integers(0, 20, 9)) for topic in rng.integers(0, 4, 2500))
    path.write_text("".join(line + "\n" for line in lines))
    return path


def train(text: Path, out: Path | None = None, hosts: Any = None, sync: Any = None, **options: Any) -> StreamResult:
    found = stream(
        MODEL, str(text), out=out, options=StreamOptions(**OPTIONS | options), storage="20MB", hosts=hosts, sync=sync
    )
    assert found is not None
    return found


def test_the_loss_is_that_of_the_same_text_in_a_file(text: Path, tmp_path: Path) -> None:
    found = train(text, tmp_path / "out")
    options = TargetOptions(window=3, num_negatives=2, subsample=0, min_count=1)
    with Spill() as spill:
        expected = evaluate_pip(
            Embeddings.load(tmp_path / "out"), text, options=options, references=False,
            cache_dir=tmp_path / "cache", spill=spill,
        )  # fmt: skip
    assert found.summary["pip"] == pytest.approx(expected.relative_scaled, rel=1e-6) and found.summary["pip"] < 0.95
    records = [json.loads(line) for line in (tmp_path / "out" / "progress.jsonl").read_text().splitlines()]
    assert records[-1]["pip"] == found.summary["pip"]


def test_the_loss_is_printed_where_pairs_are_counted(text: Path, tmp_path: Path) -> None:
    command = ["stream", "skipgram", str(text), "--dim", "8", "--min-count", "1", "--memory", "20MB", "--quiet"]
    counted = done(*command, "--out", str(tmp_path / "counted"), "--pair-memory", "1MB")
    (line,) = [line for line in counted.splitlines() if line.startswith("PIP loss")]
    summary = json.loads((tmp_path / "counted" / "stream.json").read_text())["summary"]
    assert float(line.split()[2].rstrip(",")) == pytest.approx(summary["pip"], abs=1e-3)
    assert "PIP" not in done(*command, "--out", str(tmp_path / "plain"))


def test_pairs_are_counted_once_over_resumes_replays_and_hosts(text: Path, tmp_path: Path) -> None:
    whole = train(text)
    train(text, tmp_path / "out", steps=4)
    parts = train(text, tmp_path / "out", resume=True)
    spread = train(text, hosts=any2vec.HostOptions(logical_hosts=1), sync="sync")
    assert parts.summary["pip"] == whole.summary["pip"] == spread.summary["pip"]
    train(text, tmp_path / "again", steps=4, replay=1.0)
    counted, replayed = (_kept(tmp_path / name) for name in ("out", "again"))
    assert replayed < counted
    train(text, tmp_path / "again", replay=1.0, resume=True)
    assert _kept(tmp_path / "again") == counted


def test_what_fades_depends_on_the_stream_alone(text: Path, tmp_path: Path) -> None:
    """Not on its batches, nor on what is replayed between them."""
    for name, options in {"one": {}, "small": {"batch_bytes": 500}, "replayed": {"replay": 2.0}}.items():
        train(text, tmp_path / name, half_life=3000, **options)
    assert _kept(tmp_path / "one") == _kept(tmp_path / "small") == _kept(tmp_path / "replayed")


def _kept(folder: Path) -> float:
    """The weight of all pairs that a checkpoint holds."""
    from any2vec.formats.safetensors_file import read_arrays

    return float(read_arrays(folder / "checkpoint.safetensors")[0]["batches.pairs.sum"].sum())


def test_nothing_is_counted_unless_it_is_asked_for(text: Path) -> None:
    assert train(text, pair_memory=None, steps=2).summary["pip"] is None
    with pytest.raises(InputError, match="pair_memory"):
        StreamOptions(pair_memory="1kB")
    with pytest.raises(InputError, match="pair_memory"):
        StreamOptions(pair_memory="some")
