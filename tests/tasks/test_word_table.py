"""Skip-gram whose table is larger than memory: what is learned, stored, resumed and refused."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import any2vec
from any2vec import machine
from any2vec.cli.app import app
from any2vec.data.partitions.row_partitions import RowPartitions
from any2vec.errors import InputError, Interrupted, StorageError
from any2vec.options.run import RunOptions
from any2vec.options.storage import StorageOptions
from any2vec.plan.order.buffer import SLACK, BufferPlan
from any2vec.tables.disk.checking import check_folders
from any2vec.tasks.words import budget as word_budget
from any2vec.tasks.words import table as word_table
from any2vec.tasks.words.pair_batches import PairLearner
from any2vec.tasks.words.start import fresh_tables
from any2vec.tasks.words.swept_pairs import SweptPairs
from any2vec.train import progress
from any2vec.train.out_of_core import table_budget
from any2vec.train.spec import Hooks, Request, RunSpec
from cli_runs import refused
from ended_runs import fails_at, stops_after

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="stores of partitions need Linux")
WORDS, TOPICS, LINES = 120, 4, 1000
MODEL = any2vec.SkipGram(dim=16, window=3, min_count=1, subsample=0, learning_rate=0.1)
MEMORY: dict[str, Any] = {"epochs": 2, "threads": 1, "storage": "8GB"}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines of eight words, all of one topic: word w is of topic w modulo TOPICS."""
    path, rng = tmp_path_factory.mktemp("text") / "text.txt", np.random.default_rng(1)
    of_line = rng.integers(0, WORDS // TOPICS, (LINES, 8)) * TOPICS + rng.integers(0, TOPICS, (LINES, 1))
    path.write_text("".join(" ".join(f"w{word}" for word in line) + "\n" for line in of_line.tolist()))
    return path


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rings of 20 nodes."""
    path = tmp_path_factory.mktemp("graph") / "edges.tsv"
    path.write_text("".join(f"{node}\t{node // 20 * 20 + (node + 1) % 20}\n" for node in range(40)))
    return path


@pytest.fixture
def is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of six partitions have room; windows are small, so that there are many."""

    def plan(request: Any, size: Any) -> BufferPlan | None:
        rows = size.tables[0].rows
        return BufferPlan(rows, 8 * request.spec.model.dim, 6, 3, 0, 0) if request.spec.storage.memory else None

    monkeypatch.setattr(word_table, "plan_table", plan)
    monkeypatch.setattr(word_table, "WINDOW", 3000)
    monkeypatch.setattr(progress, "RECORD_SECONDS", 0.0)


def same(one: any2vec.FitResult, other: any2vec.FitResult) -> bool:
    assert one.embeddings.output is not None and other.embeddings.output is not None
    return np.array_equal(one.embeddings.vectors, other.embeddings.vectors) and np.array_equal(
        one.embeddings.output, other.embeddings.output
    )


def hits(embeddings: any2vec.Embeddings, groups: np.ndarray) -> float:
    """Share of items whose nearest other item is of their group."""
    unit = embeddings.vectors / np.linalg.norm(embeddings.vectors, axis=1, keepdims=True)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -1)
    return float((groups[cosine.argmax(axis=1)] == groups).mean())


# ---- what is learned


def test_a_run_says_that_subsampling_left_too_little(text: Path, tmp_path: Path, is_large: None) -> None:
    result = any2vec.fit(any2vec.SkipGram(dim=8, subsample=1e-5), text, out=tmp_path / "out", **MEMORY)
    (said,) = result.summary["warnings"]
    assert result.summary["partitions"] == 6 and said.startswith("Subsampling with 1e-05 left ")


@pytest.mark.parametrize("threads", [1, 2])
def test_some_partitions_learn_as_much_as_all(threads: int, text: Path, tmp_path: Path, is_large: None) -> None:
    options = MEMORY | {"epochs": 5, "threads": threads}
    result = any2vec.fit(MODEL, text, out=tmp_path / "out", **options)
    topics = np.array([int(key[1:]) % TOPICS for key in result.embeddings.keys])
    assert hits(result.embeddings, topics) > 0.95
    summary = result.summary
    assert summary["items"] == 5 * 8 * LINES and result.progress[-1].progress == 1.0
    assert result.progress[-1].items == summary["items"] and result.progress[-1].epoch == 4
    assert [summary[name] for name in ("partitions", "capacity", "order", "rows")] == [6, 3, "beta", WORDS]
    assert summary["sweeps"] >= 2 and summary["bytes_read"] > 0 < summary["bytes_written"]
    assert max(summary["staleness"]) < (1 if threads == 1 else 4)


@pytest.mark.parametrize("model", [any2vec.DeepWalk, any2vec.Node2Vec])
def test_nodes_of_walks(model: Any, graph: Path, tmp_path: Path, is_large: None) -> None:
    options: dict[str, Any] = {"p": 0.5, "q": 2.0} if model is any2vec.Node2Vec else {}
    asked = model(dim=16, walks_per_node=10, walk_length=20, window=4, learning_rate=0.2, **options)
    result = any2vec.fit(asked, graph, out=tmp_path / "out", storage="1GB", epochs=2, threads=1)
    assert hits(result.embeddings, np.array([int(key) // 20 for key in result.embeddings.keys])) == 1.0
    assert result.summary["items"] == 2 * 40 * 10 * 20 and result.summary["partitions"] == 6


def test_the_folder_is_that_of_any_run(text: Path, tmp_path: Path, is_large: None) -> None:
    result = any2vec.fit(MODEL, text, out=tmp_path / "parts", **MEMORY)
    whole = any2vec.fit(MODEL, text, out=tmp_path / "whole", epochs=2, threads=1)
    names = [sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("parts", "whole")]
    assert names[0] == names[1]
    assert list(result.embeddings.keys) == list(whole.embeddings.keys)
    assert np.array_equal(result.embeddings.counts, whole.embeddings.counts)
    metas = [json.loads((tmp_path / name / "meta.json").read_text()) for name in ("parts", "whole")]
    assert metas[0] == metas[1]
    again = any2vec.fit(MODEL, text, out=tmp_path / "parts", resume=True, **MEMORY)
    kept = json.loads(json.dumps(result.summary)) | {
        "seconds": again.summary["seconds"]
    }  # the file lacks its own writing
    assert again.summary == kept and 0 < kept["seconds"] <= result.summary["seconds"] and same(again, result)


def test_what_fits_into_the_budget_is_trained_as_without_one(text: Path) -> None:
    found = any2vec.fit(MODEL, text, **MEMORY)
    assert same(found, any2vec.fit(MODEL, text, epochs=2, threads=1))
    assert found.summary["partitions"] == found.summary["capacity"] == 1


def test_rows_start_as_in_memory() -> None:
    whole = fresh_tables(WORDS, MODEL, 7)
    item_M = RowPartitions(WORDS, 6, 7).entities(np.arange(20, 40))
    row_MC = np.ones((20, 32), np.float32)
    word_table.start_words(MODEL, item_M, row_MC, 7)
    np.testing.assert_allclose(row_MC[:, :16], whole["input"][item_M], rtol=1e-6)
    assert not row_MC[:, 16:].any()


# ---- stopped, and gone on


@pytest.mark.parametrize("records", [1, 7, 30])
def test_who_goes_on_ends_as_if_never_stopped(records: int, text: Path, tmp_path: Path, is_large: None) -> None:
    """Stopped by a signal: what was done is committed."""
    out = tmp_path / "out"
    with pytest.raises(Interrupted, match="table holds the work so far"):
        any2vec.fit(MODEL, text, out=out, callback=stops_after(records), **MEMORY)
    assert not any(found.problems for found in check_folders(out))
    with pytest.raises(StorageError, match="holds an unfinished run"):
        any2vec.fit(MODEL, text, out=out, **MEMORY)
    went_on = any2vec.fit(MODEL, text, out=out, resume=True, **MEMORY)
    assert went_on.summary["items"] == 2 * 8 * LINES and not (out / "table").exists()
    assert same(went_on, any2vec.fit(MODEL, text, out=tmp_path / "other", **MEMORY))


@pytest.mark.parametrize("call", [2, 15, 40])
def test_who_goes_on_from_a_commit(call: int, text: Path, tmp_path: Path, is_large: None) -> None:
    """What ends a run in the middle of a window, as a kill does: all since the last commit is done again."""
    out = tmp_path / "out"
    with fails_at(PairLearner, call):
        any2vec.fit(MODEL, text, out=out, checkpoint_seconds=0.05, **MEMORY)
    went_on = any2vec.fit(MODEL, text, out=out, resume=True, **MEMORY)
    assert went_on.summary["items"] == 2 * 8 * LINES
    assert same(went_on, any2vec.fit(MODEL, text, out=tmp_path / "other", **MEMORY))


@pytest.mark.parametrize("sweep", [0, 3])
def test_stopped_while_pairs_are_made(sweep: int, text: Path, tmp_path: Path, is_large: None) -> None:
    """In the first sweep nothing is kept, as nothing was trained; later the work so far is."""
    out, blocks = tmp_path / "out", SweptPairs.blocks

    def stopping(self: SweptPairs, number: int) -> Any:
        if number == sweep:
            os.kill(os.getpid(), signal.SIGTERM)
        return blocks(self, number)

    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(Interrupted, match=r"nothing was left half-written|--resume goes on"),
    ):
        patch.setattr(SweptPairs, "blocks", stopping)
        any2vec.fit(MODEL, text, out=out, **MEMORY)
    assert out.exists() == (sweep > 0)
    if sweep:  # without its budget it would begin anew in memory
        said = refused("train", "skipgram", str(text), "--out", str(out), "--resume")
        assert "go on with the memory (--memory) that it began with" in said
        with pytest.raises(InputError, match="holds an unfinished run with its table on disk"):
            any2vec.fit(MODEL, text, out=out, resume=True)
    went_on = any2vec.fit(MODEL, text, out=out, resume=True, **MEMORY)
    assert same(went_on, any2vec.fit(MODEL, text, out=tmp_path / "other", **MEMORY))


# ---- the budget


def test_partitions_follow_from_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million rows of 800 bytes, and a process of 315 MB, as it is with kernels and the compiler."""
    monkeypatch.setattr(machine, "resident_bytes", lambda: (50 << 20, 0))
    assert machine.process_bytes() == 300 << 20

    def plan(memory: str) -> BufferPlan | None:
        spec = RunSpec(
            task="words", model=any2vec.SkipGram(dim=100), data="none", run=RunOptions(),
            storage=StorageOptions(memory=memory),
        )  # fmt: skip
        request = Request(spec=spec, hooks=Hooks(), threads=1, agreement=None, settings={}, started=0.0)
        return table_budget.plan_table(request, word_budget.size_of_words(request.spec.model, 1_000_000, 1e8, 0))

    assert plan("1.3GB") is None
    small = plan("600MB")
    assert small is not None and 2 <= small.capacity < small.partitions and small.memory_bytes <= 600_000_000
    with pytest.raises(InputError, match=r"A table of 1,000,000 rows of 800 bytes needs memory \d+MB at least"):
        plan("100MB")


def test_sweeps_are_as_many_as_the_disk_keeps_up_with() -> None:
    """But eight in a run at least, and sixteen in an epoch at most."""
    model, plan = any2vec.SkipGram(dim=100), BufferPlan(1_000_000, 800, 16, 4, 0, 0)
    for epochs, least in ((1, 8), (3, 3), (5, 2), (20, 1)):
        assert word_budget.sweeps_of(model, 1e6, plan, epochs) == least
        assert word_budget.sweeps_of(model, 1e11, plan, epochs) == 16
    some = [word_budget.sweeps_of(model, kept, plan, 20) for kept in (6e7, 9e7, 1.2e8)]
    assert 1 < some[0] < some[1] < some[2] < 16


def test_what_is_refused(text: Path, tmp_path: Path, is_large: None) -> None:
    for model, options, said in (
        (
            any2vec.CBOW(),
            {},
            r"cbow has no --memory \(memory\): tables larger than memory are for skip-gram with",
        ),
        (
            any2vec.SkipGram(objective="hierarchical"),
            {},
            "not with objective hierarchical and kernel block",
        ),
        (any2vec.SkipGram(kernel="classic"), {}, "not with objective negative and kernel classic"),
        (any2vec.LogisticRegression(), {}, r"logistic has no --memory \(memory\): rows of clicks are held in memory"),
        (MODEL, {"hosts": 2}, "Words and nodes with a budget of memory train on one host; leave out memory, or"),
        (MODEL, {"init": tmp_path / "x"}, "Start vectors are held in memory whole"),
        (MODEL, {}, "say which one, as out"),
        (MODEL, {"out": tmp_path / "out", "on_epoch": print}, "on_epoch is called where all rows are"),
    ):
        with pytest.raises(InputError, match=said):
            any2vec.fit(model, text, storage="1MB", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


# ---- the command line


def test_the_command(text: Path, tmp_path: Path, is_large: None) -> None:
    out = str(tmp_path / "out")
    train = ["train", "skipgram", str(text), "--dim", "8", "--min-count", "1", "--epochs", "2", "--out", out]
    train += ["--threads", "1", "--memory", "500MB"]
    found = CliRunner().invoke(app, [*train, "--order", "comet", "--quiet", "--json"])
    assert found.exit_code == 0, found.output
    summary = json.loads(found.stdout)
    assert [summary[name] for name in ("partitions", "capacity", "order", "items")] == [6, 3, "comet", 2 * 8 * LINES]
    assert summary["loads"] > 6 and summary["bytes_read"] > 0 and summary["bytes_written"] > 0
    reported = CliRunner().invoke(app, [*train, "--overwrite", "--quiet"])
    assert "3 of 6 partitions in memory, order beta" in reported.stderr + reported.stdout
    refused = CliRunner().invoke(app, [*train, "--hosts", "2", "--overwrite"])
    assert refused.exit_code == 2 and "train on one host" in refused.stderr


def test_a_budget_that_is_too_small(text: Path, tmp_path: Path) -> None:
    train = ["train", "skipgram", str(text), "--out", str(tmp_path / "out"), "--memory", "1MB", "--quiet"]
    found = CliRunner().invoke(app, train)
    assert found.exit_code == 2 and found.stderr.count("\n") == 1
    assert "needs memory " in found.stderr and "got 1,000,000 bytes" in found.stderr
    assert not (tmp_path / "out").exists()


def test_commands_name_the_same_least_memory(text: Path, tmp_path: Path) -> None:
    """Those that have loaded kernels to read the text, and one that found it read: each a process of its own."""

    def named(*words: str) -> int:
        """MB that a refusal names."""
        done = subprocess.run(
            [sys.executable, "-m", "any2vec", words[0], "skipgram", str(text), "--memory", "1MB", *words[1:]],
            cwd=tmp_path, env=os.environ | {"ANY2VEC_CACHE": str(tmp_path / "cache")}, capture_output=True, text=True,
            timeout=300,
        )  # fmt: skip
        said = re.search(r"needs memory (\d+)MB at least", done.stderr)
        assert done.returncode == 2 and said, done.stderr
        return int(said[1])

    named("estimate")  # compiles what reading needs
    found = [named(*words) for words in (("estimate",), ("train", "--out", "run"), ("train", "--out", "run"))]
    assert max(found) - min(found) <= SLACK / 1e6, found
