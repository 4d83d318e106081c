"""The arithmetic of estimates, the pace of a second, and the command `any2vec estimate`; no clock is asserted."""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from any2vec.cli.app import app
from any2vec.data.text.text import count_text, encode_text
from any2vec.errors import InputError
from any2vec.plan.cost.estimate import Rates, RunShape, estimate_run
from any2vec.plan.order.bucket_orders import ORDERS, beta_swaps
from any2vec.tasks.words.sizing import fold

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
SHAPE = RunShape(
    rows=1_000_000, dim=200, items=50_000_000, epochs=3, tokens=52_000_000, types=1_200_000, key_bytes=9_000_000
)
RATES = Rates(items_per_s=1e6, read_bytes_per_s=100e6, write_bytes_per_s=500e6)


def test_two_matrices_rule_the_memory_of_a_large_run() -> None:
    found = estimate_run(SHAPE, RATES)
    assert found.memory["vectors"] == 2 * 4 * 1_000_000 * 200
    assert 1.0 < found.anonymous_bytes / found.memory["vectors"] < 1.15
    assert found.memory_bytes == sum(found.memory.values())
    assert found.memory_bytes > found.anonymous_bytes


def test_time_and_disk_add_up() -> None:
    found = estimate_run(SHAPE, RATES)
    assert found.time["train"] == 150.0 and found.time["read"] == 0.0
    assert found.seconds == pytest.approx(sum(found.time.values()))
    assert found.disk_peak_bytes == sum(found.disk.values())
    assert found.disk["result"] >= found.memory["vectors"] and found.disk["encoded input"] == 0
    fresh = estimate_run(replace(SHAPE, source_bytes=300_000_000), RATES)
    assert fresh.time["read"] == 3.0 and fresh.disk["encoded input"] >= 4 * SHAPE.tokens


@pytest.mark.parametrize("name", ["rows", "dim", "items", "epochs", "threads"])
def test_sizes_are_checked(name: str) -> None:
    with pytest.raises(InputError, match=name):
        replace(SHAPE, **{name: 0})


def test_more_of_anything_never_needs_less() -> None:
    small = estimate_run(SHAPE, RATES)
    for name in ("rows", "dim", "items", "epochs", "threads", "tokens", "types", "key_bytes"):
        large = estimate_run(replace(SHAPE, **{name: 2 * getattr(SHAPE, name)}), RATES)
        assert large.memory_bytes >= small.memory_bytes and large.seconds >= small.seconds
        assert large.disk_peak_bytes >= small.disk_peak_bytes


def test_counting_is_encoding_without_writing(tmp_path: Path) -> None:
    path, cache = tmp_path / "text.txt", tmp_path / "cache"
    path.write_text("the cat sat on the mat\nthe dog\n" * 50)
    counted = count_text(str(path), cache_dir=cache)
    assert counted.source_bytes == path.stat().st_size and not cache.exists()
    corpus = encode_text(str(path), cache_dir=cache)
    assert counted.num_slots == len(corpus.tokens)
    assert list(counted.vocabulary.keys) == list(corpus.vocabulary.keys)
    assert np.array_equal(counted.vocabulary.counts, corpus.vocabulary.counts)
    assert np.array_equal(counted.sample, corpus.tokens)
    again = count_text(str(path), cache_dir=cache)
    assert again.source_bytes == 0 and np.array_equal(again.sample, corpus.tokens)


def test_fold_keeps_small_ids_and_ends() -> None:
    tokens = np.array([0, 3, -1, 9, 10, 1_000_000], np.int32)
    folded = fold(tokens, 10)
    assert list(folded[:4]) == [0, 3, -1, 9]
    assert all(5 <= token < 10 for token in folded[4:])


def run(*arguments: str) -> dict[str, object]:
    result = CliRunner().invoke(app, [*arguments, "--json", "--quiet"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def test_the_command_makes_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    words = rng.integers(0, 500, 20_000)
    Path("text.txt").write_text(" ".join(f"w{word}" for word in words))
    Path("edges.txt").write_text("\n".join(f"{a} {b}" for a, b in rng.integers(0, 300, (2000, 2))))
    for arguments in (["cbow", "text.txt"], ["node2vec", "edges.txt", "--q", "0.5"]):
        found = run("estimate", *arguments, "--dim", "16", "--cache-dir", "cache", "--threads", "1")
        assert found["memory_bytes"] > found["anonymous_bytes"] > 80e6  # type: ignore[operator]
        assert found["items_per_s"] > 1000 and found["seconds"] > 0  # type: ignore[operator]
        assert found["shape"]["rows"] == (500 if "cbow" in arguments else 300)  # type: ignore[index]
    assert sorted(path.name for path in Path().iterdir()) == ["cache", "edges.txt", "text.txt"]
    assert [path.name for path in Path("cache").iterdir()] == ["graphs"], "only a graph, parsed, is kept for the run"


def test_a_plan_needs_no_data() -> None:
    found = run("estimate", "skipgram", "--dim", "64", "--rows", "100000", "--items", "1000000", "--epochs", "2")
    assert found["memory"]["vectors"] == 2 * 4 * 100_000 * 64  # type: ignore[index]
    assert found["shape"]["items"] == 1_000_000  # type: ignore[index]


def test_standard_input_cannot_be_estimated() -> None:
    result = CliRunner().invoke(app, ["estimate", "skipgram", "-"])
    assert result.exit_code == 2 and "--rows" in result.stderr


# ---- models of triples

SHAPE_OF_TRIPLES = ("complex", "--dim", "128", "--rows", "8000000", "--items", "24000000", "--threads", "2")


def test_a_budget_becomes_partitions_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    # What this process holds already changes from call to call, and a plan may stand on the edge.
    monkeypatch.setattr("any2vec.machine.process_bytes", lambda: 200_000_000)
    found: Any = run("estimate", *SHAPE_OF_TRIPLES, "--memory", "2GB", "--order", "hilbert")
    p, c = found["partitions"], found["capacity"]
    assert found["table_bytes"] == 8_000_000 * 4 * 129 and 2 <= c < p <= 64
    assert found["resident_bytes"] >= (c + 2) * found["partition_bytes"] and found["memory_bytes"] <= 2e9
    assert found["resident_bytes"] + found["fixed_bytes"] == found["memory_bytes"]
    assert found["loads_per_epoch"]["beta"] == beta_swaps(p, c) and set(found["loads_per_epoch"]) == set(ORDERS)
    moved = found["loads_per_epoch"]["hilbert"] * found["partition_bytes"]
    assert found["read_bytes_per_epoch"] == moved + 12 * 24_000_000 and found["written_bytes_per_epoch"] == moved
    assert found["disk"]["table"] >= 2 * found["table_bytes"] and found["disk"]["triples"] == 12 * 24_000_000
    assert found["disk_peak_bytes"] == sum(found["disk"].values())
    shown = CliRunner().invoke(app, ["estimate", *SHAPE_OF_TRIPLES, "--memory", "2GB", "--quiet"])
    assert f"{p} partitions" in shown.stdout and f"{c} in memory" in shown.stdout


def test_without_a_budget_all_rows_are_in_memory() -> None:
    found: Any = run("estimate", *SHAPE_OF_TRIPLES)
    assert found["is_in_memory"] and found["partitions"] == found["capacity"] == 1
    assert found["memory_bytes"] > found["table_bytes"] and found["disk"]["table"] == 0


def test_too_small_a_budget_says_the_smallest_that_works() -> None:
    refused = CliRunner().invoke(app, ["estimate", *SHAPE_OF_TRIPLES, "--memory", "100MB", "--quiet"])
    said = re.search(r"needs memory (\d+MB) at least", refused.stderr)
    assert refused.exit_code == 2 and said is not None
    found: Any = run("estimate", *SHAPE_OF_TRIPLES, "--memory", said[1])
    assert not found["is_in_memory"] and 2 <= found["capacity"] <= 4


def test_triples_are_read_for_their_estimate(tmp_path: Path) -> None:
    (tmp_path / "triples.tsv").write_text("a\tr\tb\nb\tr\tc\na\ts\tc\n")
    found: Any = run("estimate", "distmult", str(tmp_path / "triples.tsv"), "--dim", "8", "--memory", "8GB")
    assert (found["rows"], found["items"], found["is_in_memory"]) == (3, 3, True)
    refused = CliRunner().invoke(app, ["estimate", "cbow", str(tmp_path / "triples.tsv"), "--memory", "8GB"])
    assert refused.exit_code == 2 and "cbow has no --memory (memory): " in " ".join(refused.stderr.split())


# ---- what every task says by its size


def test_words_within_a_budget_lie_in_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("any2vec.tasks.words.sizing.process_bytes", lambda: 200_000_000)
    shape = ("skipgram", "--rows", "1M", "--items", "100M", "--dim", "100", "--threads", "1")
    found: Any = run("estimate", *shape, "--memory", "700MB")
    assert found["table_bytes"] == 8 * 100 * 1_000_000 and 2 <= found["capacity"] < found["partitions"]
    assert found["memory_bytes"] <= 700e6 and found["written_bytes_per_epoch"] == found["read_bytes_per_epoch"]
    beta = beta_swaps(found["partitions"], found["capacity"])
    assert found["loads_per_epoch"]["beta"] % beta == 0, "each sweep goes through all partitions"
    assert "seconds" in run("estimate", *shape, "--memory", "4GB"), "they fit"


def test_rows_of_ngrams_count() -> None:
    few, many = (
        run("estimate", "ngram", "--rows", "1M", "--dim", "8", f"--buckets={size}") for size in (1000, 101_000)
    )
    assert many["memory"]["n-grams"] - few["memory"]["n-grams"] == 4 * 8 * 100_000  # type: ignore[index]
    refused = CliRunner().invoke(app, ["plan", "ngram", "--rows", "1M"])
    assert refused.exit_code == 2 and "any2vec plan is not for ngram: it trains on one host" in refused.stderr


def test_rows_of_ngrams_that_words_share_count_once(tmp_path: Path) -> None:
    """<abc> and <abd> have five n-grams of three letters."""
    (tmp_path / "text.txt").write_text("abc abd abc\n" * 5)
    read = ("--min-count", "1", "--min-n", "3", "--max-n", "3", "--cache-dir", str(tmp_path / "cache"))
    found: Any = run("estimate", "ngram", str(tmp_path / "text.txt"), "--dim", "8", *read)
    assert found["tables"]["n-grams"] == {"rows": 5, "columns": 8}
    assert found["memory"]["n-grams of words"] == 4 * 2_000_000, "a row for each bucket"


@needs_torch
def test_rows_of_clicks_count() -> None:
    found: Any = run("estimate", "dlrm", "--rows", "1M", "--dim", "15", "--optimizer", "adagrad")
    assert (
        found["memory"]["rows"] == 1_000_000 * 4 * (15 + 1) and found["disk"]["checkpoint"] == found["memory"]["rows"]
    )
    assert found["memory_bytes"] == sum(found["memory"].values())


@pytest.mark.parametrize("command", ["estimate", "plan"])
def test_a_model_that_only_streams_is_refused_with_the_reason(command: str) -> None:
    refused = CliRunner().invoke(app, [command, "char-lstm", "--rows", "1M"])
    assert refused.exit_code == 2 and f"any2vec {command} is not for char-lstm: " in refused.stderr


def test_hosts_that_share_a_table_are_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    # What this process holds already changes from call to call, and a plan may stand on the edge.
    monkeypatch.setattr("any2vec.machine.process_bytes", lambda: 200_000_000)
    alone: Any = run("plan", *SHAPE_OF_TRIPLES)
    found: Any = run("plan", *SHAPE_OF_TRIPLES, "--memory", "2GB", "--hosts", "4")
    assert found["host"]["memory_bytes"] <= 2e9 < alone["host"]["memory_bytes"]
    assert found["host"]["partitions"] % 8 == 0, "the same work for all hosts"
    sent = found["bytes_per_epoch"]["rows"]
    assert found["host"]["bytes_sent_per_epoch"] <= sent <= 4 * found["host"]["bytes_sent_per_epoch"]
    refused = CliRunner().invoke(app, ["plan", *SHAPE_OF_TRIPLES, "--hosts", "4"])
    assert refused.exit_code == 2 and "give --memory, or plan one host" in refused.stderr
